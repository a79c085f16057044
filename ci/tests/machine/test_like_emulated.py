"""Site files of machines of other architectures, as they are, on nodes like theirs: start-up and Ping Pong there."""

from __future__ import annotations

import pytest
from conftest import REPOSITORY, shared_directory
from emulated import MARKS, PARTITIONS, PING_PONG, START_UP, reframe, require_run, up

#: By site file: its system and partition, that of the virtual cluster, and the name of its MPI.
LIKE = {
    "cte_power": ("cte-power:main", "power", "libmpi.so.40"),
    "thunderx": ("thunderx:main", "arm", "libmpi.so.40"),
    "chpce": ("chpce:openpower", "power", "libmpich.so.12"),
}
#: Two rounds; and no more ranks than two cores can do with, where the site's nodes have 16 to 96.
FEW = ("-S", "rounds=2", "-S", "strict_check=no", "-S", "PingPong.ranks_per_node=2", "-S", "StartUp.repeats=1")

pytestmark = [*MARKS, pytest.mark.long]


@pytest.mark.parametrize("name", LIKE)
def test_a_site_file_runs_as_it_is_on_nodes_like_its_own(name):
    system, partition, library = LIKE[name]
    cases = ("-n", f"{START_UP}|{PING_PONG.format(nodes=1)}")
    with up("--like", name), shared_directory() as place:
        # The nodes have no network: the images come from a session that knows the node for builds.
        made = reframe(place, f"virtual-cluster:{partition}", *cases, *FEW)
        assert made.status == 0, made.output
        result = reframe(place, system, *cases, *FEW, site=REPOSITORY / "config" / f"{name}.py")
        assert result.status == 0, result.output
        for check in ("PingPong", "StartUp"):
            for variant in ("bare", "integrated", "generic"):
                case = require_run(result, partition, variant, check)
                assert case["partition"] == system.partition(":")[2]
                assert case["provenance"]["host"] == f"{partition}1"
                if variant != "bare":
                    assert f"-{PARTITIONS[partition].name}-" in case["provenance"]["image"]
                if check == "PingPong":
                    assert any(library in path for path in case["provenance"]["mpi"]["baseline"]), case

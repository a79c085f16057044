"""Programs that the site names, in real sessions."""

from __future__ import annotations

import re

from conftest import write_program


def wrapper(path, version):
    """Write a shell that says that it is another version."""
    write_program(path, f'PLANTED_VERSION={version} exec sh "$@"')
    return str(path)


def test_another_program_bare_and_in_the_container_with_a_tree_bound_in(session, site, tmp_path):
    entry = {
        "executable": wrapper(tmp_path / "bare" / "own-sh", "2024.1"),
        "environ": {"PLANTED_SET": "AVX_512"},
        "image_executable": "/own/tree/own-sh",
        "binds": [f"{tmp_path / 'tree'}:/own/tree"],
        "tolerance": 30,
    }
    wrapper(tmp_path / "tree" / "own-sh", "2023.2")
    settings = site(extras={"software": {"Planted": entry}})
    result = session("-C", settings, "-n", "Planted%variant=generic", "-S", "rounds=6", "-S", "fault=slow")
    assert result.status == 0, result.output
    case = result.case("generic")
    assert case["provenance"]["builds"] == {
        "baseline": {"version": "2024.1", "instruction set": "AVX_512"},
        # What is set for the bare program does not reach the container.
        "subject": {"version": "2023.2", "instruction set": "SSE4.1"},
    }
    said = "not the same build: 2024.1 AVX_512 against 2023.2 SSE4.1"
    (row,) = case["results"]
    assert (row["verdict"], row["difference"], row["accepted"]) == ("pass", said, [None, 30])
    assert said in result.output


def test_a_program_that_the_site_names_takes_the_place_of_one_that_is_built(session, site):
    entry = {"executable": "/apps/pingpong", "launcher_options": ["--report-bindings"]}
    processor = {"arch": "zen2", "num_cpus": 8, "num_cpus_per_core": 1, "num_cpus_per_socket": 8, "num_sockets": 1}
    extras = {"software": {"Singletons": entry}, "release": "bookworm"}
    settings = site(scheduler="slurm", launcher="mpirun", processor=processor, extras=extras)
    result = session("--dry-run", "-C", settings, "-n", "Singletons", "-S", "ranks_per_node=2")
    (script,) = [path.read_text() for path in result.stage.rglob("rfm_job.sh")]
    assert "command -v /apps/pingpong" in script
    assert re.search(r"^# bare runs: mpirun -np 2 --report-bindings .*/apps/pingpong$", script, re.MULTILINE), script
    assert re.search(r"^# generic runs: mpirun -np 2 --report-bindings .* pingpong$", script, re.MULTILINE), script
    assert "mpicc" not in "".join(path.read_text() for path in result.stage.rglob("rfm_build.sh"))

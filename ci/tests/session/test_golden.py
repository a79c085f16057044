"""Jobs of typical cases, whole, so that a reviewer sees what changes in them: nothing is run.

The job's script, what prepares its rounds, and the commands of its sides, with slots for what only the node knows.

A script that is not there yet is written, and the test fails: look at it, and keep it.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY, file_of, run_session, write_site
from site_files import anywhere, system_of, with_paths  # noqa: F401

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
#: Site file, partition, and case.
CASES = {
    "slurm-256-nodes": ("marenostrum4", "main", "PingPong%variant=integrated%num_nodes=256%image_release=fitting"),
    "cray": ("cray_ex", "cpu", "IMB%variant=integrated%num_nodes=2%platform=first%sizes=few"),
    "power": ("cte_power", "main", "HPCC%variant=generic%num_nodes=16%image_release=fitting%ranks=0"),
    "grid-engine": ("cc_in2p3", "cpu", "DB12%variant=generic%num_nodes=1%slots=all"),
    "modules": ("marconi", "skylake", "QuantumEspresso%variant=integrated%num_nodes=2%ranks=0%openmp=1%material=SiH4"),
    "gpu": ("aris", "gpu", "GROMACSHybrid%variant=generic%num_nodes=8"),
    "cuda": ("aris", "gpu", "TensorFlowCNN%variant=generic%num_nodes=1%network=AlexNet%batch=32"),
    "list-of-nodes": ("lenox", "nodes", "PingPong%variant=generic%num_nodes=2%platform=Docker%image_release=fitting"),
}

#: Cases whose build is kept too: on a node, because that is of another architecture; and for GPUs.
BUILT = ("power", "gpu", "cuda")


@pytest.mark.parametrize("name", sorted({*CASES} - {"cuda"}))
def test_a_job_is_what_it_was(name, anywhere, session, tmp_path):
    compare(name, job_of(dry_run(name, anywhere, session, tmp_path, "rfm_job.sh")), tmp_path)


@pytest.mark.skipif(platform.machine() == "ppc64le", reason="here it is built without a job")
@pytest.mark.parametrize("name", BUILT)
def test_a_build_is_what_it_was(name, anywhere, session, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compare(f"{name}-build", dry_run(name, anywhere, session, tmp_path, "rfm_build.sh").read_text(), tmp_path)


def dry_run(name, anywhere, session, tmp_path, script, *options):
    """Return the path of a case's script.

    :param options: further ones of the session.
    """
    site, partition, case = CASES[name]
    path = REPOSITORY / "config" / f"{site}.py"
    arguments = ("-C", with_paths(path, tmp_path), f"--system={system_of(path)['name']}:{partition}", "-n", f"^{case}$")
    result = session("--dry-run", "-S", "full=yes", *options, *arguments, checks=file_of(case), **anywhere)
    scripts = list(result.stage.rglob(script))
    assert len(scripts) == 1, result.output
    return scripts[0]


def job_of(script):
    """Return the script of a job, and below it what else says what runs."""
    prepare = script.with_name("prepare.sh")
    parts = [f"#= prepare.sh\n{prepare.read_text()}\n"] if prepare.exists() else []
    for side, stored in json.loads(script.with_name("commands.json").read_text()).items():
        parts += [f"#= {side}: {name}\n{text}\n" for name, text in stored["commands"].items()]
    return script.read_text() + "".join(parts)


def compare(name, script, tmp_path):
    """Compare a script with the golden one."""
    said = normalised(script, tmp_path)
    golden = GOLDEN / f"{name}.sh"
    if not golden.exists():
        golden.write_text(said)
        pytest.fail(f"{golden} was not there: look at it, and keep it")
    assert said == golden.read_text()


#: Runtimes of centres that are not installed here, each with the image that its site names; None for the recipe's.
ENGINES = {
    "Pyxis": None,
    "Sarus": "registry.example.org/hpcc@sha256:" + 64 * "0",
    "Shifter": "registry.example.org/hpcc@sha256:" + 64 * "0",
    "Podman": None,
    "Charliecloud": None,
    "Docker": None,
}


def cluster_of(arch, cores, extras, **facts):
    """Return a partition of Slurm for a site file, whose nodes have two sockets and 64 GiB of memory."""
    processor = {"arch": arch, "num_cpus": cores, "num_cpus_per_core": 1, "num_cpus_per_socket": cores // 2}
    ours = {"max_nodes": 2, "memory_per_node": 64 << 30, **extras}
    known = {"scheduler": "slurm", "launcher": "srun", "processor": {**processor, "num_sockets": 2}}
    return {**known, "extras": {"containercheck": ours}, **facts}


@pytest.fixture(scope="module")
def of_runtimes(tmp_path_factory):
    """Write the jobs of both variants on a partition of each runtime, in one session."""
    directory = tmp_path_factory.mktemp("runtimes")
    partitions = {}
    for engine, image in ENGINES.items():
        extras = {"release": "bookworm", **({"images": {"pingpong": image}} if image else {})}
        partitions[engine] = cluster_of("zen3", 64, extras, container_platforms=[{"type": engine}])
    case = "PingPong%variant=(integrated|generic)%num_nodes=2%image_release=fitting"
    words = ("-S", "full=yes", "-C", write_site(directory / "site.py", partitions), "-n", f"^{case}$")
    return run_session(directory, "--dry-run", *words, checks=file_of("PingPong"))


@pytest.mark.xdist_group("jobs of runtimes")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_job_of_each_runtime_is_what_it_was(engine, of_runtimes):
    scripts = [job_of(path) for path in of_runtimes.stage.rglob("rfm_job.sh") if f"/{engine}/" in str(path)]
    assert len(scripts) == 2, of_runtimes.output
    # Only with the host's MPI is there a script that finds it.
    for text in scripts:
        name = f"engine-{engine.lower()}" + ("" if "hostmpi plan" in text else "-generic")
        compare(name, text.replace(f"/here/{engine}/", "/here/only/"), of_runtimes.stage.parent)


def test_a_job_whose_containers_have_a_network_of_their_own_is_what_it_was(session, tmp_path):
    """One container on each node, and mpirun in them (D12.6 section 6.4.2)."""
    extras = {"release": "bookworm", "container_network": "overlay"}
    partition = cluster_of("zen3", 64, extras, container_platforms=[{"type": "Podman"}])
    settings = write_site(tmp_path / "site.py", {"only": partition})
    case = "PingPong%variant=generic%num_nodes=2%image_release=fitting"
    options = ("-S", "full=yes", "-S", "runtimes=host:podman,overlay:podman+overlay")
    result = session("--dry-run", *options, "-C", settings, "-n", f"^{case}$", checks=file_of(case))
    scripts = list(result.stage.rglob("rfm_job.sh"))
    assert len(scripts) == 1, result.output
    compare("own-network", job_of(scripts[0]), tmp_path)


def test_a_job_asks_for_memory_where_the_site_says_how(session, tmp_path):
    by_size = [{"name": "memory", "options": ["--mem={size}"]}]
    partitions = {
        name: cluster_of("zen2", 48, {"exclusive": name == "whole"}, resources=by_size) for name in ("whole", "shared")
    }
    case = "QuantumEspresso%variant=bare%num_nodes=2%ranks=0%openmp=1%material=SiH4"
    settings = write_site(tmp_path / "site.py", partitions)
    result = session("--dry-run", "-C", settings, "-n", case, checks=file_of(case))
    asked = {}
    for case in result.cases:
        lines = Path(case["stagedir"], "rfm_job.sh").read_text().splitlines()
        words = [line.split()[1] for line in lines if line.startswith("#SBATCH")]
        asked[case["partition"]] = [word for word in words if word.startswith(("--mem", "--exclusive"))]
    assert asked == {"whole": ["--exclusive", "--mem=65536M"], "shared": ["--mem=14702M"]}, result.output


def normalised(script, tmp_path):
    """Return a script with what differs from machine to machine by name."""
    # The environment may be a link.
    pythons = {sys.executable: "$PYTHON", str(Path(sys.prefix).resolve() / "bin" / "python"): "$PYTHON"}
    for path, called in {tmp_path: "$TMP", **pythons, REPOSITORY: "$REPOSITORY"}.items():
        script = script.replace(str(path), called)
    # Of whom it is root that submits.
    return re.sub(r"^export OMPI_ALLOW_RUN_AS_ROOT\w*=1\n", "", script, flags=re.MULTILINE)

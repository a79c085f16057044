"""Whether an image is fit for a machine: what a container tells, and what follows from it.

The images are those of public recipes (incidents): each gets the answer that its users had to find out.
"""

from __future__ import annotations

import pytest
from containercheck.report import fitness
from containercheck.session import image_facts
from containercheck.session.image_facts import ImageFacts

HOST = {
    "host": {"libc": "glibc 2.36"},
    "processor": {"architecture": "x86_64"},
    "mpi": [{"family": "openmpi", "title": "Open MPI", "library": "libmpi.so.40", "version": "4.1.4"}],
    "pmi": [],
    "fabric": [],
    "gpus": [],
}
PROGRAMS = {"gmx_mpi": "GROMACS", "pw.x": "QuantumEspresso"}


def image(text, **facts):
    return ImageFacts("my.sif", "x86_64", 1 << 20, **{**image_facts.parse(text, PROGRAMS), "start": 0.1, **facts})


def found(text, host=HOST, **facts):
    """Return the findings by topic: state, and text with its remedy."""
    found = fitness.findings(image(text, **facts), host)
    return {finding.topic: (finding.state, f"{finding.text} -> {finding.remedy}") for finding in found}


@pytest.mark.parametrize(
    ("text", "state", "said"),
    [
        # MPICH 5 in /opt, as a centre's recipes have it; the host has Open MPI.
        (
            "libc glibc 2.35\nlibrary /opt/mpich/lib/libmpi.so.12",
            "note",
            "not possible: the host has Open MPI, which has an",
        ),
        # Open MPI 4.0 on Ubuntu 20.04, whose C library is older than the host's.
        (
            "libc glibc 2.31\nlibrary /usr/local/lib/libmpi.so.40",
            "note",
            "hardly possible: the host's MPI is built for glibc 2.36",
        ),
        # Alpine has no GNU C library.
        ("libc \nlibc musl\nlibrary /usr/lib/libmpi.so.40", "note", "hardly possible"),
        # Open MPI 3.1 has the ABI of all later ones.
        ("libc glibc 2.36\nlibrary /usr/local/lib/libmpi.so.40", "ok", "possible: libmpi.so.40 of the host"),
    ],
)
def test_whether_the_hosts_mpi_can_take_the_place_of_the_images(text, state, said):
    assert found(text)["integrated"][0] == state
    assert found(text)["integrated"][1].startswith(said)


def test_an_mpi_of_an_abi_that_nobody_has_any_more():
    state, text = found("libc glibc 2.28\nlibrary /usr/lib/libmpi.so.20\nlibrary /usr/lib/libmpi.so.20.10.1")["MPI"]
    assert state == "note"
    assert text.startswith("none: libmpi.so.20 is of no ABI that is known -> for one node only, or rebuild it")


def test_an_image_without_mpi():
    findings = found("libc glibc 2.36\nsystem Debian GNU/Linux 12")
    assert findings["MPI"][0] == "note"
    assert "integrated" not in findings
    assert findings["system"] == ("ok", "Debian GNU/Linux 12, glibc 2.36 -> ")


def test_an_image_of_another_architecture_is_not_fit():
    other = image(
        "libc glibc 2.36",
    )
    other = ImageFacts(**{**vars(other), "architecture": "aarch64"})
    findings = fitness.findings(other, HOST)
    assert not fitness.is_fit(findings)
    assert findings[0].text == "aarch64, and this machine is x86_64"


@pytest.mark.parametrize(
    ("plugins", "state"),
    [(["none", "pmix"], "ok"), (["none", "pmix_v4"], "ok"), (["none", "pmi2"], "PROBLEM"), ([], None)],
)
def test_what_srun_has_to_speak(plugins, state):
    findings = found("libc glibc 2.36\nlibrary /usr/lib/libmpi.so.40", {**HOST, "pmi": plugins})
    assert findings.get("launcher", (None, ""))[0] == state


def test_libraries_for_what_the_host_has():
    names = ["libibverbs.so.1", "libibverbs.so.1.14", "libmpi.so.40"]
    text = "\n".join(["libc glibc 2.36", *(f"library /usr/lib/{name}" for name in names)])
    host = {**HOST, "fabric": ["mlx5_0: InfiniBand"], "gpus": ["NVIDIA H100"]}
    findings = found(text, host)
    assert findings["fabric"] == ("ok", "libibverbs.so.1 -> ")
    assert findings["GPU"][0] == "note"
    assert found("libc glibc 2.36", host)["fabric"][0] == "note"


def test_variables_that_hurt_are_named_and_others_are_not():
    findings = fitness.findings(
        image("variable OPENBLAS_CORETYPE=Prescott\nvariable PATH=/bin\nvariable OMP_NUM_THREADS=1"), HOST
    )
    texts = [finding.text for finding in findings if finding.topic == "environment"]
    assert texts == ["it sets OMP_NUM_THREADS=1", "it sets OPENBLAS_CORETYPE=Prescott"]


def test_programs_of_checks_are_found_by_name():
    programs = image_facts.programs_of_checks()
    assert programs["gmx_mpi"] == "GROMACS"
    assert programs["pw.x"] == "QuantumEspresso"
    assert not {"cat", "python", "java"} & programs.keys()
    assert found("program gmx_mpi")["checks"] == ("ok", "GROMACS (gmx_mpi) -> ")


def test_a_slow_start_is_worth_a_word():
    assert found("libc glibc 2.36", start=0.2)["start"][0] == "ok"
    assert found("libc glibc 2.36", start=20.0)["start"][0] == "note"


def test_an_image_that_is_not_there_is_said_in_a_line(tmp_path):
    with pytest.raises(image_facts.ImageError, match="there is no image"):
        image_facts.read(str(tmp_path / "none.sif"), "apptainer")


def test_a_container_that_does_not_start_says_why(tmp_path):
    (tmp_path / "my.sif").write_text("no image")
    command = tmp_path / "apptainer"
    command.write_text("#!/bin/sh\nprintf '\\033[31mFATAL:   could not open image\\n\\033[0m\\n' >&2; exit 255\n")
    command.chmod(0o755)
    with pytest.raises(image_facts.ImageError, match=r"starts: FATAL: +could not open image$"):
        image_facts.read(str(tmp_path / "my.sif"), str(command))

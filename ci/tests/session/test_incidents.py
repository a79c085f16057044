"""Incidents from public trackers, planted for real: each names the culprit's own words, and no correct container fails.

Planted by the session's environment, or by an ``apptainer`` first on the PATH that starts the real one. What they do to
speed, and whether the cause is found, is not asked here.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import write_program
from containercheck.job import host_mpi

CHECKS = Path(__file__).resolve().parents[1] / "incident_checks.py"
#: Begins a runtime that goes wrong when it starts the program, not before: ``program`` does so as it should.
WRAPPER = """
program() { "$REAL" "$@"; }
case "$*" in *" pingpong 0.2 1"*) ;; *) exec "$REAL" "$@" ;; esac
"""
#: Counts the runs so far, in ``starts``: ranks of one run are children of the same launcher.
STARTED = 'mkdir -p "$PLACE/$PPID"; starts=$(ls "$PLACE" | wc -l)'


@dataclass(frozen=True)
class Incident:
    """An incident, and what comes of it.

    :ivar source: the thread that it is from.
    :ivar runtime: commands of the runtime that goes wrong, after :data:`WRAPPER`.
    :ivar variables: of the session; ``HOME_OF_TEST`` in a value is a home that has settings of Open MPI in it, and
        ``LIBRARIES`` where the host's MPI lies.
    :ivar reason: what the case's reason has in it, a regular expression; None where the case must not fail.
    :ivar variant: the variant that is looked at.
    """

    source: str
    reason: str | None
    runtime: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    variant: str = "generic"


INCIDENTS = {
    "environment of the runtime is cleaned": Incident(
        "singularity#1110", "each as a job of its own", variables={"APPTAINER_CLEANENV": "1"}
    ),
    "home is not mounted": Incident("software-stack#126", None, variables={"APPTAINER_CONTAIN": "1"}),
    "clean-up fails after the run": Incident(
        "apptainer#2713",
        r"exit status 148\b.*container cleanup failed: no instance found",
        runtime='program "$@"; echo "ERROR  : container cleanup failed: no instance found" >&2; exit 148',
    ),
    "ranks hang in every second run": Incident(
        "apptainer#2387",
        r"rounds \d and \d, subject: hangs: killed at its limit of 20 s(; at last it had [^(]*)? \(2 of [23] runs",
        runtime=f'{STARTED}; [ $((starts % 2)) = 0 ] || exec sleep 1000; program "$@"',
    ),
    "a store that PMIx has not": Incident("openpmix#1819", None, variables={"PMIX_MCA_gds": "ds21"}),
    "bind of what is not there": Incident(
        "apptainer#1143", "/not/there", variables={"APPTAINER_BINDPATH": "/not/there"}
    ),
    "no user namespaces": Incident(
        "apptainer#2027",
        r"(?i)user.?namespace|newuidmap|no space left on device",
        runtime='exec unshare -Ur sh -c \'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"\' sh "$REAL" "$@"',
    ),
    "preload of a file of the host": Incident(
        "apptainer#2537", None, variables={"APPTAINERENV_LD_PRELOAD": "/opt/xalt/libxalt_init.so"}
    ),
    "a preload that is not there is no reason": Incident(
        "apptainer#2537",
        r"exit status 3\b(?!.*cannot be preloaded)",
        runtime='program "$@" >/dev/null; exit 3',
        variables={"APPTAINERENV_LD_PRELOAD": "/opt/xalt/libxalt_init.so"},
    ),
    "exported functions and values of several lines": Incident(
        "singularity#5253", None, variables={"BASH_FUNC_ml%%": "() {  echo module\n}", "MULTI": "a\n\nb=c"}
    ),
    "ranks fail, and the launcher says nothing": Incident(
        "mpich#7057", r"answer ranks not found in ", runtime="exit 0"
    ),
    "libraries of the host in a generic container": Incident(
        "LUMI-EasyBuild-contrib#9",
        r"loaded the host's \S*libmpi\S*, though the generic variant must bring its own",
        variables={"APPTAINER_BINDPATH": "LIBRARIES:/hostlib", "APPTAINERENV_LD_LIBRARY_PATH": "/hostlib"},
    ),
    "a bind of the host's hides the program": Incident(
        "apptainer#1257", "pingpong", variables={"APPTAINER_BINDPATH": "HOME_OF_TEST:/usr/local/bin"}
    ),
    "an instruction that the processor has not": Incident(
        "bioconda#68494", r"(?i)illegal instruction", runtime="kill -ILL $$"
    ),
    "settings of Open MPI at home": Incident("ompi#7737", None, variables={"HOME": "HOME_OF_TEST"}),
    "the image's mount goes away": Incident(
        "apptainer#2104",
        r"(?i)input/output error|transport endpoint|bus error|segmentation|signal|exit status",
        runtime='(sleep 0.3; pkill -9 -s 0 -n squashfuse) & program "$@"',
    ),
}


#: Those that run each time; the others take as long, and break with them.
OFTEN = ("bind of what is not there",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in OFTEN else pytest.mark.long) for name in INCIDENTS]
)
def test_an_incident_names_its_own_words(session, tmp_path, name):
    incident = INCIDENTS[name]
    starts, home, programs = (tmp_path / place for place in ("starts", "home", "bin"))
    for directory in (starts, home / ".openmpi", programs):
        directory.mkdir(parents=True)
    (home / ".openmpi" / "mca-params.conf").write_text("btl = self,tcp\n")
    places = {
        "HOME_OF_TEST": str(home),
        "LIBRARIES": str(Path(host_mpi.found_by_loader("openmpi", "host_openmpi")).parent),
    }
    variables = {
        key: re.sub("|".join(places), lambda match: places[match[0]], value)
        for key, value in incident.variables.items()
    }
    if incident.runtime:
        variables["REAL"], variables["PLACE"] = shutil.which("apptainer"), str(starts)
        write_program(programs / "apptainer", WRAPPER + incident.runtime)
        variables["PATH"] = f"{programs}:{os.environ['PATH']}"
    result = session("-n", f"Exchange%variant={incident.variant}", "-S", "rounds=3", checks=CHECKS, **variables)
    case = result.case(incident.variant)
    assert "Traceback" not in result.output
    if incident.reason is None:
        assert case["result"] == "pass", case["fail_reason"]
    else:
        assert case["result"] == "fail", result.output
        assert re.search(incident.reason, case["fail_reason"]), case["fail_reason"]

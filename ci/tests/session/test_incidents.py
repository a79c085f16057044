"""Incidents from public trackers, planted for real: those that cost a correct container nothing, and two that fail.

What programs, launchers and runtimes print when they go wrong is in ``outputs/reasons``, for test_reasons.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from containercheck.job import host_mpi

CHECKS = Path(__file__).resolve().parents[1] / "incident_checks.py"
OF_HOST = r"loaded the host's \S*libmpi\S*, though the generic variant must bring its own"
#: By the thread that it is from: the variables of the session, and a regular expression that is in the reason of the
#: case; None where the case must not fail. ``HOME_OF_TEST`` is a home with settings of Open MPI, and ``LIBRARIES`` the
#: directory of the host's MPI.
INCIDENTS = {
    "apptainer#1143": ({"APPTAINER_BINDPATH": "/not/there"}, "/not/there"),
    "software-stack#126": ({"APPTAINER_CONTAIN": "1"}, None),
    "openpmix#1819": ({"PMIX_MCA_gds": "ds21"}, None),
    "apptainer#2537": ({"APPTAINERENV_LD_PRELOAD": "/opt/xalt/libxalt_init.so"}, None),
    "singularity#5253": ({"BASH_FUNC_ml%%": "() {  echo module\n}", "MULTI": "a\n\nb=c"}, None),
    "ompi#7737": ({"HOME": "HOME_OF_TEST"}, None),
    "LUMI-EasyBuild-contrib#9": (
        {"APPTAINER_BINDPATH": "LIBRARIES:/hostlib", "APPTAINERENV_LD_LIBRARY_PATH": "/hostlib"},
        OF_HOST,
    ),
}
#: The one that runs each time; the others take as long, and break with it.
OFTEN = "apptainer#1143"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == OFTEN else pytest.mark.long) for name in INCIDENTS]
)
def test_an_incident_names_its_own_words_or_costs_nothing(session, tmp_path, name):
    planted, reason = INCIDENTS[name]
    home = tmp_path / "home"
    (home / ".openmpi").mkdir(parents=True)
    (home / ".openmpi" / "mca-params.conf").write_text("btl = self,tcp\n")
    libraries = Path(host_mpi.found_by_loader("openmpi", "host_openmpi")).parent
    places = {"HOME_OF_TEST": str(home), "LIBRARIES": str(libraries)}
    variables = {key: re.sub("|".join(places), lambda match: places[match[0]], value) for key, value in planted.items()}
    result = session("-n", "Exchange%variant=generic", "-S", "rounds=3", checks=CHECKS, **variables)
    case = result.case("generic")
    assert "Traceback" not in result.output
    assert case["result"] == ("fail" if reason else "pass"), case["fail_reason"]
    assert not reason or re.search(reason, case["fail_reason"]), case["fail_reason"]

"""-S: what does not exist is not set silently, so that nothing else than was asked for is measured."""

from __future__ import annotations

import pytest
from containercheck import ContainerCheck, reframe_internals
from containercheck.application import interface
from containercheck.application.interface import UnknownVariable, require_known
from gromacs import GROMACS
from hpcc import HPCC
from reframe.core.pipeline import RegressionTest

WRONG = [
    ("GROMACS.image=/my.sif", "there is no such variable: did you mean ready_image? (reframe --describe -n GROM"),
    ("GROMACS.second=10", "there is no such variable: did you mean seconds?"),
    ("second=10", "there is no such variable: did you mean seconds?"),
    ("GROMAC.seconds=10", "there is no check GROMAC: did you mean GROMACS?"),
    ("ContainerCheck.rounds=2", "there is no check ContainerCheck"),
    # A parameter.
    ("num_nodes=2", "there is no such variable"),
    ("rounds", "it needs a name and a value, as in -S rounds=10"),
]


@pytest.mark.parametrize(("word", "said"), WRONG)
def test_what_does_not_exist_is_named_with_the_nearest_name(word, said):
    with pytest.raises(UnknownVariable) as error:
        require_known(GROMACS, ["-c", "checks", "-n", "HPCC", "-S", word, "-r"])
    assert f"-S {word}: {said}" in str(error.value)


@pytest.mark.parametrize("option", [["-Sx=1"], ["--setvar=x=1"], ["--setvar", "x=1"], ["-rS", "x=1"]])
def test_a_setting_is_read_as_reframe_reads_it(option):
    assert reframe_internals.options_of(["-c", "checks", *option, "-l"]).setvar == ["x=1"]


@pytest.mark.parametrize(
    "word",
    [
        "GROMACS.rounds=2",
        "rounds=2",
        # ReFrame's own.
        "num_gpus_per_node=1",
        # Another check's: by name, and for those that have it.
        "HPCC.rounds=2",
        "full=yes",
        # Of a file that is not loaded; and in a fixture.
        "StartUp.rounds=2",
        "GROMACS.fixture.anything=1",
    ],
)
def test_what_exists_may_be_set(word):
    assert require_known(GROMACS, ["-S", word]) is None
    # A mistake in another check's name is that check's.
    require_known(HPCC, ["-S", "GROMACS.second=10"])


def test_reframe_has_the_private_attributes_that_the_checks_use():
    assert callable(RegressionTest._setup_build_job)
    assert {"GROMACS", "ContainerCheck"} <= interface.loaded_classes().keys()
    assert ("env_vars", None) not in ContainerCheck.loggable_attrs() and len(ContainerCheck.loggable_attrs()) > 20

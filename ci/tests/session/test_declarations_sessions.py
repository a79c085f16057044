"""An application file that would compare nothing stops the session."""

from __future__ import annotations

import pytest

CHECK = """
import reframe as rfm
from containercheck import Answer, ContainerCheck, Metric
from reframe.core.builtins import parameter, run_before

@rfm.simple_test
class Melt(ContainerCheck):
    variant = parameter(["bare"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "true"
    recipe = "mpi"
    ranks_per_node = 1
    {facts}
"""


METRICS = 'metrics = [Metric("rate", r"^rate (\\S+)", "x")]'


HOOK = """
    @run_before("run")
    def give_metrics(self):
        {does}
"""


@pytest.fixture
def loaded(session, tmp_path):
    """Load a check that declares this, and look at it without running it."""

    def load(facts):
        path = tmp_path / "melt.py"
        path.write_text(CHECK.format(facts=facts))
        return session("--dry-run", checks=path)

    return load


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            'metric = [Metric("rate", r"^rate (.+)", "x")]',
            "sets 'metric', which nothing reads: did you mean 'metrics'?",
        ),
        (f"{METRICS}\n    tolerence = 20.0", "sets 'tolerence', which nothing reads: did you mean 'tolerance'?"),
        # ReFrame's own.
        (f'{METRICS}\n    env_var = {{"A": "1"}}', "sets 'env_var', which nothing reads: did you mean 'env_vars'?"),
    ],
)
def test_a_check_that_compares_nothing_stops_the_session_with_one_line(loaded, facts, said):
    result = loaded(facts)
    assert result.status != 0
    (line,) = [line for line in result.output.splitlines() if line.startswith("containercheck: ")]
    assert f"melt.py: Melt {said}" in line
    assert "Traceback" not in result.output and "PASSED" not in result.output


def test_a_container_without_an_image_stops_the_session(session, tmp_path):
    path = tmp_path / "melt.py"
    path.write_text(CHECK.replace('["bare"]', '["generic"]').replace('recipe = "mpi"', "").format(facts=METRICS))
    result = session("--dry-run", checks=path)
    assert result.status != 0
    assert "melt.py: Melt has no recipe: state the definition file of its image" in result.output


#: What a check states, and whether it compares something, or says that it does not.
STATED = {
    "Smoke": ("smoke_test = True", True),
    "Late": (HOOK.format(does=f"self.{METRICS}"), True),
    "Nothing": ("", False),
    "Emptied": (f"{METRICS}{HOOK.format(does='self.metrics = []')}", False),
}


def test_a_check_that_states_no_metrics_fails(session, tmp_path):
    head, _, check = CHECK.partition("\n@")
    path = tmp_path / "melt.py"
    checks = [f"@{check.replace('Melt', name).format(facts=facts)}" for name, (facts, _) in STATED.items()]
    path.write_text("\n".join([head, *checks]))
    result = session("--dry-run", checks=path)
    reasons = {case["name"].split()[0]: case["fail_reason"] for case in result.cases}
    assert {name: reason is None for name, reason in reasons.items()} == {
        name: is_fine for name, (_, is_fine) in STATED.items()
    }, result.output
    for name in ("Nothing", "Emptied"):
        assert f"{name} has no metrics: it would pass with nothing measured" in reasons[name]

"""Remedies in the rounds: they prove or refute, and change no verdict on the container."""

from __future__ import annotations

import random

import pytest
from conftest import GENERIC, facts_of, run_of
from containercheck import Answer, Metric
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.experiments import Remedy
from containercheck.job.outputs.facts import Facts
from saved import OUTPUTS

RATE = Metric("rate", r"^rate (\S+)", "x", better="lower", spread=2.0)
SUM = Answer("sum", r"^sum (\d+)")
REMEDY = Remedy("remedy1", "subject", {"rate": 30.0})


@pytest.fixture
def evaluation(tmp_path):
    """Evaluate rounds of bare, container and remedy, each with the text that it prints."""

    def make(rounds, remedies=(REMEDY,), **facts):
        priors = {"rate": (2.0, "the check")}
        made = Evaluation(Facts(facts_of([RATE], [SUM], priors=priors, **facts)), tmp_path, remedies)
        for number, sides in enumerate(rounds, 1):
            for side, text in sides.items():
                output = tmp_path / f"{number}-{side}"
                output.mkdir(exist_ok=True)
                status = 1 if text is None else 0
                (output / "out").write_text(text or "broken\n")
                (output / "err").write_text("")
                made.add(run_of(side, output.name, number, status=status, limit=10.0))
            made.end_round()
        return made

    return make


def printed_by_side(bare, container, remedy):
    printed = {"baseline": bare, "subject": container, "remedy1": remedy}
    return {side: f"rate {rate}\nsum 42\n" for side, rate in printed.items() if rate is not None}


def verdicts(made):
    return [
        (metric["helps"], metric["rest"])
        for result in made.experiments.results()
        for metric in result["metrics"].values()
    ]


@pytest.mark.parametrize(("rates", "is_useless"), [((100, 101), False), ((100, 120), True), ((120, None), True)])
def test_a_step_without_bare_keeps_remedies_that_take_half_away_in_each_round(evaluation, rates, is_useless):
    """The container takes 130, of which 15 are half of the overhead."""
    rounds = [{**printed_by_side(None, 130, rate)} for rate in rates]
    made = evaluation(rounds, sides=[GENERIC], earlier=[])
    made.experiments.drop_useless(len(rounds))
    assert bool(made.experiments.failed) is is_useless
    # Without bare, nothing is judged.
    assert [*made.pairs] == [] and all(rest == "inconclusive" for _, rest in verdicts(made))


def test_remedies_change_no_verdict(evaluation):
    rounds = [printed_by_side(100 + n % 2, 130 + n % 2, 100) for n in range(4)]
    made, alone = evaluation(rounds), evaluation([{k: v for k, v in r.items() if k != "remedy1"} for r in rounds], ())
    assert made.rounds == alone.rounds
    assert [pairs.verdict for pairs in made.pairs.values()] == [pairs.verdict for pairs in alone.pairs.values()]
    assert made.final_problems() == alone.final_problems() == []


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (None, "exit status 1"),
        ("rate 100\nsum 43\n", "answers differ"),
        # Its launcher ends with status 0 all the same: MPICH, issue 7057.
        ("rate 100\nsum 42\n" + (OUTPUTS / "reasons/mpich4/kill/out").read_text(), "exit status 0, though a rank died"),
    ],
)
def test_a_remedy_that_fails_or_has_other_answers_is_left_out_and_no_problem(evaluation, printed, why):
    made = evaluation([{**printed_by_side(100, 130, 100), "remedy1": printed}, *[printed_by_side(101, 131, None)] * 2])
    assert (made.final_problems(), len(made.rounds), verdicts(made)) == ([], 3, [])
    assert made.experiments.failed["remedy1"].startswith(why)
    assert not made.experiments.more_would_tell(3)


def noisy(bare, container, remedy, count):
    """Return rounds whose values lie around these, by turns above and below."""
    shares = [1.06, 0.95, 0.94, 1.05, 0.96, 1.04, 1.05, 0.95]
    return [
        printed_by_side(bare * shares[n % 8], container * shares[(n + 3) % 8], remedy * shares[(n + 5) % 8])
        for n in range(count)
    ]


def test_a_remedy_that_helps_has_more_rounds_to_be_proven_than_one_that_may_not(evaluation):
    """In eight noisy rounds it helps, and may be all; one that takes a little away is given up."""
    remedy = REMEDY._replace(metrics={"rate": 50.0})
    made = evaluation(noisy(100, 150, 100, 8), [remedy])
    assert verdicts(made) == [("fail", "inconclusive")] and made.experiments.more_would_tell(8)
    proven = evaluation(noisy(100, 150, 100, 20), [remedy])
    assert verdicts(proven) == [("fail", "pass")] and not proven.experiments.more_would_tell(20)
    little = evaluation(noisy(100, 150, 141, 8), [remedy])
    assert verdicts(little)[0][0] == "inconclusive" and not little.experiments.more_would_tell(8)


def test_a_remedy_that_does_nothing_runs_no_more_while_another_is_open(evaluation):
    others = Remedy("remedy2", "subject", {"rate": 30.0})
    rounds = [{**printed_by_side(100 + n % 2, 130, 104 - n % 2), "remedy2": "rate 130\nsum 42\n"} for n in range(4)]
    made = evaluation(rounds, [REMEDY, others])
    assert made.experiments.helps("remedy2") == ["pass"] and "remedy2" not in made.experiments.left


def test_noise_proves_nothing(evaluation):
    """A remedy that does nothing, of 100 slow containers whose rounds spread as is known."""
    coin, proofs = random.Random(1), 0
    for _ in range(100):
        rounds = [printed_by_side(*(base * coin.gauss(1, 0.014) for base in (100, 108, 108))) for _ in range(6)]
        remedy = REMEDY._replace(metrics={"rate": 8.0})
        proofs += verdicts(evaluation(rounds, [remedy])) == [("fail", "pass")]
    assert proofs == 0

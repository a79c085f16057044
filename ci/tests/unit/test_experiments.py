"""Remedies in the rounds: they prove or refute, and change no verdict on the container."""

from __future__ import annotations

import random

import pytest
from conftest import facts_of, run_of
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
            made.end_round(False)
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


def test_a_remedy_that_takes_all_away_is_a_proof(evaluation):
    made = evaluation([printed_by_side(100 + n, 130 + n, 100.5 + n) for n in range(3)])
    assert verdicts(made) == [("fail", "pass")]
    assert not made.experiments.more_would_tell(3)


def test_a_remedy_that_does_nothing_is_none(evaluation):
    made = evaluation([printed_by_side(100 + n, 130 + n, 130.5 + n) for n in range(4)])
    assert verdicts(made) == [("pass", "fail")]


def test_a_remedy_that_takes_a_part_away_helps_and_is_not_all(evaluation):
    made = evaluation([printed_by_side(100 + n, 140 + n, 112.5 + n) for n in range(4)])
    assert verdicts(made) == [("fail", "fail")]


def test_results_say_how_far_the_rounds_of_bare_and_the_remedy_spread(evaluation):
    """So that a message can say why it is open whether a cause is all."""
    rounds = [printed_by_side(100, 300, rate) for rate in (80, 130, 95, 120, 85)]
    (result,) = evaluation(rounds).experiments.results()
    metric = result["metrics"]["rate"]
    assert (metric["helps"], metric["rest"], metric["tolerance"]) == ("fail", "inconclusive", 5.0)
    assert 15 < metric["spread"] < 40
    quiet = evaluation([printed_by_side(100 + n, 130 + n, 100.5 + n) for n in range(3)])
    assert quiet.experiments.results()[0]["metrics"]["rate"]["spread"] < 1


def test_remedies_change_no_verdict(evaluation):
    rounds = [printed_by_side(100 + n % 2, 130 + n % 2, 100) for n in range(4)]
    made, alone = evaluation(rounds), evaluation([{k: v for k, v in r.items() if k != "remedy1"} for r in rounds], ())
    assert made.rounds == alone.rounds
    assert [pairs.verdict for pairs in made.pairs.values()] == [pairs.verdict for pairs in alone.pairs.values()]
    assert made.final_problems() == alone.final_problems() == []


def test_a_remedy_that_fails_is_left_out_and_no_problem(evaluation):
    rounds = [
        {**printed_by_side(100, 130, 100), "remedy1": None},
        printed_by_side(101, 131, None),
        printed_by_side(100, 130, None),
    ]
    made = evaluation(rounds)
    assert made.final_problems() == []
    assert "exit status 1" in made.experiments.failed["remedy1"]
    assert verdicts(made) == []
    assert not made.experiments.more_would_tell(3)
    assert len(made.rounds) == 3


def test_a_remedy_with_other_answers_proves_nothing(evaluation):
    rounds = [{**printed_by_side(100, 130, 100), "remedy1": "rate 100\nsum 43\n"} for _ in range(3)]
    made = evaluation(rounds)
    assert "answers differ" in made.experiments.failed["remedy1"]
    assert verdicts(made) == []
    assert made.final_problems() == []


def test_what_is_not_slow_without_the_remedy_is_never_proven(evaluation):
    """A container that was slow by chance, and is not any more: the remedy helps with nothing."""
    made = evaluation([printed_by_side(100 + n % 2, 100.5 + n % 2, 100) for n in range(6)])
    assert all(helps != "fail" for helps, _ in verdicts(made))


def test_noise_proves_nothing(evaluation):
    """A remedy that does nothing, of 100 slow containers whose rounds spread as is known."""
    coin, proofs = random.Random(1), 0
    for _ in range(100):
        rounds = [printed_by_side(*(base * coin.gauss(1, 0.014) for base in (100, 108, 108))) for _ in range(6)]
        remedy = REMEDY._replace(metrics={"rate": 8.0})
        proofs += verdicts(evaluation(rounds, [remedy])) == [("fail", "pass")]
    assert proofs == 0


def test_a_remedy_in_whose_run_a_rank_died_has_not_ended_well(evaluation, tmp_path):
    """Its launcher ends with status 0 all the same: MPICH, issue 7057."""
    died = (OUTPUTS / "reasons/mpich4/kill/out").read_text()
    made = evaluation([printed_by_side(100, 130, None), {"remedy1": f"rate 100\nsum 42\n{died}"}])
    assert made.experiments.failed["remedy1"].startswith("exit status 0, though a rank died: ")
    assert made.experiments.ended_well["remedy1"] == 0

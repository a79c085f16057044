"""Semantic Spaces: its output, and the nearest words as an answer."""

from types import SimpleNamespace

from containercheck import outcome
from saved import OUTPUTS, figures, read
from semanticspaces import SemanticSpaces

#: What the check reads; ``rank_count`` of the class itself stands for the variable.
READ = SimpleNamespace(figures=SemanticSpaces.figures, answers=SemanticSpaces.answers, rank_count=None)


def test_the_figures_of_a_run():
    found = figures(READ, "semanticspaces/passing", ranks=1)
    assert set(found) == {"seconds_indexing", "seconds_indexing_serial", "seconds_query", "efficiency"}


def test_a_text_too_short_has_other_nearest_words():
    problems = read(READ, "semanticspaces/failing", ranks=1).problems
    assert any("nearest_topics is" in problem for problem in problems)


def test_other_nearest_words_in_the_container_are_a_wrong_answer():
    run = {"round": 1, "status": 0, "timed_out": False, "seconds": 1.0}
    runs = [
        {**run, "side": outcome.BASELINE, "output": "semanticspaces/passing"},
        {**run, "side": outcome.SUBJECT, "output": "semanticspaces/failing"},
    ]
    result = outcome.evaluate(
        {"runs": runs, "limit": 1.0}, OUTPUTS, SemanticSpaces.figures, SemanticSpaces.answers, None, 1
    )
    assert any("answers differ: nearest_words is 'hinozeb" in problem for problem in result.problems)

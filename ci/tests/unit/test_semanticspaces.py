"""Semantic Spaces: its output, and the nearest words as an answer."""

from conftest import facts_of, run_of
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from saved import OUTPUTS, metrics, problems
from semanticspaces import SemanticSpaces


def test_the_metrics_of_a_run():
    found = metrics(SemanticSpaces, "semanticspaces/passing", ranks=1)
    assert set(found) == {"seconds_indexing", "seconds_indexing_serial", "seconds_query", "efficiency"}


def test_a_text_too_short_has_other_nearest_words():
    found = problems(SemanticSpaces, "semanticspaces/failing", ranks=1)
    assert any("nearest_topics is" in problem for problem in found)


def test_other_nearest_words_in_the_container_are_a_wrong_answer():
    evaluation = Evaluation(Facts(facts_of(SemanticSpaces.metrics, SemanticSpaces.answers)), OUTPUTS)
    evaluation.add(run_of("baseline", "semanticspaces/passing"))
    evaluation.add(run_of("subject", "semanticspaces/failing"))
    found = evaluation.final_problems()
    assert any("answers differ: nearest_words is 'hinozeb" in problem for problem in found)

"""The output of the program that starts containers."""

from saved import figures, problems
from startup import StartUp


def test_one_copy_and_several_are_told_apart():
    found = figures(StartUp, "startup/passing", ranks=1)
    assert found == {
        "start": 0.004339,
        "end": 0.000394,
        "memory": 0.905,
        "start_several": 0.009425,
        "end_several": 0.000927,
        "memory_several": 0.732,
    }


def test_a_command_that_does_not_answer_is_no_result():
    """The program then says why on its standard error, and nothing else."""
    assert any("figure start not found" in problem for problem in problems(StartUp, "startup/failing", ranks=1))

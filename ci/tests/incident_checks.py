"""The check that the tests of incidents plant them in: Ping Pong with two ranks, bare and in its image."""

import reframe as rfm
from containercheck import Answer, ContainerCheck, Metric
from reframe.core.builtins import parameter


@rfm.simple_test
class Exchange(ContainerCheck):
    """Two ranks that exchange messages for a moment."""

    variant = parameter(["generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "pingpong"
    executable_opts = ["0.2", "1"]
    source = "pingpong/pingpong.c"
    recipe = "pingpong"
    ranks_per_node = 2
    run_limit = 20
    rank_count = Answer("ranks", r"^ranks (\d+)", reduce="first")
    #: No overhead of a moment says anything, and none is asked about.
    metrics = [Metric("latency", r"^latency within_socket (\S+) us", "us", better="lower", tolerance=1e6)]
    answers = [Answer("wrong_bytes", r"^wrong bytes (\d+)", at_most=0)]

"""What applications printed, saved below ``ci/tests/outputs``, read through each check's own metrics and answers.

To add an application, save the output of a good run and of a bad one, and add a row to RANKS and BAD. The first test
then writes what it reads, for a person to compare with the output.
"""

from __future__ import annotations

import inspect
import json
from argparse import Namespace
from dataclasses import replace

import made
import pytest
from amber import MDOUT, Amber
from btmz import BTMZ
from conftest import run_of
from containercheck.job.outputs.reading import UnreadableError, read_answer, read_metric
from containercheck.job.verdict import builds
from containercheck.report.page import applications
from db12 import DB12
from dgemm import DGEMM
from espresso import QuantumEspresso
from espresso_dlb import QuantumEspressoDLB
from gromacs import GROMACS
from gromacs_threads import GROMACSHybrid
from hpcc import HPCC
from hpcg import HPCG
from hpl import HPL
from imagefiles import ImageFiles
from imb import ALL_SIZES, IMB
from iozone import MODES, IOzone, report
from muelu import MueLu
from openfoam import OpenFOAM
from palabos import Palabos
from pingpong import CLASSES, PingPong, dispersion
from ramp import RAMP
from saved import OUTPUTS, build, changed, metrics, problems, why
from semanticspaces import SemanticSpaces
from startup import StartUp
from tensorflow_cnn import TensorFlow, TensorFlowCNN
from wordcount import WordCount
from wrf import WRF

#: Begins what TensorFlow prints of the instructions that its build lacks.
INSTRUCTIONS = "enable the following instructions:"


def iozone(mode):
    """Return what IOzone reports in a mode."""
    metrics = [report(title) for title in MODES[mode][1]]
    return Namespace(metrics=metrics, answers=IOzone.answers, identity=IOzone.identity, rank_count=None)


#: Checks by the ranks of their good runs. Beside each output, read.json has what is read of it.
RANKS = {
    1: (DB12, DGEMM, SemanticSpaces, TensorFlowCNN, RAMP, StartUp, ImageFiles),
    2: (HPCC, HPL, BTMZ, OpenFOAM, Palabos, MueLu, HPCG, GROMACS, QuantumEspresso, WRF, IMB, WordCount),
    # Two nodes with two ranks each, all in one socket of the node.
    4: (PingPong,),
    48: (Amber,),
}
#: Good runs: check, output, ranks. The reports of IOzone's modes differ; those of "positioned" are mixed up.
GOOD = [(check, f"{check.__module__}/passing", ranks) for ranks, checks in RANKS.items() for check in checks]
GOOD += [(iozone(mode), f"iozone/{'passing' if mode == 'random_strided' else mode}", 1) for mode in MODES]
#: Bad runs: check, output, ranks, and a problem that is found.
BAD = [
    # Residuals above a threshold that no solution meets.
    (HPCC, "hpcc/failing", 2, "HPL_check is 'FAILED', must be 'PASSED'"),
    (HPCC, "hpcc/failing", 2, "success is '0', must be '1'"),
    (HPL, "hpl/failing", 2, "check is 'FAILED', must be 'PASSED'"),
    (DB12, "db12/failing", 1, "not found"),
    # A row was left out of the first blocks.
    (DGEMM, "dgemm/failing", 1, "must be at most 16"),
    (OpenFOAM, "openfoam/failing", 2, "continuity_error is 0.532607, must be at most 0.1"),
    (SemanticSpaces, "semanticspaces/failing", 1, "nearest_topics is"),
    (GROMACS, "gromacs/failing", 2, "metric rate not found"),
    (QuantumEspresso, "espresso/failing", 2, "answer total_energy not found"),
    # One batch, and one epoch.
    (TensorFlowCNN, "tensorflow_cnn/failing", 1, "metric images_per_second not found"),
    (RAMP, "ramp/failing", 1, "loss_falls is 'no'"),
    (StartUp, "startup/failing", 1, "metric start not found"),
    (ImageFiles, "imagefiles/failing", 1, "metric stat_cold not found"),
    # A full disk.
    (iozone("random_strided"), "iozone/failing", 1, "writer is 0"),
    # Fewer ranks, or as many jobs of one rank.
    (HPCC, "hpcc/passing", 4, "ran with 2 ranks instead of 4"),
    (OpenFOAM, "openfoam/passing", 4, "ran with 2 ranks instead of 4"),
    (GROMACS, "gromacs/passing", 4, "ran with 2 ranks instead of 4"),
    (HPL, "hpl/singletons", 2, "ran with 1 ranks instead of 2"),
    (BTMZ, "btmz/singletons", 2, "answer ranks not found"),
    (Palabos, "palabos/failing", 2, "ran with 1 ranks instead of 2"),
    (MueLu, "muelu/failing", 2, "ran with 1 ranks instead of 2"),
    (HPCG, "hpcg/singletons", 2, "ran with 1 ranks instead of 2"),
    (WRF, "wrf/singletons", 2, "ran with 1 ranks instead of 2"),
    (IMB, "imb/failing", 2, "1 ranks instead of 2"),
    (PingPong, "pingpong/failing", 2, "ran with 1 ranks instead of 2"),
    (WordCount, "wordcount/failing", 2, "ran with 1 ranks instead of 2"),
]
#: Good outputs with another text in place of one, in the words of the program's source.
CHANGED = [
    (BTMZ, "btmz/passing", f"{'':14}SUCCESSFUL", f"{'':12}UNSUCCESSFUL", "verification is 'UNSUCCESSFUL'"),
    (HPCG, "hpcg/passing", "is VALID with a GFLOP/s rating of=", "is=INVALID. ", "metric HPCG not found"),
    (MueLu, "muelu/passing", "convergence reached", "convergence failed", "convergence is 'failed'"),
]
#: Reasons of failed runs, from all that they printed.
REASONS = [
    # An image of Debian 12 reads no input that Debian 13's GROMACS made.
    ("gromacs/newer_input", "Fatal error: reading tpx file (topol.tpr) version 137 with version 127 program"),
    ("wrf/unstable", "exited on signal 11 (Segmentation fault)."),
    ("wrf/fatal", "The microphysics option does not exist: mp_physics = 1000"),
]


def named(row):
    """Return the name of a row."""
    return row[1] if isinstance(row, tuple) else row


@pytest.mark.parametrize("row", GOOD, ids=named)
def test_what_is_read_of_a_good_run_is_what_it_was(row):
    check, output, ranks = row
    answers = {answer.name: read_answer(answer, OUTPUTS / output) for answer in check.answers}
    found = {"metrics": metrics(check, output, ranks), "answers": answers, "build": build(check, output)}
    saved = OUTPUTS / output / "read.json"
    if not saved.exists():
        saved.write_text(json.dumps(found, indent=2) + "\n")
        pytest.fail(f"{saved} was not there: compare it with the output, and keep it")
    assert found == json.loads(saved.read_text())


@pytest.mark.parametrize("row", BAD, ids=lambda row: f"{named(row)} {row[3]}")
def test_a_bad_run_is_a_failure(row):
    check, output, ranks, said = row
    found = problems(check, output, ranks)
    assert any(said in problem for problem in found), found


@pytest.mark.parametrize("row", CHANGED, ids=named)
def test_a_wrong_result_is_a_failure(row, tmp_path):
    check, output, old, new, said = row
    found = problems(check, changed(output, tmp_path, old, new), 2)
    assert any(said in problem for problem in found), found


@pytest.mark.parametrize(("output", "said"), REASONS)
def test_the_reason_of_a_failure_is_the_programs_own(output, said):
    assert why(output).endswith(said)


# Metrics and answers of some cases only


def test_all_sizes_of_messages_are_metrics_and_each_kind_is_a_curve():
    """Saved from a run of the full axes: of PingPong and Allreduce, a table each with the same first column."""
    check = Namespace(sizes="all", metrics=IMB.metrics, answers=IMB.answers, rank_count=IMB.rank_count)
    inspect.unwrap(IMB.measure_all_sizes)(check)
    found = metrics(check, "imb/all_sizes", ranks=2)
    assert set(found) == {metric.name for metric in check.metrics}
    assert {f"allreduce_{size}B" for size in ALL_SIZES if size >= 4} <= set(found)
    assert (found["allreduce_8B"], found["latency_8B"]) == (5.65, 120.55)
    rows = [made.row(name) for name in found]
    charts = applications.over_axes("IMB", made.cases([made.case(rows=rows)]))
    titles = [chart.title for chart in charts]
    assert titles == [
        f"IMB: {name} over the size of a message in bytes" for name in ("latency", "bandwidth", "allreduce")
    ]


def test_each_class_of_pair_has_its_dispersion():
    """D12.6 compares it in figures 8.4 and 8.5."""
    measured = (("latency", "us"), ("bandwidth", "MB/s"))
    judged = [dispersion(*name, pair) for name in measured for pair in CLASSES]
    check = Namespace(metrics=judged, answers=[], rank_count=PingPong.rank_count)
    assert metrics(check, "pingpong/passing", ranks=4) == {
        "latency_dispersion_within_socket": 25.0,
        "latency_dispersion_between_nodes": 31.7,
        "bandwidth_dispersion_within_socket": 87.7,
        "bandwidth_dispersion_between_nodes": 69.2,
    }


def test_the_problem_of_the_document_has_the_rates_of_hpcgs_kernels():
    check = Namespace(ranks="all", metrics=[])
    HPCG.add_kernels(check)
    found = {metric.name: read_metric(metric, OUTPUTS / "hpcg" / "passing") for metric in check.metrics}
    assert found == {"DDOT": 0.831759, "WAXPBY": 3.56196, "SpMV": 1.44062, "MG": 1.28408}


def test_the_seconds_of_a_run_with_dlb_and_talps_report_are_read():
    """Lines of a program that runs with DLB begin with its name."""
    seconds = QuantumEspressoDLB.time_of(QuantumEspressoDLB, "program1")
    # Of all sides, as the one that was saved is TALP's.
    judged = [replace(metric, sides=()) for metric in [*QuantumEspressoDLB.metrics, seconds]]
    answers, rank_count = QuantumEspressoDLB.answers, QuantumEspressoDLB.rank_count
    check = Namespace(metrics=judged, answers=answers, rank_count=rank_count)
    assert metrics(check, "espresso/dlb", ranks=2) == {
        "seconds_whole": 4.779,
        "parallel_efficiency": 0.86,
        "load_balance": 0.95,
        "seconds_program1": 4.22,
    }
    energy = read_answer(QuantumEspressoDLB.answers[0], OUTPUTS / "espresso/dlb")
    assert energy == pytest.approx(-12.42610614, abs=1e-6)


def test_a_kernel_that_counts_no_io_gives_no_metric(tmp_path):
    (io,) = (metric for metric in RAMP.metrics if metric.name == "io")
    (tmp_path / "out").write_text("io unknown: [Errno 2] No such file or directory: '/proc/self/io'\n")
    assert read_metric(io, tmp_path) is None


def test_a_run_of_fewer_steps_is_another_answer(tmp_path):
    log = (OUTPUTS / "wrf" / "passing" / "rsl.out.0000").read_text()
    before, _, after = log.rpartition("Timing for main")
    (tmp_path / "rsl.out.0000").write_text(before.rpartition("Timing for main")[0] + after)
    minutes = next(answer for answer in WRF.answers if answer.name == "minutes")
    assert read_answer(minutes, tmp_path) == 38


# GPUs: no machine of ours has one; the lines are those of the sources


def required(check, gpus):
    """Return the answers that a check requires on nodes with these GPUs."""
    case = Namespace(num_gpus_per_node=gpus, answers=[])
    check.require_gpus(case)
    return case.answers


def test_gpus_that_gromacs_used_are_counted_and_must_be_used(tmp_path):
    (answer,) = required(GROMACSHybrid, 4)
    for line, count in (("1 GPU auto-selected", 1), ("4 GPUs user-selected", 4), ("2 GPUs selected", 2)):
        (tmp_path / "md.log").write_text(f"On host node1 {line} for this run.\nMapping of GPU IDs\n")
        assert read_answer(answer, tmp_path) == count
    with pytest.raises(UnreadableError, match="answer gpus not found"):
        read_answer(answer, OUTPUTS / "gromacs/passing")
    assert required(GROMACSHybrid, None) == []


def test_a_gpu_that_the_nodes_have_must_be_used_by_tensorflow(tmp_path):
    (tmp_path / "out").write_text("TensorFlow 2.21.0, Keras 3.15.1, GPU, 2 threads\n")
    ((answer,), (free,)) = required(TensorFlow, 1), required(TensorFlow, None)
    assert (read_answer(answer, tmp_path), answer.equals) == ("GPU", "GPU")
    # Without GPUs bare and container have to use the same device.
    assert (read_answer(free, OUTPUTS / "tensorflow_cnn/passing"), free.equals) == ("CPU", None)


# Builds that lack instructions


#: The line of TensorFlow 1.10, as D12.6 section 7.3 has it.
OLD_LINE = (
    "tensorflow/core/platform/cpu_feature_guard.cc:141] Your CPU supports instructions that this TensorFlow binary was "
    "not compiled to use: AVX2 AVX512F FMA\n"
)


def builds_of(tmp_path, **lines):
    """Return what runs say of their builds, by side; with a line in place of the saved one, which is on top."""
    saved = (OUTPUTS / "tensorflow_cnn/passing/err").read_text()
    for side, line in lines.items():
        (tmp_path / side).mkdir()
        (tmp_path / side / "out").write_text((OUTPUTS / "tensorflow_cnn/passing/out").read_text())
        (tmp_path / side / "err").write_text(saved if line is None else line)
    return builds.read(TensorFlow.identity, [run_of(side, side) for side in lines], tmp_path)


def test_a_container_whose_build_lacks_instructions_is_not_the_same_build(tmp_path):
    sides = builds_of(tmp_path, new=None, baseline="", subject=OLD_LINE)
    assert sides["new"]["instructions"] == f"{INSTRUCTIONS} AVX2 FMA"
    told = builds.difference(sides["baseline"], sides["subject"])
    assert told == "not the same build: 2.21.0 against 2.21.0 not compiled to use: AVX2 AVX512F FMA"
    assert builds.difference(sides["subject"], sides["subject"]) == ""


# Amber, which only sites have: a made output, line by line in the form of pmemd of Amber 16


def test_an_amber_without_the_times_of_its_ranks_exchange_has_the_other_metrics(tmp_path):
    without = changed("amber/passing", tmp_path, "|     DataDistrib      28.44   11.19\n", "", MDOUT)
    assert metrics(Amber, without, ranks=48) == {"rate": 3.4, "total": 257, "setup": 3}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # As older ones say it, and newer ones.
        (" 48 MPI task\n", " 1 nodes\n", "ran with 1 ranks instead of 48"),
        (" 48 MPI task\n", " 1 MPI task\n", "ran with 1 ranks instead of 48"),
        ("-12276.8499", "NaN", "is not finite"),
        ("-12276.8499", "*" * 14, "could not convert"),
        ("Average timings for all steps", "", "metric rate not found"),
    ],
)
def test_a_bad_run_of_amber_is_a_failure(tmp_path, old, new, said):
    (problem,) = problems(Amber, changed("amber/passing", tmp_path, old, new, MDOUT), ranks=48)
    assert said in problem


def test_ambers_threads_are_confirmed_where_there_is_more_than_one(tmp_path):
    cases = [Namespace(openmp=threads, answers=list(Amber.answers)) for threads in (1, 6)]
    for case in cases:
        Amber.choose_threads(case)
    assert cases[0].answers == [*Amber.answers]
    confirmed = cases[1].answers[-1]
    changed("amber/passing", tmp_path, "MPI task\n", "MPI task\n| Number of openmp threads per MPI task: 6\n", MDOUT)
    assert read_answer(confirmed, tmp_path) == "6"
    with pytest.raises(UnreadableError, match="answer threads not found"):
        read_answer(confirmed, OUTPUTS / "amber/passing")

"""The output of the program that starts containers."""

import importlib.util

from conftest import REPOSITORY
from saved import figures, problems
from startup import StartUp

#: The program has the name of the check's file, which is loaded already.
PATH = REPOSITORY / "checks" / "src" / "startup" / "startup.py"
SPECIFICATION = importlib.util.spec_from_file_location("startup_program", PATH)
program = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(program)


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


def status(name, whole, of_files, shared=0):
    return {"Name": name, "VmRSS": f"{whole} kB", "RssFile": f"{of_files} kB", "RssShmem": f"{shared} kB"}


def test_pages_of_files_count_once_for_all_processes_of_a_program():
    """Two containers of the same runtime: its program is in memory once."""
    runtimes = [status("podman", 40000, 30000, 100), status("podman", 42000, 30000, 100)]
    assert program.estimated_set_sizes([*runtimes, status("cat", 1800, 1500)]) == 9900 + 11900 + 30100 + 1800
    assert program.estimated_set_sizes([]) == 0


def test_processes_without_memory_hold_none_and_old_kernels_tell_one_size_only():
    ended = {"Name": "podman", "State": "Z (zombie)"}
    assert program.estimated_set_sizes([ended, {"Name": "sudo", "VmRSS": "5000 kB"}]) == 5000

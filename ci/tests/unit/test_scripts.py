"""The scripts below ``checks/src``: what each does on this machine, and what is an error or a skip."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from types import ModuleType

import pytest
from conftest import REPOSITORY, write_program
from containercheck import skip_unless
from containercheck.application.declare import skip_without_threads
from containercheck.job import architectures, contract
from containercheck.job.outputs import reasons
from isolation import PROTECTED, SHARED

SOURCES = REPOSITORY / "checks" / "src"


def loaded(name: str) -> ModuleType:
    """Return a script as a module of another name: the check's file, which is loaded already, may have the same."""
    spec = importlib.util.spec_from_file_location(f"{name}_program", SOURCES / name / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, *words, **facts):
    program = [sys.executable, SOURCES / name / f"{name}.py", *words]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, **facts)


# Start-up


def status(name, whole, of_files, shared=0):
    return {"Name": name, "VmRSS": f"{whole} kB", "RssFile": f"{of_files} kB", "RssShmem": f"{shared} kB"}


def test_pages_of_files_count_once_for_all_processes_of_a_program():
    """Two containers of the same runtime: its program is in memory once."""
    sizes = loaded("startup").estimated_set_sizes
    runtimes = [status("podman", 40000, 30000, 100), status("podman", 42000, 30000, 100)]
    assert sizes([*runtimes, status("cat", 1800, 1500)]) == 9900 + 11900 + 30100 + 1800
    # A process that ended holds none, and old kernels tell one size only.
    assert sizes([{"Name": "podman", "State": "Z (zombie)"}, {"Name": "sudo", "VmRSS": "5000 kB"}]) == 5000


# Two containers of a node


def test_two_shells_of_the_host_see_all_of_each_other_and_leave_nothing():
    done = run("isolation", "--", "sh")
    answers = dict(line.split(" ")[1:] for line in done.stdout.splitlines())
    expected = {**SHARED, "user": "same", "more_capabilities": "0", "namespaces": "none"}
    assert (done.stderr, {name: answers.pop(name) for name in expected}) == ("", expected)
    # How the root of this machine is mounted is its own affair.
    assert {*answers} == {*PROTECTED, "new_privileges", "seccomp"} and "unknown" not in answers.values()
    assert [name for place in ("/tmp", "/dev/shm") for name in os.listdir(place) if "containercheck_" in name] == []
    done = run("isolation", "--", "false")
    assert (done.stdout, done.stderr.partition("isolation.py: ")[2].strip()) == (
        "",
        "error: the first container did not start: exit status 1",
    )


def test_a_shell_alone_sees_nothing_of_another_one_and_not_itself():
    """A container that sees its own commands would report processes of the other one, whatever separates them."""
    words = ["sh", "-c", loaded("isolation").LOOK.format(mark="containercheck_alone")]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {"dev_shm no", "tmp no", "processes no"} <= {*printed}


@pytest.mark.parametrize(
    ("facts", "name", "answer"),
    [
        ({"uid": os.geteuid() + 1}, "user", "other"),
        ({"dev_shm": "no"}, "dev_shm", "no"),
        ({"ns_pid": "pid:[1]"}, "namespaces", "pid"),
        # Capabilities count where they are power over the node.
        ({"effective": "7"}, "more_capabilities", "2"),
        ({"effective": "7", "ns_user": "user:[1]"}, "more_capabilities", "0"),
        ({"root": "ro,nosuid,nodev,relatime"}, "setuid", "no"),
        ({"root": "rw,relatime"}, "setuid", "yes"),
        # No program gains privileges on the node, whatever the mount allows.
        ({"root": "rw,relatime", "ns_user": "user:[1]"}, "setuid", "no"),
        ({"root": "rw,relatime", "confined": "1"}, "setuid", "no"),
        ({"root": "rw,relatime"}, "devices", "yes"),
        ({"root": "ro,nodev"}, "devices", "no"),
        ({"root": "rw,nosuid,errors=remount-ro"}, "image", "writable"),
        ({"root": "ro,nosuid"}, "image", "readonly"),
        ({"confined": "1"}, "new_privileges", "no"),
        ({"seccomp": "2"}, "seccomp", "2"),
    ],
)
def test_each_difference_of_two_containers_is_seen(monkeypatch, facts, name, answer):
    program = loaded("isolation")
    monkeypatch.setattr(program, "own_capabilities", lambda: 0b001)
    own = {name: os.readlink(f"/proc/self/ns/{name}") for name in program.NAMESPACES}
    facts = {"dev_shm": "yes", "tmp": "yes", "processes": "yes", "uid": os.geteuid(), "effective": "0", **facts}
    with open("/proc/self/cgroup") as cgroup:
        lines = [f"cgroup {line}" for line in cgroup.read().splitlines()]
    lines += [f"namespace {name} {facts.pop(f'ns_{name}', identity)}" for name, identity in own.items()]
    assert program.answers([*lines, *(f"{name} {value}" for name, value in facts.items())])[name] == answer


# A program for a newer processor


HERE = architectures.KNOWN.get(platform.machine())


@pytest.mark.skipif(HERE is None, reason="no instruction is known")
def test_each_instruction_is_illegal_where_the_processor_lacks_it_and_the_newest_such_is_the_reason(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    program = loaded("newerprocessor")
    known, names = program.has(), [name for name, _ in HERE.instructions]
    texts = {name: program.program(HERE.elf, code + HERE.end) for name, code in HERE.instructions}
    assert {name: program.run(["sh"], text) for name, text in texts.items()} == {
        name: 0 if name in known else 132 for name in names
    }
    # One that no processor has comes last.
    assert (program.lacking(names, set(names[1:])), program.lacking(names, set())) == ("undefined", names[-1])
    words = [f"--elf={HERE.elf}", f"--end={HERE.end.hex()}"]
    words += [f"--instruction={name}={code.hex()}" for name, code in HERE.instructions]
    done = run("newerprocessor", *words, "--", "sh", cwd=tmp_path)
    assert done.returncode == 0 and "status 132\n" in done.stdout, done.stderr
    died = subprocess.run(["sh", "-c", f"./{program.NAME}"], cwd=tmp_path, capture_output=True, text=True)
    ended = died.returncode if died.returncode >= 0 else 128 - died.returncode
    assert "illegal instruction" in reasons.describe(ended, died.stderr, "")
    done = run("newerprocessor", *words, "--", "false", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and "the shell did not start: exit status 1" in done.stderr


# The files of an image


#: A container of sorts: a helper has worked, and is there until it is told to end; the program does its work.
HELPED = """
import subprocess, sys
work = "import time\\nwhile time.process_time() < 0.3: pass\\nprint(flush=True)\\ntime.sleep(60)"
helper = subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE)
helper.stdout.readline()
program = subprocess.run([sys.argv[1], "use"])
helper.kill()
sys.exit(program.returncode)
"""


def test_all_files_are_read_and_processor_time_beside_the_program_is_that_of_helpers(tmp_path):
    # As the build step and the job install it.
    installed = tmp_path / "bin" / "imagefiles"
    installed.parent.mkdir()
    installed.write_text((SOURCES / "imagefiles" / "imagefiles.py").read_text())
    installed.chmod(0o755)
    assert run("imagefiles", "make", tmp_path / "share" / "imagefiles").returncode == 0

    def helpers(done, cache):
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{cache}: ")]
        return float(line.split(" helpers ")[1].split()[0])

    measure = ("measure", "--copies", "2", "--cold", "nowhere", "--")
    done = run("imagefiles", *measure, installed, "use")
    assert done.stdout.splitlines()[-1] == "found: files 3000 bytes 16128000 content 16128000 sum 499500", done.stderr
    # Its own time is none of a helper's.
    assert helpers(done, "warm") == 0
    (tmp_path / "container.py").write_text(HELPED)
    done = run("imagefiles", *measure, sys.executable, tmp_path / "container.py", installed)
    # Two of them in each state of the cache: those that have ended, with nobody to wait for them, are not told again.
    assert 0.5 < helpers(done, "cold") < 1.0 and 0.5 < helpers(done, "warm") < 1.0, done.stderr
    write_program(tmp_path / "other", 'echo \'{"files": \'$$\', "bytes": 1, "content": 1, "sum": 1}\'\ncat')
    done = run("imagefiles", *measure, tmp_path / "other", "use")
    assert done.returncode == 1 and "imagefiles: error: the copies did not find the same" in done.stderr
    assert "Traceback" not in done.stderr


# The way of an image, from a registry to a start


def test_without_the_tools_of_the_way_the_check_is_skipped_with_the_reason(tmp_path):
    done = run("imagetransfer", "--look", env={"PATH": str(tmp_path)})
    assert done.returncode == contract.UNSUPPORTED
    assert done.stderr.startswith("error: no software: no docker-registry on the PATH of ")


def test_a_step_that_fails_and_a_registry_that_does_not_start_are_errors(tmp_path):
    program = loaded("imagetransfer")
    with pytest.raises(program.TransferError, match="sh ended with status 3: worse"):
        program.run("sh", "-c", "echo bad; echo worse; exit 3")
    with pytest.raises(program.TransferError, match="does not answer"), program.registry("false", tmp_path):
        pass


def test_the_tree_is_the_same_everywhere_and_half_of_it_compresses(tmp_path):
    program = loaded("imagetransfer")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        program.make_tree(tmp_path / name, 1, "mark")
    files = [sorted((tmp_path / name / "data").iterdir()) for name in ("one", "two")]
    assert [file.read_bytes() for file in files[0]] == [file.read_bytes() for file in files[1]]
    assert program.size_of(tmp_path / "one" / "data") == 1 << 20
    block = files[0][0].read_bytes()
    assert block[program.FILE // 2 :] == bytes(program.FILE // 2) and len(set(block[: program.FILE // 2])) == 256


# WRF's input, which is made in the tree that it was built in


IDEAL = """: completed vortex init
cp namelist.input wrfinput_d01
echo 'wrf: SUCCESS COMPLETE IDEAL INIT' >rsl.error.0000
"""
CASE = "test/em_tropical_cyclone"


@pytest.fixture
def tree(tmp_path):
    """Make a tree like the one that WRF is built in; its ideal.exe is a script."""
    tree = tmp_path / "wrf"
    for directory in (tree / CASE, tree / "run", tree / "main", tmp_path / "work"):
        directory.mkdir(parents=True)
    (tree / CASE / "input_sounding").write_text("sounding\n")
    (tree / "run" / "LANDUSE.TBL").write_text("table\n")
    write_program(tree / "main" / "wrf.exe", "")
    write_program(tree / "main" / "ideal.exe", IDEAL)
    (tree / CASE / "ideal.exe").symlink_to("../../main/ideal.exe")
    return tree


def prepared(tree):
    """Make the input; the program is a link into the tree, as in a view."""
    work = tree.parent / "work"
    (work / "namelist.input").write_text("namelist\n")
    (work / "wrf.exe").symlink_to(tree / "main" / "wrf.exe")
    words = ["sh", SOURCES / "wrf" / "prepare", "./wrf.exe"]
    done = subprocess.run(words, cwd=work, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_the_input_is_made_with_what_is_in_the_programs_tree(tree):
    assert prepared(tree) == (0, "")
    found = {name: (tree.parent / "work" / name).read_text() for name in ("wrfinput_d01", "LANDUSE.TBL")}
    assert found == {"wrfinput_d01": "namelist\n", "LANDUSE.TBL": "table\n"}


@pytest.mark.parametrize("lacking", [f"{CASE}/ideal.exe", "run/LANDUSE.TBL"])
def test_a_tree_of_another_case_is_a_reason_for_a_skip(tree, lacking):
    (tree / lacking).unlink()
    said = f"error: no software: there is no {tree}/{lacking}: build WRF in that tree for em_tropical_cyclone\n"
    assert prepared(tree) == (contract.UNSUPPORTED, said)


@pytest.mark.parametrize(
    ("ideal", "status", "said"),
    [
        (": hill\n", contract.UNSUPPORTED, "error: no software: {tree}/{case}/ideal.exe is that of another case\n"),
        # An input that is not made is an error, with the log.
        (": completed vortex init\necho 'FATAL CALLED' >rsl.error.0000\n", 1, "FATAL CALLED\n"),
    ],
)
def test_an_ideal_that_makes_no_input_is_told(tree, ideal, status, said):
    write_program(tree / "main" / "ideal.exe", ideal)
    assert prepared(tree) == (status, said.format(tree=tree, case=CASE))


# Commands that skip a check on a node


@pytest.mark.parametrize(("page", "status"), [(4096, 0), (65536, contract.UNSUPPORTED)])
def test_a_test_of_the_node_skips_with_a_reason(page, status, tmp_path):
    """As IOzone with mmap on POWER, whose pages have 64 KiB: it would flush nothing."""
    write_program(tmp_path / "getconf", f"[ $1 = PAGESIZE ] && echo {page}")
    command = skip_unless("[ $(getconf PAGESIZE) -le 4096 ]", "less than a page: $(getconf PAGESIZE) bytes")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", command], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, "error: less than a page: 65536 bytes\n" if status else "")


@pytest.mark.parametrize(
    ("options", "status"), [(["-fopenmp"], 0), ([], contract.UNSUPPORTED)], ids=["with", "without"]
)
def test_a_program_without_threads_is_skipped_with_the_reason(options, status, tmp_path):
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text("int main(void) {\n#pragma omp parallel\n;\nreturn 0; }\n")
    subprocess.run(["cc", *options, "-o", program, source], check=True)
    result = subprocess.run(["sh", "-c", skip_without_threads(str(program))], capture_output=True, text=True)
    reason = f"error: no threads: {program} is linked with no OpenMP: name a build with it\n"
    assert (result.returncode, result.stderr) == (status, reason if status else "")

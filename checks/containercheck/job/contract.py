"""Hold the names that ReFrame's process, the build step and the job share: files, statuses, variables, sides.

The first ones are the directories of the project, for a checkout and for an installed package. Standard library only,
Python 3.6 or newer.
"""

from pathlib import Path

#: Directory of the package.
PACKAGE = Path(__file__).resolve().parents[1]
#: Whether the package is installed from a wheel, which contains the project's files; false in a checkout.
IS_INSTALLED = (PACKAGE / "project").is_dir()
#: Directory with ``checks``, ``config``, ``images``, ``spack-envs`` and ``easyconfigs``.
ROOT = PACKAGE / "project" if IS_INSTALLED else PACKAGE.parents[1]
#: Directory of the application files, their sources and references.
CHECKS = ROOT / "checks"
#: Directory of the definition files of images.
RECIPES = ROOT / "images"
#: Configuration of ReFrame for all sites.
COMMON = ROOT / "config" / "common.py"

#: Names of the side that is compared with, and of the judged side.
BASELINE, SUBJECT = "baseline", "subject"

#: Usual seconds without disturbance before the first round.
QUIET = 1.0
#: File in the stage directory with the exit status of the build; missing if the build was ended early.
BUILD_STATUS = "build.status"
#: Exit status of a build, or of the script that makes the input, if the software does not exist for the partition's
#: machines. The check is then skipped.
UNSUPPORTED = 3
#: File in the stage directory with the reason, if the job finds that the check cannot run on this node.
UNSUPPORTED_WHY = "unsupported.txt"
#: File in the stage directory of a job if its containers, or the input, could not be prepared.
UNPREPARED = "unprepared"
#: Variable that makes the programs of the build step use only their caches, and build nothing.
CACHED_ONLY = "CONTAINERCHECK_CACHED_ONLY"
#: Variable with the identity of a session of ReFrame, in its build steps.
SESSION = "CONTAINERCHECK_SESSION"
#: Users and groups with trusted files in caches, besides the user and root: names or numbers, separated by commas; a
#: group has an ``@`` before it.
CACHE_OWNERS = "CONTAINERCHECK_CACHE_OWNERS"
#: Values of the option ``images_only`` of a session, which runs nothing: list the images of a check, or build them.
LIST_IMAGES, BUILD_IMAGES = "list", "build"
#: Key of the provenance in such a session: programs of the build step, with their arguments; registry and key.
IMAGES = "images"
#: Programs of the build step that provide images, and the one that converts an image for another kind of runtime.
IMAGE, PULL, READY = IMAGE_PROGRAMS = ("image", "pull", "ready")
CONVERT = "convert"
#: Reason of the skip of a case in such a session.
NOTHING_RUN = "only its images were wanted (images_only)"
#: Record of an image, which the build step writes next to the link to the image: path, SHA-256 and size in bytes. JSON.
#: For an image that the runtime stores itself: its name, the digest in the name, and the runtime's ``id``. For a
#: converted image also its original, ``source``.
IMAGE_RECORD = "image.json"

#: File in the stage directory with a container runtime's identifier of an image that it stores itself.
IMAGE_ID = "image.id"

#: Link to an installed Spack environment, the view in it, and the record that the build step writes next to the link:
#: its ``specs``, and the SHA-256 of its ``lock``. JSON.
SPACK, SPACK_VIEW, SPACK_RECORD = "spack", ".spack-env/view", "spack.json"
#: Link to an installation of EasyBuild, and the record that the build step writes next to the link: its ``module``, and
#: name and SHA-256 of its ``easyconfig``. JSON. In the installation: its modules, and a link to its dependencies.
EASYBUILD, EASYBUILD_RECORD = "easybuild", "easybuild.json"
EASYBUILD_MODULES, EASYBUILD_DEPENDENCIES = "modules/all", "dependencies"

#: File in the stage directory with the facts by which the job reads runs: metrics, answers, ranks. JSON.
FACTS = "facts.json"
#: File in the stage directory with the job's record of all runs, JSON; and directory with the output of the runs.
RECORD, RUNS = "rounds.json", "rounds"
#: Directory with a working directory for each side, if both run at the same time (job/runner.py).
DUET = "duet"
#: Directories with the samples of each node during the runs, and with the trial starts of the ranks.
WATCH, TRIALS = "watch", "trials"
#: Files in a run's directory with its standard output and its standard error.
OUT, ERR = "out", "err"
#: The script of the run.
SCRIPT = "run.sh"
#: File with the energy of a run, if that is measured.
ENERGY = "node-energy"
#: The job script, by ReFrame's name; and the script that repeats a single run of a side.
JOB, REPRODUCER = "rfm_job.sh", "reproduce.sh"
#: Comment in the job script before the command that runs the sides.
RUNS_FOLLOW = f"# The sides run in rounds, each run by a script of its own, {RUNS}/ROUND-SIDE/{SCRIPT}:"
#: Beginning of the names of directories with images that were unpacked for remedies.
UNPACKED = "image.unpacked"
#: Variable in the environment of all processes that a job starts, and label of its containers. It identifies processes
#: of the job that a daemon starts.
RUN = "CONTAINERCHECK_RUN"
#: Variable with the words that start a command once on each node of a job that Slurm does not know.
EACH_NODE = "CONTAINERCHECK_EACH_NODE"
#: Variable of Open MPI with the names of the variables that it hands on to other nodes, separated by semicolons.
MPIRUN_HANDS_ON = "OMPI_MCA_mca_base_env_list"
#: File with the key for the fingerprints of variables; the job removes it.
KEY = "variables.key"
#: Most bytes that a run may print and write into its kept files, together; a run that exceeds it is ended. The longest
#: output of the checks has about 200 KiB.
MOST_PRINTED = 256 << 20
#: Message about a run that exceeded it.
PRINTED_TOO_MUCH = f"ended because it printed more than {MOST_PRINTED >> 20} MiB"
#: Script that prints the environment of a process, in a container too.
OBSERVE = "observe.sh"
#: Script that makes the input.
PREPARE = "prepare.sh"
#: File in the stage directory with the commands of all sides, with slots for words that only the node knows
#: (job/launch.py). JSON.
COMMANDS = "commands.json"
#: Names of these commands: a run of the side, and the same by the image's own launcher; the ranks alone, in both ways;
#: a check that the image has the program that starts them; and the command that prints the side's observation.
RUN_SIDE, RUN_INSIDE, START_RANKS, START_INSIDE = "run", "run-inside", "ranks", "ranks-inside"
LOOK_UP, OBSERVE_SIDE = "look-up", "observe"
#: Names of the commands of its preparation: unpack the image, make its mount points, look for a program, ask the loader
#: about the host's MPI. The last prints the environment of one process in the container, without a launcher.
UNPACK, MOUNT_POINTS, REQUIRE = "unpack", "mount-points", "require"
PREFLIGHT, SURROUNDINGS = "preflight", "surroundings"

#: Script that binds a rank of one of several simultaneous programs, and file with the node's cores in their order, for
#: it.
BIND, CORES = "bind.sh", "cores.txt"
#: Directory in the stage directory with DLB's library for MPI programs and the OpenMP runtime that it works with.
DLB = "dlb"

#: Library that measures the time in MPI, the file that it writes, and the variable with the path of that file.
MPI_TIMES_LIBRARY, MPI_TIMES, MPI_TIMES_PATH = "mpitimes.so", "mpi-times.txt", "CONTAINERCHECK_MPI_TIMES"

#: End of the name of a program with a statically linked MPI.
STATIC = "-static"

#: Directories of the first round of each side, in the directory of a run; the report draws from them.
FIRST_ROUND = f"{RUNS}/01-*"

#: Kinds of work that a metric can measure: arithmetic of the cores, memory, messages between ranks of a node and over
#: the network, files, and the start of programs.
MEASURED = ("computing", "memory", "messages", "network", "files", "start")

#: Value of the axis ``platform`` for the partition's own container runtime, and the name of this axis.
FIRST_PLATFORM, PLATFORM = "first", "platform"
#: Beginnings of the paths of fabrics' devices: InfiniBand, Omni-Path, Slingshot.
FABRICS = ("/dev/infiniband/", "/dev/hfi1", "/dev/cxi")

#: Directory in a container on which ReFrame mounts the stage directory.
WORKDIR = "/rfm_workdir"
#: Link to the host's MPI library: in the stage directory for the host, in a side's ``mpi_links`` for the container.
MPI_PRELOAD = "libmpi-of-host.so"
#: Beginning of the line, instead of the loader's answer, about a program that is a script; its path follows.
IS_SCRIPT = "script:"
#: Directory of links for a bare program that was built with another MPI library of the same ABI.
BARE_MPI_LINKS = "bare-mpi"


def mpi_times_file(program):
    """Return the name of the file with the time in MPI of one of several simultaneous programs."""
    return MPI_TIMES.replace(".", f"-{program}.")


def variables_file(side):
    """Return the name of the file with the variables that a side's image sets."""
    return f"{side}.variables"


def launch_file(side):
    """Return the name of the file with the words for a side's commands on this node (job/launch.py). JSON."""
    return f"{side}.launch.json"


def runtime_file(side):
    """Return the name of the file with the command and version of a side's container runtime. JSON."""
    return f"{side}.runtime.json"


def image_file(side):
    """Return the name of the link to a side's own image; the image's record has the same name with ``.json``."""
    return f"{side}.image.sif"


def image_name_file(link):
    """Return the name of the file with the name of a converted image in a runtime's storage.

    :param link: name of the link to the archive of the image.
    """
    return link.rpartition(".")[0] + ".name"


def surroundings_file(side):
    """Return the name of the file with the environment of a process in a side's container, without a launcher. JSON."""
    return f"{side}.surroundings"


def observing_directory(side):
    """Return the name of the directory in which the observed ranks of a side wait for each other."""
    return f"{side}.observing"


def observed_file(side):
    """Return the name of the file with a side's observation before the rounds. JSON."""
    return f"{side}.observed.json"


def environment_file(side):
    """Return the name of the script with a side's secret variables; only its owner can read it."""
    return f"{side}.environ.sh"


def started_file(side):
    """Return the name of the file with the way in which a side's ranks are started. JSON."""
    return f"{side}.started.json"


def lost_file(side):
    """Return the name of the file with the reason why a side cannot run; the others run without it."""
    return f"{side}.lost"


def mpi_plan_file(side):
    """Return the name of the file that lists the parts of the host's MPI in a side's container. JSON."""
    return f"{side}.host-mpi.json"


def mpi_links(side):
    """Return the name of the directory of links that comes first in the LD_LIBRARY_PATH of a side's container."""
    return f"{side}.host-mpi"


def mpi_entry_file(side):
    """Return the name of the script that runs a command in a side's container with the host's MPI."""
    return f"{side}.host-mpi.sh"


def mpi_lookup_file(side):
    """Return the name of the script that asks the loader in a side's container about the program."""
    return f"{side}.preflight.sh"


def preflight_file(side):
    """Return the name of the file with the loader's answer about the program in a side's container."""
    return f"{side}.preflight.out"


def names(disturbers):
    """Return the names of the disturbers of rounds, each once; the text of a round is ``name (pid): share; ...``."""
    shares = [share for disturber in disturbers for share in disturber.split("; ")]
    return ", ".join(dict.fromkeys(share.rpartition(": ")[0] or share for share in shares))


def work_directory() -> Path:
    """Return the directory in which sessions run and leave their files.

    This is the checkout, from any current directory. An installed package is never written to, so it is then the
    current directory. ``config/common.py``, which cannot import this module, uses the same rule.
    """
    return Path.cwd() if IS_INSTALLED else ROOT

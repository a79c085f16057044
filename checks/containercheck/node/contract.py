"""What ReFrame's side, the build step and the job agree upon: names of files, exit statuses, sides.

Standard library only, Python 3.6 or newer.
"""

#: The side that is the measure, and the one that is judged.
BASELINE, SUBJECT = "baseline", "subject"

#: File in the stage directory with the exit status of the build; none where it was ended before.
BUILD_STATUS = "build.status"
#: That status where the software does not exist for machines like the partition's; the check is then skipped. The
#: script that makes the input may end with it too.
UNSUPPORTED = 3
#: File in the stage directory with the reason, where it is found in the job that the check cannot run on this node.
UNSUPPORTED_WHY = "unsupported.txt"
#: Variable that lets the programs of the build step take what is in a cache, and build nothing.
CACHED_ONLY = "CONTAINERCHECK_CACHED_ONLY"
#: Variable with the users and groups whose files in caches are used, besides one's own and root's: names or numbers,
#: with commas between them, of groups with an ``@`` before them.
CACHE_OWNERS = "CONTAINERCHECK_CACHE_OWNERS"
#: What the build step says of an image: its path, SHA-256 and size in bytes. JSON, beside the link to it. Of one that
#: the runtime keeps itself: its name, the digest in that, and ``id``, what the runtime calls it.
IMAGE_RECORD = "image.json"

#: File in the stage directory with what a container runtime calls an image that it keeps itself.
IMAGE_ID = "image.id"

#: Link to an installed environment of Spack, its view in there, and what the build step says of it: its ``specs``, and
#: the SHA-256 of its ``lock``. JSON, beside the link.
SPACK, SPACK_VIEW, SPACK_RECORD = "spack", ".spack-env/view", "spack.json"
#: Link to what EasyBuild installed, and what the build step says of it: its ``module``, and name and SHA-256 of its
#: ``easyconfig``. JSON, beside the link. In there: its modules, and a link to the tree of what it depends on.
EASYBUILD, EASYBUILD_RECORD = "easybuild", "easybuild.json"
EASYBUILD_MODULES, EASYBUILD_DEPENDENCIES = "modules/all", "dependencies"

#: The facts that the runner reads runs by: figures, answers, ranks. JSON, in the stage directory.
FACTS = "facts.json"
#: What the runner says of all runs. JSON, in the stage directory; and the directory of what the runs printed.
RECORD, RUNS = "rounds.json", "rounds"
#: Directory with a working directory for each side, where both run at the same time (node/job/halves.py).
DUET = "duet"
#: Directory of what the watch on each node saw; and of what the ranks said that were started before the rounds.
WATCH, TRIALS = "watch", "trials"
#: Files in a run's directory with what it printed on standard output and on standard error.
OUT, ERR = "out", "err"
#: The job's script, as ReFrame calls it; and one that repeats a single run of a side by itself.
JOB, REPRODUCER = "rfm_job.sh", "reproduce.sh"
#: Variable of all that a runner starts, and label of its containers: what a daemon starts for it is known by that.
RUN = "CONTAINERCHECK_RUN"
#: File with the key that the fingerprints of variables are made with; the job removes it.
KEY = "variables.key"
#: Bytes that a run may print, and write into the files that are kept of it, in all; it is ended when it exceeds that.
#: The longest output of the checks is some 200 KiB.
MOST_PRINTED = 256 << 20
#: What is said of a run that printed more.
PRINTED_TOO_MUCH = f"ended because it printed more than {MOST_PRINTED >> 20} MiB"
#: Name of the script that makes the input.
PREPARE = "prepare.sh"

#: Where ReFrame mounts the stage directory in a container.
WORKDIR = "/rfm_workdir"
#: Link to the host's MPI library: in the stage directory for the host, and in a side's mpi_links for the container.
MPI_PRELOAD = "libmpi-of-host.so"
#: Begins the line with which the loader's answer says that a program is a script; the program's path follows.
IS_SCRIPT = "script:"
#: Directory of links for a bare program that was built with another MPI of the same ABI.
BARE_MPI_LINKS = "bare-mpi"


def end_word(text, word="END"):
    """Return what a here-document with a text may end with: a word that no line of it is.

    >>> end_word("one\nEND\n")
    'END_'
    """
    lines = text.splitlines()
    while word in lines:
        word += "_"
    return word


def options_file(side):
    """Return the name of the file with the options that a side's container runtime needs on this node."""
    return f"{side}.options"


def runtime_file(side):
    """Return the name of the file with what a side's container runtime says of itself. JSON."""
    return f"{side}.runtime.json"


def image_file(side):
    """Return the name of the link to the image of a side that has one of its own; its record ends with ``.json``."""
    return f"{side}.image.sif"


def surroundings_file(side):
    """Return the name of the file with what a side's container sees around it: variables, mounts, limits."""
    return f"{side}.surroundings"


def environment_file(side):
    """Return the name of the file with a side's variables whose values are not told: a script, for its owner only."""
    return f"{side}.environ.sh"


def script_file(side):
    """Return the name of the script that runs a side."""
    return f"{side}.sh"


def start_file(side):
    """Return the name of the file with the words between a side's launcher and its container runtime."""
    return f"{side}.start"


def ranks_file(side):
    """Return the name of the script that starts a side's ranks once, and nothing of the application."""
    return f"{side}.ranks.sh"


def lookup_file(side):
    """Return the name of the script that tells whether a side's image has the program for that."""
    return f"{side}.lookup.sh"


def inside_file(script):
    """Return the name of the script that does the same with the image's own launcher, inside one container."""
    return script[: -len(".sh")] + ".inside.sh"


def started_file(side):
    """Return the name of the file that says how a side's ranks are started. JSON."""
    return f"{side}.started.json"


def mpi_plan_file(side):
    """Return the name of the file that says what of the host's MPI is brought into a side's container. JSON."""
    return f"{side}.host-mpi.json"


def mpi_links(side):
    """Return the name of the directory of links that stands first in the LD_LIBRARY_PATH of a side's container."""
    return f"{side}.host-mpi"


def mpi_entry_file(side):
    """Return the name of the script that runs a command in a side's container with the host's MPI."""
    return f"{side}.host-mpi.sh"


def mpi_options_file(side):
    """Return the name of the file with the options that bring the host's MPI into a side's container."""
    return f"{side}.host-mpi.options"


def mpi_lookup_file(side):
    """Return the name of the script that asks the loader in a side's container about the program."""
    return f"{side}.preflight.sh"


def preflight_file(side):
    """Return the name of the file with what the loader in a side's container says of the program."""
    return f"{side}.preflight.out"


def names(disturbers):
    """Return the disturbers of several rounds (``name (pid): share; ...`` each) as a text, each process once."""
    found = [one.rpartition(": ")[0] or one for disturber in disturbers for one in disturber.split("; ")]
    return ", ".join(dict.fromkeys(found))

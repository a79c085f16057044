"""Describe the known container runtimes, a row each, with their values in ``runtimes.ini``; no other file names one.

To add a runtime, write its section there. The defaults fit most runtimes.

Standard library only, Python 3.6 or newer: programs of the build step and of the job read the table too.
"""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, NamedTuple, Optional, Tuple

from containercheck.job import texts

#: Scheme of the addresses of images in a registry, for any program that pulls them.
REGISTRY_SCHEME = "docker"
#: Directory in an image, as a file or unpacked, with the description of its build.
METADATA = ".singularity.d"
#: Scripts of Apptainer and Singularity in each of their images.
IMAGE_SCRIPT = re.compile(r"/(01-base|10-docker2singularity|94-appsbase|95-apps|99-base|99-runtimevars)\.sh$")
#: Forms of images: a SIF file, an OCI image in the runtime's own storage, a directory, a file with only a SquashFS file
#: system.
SIF, OCI, TREE, SQUASHFS = "sif", "oci", "tree", "sqsh"
#: Sign between the command of a runtime and its way to run images: ``apptainer+unpacked``.
WAY = "+"
#: Command that writes the files of an image as an archive, without the runtime's binds. It skips unreadable files if
#: its tar can (BusyBox's cannot).
ARCHIVE = (
    "cd / && tar -cf - $(tar --help 2>&1 | grep -o -m 1 -e --ignore-failed-read) "
    f"$(ls -d {METADATA} bin etc lib* opt sbin srv usr var 2>/dev/null)"
)


#: Script that hands the environment on to a container, in the stage directory.
HAND_ON_SCRIPT = "hand-on.sh"
#: Its text, for an engine that hands on only variables given by name (docker run reference, "--env"). Each rank has its
#: own names. The image's variables outrank the host's, PATH among them.
HAND_ON = Path(__file__).with_name("hand-on.sh").read_text(encoding="utf-8")

#: Network of a container that shares the host's.
HOST_NETWORK = "host"
#: Network of a container on one node that does not share the host's: the runtime's default.
NODE_NETWORK = "bridge"
#: Script that starts ranks in containers with their own network, in the stage directory.
OWN_NETWORK_SCRIPT = "own-network.sh"
#: Its text. Each node has one container, and the containers share only a network; the image's Open MPI starts the ranks
#: (D12.6 section 6.4.2, with Docker's overlay network). Files in the shared working directory start its daemons: few
#: images have an ssh server, and Open MPI accepts any agent (mpirun(1), plm_rsh_agent).
OWN_NETWORK = Path(__file__).with_name("own-network.sh").read_text(encoding="utf-8")


class Storage(NamedTuple):
    """Describe a runtime's own storage of images.

    - ``look``: words that print the runtime's identifier of an image, before the image's name; with ``lists_digests``,
      they print the digests of all its images.
    - ``pull``: words that get an image, before its name.
    - ``name``: the name of a registry's image in both.
    - ``run``: the image to run, in the words of a job's script: ``{name}``, or ``{identifier}`` from the build step.
    - ``per_node``: whether each node has its own images.
    - ``load``: words that read an archive (``{archive}``) written by ``docker save``; empty if images come from a
      registry only.
    """

    look: Tuple[str, ...]
    pull: Tuple[str, ...]
    name: str = "{name}"
    run: str = "{name}"
    lists_digests: bool = False
    per_node: bool = False
    load: Tuple[str, ...] = ()


class Way(NamedTuple):
    """Describe one of several ways in which a runtime runs images; the usual way has no name.

    ``form`` is the form of its images. With ``own_network``, a node has one container with its own network, in which
    the image's launcher starts the ranks (:data:`OWN_NETWORK`). ``requirement`` describes the needs of this way.
    """

    name: str = ""
    form: str = SIF
    own_network: bool = False
    requirement: str = ""


class Runtime(NamedTuple):
    """Describe a container runtime.

    Names: ``name`` is used by ReFrame and the site file, ``command`` is typed, and ``answer`` matches its output with
    the words ``version``. The file name is not enough: a site may have ``apptainer-1.4``, or a wrapper.

    Words that run a program:

    - ``launch``: words after the command. ``bind``: binds a directory. ``gpus`` and
      ``amd_gpus``: let the container see the node's GPUs of NVIDIA, and of AMD.
    - ``variable``: words before the name of a variable to hand on, for runtimes that do not hand on the environment.
      ``environment``: words that hand on all of it, with the launcher's variables for its ranks.
    - ``variables``: words that print the variables of an image, before its name. ``variable_file``: option for a file
      with them; they outrank the host's.
    - ``label``: marks a container of this library.
    - ``same_user``: keeps the number of a user other than root. ``user_of_root`` does this for an engine that root runs
      for users; such an engine prints ``false`` after ``rootless``. ``one_node_without_root``: whether another engine
      prints ``true`` there, and has a host network that no other node reaches.
    - ``contain``: disables default binds: the working directory, the host's /var/tmp.
    - ``mount_points``: lets the runtime make the directories in the image that binds need.
    - ``user_namespace``: lets root without all capabilities run images. ``shared_namespace`` puts the ranks of a node
      into one user namespace, if the output of ``help`` has it. ``joined`` does so for ``{ranks}`` processes of one
      launcher, and for no other process.
    - ``own_library_path``: whether the runtime sets ``LD_LIBRARY_PATH`` in containers itself.

    Start of containers:

    - ``alone``: words that start one process, for a container that is an option of the launcher instead of a word
      before the program; the launcher's help must then have ``required_option``.
    - ``before``: words before the command, which call :data:`HAND_ON`; empty for none.
    - ``starts_containers``: whether the command starts the container itself, so that all its processes are descendants.
    - ``is_engine``: whether a container may outlive its command, and is found by its label.
    - ``daemons``: names of the processes that then serve containers; the kernel keeps 15 characters.

    Images: ``form`` is one of :data:`SIF`, :data:`OCI`, :data:`TREE`, :data:`SQUASHFS`. ``storage`` describes the
    runtime's own storage, None for files and directories. ``builds`` is true if it builds images from a definition
    file; the variable ``build_directory`` sets the directory. ``ways`` are other ways to run images, and ``way`` is the
    chosen one.

    Settings: ``configuration`` are the words that print the path of the configuration file, and ``settings`` is the
    prefix of its variables.

    Output of failed runs (job/outputs/reasons.py): ``follow_ups`` after another process failed, ``causes``, and
    ``noise``.
    """

    name: str
    command: str
    answer: str
    launch: Tuple[str, ...]
    bind: str
    version: Tuple[str, ...] = ("--version",)
    gpus: str = ""
    amd_gpus: str = ""
    variable: Tuple[str, ...] = ()
    environment: Tuple[str, ...] = ()
    variables: Tuple[str, ...] = ()
    variable_file: str = ""
    label: str = ""
    same_user: str = ""
    rootless: Tuple[str, ...] = ()
    user_of_root: str = ""
    one_node_without_root: bool = False
    contain: str = ""
    mount_points: str = ""
    help: Tuple[str, ...] = ()
    user_namespace: str = ""
    shared_namespace: str = ""
    joined: str = ""
    own_library_path: bool = False
    alone: str = ""
    required_option: str = ""
    before: Tuple[str, ...] = ()
    starts_containers: bool = False
    is_engine: bool = False
    daemons: Tuple[str, ...] = ()
    form: str = SIF
    storage: Optional[Storage] = None
    builds: bool = False
    build_directory: str = ""
    ways: Tuple[Way, ...] = ()
    way: Way = Way()
    configuration: Tuple[str, ...] = ()
    settings: str = ""
    follow_ups: Tuple[str, ...] = ()
    causes: Tuple[str, ...] = ()
    noise: Tuple[str, ...] = ()

    def in_way(self, way: str) -> "Runtime":
        """Return the runtime with one of its ways to run images; an empty name is its usual one.

        :raises KeyError: it has no such way.
        """
        if not way:
            return self
        known = {each.name: each for each in self.ways}[way]
        return self._replace(way=known, form=known.form, builds=self.builds and known.form == self.form)

    @property
    def title(self) -> str:
        """Readable name, with the way to run images unless it is the usual one."""
        return WAY.join(filter(None, (self.command, self.way.name)))

    def gpu_words(self, arch: str) -> str:
        """Return the options that let a container see GPUs.

        :param arch: their architecture in the site file, such as ``sm_70`` of NVIDIA or ``gfx90a`` of AMD.
        """
        return self.amd_gpus if arch.startswith("gfx") else self.gpus

    def bind_words(self, binds: Iterable[Tuple[str, str]]) -> Tuple[str, ...]:
        """Return the options, quoted, that bind sources of the host at targets in the container."""
        return tuple(shlex.quote(self.bind.format(source=source, target=target)) for source, target in binds)

    def command_line(
        self,
        program: str,
        image: str,
        binds: Iterable[Tuple[str, str]],
        workdir: str,
        options: Iterable[str] = (),
        gpus: str = "",
        command: str = "",
        network: str = HOST_NETWORK,
    ) -> str:
        """Return the command that runs a program in an image, as a line of a shell script.

        If the container is an option of the launcher, the launcher must come before it.

        :param program: with its options, quoted.
        :param image: quoted.
        :param binds: sources of the host and their targets in the container.
        :param workdir: of the program, in the container.
        :param options: more options, quoted.
        :param gpus: options that let the container see the node's GPUs.
        :param command: command of the runtime; by default its usual one.
        :param network: the network of the container, by its name in the runtime, for a row that chooses one.
        """
        values = {
            "network": shlex.quote(network),
            "binds": " ".join(self.bind_words(binds)),
            "gpus": gpus,
            "workdir": workdir,
            "options": " ".join(options),
            "image": image,
            "program": program,
        }
        typed = [] if self.alone else [*self.before, shlex.quote(command or self.command)]
        words = [*typed, *(word.format(**values) for word in self.launch)]
        return " ".join(filter(None, words))


_TABLE = texts.table(Path(__file__).with_name("runtimes.ini"))


def _value(kind: Any, field: str, text: str) -> Any:
    """Return a field of a row from its text: the text, whether it is ``yes``, or its lines."""
    expected = kind.__annotations__[field]
    if expected is bool:
        return text == "yes"
    return text if expected is str else tuple(text.strip().splitlines())


def _fields(kind: Any, title: str) -> Dict[str, Any]:
    """Return the fields in a section, and in the section that it is like."""
    section = dict(_TABLE[title])
    like = section.pop("like", "")
    own = {field: _value(kind, field, text) for field, text in section.items()}
    return {**(_fields(kind, like) if like else {}), **own}


def _runtime(name: str) -> Runtime:
    """Return the row of a runtime."""
    fields = _fields(Runtime, name)
    fields["ways"] = tuple(Way(way, **_fields(Way, f"way {way}")) for way in fields.get("ways", ()))
    if f"{name} storage" in _TABLE:
        fields["storage"] = Storage(**_fields(Storage, f"{name} storage"))
    return Runtime(name, **fields)


#: All runtimes, in order of preference if a site names none.
RUNTIMES = tuple(_runtime(name) for name in _TABLE.sections() if " " not in name)

#: A runtime without a row, in the job: nothing is known about it.
UNKNOWN = Runtime("", "", "", (), "")


def by_name(name: str) -> Runtime:
    """Return the runtime with this name in ReFrame and the site file.

    :raises KeyError: there is none.
    """
    return {runtime.name: runtime for runtime in RUNTIMES}[name]


def by_command(command: str) -> Runtime:
    """Return the runtime with this command, a name or a path; :data:`UNKNOWN` if no row has it."""
    return next((runtime for runtime in RUNTIMES if runtime.command == Path(command).name), UNKNOWN)


def on_path() -> Iterator[Runtime]:
    """Yield the runtimes with a command on the PATH, in order; those that are a launcher's option are left out."""
    return (runtime for runtime in RUNTIMES if not runtime.alone and shutil.which(runtime.command))


def with_way(word: str) -> Tuple[str, str]:
    """Return the command in a word, and its way to run images; the way is empty if the word has none.

    Only runtimes with ways can have a suffix: names of files and modules may contain the sign.

    >>> with_way("/usr/bin/apptainer+unpacked"), with_way("gcc+cuda"), with_way("podman")
    (('/usr/bin/apptainer', 'unpacked'), ('gcc+cuda', ''), ('podman', ''))
    """
    command, sign, way = word.rpartition(WAY)
    return (command, way) if sign and by_command(command).ways else (word, "")


def chosen(word: str) -> Runtime:
    """Return the runtime of a word with a command, in the named way; :data:`UNKNOWN` for none.

    :raises ValueError: the runtime has no such way; the message lists its ways.
    """
    command, way = with_way(word)
    runtime = by_command(command)
    try:
        return runtime.in_way(way)
    except KeyError:
        names = ", ".join(known.name for known in runtime.ways)
        raise ValueError(f"{command} has no way {way} to run images: after the {WAY}, write one of {names}") from None


def recognized(command: str, answer: str) -> Runtime:
    """Return the runtime that printed this version; by its command if no row knows the text.

    >>> recognized("/opt/bin/run-image", "INFO: of the centre\\nsingularity-ce version 4.1.0-focal").name
    'Singularity'
    >>> [recognized(command, "1.6.4").name for command in ("/usr/bin/sarus", "run-image")]
    ['Sarus', '']
    """
    known = (runtime for runtime in RUNTIMES if runtime.answer and re.search(runtime.answer, answer, re.MULTILINE))
    return next(known, None) or by_command(command)

"""The container runtimes that the library knows: a row each, and no other file names one.

To add a runtime, write its row and put it into :data:`RUNTIMES`. What a row leaves out is as most runtimes have it.

Standard library only, Python 3.6 or newer: programs of the build step and of the job read the table too.
"""

import re
import shlex
import shutil
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple, Optional, Tuple

#: Scheme of the addresses of images in a registry, whatever pulls them, and the registry that none of them names.
REGISTRY_SCHEME, DEFAULT_REGISTRY = "docker", "docker.io"
#: Directory in an image, as a file or unpacked, with what says how it was made.
METADATA = ".singularity.d"
#: Forms of images that runtimes run: a SIF file, an OCI image in a storage of the runtime's own, a directory, a file
#: with nothing but a SquashFS file system.
SIF, OCI, TREE, SQUASHFS = "sif", "oci", "tree", "sqsh"
#: What stands between the command of a runtime and the way in which it is to run images: ``apptainer+unpacked``.
WAY = "+"
#: Command that writes the files of an image as an archive, without what the runtime binds in. It skips unreadable ones,
#: where its tar can (BusyBox's cannot).
ARCHIVE = (
    "cd / && tar -cf - $(tar --help 2>&1 | grep -o -m 1 -e --ignore-failed-read) "
    f"$(ls -d {METADATA} bin etc lib* opt sbin srv usr var 2>/dev/null)"
)


#: Script that hands the environment on to a container, in the stage directory.
HAND_ON_SCRIPT = "hand-on.sh"
#: Its text, for an engine that hands on the variables that it is told by name (docker run reference, "--env"): the
#: names are the rank's own, because each rank has others. The image's variables outrank the host's, PATH among them.
HAND_ON = Path(__file__).with_name("hand-on.sh").read_text(encoding="utf-8")

#: Network of a container that has none of its own.
HOST_NETWORK = "host"
#: Network of a container that has one of its own, on one node: the runtime's usual one.
NODE_NETWORK = "bridge"
#: Script that starts ranks in containers with a network of their own, in the stage directory.
OWN_NETWORK_SCRIPT = "own-network.sh"
#: Its text: in one container on each node, which have nothing but a network in common, the image's Open MPI starts the
#: ranks (D12.6 section 6.4.2, where it is Docker's overlay network). Its daemons are started by files in the working
#: directory, which all see: few images have an ssh server, and Open MPI takes any agent (mpirun(1), plm_rsh_agent).
OWN_NETWORK = Path(__file__).with_name("own-network.sh").read_text(encoding="utf-8")


class Storage(NamedTuple):
    """How a runtime keeps images itself, in a place that only it knows.

    ``look`` are the words that print what it calls an image, whose name follows; or, with ``lists_digests``, the
    digests of all images that it has. ``pull`` are the words that get one, whose name follows. ``name`` is how an image
    of a registry is called in both. ``run`` is what it is told to run, in the words of a job's script: ``{name}``, or
    what the build step found (``{identifier}``). ``takes_tags`` tells whether an image without a digest will do,
    and ``per_node`` whether each node has images of its own. ``load`` are the words that read an archive
    (``{archive}``), as ``docker save`` writes it; empty where images come from a registry only.
    """

    look: Tuple[str, ...]
    pull: Tuple[str, ...]
    name: str = "{name}"
    run: str = "{name}"
    lists_digests: bool = False
    takes_tags: bool = False
    per_node: bool = False
    load: Tuple[str, ...] = ()


class Way(NamedTuple):
    """One of several ways in which a runtime runs images; one without a name is its usual one.

    ``form`` is what it runs then. ``own_network`` tells whether a node has one container, with a network of its own, in
    which the image's launcher starts the ranks (:data:`OWN_NETWORK`). ``requirement`` says what that needs.
    """

    name: str = ""
    form: str = SIF
    own_network: bool = False
    requirement: str = ""


class Runtime(NamedTuple):
    """A container runtime.

    What it is called: ``name`` is ReFrame's and the site file's, ``command`` what is typed, and ``answer`` matches what
    it prints when it is asked its version with ``version``. Its file's name says too little: a site has
    ``apptainer-1.4``, or a wrapper.

    How it runs a program: ``launch`` are the words after the command, ``bind`` those that bind a directory, ``gpus``
    those that let the container see the node's GPUs, ``variable`` those before the name of a variable that has to be
    handed on, because the container has an environment of its own, and ``environment`` those that hand on all of it:
    what a launcher tells its ranks is in there. ``variables`` are those that print the variables of an image, whose
    name follows, and ``variable_file`` is the option for a file with them: they outrank the host's. ``label`` are those
    that mark a container of ours. ``same_user`` keeps the number of a user who is not root; ``user_of_root`` does in an
    engine that root runs for users, which prints ``false`` when it is asked with ``rootless``; where
    ``network_of_root``, only such an engine gives containers the host's network. ``contain`` keeps out what it binds by
    itself: the working directory, the host's /var/tmp. ``mount_points`` lets it make the directories in the image that
    binds need. ``user_namespace`` lets root without all capabilities run images; ``shared_namespace`` puts the ranks of
    a node into one user namespace, where what ``help`` prints has it; ``joined`` does so for ``{ranks}`` processes that
    a launcher starts, and for no other process. ``own_library_path`` tells whether it gives containers an
    ``LD_LIBRARY_PATH`` of its own.

    Who runs it: ``alone`` are the words that start one process, where the container is an option of the launcher
    instead of a word before the program; the launcher's help must have ``required_option`` then. ``before`` are
    words before the command, which call :data:`HAND_ON`; empty for none.
    ``starts_containers`` tells whether its command starts the container itself, so that all processes of that are its
    descendants; ``is_engine`` whether a container may outlive its command, and is found by its label;
    ``daemons`` are the processes that then serve containers, by name: the kernel keeps 15 characters of it.

    Images: ``form`` is what it runs (:data:`SIF`, :data:`OCI`, :data:`TREE`, :data:`SQUASHFS`); ``storage`` says how it
    keeps them itself, None for one that runs files and directories. ``builds`` tells whether it builds one from a
    definition file, and ``build_directory`` is the variable that says where. ``ways`` are other ways in which it runs
    them; ``way`` is the one that is chosen.

    Its settings: ``configuration`` are the words that print the path of its configuration file, and ``settings`` how
    the names of its variables begin.

    What it prints when a run fails (job/outputs/reasons.py): ``follow_ups`` because another process failed,
    ``causes``, and ``noise``.
    """

    name: str
    command: str
    answer: str
    launch: Tuple[str, ...]
    bind: str
    version: Tuple[str, ...] = ("--version",)
    gpus: str = ""
    variable: Tuple[str, ...] = ()
    environment: Tuple[str, ...] = ()
    variables: Tuple[str, ...] = ()
    variable_file: str = ""
    label: str = ""
    same_user: str = ""
    rootless: Tuple[str, ...] = ()
    user_of_root: str = ""
    network_of_root: bool = False
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
        """Return the runtime as it runs images in one of its ways; an empty name is its usual one.

        :raises KeyError: it has no such way.
        """
        if not way:
            return self
        known = {each.name: each for each in self.ways}[way]
        return self._replace(way=known, form=known.form, builds=self.builds and known.form == self.form)

    @property
    def title(self) -> str:
        """Name for people, with the way in which it runs images where that is not its usual one."""
        return WAY.join(filter(None, (self.command, self.way.name)))

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
        gpus: bool = False,
        command: str = "",
        network: str = HOST_NETWORK,
    ) -> str:
        """Return the command that runs a program in an image, as a line of a shell script.

        Where the container is an option of the launcher, the launcher has to stand before it.

        :param program: with its options, quoted.
        :param image: quoted.
        :param binds: sources of the host and their targets in the container.
        :param workdir: of the program, in the container.
        :param options: more options, quoted.
        :param gpus: whether the container is to see the node's GPUs.
        :param command: what is typed for the runtime; by default its usual command.
        :param network: the network of the container, by its name in the runtime, for a row that chooses one.
        """
        values = {
            "network": shlex.quote(network),
            "binds": " ".join(self.bind_words(binds)),
            "gpus": self.gpus if gpus else "",
            "workdir": workdir,
            "options": " ".join(options),
            "image": image,
            "program": program,
        }
        typed = [] if self.alone else [*self.before, shlex.quote(command or self.command)]
        words = [*typed, *(word.format(**values) for word in self.launch)]
        return " ".join(filter(None, words))


#: Words that start a container of an engine. Its processes are not the command's: the engine starts them. The ranks of
#: a node need the host's network and process numbers, /dev/shm and /tmp in common (Podman's blog, "Podman in HPC
#: environments", 2019); --ipc=host would need /dev/mqueue, which not every node has.
_ENGINE = (
    "run --rm --interactive --network={network} --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp",
    "{binds}",
    "{gpus}",
    "-w {workdir}",
    "--env=PWD={workdir}",
    "{options}",
    "{image}",
    "{program}",
)
_OVERLAY = Way(
    "overlay",
    form=OCI,
    own_network=True,
    requirement="a network that containers on all nodes join (the site's extras, container_network)",
)
_PODMAN = Runtime(
    name="Podman",
    command="podman",
    # Under a docker command, it answers by its own name.
    answer=r"^podman version ",
    launch=_ENGINE,
    bind="-v={source}:{target}",
    gpus="--device=nvidia.com/gpu=all",
    variable=("--env",),
    environment=("--env-host",),
    # Of Podman 4.3, the host's variables replace the image's, PATH among them.
    variables=("image", "inspect", "--format={{range .Config.Env}}{{println .}}{{end}}"),
    variable_file="--env-file={file}",
    label="--label={label}",
    # Otherwise PMIx servers refuse the ranks, which have another number of user than their launcher.
    same_user="--userns=keep-id",
    rootless=("info", "--format={{.Host.Security.Rootless}}"),
    user_of_root="--user={user}:{group}",
    is_engine=True,
    form=OCI,
    storage=Storage(
        look=("podman", "image", "inspect", "--format={{.Id}}"),
        pull=("podman", "pull"),
        per_node=True,
        load=("podman", "load", "--quiet", "--input={archive}"),
    ),
    ways=(_OVERLAY,),
)
_APPTAINER = Runtime(
    name="Apptainer",
    command="apptainer",
    answer=r"^apptainer version ",
    launch=("exec", "{binds}", "{gpus}", "--pwd {workdir}", "{options}", "{image}", "{program}"),
    bind="-B{source}:{target}",
    gpus="--nv",
    contain="--contain",
    help=("exec", "--help"),
    user_namespace="--userns",
    # Since Apptainer 1.3.
    shared_namespace="--sharens",
    own_library_path=True,
    starts_containers=True,
    builds=True,
    build_directory="APPTAINER_TMPDIR",
    ways=(Way("unpacked", form=TREE),),
    configuration=("buildcfg",),
    settings="APPTAINER_",
    # These follow the end of another rank, or a truncated image: apptainer#1906, apptainer#2121, apptainer#2713.
    follow_ups=(
        r"^FATAL\b.* first process with --sharens has already exited",
        r"^FATAL\b.* could not open proc directory ",
        r"^FATAL\b.* while executing starter: ",
        r"^ERROR\b.* container cleanup failed: ",
    ),
    causes=(r"^(?:FATAL|ERROR) *(?:: |\[U=)",),
    noise=(r"^(?:INFO|WARNING|VERBOSE|DEBUG) *(?:: |\[U=)",),
)

#: All of them, in the order of preference where a site says nothing.
RUNTIMES = (
    _APPTAINER,
    _APPTAINER._replace(
        name="Singularity",
        command="singularity",
        # Also "singularity-ce version 4.1.0".
        answer=r"^singularity\S* version ",
        build_directory="SINGULARITY_TMPDIR",
        settings="SINGULARITY_",
        # It prints what Apptainer does.
        follow_ups=(),
        causes=(),
        noise=(),
    ),
    Runtime(
        name="Sarus",
        command="sarus",
        # It prints its number only.
        answer="",
        launch=("run", "{binds}", "-w {workdir}", "{options}", "{image}", "{program}"),
        bind="--mount=type=bind,source={source},destination={target}",
        form=OCI,
        storage=Storage(
            look=("sarus", "images", "--digests"),
            pull=("sarus", "pull"),
            lists_digests=True,
        ),
    ),
    # As NERSC makes it: the one that ReFrame writes commands for became Sarus. It keeps the working directory, and
    # binds directories only.
    Runtime(
        name="Shifter",
        command="shifter",
        answer="",
        launch=("--image={image}", "{binds}", "{options}", "{program}"),
        bind="--volume={source}:{target}",
        form=OCI,
        storage=Storage(
            look=("shifterimg", "lookup"),
            pull=("shifterimg", "pull"),
            name="docker:{name}",
            # For a name every rank would ask the gateway; and a tag may lead to another image by then.
            run="id:{identifier}",
            # Its gateways before 22.02, and those without skopeo, know tags only.
            takes_tags=True,
        ),
    ),
    _PODMAN,
    # It prints its number only, and hands on the environment, /dev, /proc, /sys and /tmp. What a bind needs in the
    # image must be there, unless the image may be written (ch-run(1), "--bind").
    Runtime(
        name="Charliecloud",
        command="ch-run",
        answer="",
        launch=(
            "--set-env --set-env=PWD={workdir}",
            "{binds}",
            "--cd={workdir}",
            "{options}",
            "{image}",
            "--",
            "{program}",
        ),
        bind="--bind={source}:{target}",
        mount_points="--write",
        joined="--join-ct={ranks}",
        starts_containers=True,
        form=TREE,
    ),
    # Options of Slurm's srun; Enroot makes the containers (Pyxis, args.c), hands on the environment, and makes what a
    # bind needs in the image.
    Runtime(
        name="Pyxis",
        command="srun",
        answer="",
        launch=(
            '--container-image="$PWD"/{image}',
            "{binds}",
            "--container-workdir={workdir}",
            "{options}",
            "{program}",
        ),
        bind="--container-mounts={source}:{target}",
        alone="srun --nodes=1 --ntasks=1",
        required_option="--container-image",
        form=SQUASHFS,
    ),
    # Options of the docker run reference. Without root, its network is that of a process between it and the host
    # (Docker's manual, "Rootless mode": "Networking").
    Runtime(
        name="Docker",
        command="docker",
        answer=r"(?i)^docker version ",
        launch=_ENGINE,
        bind="-v={source}:{target}",
        gpus="--gpus=all",
        variable=("--env",),
        variables=_PODMAN.variables,
        variable_file=_PODMAN.variable_file,
        before=("sh", HAND_ON_SCRIPT),
        label="--label={label}",
        rootless=(
            "info",
            "--format={{$rootless := false}}{{range .SecurityOptions}}"
            '{{if eq . "name=rootless"}}{{$rootless = true}}{{end}}{{end}}{{$rootless}}',
        ),
        user_of_root=_PODMAN.user_of_root,
        network_of_root=True,
        is_engine=True,
        daemons=("dockerd", "containerd", "containerd-shim", "docker-proxy", "runc", "rootlesskit", "slirp4netns"),
        form=OCI,
        storage=Storage(
            look=("docker", "image", "inspect", "--format={{.Id}}"),
            pull=("docker", "pull"),
            per_node=True,
            load=("docker", "load", "--quiet", "--input={archive}"),
        ),
        ways=(_OVERLAY,),
    ),
)

#: A runtime that no row is for, in the job: nothing is known of it.
UNKNOWN = Runtime("", "", "", (), "")


def by_name(name: str) -> Runtime:
    """Return the runtime that ReFrame and the site file call so.

    :raises KeyError: there is none.
    """
    return {runtime.name: runtime for runtime in RUNTIMES}[name]


def by_command(command: str) -> Runtime:
    """Return the runtime with this command, a name or a path; :data:`UNKNOWN` where no row has it."""
    return next((runtime for runtime in RUNTIMES if runtime.command == Path(command).name), UNKNOWN)


def on_path() -> Iterator[Runtime]:
    """Yield the runtimes whose command is on the PATH, in their order; that there is a launcher says nothing of one."""
    return (runtime for runtime in RUNTIMES if not runtime.alone and shutil.which(runtime.command))


def with_way(word: str) -> Tuple[str, str]:
    """Return the command in a word, and the way in which it is to run images; that is empty where none is named.

    Only what follows the command of a runtime that has ways is one: names of files and modules may contain the sign.

    >>> with_way("/usr/bin/apptainer+unpacked"), with_way("gcc+cuda"), with_way("podman")
    (('/usr/bin/apptainer', 'unpacked'), ('gcc+cuda', ''), ('podman', ''))
    """
    command, sign, way = word.rpartition(WAY)
    return (command, way) if sign and by_command(command).ways else (word, "")


def chosen(word: str) -> Runtime:
    """Return the runtime that a word names by its command, in the way that it names; :data:`UNKNOWN` for none.

    :raises ValueError: the runtime has no such way; the message says which it has.
    """
    command, way = with_way(word)
    runtime = by_command(command)
    try:
        return runtime.in_way(way)
    except KeyError:
        names = ", ".join(known.name for known in runtime.ways)
        raise ValueError(f"{command} has no way {way} to run images: after the {WAY}, write one of {names}") from None


def recognized(command: str, answer: str) -> Runtime:
    """Return the runtime by what it says of its version; by its command where it says nothing that a row knows.

    >>> recognized("/opt/bin/run-image", "INFO: of the centre\\nsingularity-ce version 4.1.0-focal").name
    'Singularity'
    >>> [recognized(command, "1.6.4").name for command in ("/usr/bin/sarus", "run-image")]
    ['Sarus', '']
    """
    known = (runtime for runtime in RUNTIMES if runtime.answer and re.search(runtime.answer, answer, re.MULTILINE))
    return next(known, None) or by_command(command)

"""Faults that no rule was written for: from public reports, and from notes of incidents, by lot.

Conditions and program are as in planted_causes.py; ``does`` says what becomes of the program.
"""

from planted_causes import Fault, is_set

#: The stage directory in the container.
WORKDIR = "/rfm_workdir"
#: Whether the program is in a container.
INSIDE = "[ -e /.singularity.d ]"


def hidden_variable(source, name, value, **others):
    """Return the fault that a module of the site sets a variable for all containers, by a name that no rule knows."""
    return Fault(source, (rf"\b{name}\b",), is_set(name, value), {f"APPTAINERENV_{name}": value}, **others)


def soft_limit(source, option, value, name):
    """Return the fault that a wrapper of the runtime lowers a soft limit, which ends the program.

    :param option: of ``ulimit``; the value is in its unit.
    :param name: in /proc.
    """
    runtime = f'ulimit -S -{option} {value}; exec "$REAL" "$@"'
    words = name[0].lower() + name[1:]
    slows = f'{INSIDE} && [ "$(limit "{words}")" != unlimited ] && [ "$(limit "{words}")" -lt 500000000 ]'
    return Fault(source, (rf"limit of {words}",), slows, runtime=runtime, does="ends")


def planted(name):
    """Return the condition that a fault is the planted one: for conditions that hold in other containers too."""
    return f'[ "$(cat {WORKDIR}/fault)" = {name} ]'


def sometimes(command, others=":"):
    """Return the command of a runtime that one of four starts runs, and another command for the others."""
    number = '$(($(wc -l <"$PLACE/starts") % 4))'
    return f'echo >>"$PLACE/starts"; if [ {number} = 3 ]; then {command}; else {others}; fi; '


UNLISTED = {
    "files-16": Fault(
        "issue 52",
        (r"limit of open files is 16",),
        '[ "$(limit "open files")" = 16 ]',
        runtime='ulimit -S -n 16; exec "$REAL" "$@"',
        does="ends",
    ),
    "data-size": soft_limit("issue 52", "d", 393216, "data size"),
    "file-size": soft_limit("getrlimit(2)", "f", 200000, "file size"),
    "home": Fault(
        "issue 52",
        (r"HOME|home",),
        '[ -e "$HOME/.other/settings" ]',
        {"APPTAINER_HOME": "PLACE/otherhome:/root"},
        does="differs",
    ),
    "stopped": Fault(
        "issue 52",
        (r"stopped",),
        f"{INSIDE} && [ -e {WORKDIR}/stop ]",
        proven=False,
        does="stops",
        runtime='echo >>"$PLACE/starts"; rm -f "$PLACE/stop"; [ $(($(wc -l <"$PLACE/starts") % 4)) != 3 ] || '
        '>"$PLACE/stop"; exec "$REAL" "$@"',
    ),
    "path": Fault(
        "issue 52",
        (r"\bPATH\b",),
        "case $(command -v seq) in */shadow/*) ;; *) false ;; esac",
        {"APPTAINERENV_PREPEND_PATH": f"{WORKDIR}/shadow"},
    ),
    "library-path": Fault(
        "Pawsey's recipes",
        (r"\bLD_LIBRARY_PATH\b",),
        "case ${LD_LIBRARY_PATH:-} in *shadow*) ;; *) false ;; esac",
        options=("--env", f"LD_LIBRARY_PATH={WORKDIR}/shadow"),
    ),
    "petsc": hidden_variable("PETSc manual", "PETSC_OPTIONS", "-malloc_debug"),
    "locale": hidden_variable("sort(1)", "LC_ALL", "en_GB.utf8", measures=("start",)),
    "python-path": hidden_variable("Python manual", "PYTHONPATH", f"{WORKDIR}/shadow"),
    "hook": Fault(
        "issue 52",
        (r"HOOKED|BINDPATH|99-hook",),
        is_set("HOOKED", "yes"),
        {"APPTAINER_BINDPATH": "PLACE/hook.sh:/.singularity.d/env/99-hook.sh"},
        measures=("start",),
    ),
    "hidden-directory": Fault(
        "apptainer#1257",
        (r"APPTAINER_BINDPATH|/opt\b",),
        "[ -e /opt/of-host ]",
        {"APPTAINER_BINDPATH": "PLACE/otherhome:/opt"},
        does="ends",
    ),
    "contained": Fault(
        "singularity#1110",
        (r"APPTAINER_CONTAIN\b",),
        f"{INSIDE} && df -P /tmp | grep -q tmpfs",
        {"APPTAINER_CONTAIN": "1"},
    ),
    "temporary-directory": hidden_variable("apptainer#2050", "TMPDIR", f"{WORKDIR}/shadow"),
    "filter": Fault(
        "runc#2430",
        (r"seccomp|APPTAINER_SECURITY",),
        f"! chmod 700 {WORKDIR}/shadow 2>/dev/null && {INSIDE}",
        {"APPTAINER_SECURITY": "seccomp:PLACE/filter.json"},
        does="ends",
    ),
    "umask": Fault(
        "umask(2)",
        (r"umask",),
        '[ "$(umask)" = 0077 ]',
        runtime='umask 077; exec "$REAL" "$@"',
        does="differs",
    ),
    "timer-slack": Fault(
        "prctl(2)",
        (r"slack",),
        "[ $(cat /proc/self/timerslack_ns) -gt 1000000 ]",
        runtime="exec python3 -c 'import ctypes, os, sys; ctypes.CDLL(None).prctl(29, 50000000, 0, 0, 0); "
        'os.execv(sys.argv[1], sys.argv[1:])\' "$REAL" "$@"',
    ),
    "disk-priority": Fault(
        "ioprio_set(2)",
        (r"disk|I/O",),
        "ionice -p $$ | grep -q idle",
        runtime='exec ionice -c 3 "$REAL" "$@"',
        measures=("files",),
    ),
    "pair": Fault(
        "two that act together",
        (r"\bFIRST_HALF\b", r"\bSECOND_HALF\b"),
        f"{is_set('FIRST_HALF', '1')} || {is_set('SECOND_HALF', '1')}",
        {"APPTAINERENV_FIRST_HALF": "1", "APPTAINERENV_SECOND_HALF": "1"},
    ),
    "late-status": Fault(
        "apptainer#2713",
        (r"no instance found",),
        proven=False,
        runtime='echo >>"$PLACE/starts"; program "$@"; status=$?; [ $(($(wc -l <"$PLACE/starts") % 4)) != 3 ] || '
        '{ echo "FATAL:   no instance found with name cc" >&2; exit 148; }; exit $status',
    ),
    "small-overlay": Fault(
        "apptainer#1313",
        (r"WRITABLE_TMPFS|No space left",),
        f"{INSIDE} && touch /usr/written 2>/dev/null",
        {"APPTAINER_WRITABLE_TMPFS": "1"},
        does="ends",
    ),
    "site-option": Fault(
        "apptainer#1313",
        (r"--writable-tmpfs",),
        f"{INSIDE} && touch /usr/written 2>/dev/null",
        options=("--writable-tmpfs",),
    ),
    "other-program": Fault(
        "D12.6 6.9",
        (r"/usr/bin/seq",),
        "grep -q ' /usr/bin/seq ' /proc/self/mountinfo",
        runtime='what=$1; shift; exec "$REAL" "$what" --bind "$PLACE/shadow/seq:/usr/bin/seq" "$@"',
    ),
    # By lot from the notes of incidents, as are the next two.
    "hosts-libraries": Fault(
        "LUMI-EasyBuild-contrib#9",
        (r"\bLD_LIBRARY_PATH\b|APPTAINER_BINDPATH",),
        '[ -e "${LD_LIBRARY_PATH%%:*}/of-host" ]',
        {"APPTAINER_BINDPATH": "PLACE/otherhome:/hostlib", "APPTAINERENV_LD_LIBRARY_PATH": "/hostlib"},
    ),
    "damaged-image": Fault(
        "apptainer#2121",
        (r"squashfs|image",),
        runtime='for word; do shift; case $word in *.sif) cp -L "$word" "$PLACE/damaged.sif"; '
        'truncate -s -20M "$PLACE/damaged.sif"; word=$PLACE/damaged.sif ;; esac; set -- "$@" "$word"; done; '
        'exec "$REAL" "$@"',
    ),
    "killed-rank": Fault(
        "mpich#7057",
        (r"[Kk]illed|count not found",),
        f"{INSIDE} && [ -e {WORKDIR}/kill ]",
        does="dies",
        runtime='>"$PLACE/kill"; program "$@"; rm -f "$PLACE/kill"; exit 0',
    ),
    "working-directory": Fault(
        "Apptainer user guide",
        (r"start in /tmp|APPTAINER_CWD",),
        variables={"APPTAINER_CWD": "/tmp"},
    ),
    "capabilities": Fault(
        "capabilities(7)",
        (r"APPTAINER_DROP_CAPS|capabilities",),
        "grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status",
        {"APPTAINER_DROP_CAPS": "all"},
    ),
    # A second lot, in the order in which it was drawn from the notes of incidents.
    "wrong-sometimes": Fault(
        "ompi#8321",
        (r"answers differ",),
        f"{INSIDE} && [ -e {WORKDIR}/flip ]",
        runtime=sometimes('>"$PLACE/flip"', 'rm -f "$PLACE/flip"') + 'exec "$REAL" "$@"',
        proven=False,
        does="differs",
    ),
    "preload-noise": Fault(
        "apptainer#2537",
        (r"\bSITE_QUIRK\b",),
        is_set("SITE_QUIRK", "1"),
        {"APPTAINERENV_LD_PRELOAD": "/opt/xalt/lib64/libxalt_init.so", "APPTAINERENV_SITE_QUIRK": "1"},
        does="quits",
    ),
    "unpacked-at-start": Fault(
        "apptainer#737",
        (r"\bAPPTAINER_UNSQUASH\b",),
        f"{INSIDE} && {planted('unpacked-at-start')} && ! grep -q squash /proc/self/mountinfo",
        {"APPTAINER_UNSQUASH": "1"},
    ),
    "several-lines": Fault(
        "singularity#5253",
        (r"\bSEVERAL_LINES\b",),
        "case ${SEVERAL_LINES:-} in *SECOND=b*) ;; *) false ;; esac",
        {"APPTAINERENV_SEVERAL_LINES": "'first\n\nSECOND=b'"},
    ),
    "clean-environment": Fault(
        "singularity#1110",
        (r"APPTAINER_CLEANENV|\bNEEDED_BY_PROGRAM\b",),
        f"{INSIDE} && {planted('clean-environment')} && ! {is_set('NEEDED_BY_PROGRAM', '1')}",
        {"APPTAINER_CLEANENV": "1", "NEEDED_BY_PROGRAM": "1"},
    ),
    "illegal-instruction": Fault(
        "bioconda#68494",
        (r"[Ii]llegal instruction",),
        f"{INSIDE} && {planted('illegal-instruction')}",
        proven=False,
        does="traps",
    ),
    "missing-bind": Fault(
        "apptainer#1143",
        (r"APPTAINER_BINDPATH",),
        variables={"APPTAINER_BINDPATH": "/gpfs/scratch"},
    ),
    # And from manuals of the kernel and of Apptainer.
    "host-name": Fault(
        "Apptainer user guide",
        (r"APPTAINER_HOSTNAME|host name",),
        '[ "$(cat /proc/sys/kernel/hostname)" = other-node ]',
        {"APPTAINER_HOSTNAME": "other-node"},
    ),
    "process-numbers": Fault(
        "apptainer#1583",
        (r"APPTAINER_PID\b|process numbers|PID",),
        "[ $$ -lt 200 ]",
        {"APPTAINER_PID": "1"},
        measures=("messages",),
    ),
    "personality": Fault(
        "setarch(8)",
        (r"personality",),
        '[ "$(uname -m)" = i686 ]',
        runtime='exec setarch i686 "$REAL" "$@"',
    ),
    "out-of-memory-score": Fault(
        "proc(5)",
        (r"out of memory|oom",),
        '[ "$(cat /proc/self/oom_score_adj)" = 1000 ]',
        runtime='exec choom -n 1000 -- "$REAL" "$@"',
        does="dies",
    ),
    "memory-policy": Fault(
        "set_mempolicy(2)",
        (r"memory policy|interleave",),
        "grep -q ' interleave' /proc/self/numa_maps",
        runtime="exec python3 -c 'import ctypes, os, sys; "
        "ctypes.CDLL(None).syscall(238, 3, ctypes.byref(ctypes.c_ulong(1)), 64); "
        'os.execv(sys.argv[1], sys.argv[1:])\' "$REAL" "$@"',
        measures=("memory",),
    ),
    "no-user-namespaces": Fault(
        "apptainer#2027",
        (r"user namespaces",),
        runtime="exec unshare --user --map-root-user sh -c "
        '\'echo 0 >/proc/sys/user/max_user_namespaces; exec "$REAL" "$@"\' sh "$@"',
    ),
    "hangs-at-start": Fault(
        "apptainer#2387",
        (r"hang", r"Unreachable in file"),
        proven=False,
        runtime=sometimes(
            'echo "[vm:1] OPAL ERROR: Unreachable in file ext3x_client.c at line 112" >&2; exec sleep 1000'
        )
        + 'exec "$REAL" "$@"',
    ),
    "helper-killed": Fault(
        "apptainer#2104",
        (r"[Tt]ransport endpoint is not connected",),
        f"{INSIDE} && {planted('helper-killed')} && sleep 2 && ! /usr/bin/tac --version >/dev/null",
        runtime='"$REAL" "$@" & sleep 1.2; for parent in $! $(pgrep -P $!); do pkill -P $parent squashfuse_ll; done; '
        "wait $!",
        does="ends",
    ),
    "exported-function": Fault(
        "singularity#5253",
        (r"BASH_FUNC_seq",),
        "grep -q BASH_FUNC_seq /proc/$$/environ",
        runtime='exec env \'BASH_FUNC_seq%%=() {  echo 1; }\' "$REAL" "$@"',
    ),
    "small-unpacking": Fault(
        "apptainer#737",
        (r"no space left on device",),
        runtime='mkdir -p "$PLACE/unpacking"; shift; exec unshare -m sh -c \'mount -t tmpfs -o size=4m none '
        '"$PLACE/unpacking"; APPTAINER_TMPDIR=$PLACE/unpacking exec "$REAL" exec --unsquash "$@"\' sh "$@"',
    ),
    "no-bus": Fault(
        "apptainer#3607",
        (r"failed to connect to dbus",),
        proven=False,
        runtime=sometimes(
            'echo "FATAL:   container creation failed: while applying cgroups config: failed to connect to dbus: '
            'dial unix /run/user/0/bus: connect: connection refused" >&2; exit 255'
        )
        + 'exec "$REAL" "$@"',
    ),
    "left-segment": Fault(
        "ompi#7220",
        (r"/dev/shm/vader_segment",),
        f"{INSIDE} && {planted('left-segment')} && ! (: >>/dev/shm/vader_segment.planted)",
        # What observes the container is killed, and would leave the segment.
        runtime='case "$*" in *observe.sh*) exec "$REAL" "$@" ;; esac; '
        "segment=/dev/shm/vader_segment.planted; install -m 600 -o 1000 /dev/null $segment; "
        'program "$@"; status=$?; rm $segment; exit $status',
        does="ends",
    ),
    "settings-file": Fault(
        "ompi#7737",
        (r"openmpi-mca-params.conf",),
        "grep -qs '^btl = self,tcp' /etc/openmpi/openmpi-mca-params.conf",
        {"APPTAINER_BINDPATH": "PLACE/mca.conf:/etc/openmpi/openmpi-mca-params.conf"},
        measures=("messages",),
    ),
    "network": Fault(
        "apptainer#822",
        (r"--net\b|network",),
        "[ $(grep -c : /proc/net/dev) = 1 ]",
        options=("--net", "--network=none"),
        does="ends",
    ),
    "input": Fault(
        "singularity#1712",
        (r"standard input",),
        f"{planted('input')} && ! read -r line; false",
        runtime='mkfifo "$PLACE/input" 2>/dev/null; exec "$REAL" "$@" <>"$PLACE/input"',
    ),
    "process-cgroup": Fault(
        "podman#17647",
        (r"cgroup.*processes|pids",),
        f"{planted('process-cgroup')} && ! sh -c 'for n in $(seq 100); do sleep 0.3 & done; wait'",
        runtime="group=/sys/fs/cgroup/pids/containercheck-planted; mkdir -p $group; echo 64 >$group/pids.max; "
        'echo $$ >$group/cgroup.procs; exec "$REAL" "$@"',
        does="ends",
    ),
    "ignored-signal": Fault(
        "crun#2058",
        (r"SIGPIPE|ignore",),
        "grep -q '^SigIgn:.*1...$' /proc/$$/status",
        runtime='for word; do shift; [ "$word" != sh ] || set -- "$@" env --ignore-signal=PIPE; set -- "$@" "$word"; '
        'done; exec "$REAL" "$@"',
    ),
}

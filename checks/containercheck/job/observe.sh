# Prints the environment of a rank. On each other node of the job, writes the facts that may differ into a file, without
# variables, which stay off the disk. Ranks in Apptainer's shared namespace fail if another one ends before they join:
# so each waits for all others, two seconds at most.
#
#   sh observe.sh DIRECTORY    all ranks use the same DIRECTORY; its file "expected" has the number of ranks
here=$1
# Missing facts are not printed. If a container does not start, its runtime has printed the reason before this.
exec 2>/dev/null
host=$(cat /proc/sys/kernel/hostname)
: >"$here/rank.$host.$$"
tries=0
until [ "$(ls "$here" | grep -c '^rank')" -ge "$(cat "$here/expected")" ] || [ $tries -ge 40 ]; do
    sleep 0.05 2>/dev/null || sleep 1
    tries=$((tries + 1))
done
title() { printf '\n%s\n' "@@containercheck $1"; }
node() {
    title limits
    cat /proc/self/limits
    title status
    cat /proc/self/status
    echo "Timer_slack: $(cat /proc/self/timerslack_ns)"
    echo "Disk_priority: $(ionice -p $$ | cut -d: -f1)"
    echo "Nice: $(sed 's/.*) //' /proc/self/stat | cut -d ' ' -f 17)"
    echo "Policy: $(sed 's/.*) //' /proc/self/stat | cut -d ' ' -f 39)"
    echo "Oom_score: $(cat /proc/self/oom_score_adj)"
    echo "Personality: $(cat /proc/self/personality)"
    echo "Memory_policy: $(head -n 1 /proc/self/numa_maps | cut -d ' ' -f 2)"
    echo "Home: $(ls -di "$HOME")"
    echo "Directory: $(ls -di "$PWD")"
    title mounts
    cat /proc/self/mountinfo
    title cgroup
    cat /proc/self/cgroup
    title cgroups
    while IFS=: read -r number names path; do
        root=/sys/fs/cgroup${names:+/$names}
        [ -d "$root" ] || root=/sys/fs/cgroup/${names%%,*}
        [ -n "$names" ] || [ ! -d /sys/fs/cgroup/unified ] || root=/sys/fs/cgroup/unified
        place=${path%/}
        [ -d "$root$place" ] || place=
        while :; do
            # Limits of both versions of cgroups.
        for file in cpu.max memory.max memory.high pids.max cpu.cfs_quota_us cpu.cfs_period_us memory.limit_in_bytes; do
                [ -r "$root$place/$file" ] || continue
                line=
                read -r line <"$root$place/$file"
                printf '%s %s %s\n' "$file" "$line" "$place/"
            done
            [ -n "$place" ] || break
            place=${place%/*}
        done
    done </proc/self/cgroup
    title space
    for place in /dev/shm /tmp "${TMPDIR:-/tmp}"; do df -Pk "$place" | tail -n 1; done
    title directories
    for place in "${TMPDIR:-/tmp}" "${HOME:-/}" "$PWD"; do
        if [ ! -d "$place" ]; then word=missing; elif [ ! -w "$place" ]; then word=unwritable; else word=usable; fi
        printf '%s %s\n' "$word" "$place"
    done
    title interfaces
    cat /proc/net/dev
    title processor
    uname -m
    sed -n -e '/^flags/{p;q;}' -e '/^Features/{p;q;}' /proc/cpuinfo
    title devices
    ls -d /dev/infiniband/* /dev/nvidia[0-9]* /dev/kfd /dev/dri/render* /dev/knem /dev/xpmem /dev/fuse /dev/cxi* /dev/hfi1*
    title kernel
    # Settings of the kernel that affect MPI, containers and memory.
    for name in /proc/sys/kernel/yama/ptrace_scope /proc/sys/user/max_user_namespaces \
        /proc/sys/kernel/unprivileged_userns_clone /proc/sys/kernel/numa_balancing /proc/sys/vm/overcommit_memory \
        /proc/sys/vm/nr_hugepages /sys/kernel/mm/transparent_hugepage/enabled; do
        [ ! -r "$name" ] || printf '%s %s\n' "$name" "$(cat "$name")"
    done
    title libc
    ls /lib/ld-musl-* /usr/lib/libmusl* || getconf GNU_LIBC_VERSION || ldd --version | head -n 1
    title system
    cat /etc/os-release
    title settings
    # Settings of MPI libraries, in the usual files of distributions and users.
    for name in /etc/openmpi/openmpi-mca-params.conf "$HOME/.openmpi/mca-params.conf" /etc/pmix-mca-params.conf \
        /etc/ucx/ucx.conf; do
        [ ! -r "$name" ] || sed -n "s|^ *\([A-Za-z][A-Za-z_0-9]*\) *= *\(.*\)|$name \1 \2|p" "$name"
        echo
    done
}
mkdir "$here/node.$host" 2>/dev/null || exit 0
if ! mkdir "$here/printer" 2>/dev/null; then
    umask 077
    {
        node
        title end
    } >"$here/node.$host/part" && mv "$here/node.$host/part" "$here/node.$host/seen"
    exit 0
fi
title environment
# Of the shell: it may not hand on all, such as functions of bash.
cat /proc/$$/environ || cat /proc/self/environ
node
title host
echo "$host"
title user
id
title image
grep -hoE '^ *(export +)?[A-Za-z_][A-Za-z_0-9]*=' /METADATA/env/*.sh
title programs
# In a container, programs of unusual places in PATH, each with the one of the same name that it hides.
[ -d /METADATA ] && (
    IFS=:
    for place in $PATH; do
        case $place in /bin | /sbin | /usr/bin | /usr/sbin | /usr/local/bin | /usr/local/sbin) continue ;; esac
        for path in "$place"/*; do
            later=
            for other in $PATH; do
                if [ "$other" = "$place" ]; then
                    later=yes
                elif [ "$later" ] && [ -x "$path" ] && [ -x "$other/${path##*/}" ]; then
                    echo "$path $other/${path##*/}"
                    break
                fi
            done
        done | head -n 20
    done
)
title hooks
grep -lE '^ *[^# ]' /METADATA/env/*.sh
title end

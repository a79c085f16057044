# shellcheck shell=bash disable=SC2154  # the script that sources this gives the names
# Finds the cluster's processes. Sourced by ci/virtual-cluster.
#
# Each part has a file in $records, which only root can read and write, with the id of the process that up started, its
# start, and the boot: an id may be another process's by now. Nothing that any user can set, such as a name or a variable,
# identifies a process.
boot=$(</proc/sys/kernel/random/boot_id)

# Prints the start of process $1, in the kernel's ticks since the boot.
began() {
    local stat
    { read -rd '' stat <"/proc/$1/stat" || [ -n "$stat" ]; } 2>/dev/null || return
    # The name of the program, in brackets, may hold anything.
    read -ra stat <<<"${stat##*)}"
    echo "${stat[19]}"
}

# Succeeds if process $1 with the start $2 exists and is root's, and not only root's in a user namespace.
is_ours() {
    [[ $1 =~ ^[0-9]+$ ]] && [ "$(began "$1")" = "$2" ] &&
        [ "$(stat -c %u "/proc/$1" 2>/dev/null)" = 0 ] &&
        [ "$(readlink "/proc/$1/ns/user")" = "$(readlink /proc/self/ns/user)" ]
}

# Prints the id of the process that up started for part $1, or those of all parts for '*'.
processes_of() {
    local file pid start of
    for file in "$records"/$1; do
        if read -r pid start of 2>/dev/null <"$file" && [ "$of" = "$boot" ] && is_ours "$pid" "$start"; then echo "$pid"; fi
    done
}

# Prints the child of each of the processes $@: the first process in its namespaces.
first_of() {
    local pid
    for pid; do
        { grep -lsx "PPid:[[:space:]]*$pid" /proc/[0-9]*/status || true; } | cut -d/ -f3
    done
}

# Prints the id of a process inside the namespaces of part $1.
inside() {
    local pid started
    mapfile -t started < <(processes_of "$1")
    for pid in $(first_of "${started[@]}"); do
        # A process that was only just started is not inside yet.
        [ "$(readlink "/proc/$pid/ns/mnt")" = "$(readlink /proc/self/ns/mnt)" ] || { echo "$pid"; return; }
    done
    return 1
}

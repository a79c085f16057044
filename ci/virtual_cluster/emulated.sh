# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# Nodes of another architecture: their userland is that architecture's Debian, run by qemu-user, so that jobs see its
# programs and its uname -m. Slurm's daemon and the container runtime are the machine's. Each architecture also has a node
# for builds, arm-build or power-build, with the machine's network. Sourced by layout.sh.

# By partition: Debian's and the kernel's name of the architecture, and the offset of a node's number in its address.
declare -gA debian_of=([arm]=arm64 [power]=ppc64el) kernel_of=([arm]=aarch64 [power]=ppc64le)
declare -gA address_of=([arm]=100 [power]=150)
# Ports of the build nodes' daemons.
declare -gA port_of=([arm-build]=6821 [power-build]=6822)
# Numbers of nodes of the cluster.
declare -gA emulated=([arm]=0 [power]=0)
architectures=(arm power)

formats=/proc/sys/fs/binfmt_misc

# Programs of the machine that emulated nodes have too: Slurm's, and those that a container runtime starts.
own_programs=(
    slurmd slurmstepd srun sbatch salloc squeue scancel scontrol sinfo
    apptainer singularity squashfuse squashfuse_ll fusermount fusermount3 fuse-overlayfs fuse2fs
    newuidmap newgidmap mksquashfs unsquashfs
)

# Prints the number of emulated nodes.
count_emulated() { echo $((emulated[arm] + emulated[power])); }

# Prints the partition of node $1, emulated or not.
partition_of() {
    case $1 in
        arm* | power*) echo "${1%%[0-9-]*}" ;;
        *) echo compute ;;
    esac
}

# Prints the names of all nodes: those of $1 nodes that are not emulated, and of the emulated ones.
node_names() {
    local partition
    seq -f node%.0f "$1"
    for partition in "${architectures[@]}"; do
        seq -f "$partition%.0f" "${emulated[$partition]}"
    done
}

# Prints the names of the nodes for builds.
build_names() {
    local partition
    for partition in "${architectures[@]}"; do
        [ "${emulated[$partition]}" -eq 0 ] || echo "$partition-build"
    done
}

# Prints the last number of the addresses of node $1.
number_of() {
    local partition
    partition=$(partition_of "$1")
    echo $((${address_of[$partition]:-0} + ${1//[a-z]/}))
}

# Prints "ARM POWER", the numbers of nodes in slurm.conf.
written_emulated() {
    local partition count
    for partition in "${architectures[@]}"; do
        count=$(sed -nE "s/^PartitionName=$partition Nodes=$partition\[1-([0-9]+)\].*/\1/p" "$conf" 2>/dev/null || true)
        printf '%s ' "${count:-0}"
    done
}

# Prints the lines of slurm.conf for emulated nodes with $1 cores and $2 MiB each.
emulated_conf() {
    local partition count
    for partition in "${architectures[@]}"; do
        count=${emulated[$partition]}
        [ "$count" -gt 0 ] || continue
        echo "NodeName=${partition}[1-$count] NodeAddr=$eth.[$((address_of[$partition] + 1))-$((address_of[$partition] + count))]" \
            "CPUs=$1 Sockets=1 CoresPerSocket=$1 ThreadsPerCore=1 RealMemory=$2"
        echo "PartitionName=$partition Nodes=${partition}[1-$count] MaxTime=INFINITE State=UP"
        echo "NodeName=$partition-build NodeAddr=$eth.253 Port=${port_of[$partition-build]}" \
            "CPUs=$(nproc) Sockets=1 CoresPerSocket=$(nproc) ThreadsPerCore=1 RealMemory=$2"
        echo "PartitionName=$partition-build Nodes=$partition-build MaxTime=INFINITE State=UP"
    done
}

# For special_conf of a cluster like a site of another architecture: makes the nodes of partition $2 those of the site's
# default partition $1, with $3 sockets of $4 cores of $5 threads each.
as_partition() {
    local processor="CPUs=$(($3 * $4 * $5)) Sockets=$3 CoresPerSocket=$4 ThreadsPerCore=$5"
    sed -E -e "/^NodeName=$2\[/s/CPUs=.* (RealMemory=)/$processor \\1/" -e 's/ Default=YES//'
    echo "PartitionName=$1 Nodes=$2[1-${emulated[$2]}] Default=YES MaxTime=INFINITE State=UP"
}

# For furnish_userland: links Apptainer by the name of its forebear, which those sites have.
have_singularity() { ln -sf "$(type -P apptainer)" /usr/local/bin/singularity; }

# Lets the kernel start programs of these architectures. The flag F opens qemu now, so that nodes and images need no qemu;
# formats that this adds are recorded for forget_formats.
register_formats() {
    local partition name
    [ "$(count_emulated)" -gt 0 ] || return 0
    mkdir -p "$state/formats"
    if [ ! -e "$formats/register" ]; then
        touch "$state/formats/mounted"
        mount -t binfmt_misc binfmt_misc "$formats" || die "the kernel has no binfmt_misc, by which it would start qemu"
    fi
    for partition in "${architectures[@]}"; do
        name=qemu-${kernel_of[$partition]}
        [ "${emulated[$partition]}" -gt 0 ] || continue
        if [ ! -e "$formats/$name" ]; then
            touch "$state/formats/$name"
            cat "/usr/lib/binfmt.d/$name.conf" >"$formats/register"
        fi
        grep -q '^flags:.*F' "$formats/$name" ||
            die "$formats/$name has not the flag F. Remove it, and up makes one that has: echo -1 >$formats/$name"
    done
}

# Removes the formats that register_formats added.
forget_formats() {
    local file
    for file in "$state"/formats/qemu-*; do
        if [ -e "$file" ] && [ -e "$formats/${file##*/}" ]; then echo -1 >"$formats/${file##*/}"; fi
    done
    [ ! -e "$state/formats/mounted" ] || umount "$formats" 2>/dev/null || true
}

# Mounts $1 of the machine at the same place in the tree $root, or at $2.
lend() {
    local place=$root${2:-$1}
    if [ -d "$1" ]; then
        mkdir -p "$place"
    else
        mkdir -p "${place%/*}"
        rm -f "$place"
        touch "$place"
    fi
    mount --rbind "$1" "$place"
}

# Mounts the libraries, Slurm's programs and the container runtime. Debian has a library directory for each architecture,
# so they do not collide.
lend_own_programs() {
    local program path place
    lend "/usr/lib/$(uname -m)-linux-gnu"
    mkdir -p "$root/usr/lib64"
    [ -e "$root/lib64" ] || ln -s usr/lib64 "$root/lib64"
    cp -a /lib64/ld-* "$root/usr/lib64/"
    for program in "${own_programs[@]}"; do
        path=$(type -P "$program") || continue
        place=$(readlink -f "$path")
        case $place in
            /usr/local/lib/*/*)
                # In its own prefix, as ci/install leaves it.
                place=/usr/local/lib/$(cut -d/ -f5 <<<"$place")
                [ -e "$root$place" ] || lend "$place"
                cp -a "$path" "$root$path" ;;
            *) lend "$path" ;;
        esac
    done
    { dpkg -L apptainer singularity-container 2>/dev/null || true; } |
        grep -E '^/(etc|usr/libexec|var/lib)/(apptainer|singularity)$' | while read -r path; do lend "$path"; done
}

# Makes debootstrap, with which the container runtime makes images, work for the node's architecture: the runtime is the
# machine's, and asks for the machine's architecture. The tools that unpack packages are the machine's too.
make_debootstrap() {
    local tools=/usr/local/lib/machine tool
    mkdir -p "$root$tools"
    for tool in dash perl wget xz gzip zstd tar ar dpkg-deb sha256sum sed grep sort cut cat tr mv cp ln rm mkdir chmod; do
        [ ! -e "/usr/bin/$tool" ] || lend "/usr/bin/$tool" "$tools/$tool"
    done
    cat >"$root/usr/local/bin/debootstrap" <<-END
	#!/bin/sh
	for word; do
	    shift
	    case \$word in --arch=*) word=--arch=\$(dpkg --print-architecture) ;; esac
	    set -- "\$@" "\$word"
	done
	PATH=$tools:\$PATH exec $tools/dash /usr/sbin/debootstrap "\$@"
	END
    chmod 755 "$root/usr/local/bin/debootstrap"
}

# Prints the machine's /proc/cpuinfo with the line of a POWER for the frequency of its clock, which qemu leaves out. UCX of
# MPICH computes time limits from it, which without it suit no TCP connection. Open MPI reads it as an int: with
# a larger number it waits without end.
power_cpuinfo() {
    awk '{print} /^cpu MHz/ {mhz = $4} END {
        hz = (mhz ? mhz : 512) * 1e6
        printf "timebase\t: %.0f\n", hz < 2147483647 ? hz : 2147483647
    }' /proc/cpuinfo
}

# In the namespaces of node $1: makes the userland its root. Changes are in an overlay, and gone with the node. Users see
# their files and the cluster's at the machine's paths.
enter_userland() {
    local base=$state/userland root path checkout partition
    partition=$(partition_of "$1")
    root=$base/root
    mkdir -p "$base"
    mount -t tmpfs -o mode=755 tmpfs "$base"
    mkdir "$base"/{root,upper,work}
    mount -t overlay overlay \
        -o "lowerdir=$(userland_of "$partition"),upperdir=$base/upper,workdir=$base/work" "$root"
    mount -t binfmt_misc binfmt_misc "$formats"
    for path in /*; do
        case $path in
            /bin | /boot | /etc | /lib* | /lost+found | /opt | /run | /sbin | /usr | /var) ;;
            *) [ ! -d "$path" ] || [ -L "$path" ] || lend "$path" ;;
        esac
    done
    lend /var/tmp
    # Not on build nodes: Apptainer mounts a new /proc there, which the kernel refuses below a /proc with mounts over it.
    if [ "$partition" = power ] && [[ $1 != *-build ]]; then
        power_cpuinfo >"$base/cpuinfo"
        mount --bind "$base/cpuinfo" "$root/proc/cpuinfo"
    fi
    mkdir -p "$root$state"
    mount --bind "$state" "$root$state"
    for path in passwd group shadow subuid subgid hosts resolv.conf pip.conf ssl/certs/ca-certificates.crt; do
        [ ! -e "/etc/$path" ] || cp -pL "/etc/$path" "$root/etc/$path"
    done
    # The userland itself, which can be used as an unpacked image.
    lend "$(userland_of "$partition")"
    cp -a "$state/openmpi/." "$root/etc/openmpi/"
    mkdir -p "$root$ucx"
    cp -a "$state/ucx/." "$root$ucx/"
    lend_own_programs
    # The build node needs names outside the cluster too.
    [[ $1 != *-build ]] || cat "$state/machine-hosts" >>"$root/etc/hosts"
    make_debootstrap
    checkout=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../..")
    [ -e "$root$checkout" ] || lend "$checkout"
    cd "$root"
    mkdir .machine
    pivot_root . .machine
    umount -l .machine
    rmdir .machine
    cd /
}

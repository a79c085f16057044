# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# The userlands of nodes of another architecture: trees with that architecture's Debian, made once. Sourced by layout.sh.

# Packages of a node besides a minimal Debian: those of jobs, and the bare software of the checks, as far as Debian has it
# for the architecture.
small_packages=(python3 openmpi-bin)
userland_packages=(ca-certificates procps debootstrap gcc g++ libc6-dev make python3 python3-venv openmpi-bin libopenmpi-dev)
# Not empty if the small packages are enough (up --small).
small=''
userlands=/var/cache/virtual-cluster

# Prints the directory of the userland of partition $1 with the packages $2... Each list has a directory of its own.
userland_with() {
    local key partition=$1
    shift
    key=$(printf '%s\n' "$@" | sha256sum | cut -c1-8)
    echo "$userlands/${debian_of[$partition]}-$(. /etc/os-release && echo "$VERSION_CODENAME")-$key"
}

# Prints the directory of the userland of partition $1: that of the running cluster, else the wanted one. The usual one is
# used in place of a small one if it is there.
userland_of() {
    local usual applications
    if [ -e "$state/userland-$1" ]; then
        cat "$state/userland-$1"
        return
    fi
    # Only for clusters with such nodes: others need no checks.
    applications=$(application_packages) || return
    # shellcheck disable=SC2086  # a list of words
    usual=$(userland_with "$1" "${userland_packages[@]}" $applications)
    if [ -z "$small" ] || [ -d "$usual" ]; then echo "$usual"; else userland_with "$1" "${small_packages[@]}"; fi
}

# Records the userlands of the cluster.
write_userlands() {
    local partition tree
    for partition in "${architectures[@]}"; do
        [ "${emulated[$partition]}" -gt 0 ] || continue
        tree=$(userland_of "$partition")
        echo "$tree" >"$state/userland-$partition"
    done
}

# Makes the userlands of all partitions that have nodes, where they are not there yet, side by side.
make_userlands() {
    local partition tree failed='' begun=$SECONDS
    local -A making=()
    for partition in "${architectures[@]}"; do
        [ "${emulated[$partition]}" -gt 0 ] || continue
        tree=$(userland_of "$partition")
        [ ! -d "$tree" ] || continue
        say "making a Debian for ${debian_of[$partition]}, once: some minutes (log: $tree.log)"
        mkdir -p "$userlands"
        rm -rf --one-file-system "$tree.new"
        (make_userland "$partition" "$tree.new") </dev/null >"$tree.log" 2>&1 &
        making[$partition]=$!
    done
    for partition in "${!making[@]}"; do
        tree=$(userland_of "$partition")
        if wait "${making[$partition]}"; then
            mv "$tree.new" "$tree"
            say "made that for ${debian_of[$partition]} in $((SECONDS - begun)) s"
        else
            failed="no Debian for ${debian_of[$partition]}: $(why_not "$tree.log"). See $tree.log"
        fi
    done
    [ -z "$failed" ] || die "$failed"
}

# Prints why no userland could be made, from the log $1. Many mirrors lack an architecture, or are out of date for it.
why_not() {
    local last
    last=$(tail -n 1 "$1")
    case $last in
        "E: Couldn't download "*/Packages | "E: Invalid Release file"*)
            last="the package mirror has it not, or not whole: $last" ;;
    esac
    echo "$last"
}

# Makes the userland of partition $1 in directory $2. apt knows alternative and virtual packages, debootstrap does not.
make_userland() {
    local release mirror file packages applications offered components='main non-free'
    set -e
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    grep -q '^ID=debian' /etc/os-release || components='main universe multiverse'
    mirror=$(machine mirror)
    signed_debootstrap "$(. /etc/os-release && echo "$ID")" --variant=minbase --arch="${debian_of[$1]}" "$release" "$2" "$mirror"
    echo "deb $mirror $release $components" >"$2/etc/apt/sources.list"
    cp -L /etc/resolv.conf "$2/etc/"
    # For a mirror by https: installing the package itself takes minutes under qemu.
    for file in /etc/ssl/certs/ca-certificates.crt; do [ ! -e "$file" ] || install -D -m 644 "$file" "$2$file"; done
    copy_apt_settings "$2"
    in_userland "$2" 'apt-get -q update'
    packages=("${small_packages[@]}")
    if [ -z "$small" ]; then
        applications=$(application_packages)
        # shellcheck disable=SC2086  # a list of words
        offered=$(offered_in "$2" $applications)
        mapfile -t packages <<<"$offered"
        packages+=("${userland_packages[@]}")
    fi
    in_userland "$2" 'apt-get -qy install -o Dpkg::Options::=--force-unsafe-io --no-install-recommends "$@"
        apt-get clean
        rm -rf /var/lib/apt/lists/*' "${packages[@]}"
}

# Runs the shell script $2 with the words $3... in the tree $1, in a new mount namespace, so that nothing stays mounted.
in_userland() {
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 unshare --mount sh -ec 'mount -t proc proc "$1/proc"
        tree=$1 script=$2; shift 2; exec chroot "$tree" sh -ec "$script" - "$@"' - "$@"
}

# Prints the packages among $2... that Debian has for the architecture of the tree $1.
offered_in() {
    local tree=$1
    shift
    in_userland "$tree" "$(declare -f candidate)"'
        for package; do
            if [ -n "$(candidate "$package")" ]; then
                echo "$package"
            else
                echo "no package $package here: checks that need it are skipped" >&2
            fi
        done' "$@"
}

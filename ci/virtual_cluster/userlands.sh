# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# The userlands of nodes of another architecture: trees with that architecture's Debian, made once. Sourced by layout.sh.

# What a node has besides a minimal Debian: what a job needs, and the bare software of the checks.
small_packages=(python3 openmpi-bin)
userland_packages=(
    ca-certificates procps debootstrap gcc g++ libc6-dev make python3 openmpi-bin libopenmpi-dev hpcc libopenblas0-serial
    gromacs
)
# Whether the first do (up --small).
small=''
userlands=/var/cache/virtual-cluster

# Prints the directory of the userland of partition $1 that has the packages $2... Another list makes another one.
userland_with() {
    local key partition=$1
    shift
    key=$(printf '%s\n' "$@" | sha256sum | cut -c1-8)
    echo "$userlands/${debian_of[$partition]}-$(. /etc/os-release && echo "$VERSION_CODENAME")-$key"
}

# Prints the directory of the userland of partition $1: that of the cluster that is up, else the one that is wanted. Where
# a small one would do, the usual one does too.
userland_of() {
    local usual
    if [ -e "$state/userland-$1" ]; then
        cat "$state/userland-$1"
        return
    fi
    usual=$(userland_with "$1" "${userland_packages[@]}" "${userland_more[@]}")
    if [ -z "$small" ] || [ -d "$usual" ]; then echo "$usual"; else userland_with "$1" "${small_packages[@]}"; fi
}

# Writes down which userlands the cluster has.
write_userlands() {
    local partition tree
    for partition in "${architectures[@]}"; do
        tree=$(userland_of "$partition")
        [ "${emulated[$partition]}" -eq 0 ] || echo "$tree" >"$state/userland-$partition"
    done
}

# Makes the userlands of all partitions that have nodes, where they are not there yet, side by side.
make_userlands() {
    local partition tree failed='' begun=$SECONDS
    local -A making=()
    for partition in "${architectures[@]}"; do
        tree=$(userland_of "$partition")
        if [ "${emulated[$partition]}" -eq 0 ] || [ -d "$tree" ]; then continue; fi
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

# Prints why none could be made, from the log $1. Many a mirror has not all architectures, or is not up to date in all.
why_not() {
    local last
    last=$(tail -n 1 "$1")
    case $last in
        "E: Couldn't download "*/Packages | "E: Invalid Release file"*)
            last="the package mirror has it not, or not whole: $last" ;;
    esac
    echo "$last"
}

# Makes that of partition $1 in directory $2. Of alternative and virtual packages apt knows more than debootstrap. With
# more packages it is made of the usual one, where that is there.
make_userland() {
    local mirror file usual packages=("${userland_packages[@]}" "${userland_more[@]}")
    set -e
    usual=$(userland_with "$1" "${userland_packages[@]}")
    if [ -n "$small" ]; then
        packages=("${small_packages[@]}")
    elif [ -d "$usual" ]; then
        cp -a "$usual" "$2"
        install_in "$2" "${userland_more[@]}"
        return
    fi
    mirror=$(machine mirror)
    debootstrap --variant=minbase --arch="${debian_of[$1]}" "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$2" "$mirror"
    cp -L /etc/resolv.conf "$2/etc/"
    # For a mirror by https: the package itself takes qemu minutes.
    for file in /etc/ssl/certs/ca-certificates.crt; do [ ! -e "$file" ] || install -D -m 644 "$file" "$2$file"; done
    copy_apt_settings "$2"
    install_in "$2" "${packages[@]}"
}

# Installs packages $2... in the tree $1.
install_in() {
    local tree=$1
    shift
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
    # In a namespace of its own, because nothing is to stay mounted there.
    unshare --mount sh -ec 'mount -t proc proc "$1/proc"; shift; exec "$@"' - "$tree" \
        chroot "$tree" sh -ec 'apt-get -q update
            apt-get -qy install -o Dpkg::Options::=--force-unsafe-io --no-install-recommends "$@"
            apt-get clean' - "$@"
    rm -rf "$tree"/var/lib/apt/lists/*
}

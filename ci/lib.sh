# Shared by the scripts of ci/. To be sourced, not run.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s: %s\n' "${0##*/}" "$*"; }
die() { printf '%s: error: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# In project directories many a site's umask lets the group write (002): what the scripts make runs on the next night too.
umask g-w,o-w

# Prints a file or directory of the programs run here that another user may change, if there is one.
writable_by_others() {
    local path places=() groups=(-perm -020)
    # A group of the user's own name has nobody else in it, as useradd makes it.
    [ "$(id -gn)" != "$(id -un)" ] || groups+=(! -group "$(id -g)")
    for path in "$repo"/{checks,ci,config,images,spack-envs,easyconfigs} "$repo/.venv/bin" "$repo/.venv/lib"; do
        [ ! -e "$path" ] || places+=("$path")
    done
    # Whoever may write to the directory may replace them.
    find "$repo" -maxdepth 0 ! -type l \( -perm -002 -o "${groups[@]}" \) -print -quit
    find -H "${places[@]}" ! -type l \( -perm -002 -o "${groups[@]}" \) -print -quit
}

# Warns of such a file; called by the scripts that run the checks.
warn_of_writers() {
    local path
    path=$(writable_by_others | head -n 1)
    [ -z "$path" ] || say "warning: others than $(id -un) may change what is run here, such as $path: chmod -R g-w,o-w $repo" >&2
}

# Prints the comment that a script begins with.
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; }

# Prints the Debian packages that the checks state; a check whose software is not there is skipped with that reason.
application_packages() { python3 "$repo/checks/containercheck/job" machine packages; }

# Tells whether the words "$@" only ask something.
only_asks() {
    local word
    for word; do
        case $word in -h | --help | --estimate) return 0 ;; esac
    done
    return 1
}

# Sets this machine up for a command with the words "$@", unless they only ask something: that changes nothing. Then the
# Python environment, whose directory is $environment from then on, stays until the command ends.
set_up() {
    if ! only_asks "$@"; then
        "$repo/ci/setup" || return 1
    elif [ ! -e "$repo/.venv/bin/containercheck" ]; then
        case " $* " in
            *' --help '* | *' -h '*) usage; exit 0 ;;
        esac
        printf '%s: error: nothing is set up here yet, and who asks changes nothing: run ci/setup first\n' "${0##*/}" >&2
        exit 2
    fi
    hold_environment
}

# Keeps the environment that .venv is now from being removed while this process lasts.
hold_environment() {
    environment=$(readlink -f "$repo/.venv")
    # Of a directory a lock needs no more than to be opened.
    exec {held}<"$environment"
    flock -s "$held"
}

# Runs the library's command that is called as this script is, with the words "$@", in the environment that set_up found.
run_command() {
    # shellcheck source=/dev/null
    . "$environment/bin/activate"
    # The commands that it prints can be pasted in the checkout.
    CONTAINERCHECK_TYPED='.venv/bin/containercheck ' exec "$environment/bin/containercheck" "${0##*/}" "$@"
}

# Tells whether commands can be run as root without a question: nobody answers one in a night.
can_be_root() { [ "$(id -u)" -eq 0 ] || { command -v sudo && sudo -n true; } >/dev/null 2>&1; }

# Runs a command as root: directly for root, with sudo for other users.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif can_be_root; then
        sudo "$@"
    else
        die "needs root for: $*. Run it as root, or where sudo asks for a password, run sudo -v first"
    fi
}

is_debian() {
    [ -r /etc/os-release ] && (. /etc/os-release; case " $ID ${ID_LIKE:-} " in *" debian "*) true ;; *) false ;; esac)
}

# Prints those of the named Debian packages that are not installed.
missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s\n' "$package"
    done
}

# Prints the version of a Debian package that apt would install, with the settings in $apt_conf if that is set; nothing
# where it has none.
candidate() { apt-cache ${apt_conf:+-c "$apt_conf"} policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([^(].*\)/\1/p'; }

# Installs the named Debian packages where they are missing; their services are not started.
apt_install() {
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || return 0
    say "installing ${missing[*]}"
    # In a subshell, which outlives this one if it is killed, and removes the policy file when apt is done.
    (without_services "${missing[@]}")
}

# Installs the packages "$@" and keeps their services from being started; called in a subshell.
without_services() {
    local policy=/usr/sbin/policy-rc.d mark='# Made by ci/setup while it installs packages: process' status=0 log
    remove_dead_policy "$policy" "$mark"
    log=$(mktemp "${TMPDIR:-/tmp}/apt-install.XXXXXX.log")
    if [ ! -e "$policy" ]; then
        # shellcheck disable=SC2064  # what it is now
        trap "as_root rm -f '$policy'" EXIT
        trap 'exit 143' TERM HUP
        trap 'exit 130' INT
        printf '#!/bin/sh\n%s %s\nexit 101\n' "$mark" "$BASHPID" | as_root install -m 755 /dev/stdin "$policy"
    fi
    { as_root apt-get -q update && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qy install --no-install-recommends "$@"; } >"$log" 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then
        tail -n 5 "$log" >&2
        die "apt-get could not install $* (log: $log)"
    fi
    rm -f "$log"
}

# Removes the file $1 if the process that made it, whose id is in the line $2, was killed.
remove_dead_policy() {
    local maker
    maker=$(sed -n "s|^$2 \([0-9]*\)$|\1|p" "$1" 2>/dev/null) || true
    if [ -n "$maker" ] && [ ! -d "/proc/$maker" ]; then as_root rm -f "$1"; fi
}

# Runs debootstrap with the words "$@" for a release of $1 (debian or ubuntu), and refuses unsigned packages: without
# the keyring it would only warn.
signed_debootstrap() {
    local keyring=/usr/share/keyrings/$1-archive-keyring.gpg
    [ -s "$keyring" ] || die "no $keyring, with which packages are checked: install $1-archive-keyring"
    debootstrap --force-check-gpg --keyring="$keyring" "${@:2}"
}

# Copies this machine's settings of apt for downloads, such as proxies, to the tree $1.
copy_apt_settings() {
    local file
    for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
        if [ -f "$file" ] && grep -q 'Acquire::' "$file"; then cp "$file" "$1/etc/apt/apt.conf.d/"; fi
    done
}

# machine mirror: prints the Debian mirror that this machine's own apt uses.
# machine python: prints a Python that takes ReFrame: the system's, or one on the PATH.
machine() {
    command -v python3 >/dev/null || die "no python3 on the PATH: install Python 3.10 or newer with its venv module"
    python3 "$repo/checks/containercheck/job" machine "$1"
}

# source_of DIRECTORY PACKAGE: downloads the source of a Debian package, as its authors released it, to DIRECTORY.
source_of() {
    local directory=$1
    private_apt "$directory/apt" "$(. /etc/os-release && echo "$VERSION_CODENAME") main"
    sed -i 's/^deb /deb-src /' "$directory/apt/sources.list"
    (cd "$directory" && apt-get "${private_apt[@]}" -q update && apt-get "${private_apt[@]}" -q source --tar-only "$2")
    rm -rf "$directory/apt"
}

# private_apt DIRECTORY 'SUITE COMPONENT'...
# Sets the array private_apt to the options of an apt configuration in DIRECTORY: the machine's own mirror and
# settings, but these suites and components only. Packages are to be downloaded to DIRECTORY/debs.
private_apt() {
    local directory=$1 mirror source
    shift
    mirror=$(machine mirror)
    mkdir -p "$directory"/{lists/partial,cache/archives/partial,debs}
    for source in "$@"; do
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $source"
    done >"$directory/sources.list"
    touch "$directory/status"
    private_apt=(-o Dir::Etc::SourceList="$directory/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$directory/lists"
        -o Dir::Cache="$directory/cache" -o APT::Sandbox::User=root -o Dir::State::status="$directory/status")
}

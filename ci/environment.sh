# shellcheck shell=bash disable=SC2154  # lib.sh gives the names
# The Python environment .venv: a link to the one that pyproject.toml's dependencies ask for, .venv-<digest>. Sourced by
# ci/setup.
#
# Another one is made beside it and the link is moved: sessions that run keep theirs, which they hold (hold_environment in
# lib.sh). One that nobody holds is removed a week after another took its place: a person may have activated it.

# File of a complete environment with the digest of its contents.
stamp=dependencies.sha256

# Packages that nights use, with hashes: no later version can get in. ci/lock writes it.
locked="$repo/ci/requirements-night.txt"
# Where environments are made: a schedule's checkout is new each night, and its state is not.
environments="${CONTAINERCHECK_ENVIRONMENTS:-$repo}"

# Fills the environment in directory $1.
fill_environment() {
    install_packages "$1"
    # The checkout itself, as it is. Without isolation: what builds it is locked like all else.
    "$1/bin/python" -m pip -q --disable-pip-version-check install --no-deps --no-build-isolation --editable "$repo"
}

# Installs what the checkout needs into the environment $1, with the tools of the tests too where $with_tests says so.
install_packages() {
    "$1/bin/python" -m pip -q --disable-pip-version-check install --require-hashes -r "$locked" ||
        die "pip could not install ReFrame (see above). Without a network, name a proxy or a mirror: https_proxy, PIP_INDEX_URL"
    if [ -n "${with_tests:-}" ]; then
        # Their versions may be new, those of what they have in common with a night may not.
        sed -n 's/^\([A-Za-z0-9].*==[^\\]*[^\\ ]\) *\\\{0,1\}$/\1/p' "$locked" >"$1/constraints.txt"
        (cd "$repo" && "$1/bin/python" -m pip -q --disable-pip-version-check install -c "$1/constraints.txt" --group test)
    fi
}

# Prints the digest of the wanted contents; with an argument, with the tools of the tests.
wanted_environment() {
    { sed '/^\[tool\.ruff/,$d' "$repo/pyproject.toml" && cat "$locked" && echo "$repo" "$*"; } | sha256sum
}

# Sets $wanted to the digest of the wanted environment, and tells whether .venv is another one.
lacks_environment() {
    local full now
    wanted=$(wanted_environment) full=$(wanted_environment tests) now=$(cat "$repo/.venv/$stamp" 2>/dev/null || true)
    [ -z "${with_tests:-}" ] || wanted=$full
    # One for tests serves a session too.
    [ "$now" != "$wanted" ] && [ "$now" != "$full" ]
}

make_environment() {
    local wanted made lock
    lacks_environment || return 0
    # Two processes at once would make one environment together.
    mkdir -p "$environments"
    exec {lock}>"$environments/.venv-lock"
    flock "$lock"
    made="$environments/.venv-${wanted:0:12}"
    if [ "$(cat "$made/$stamp" 2>/dev/null)" != "$wanted" ]; then
        say "setting up .venv (ReFrame and numpy${with_tests:+, and the tools of the tests})"
        # Remains of an interrupted set-up.
        rm -rf "$made"
        "$(machine python)" -m venv "$made"
        fill_environment "$made"
        printf '%s\n' "$wanted" >"$made/$stamp"
    fi
    use_environment "$made"
    remove_environments "$made"
    exec {lock}>&-
}

# Makes .venv a link to $1, atomically.
use_environment() {
    local link="$repo/.venv.$$"
    # A directory, as earlier versions made it.
    if [ -d "$repo/.venv" ] && [ ! -L "$repo/.venv" ]; then mv -T "$repo/.venv" "$repo/.venv-before"; fi
    # A relative link inside the checkout, so that it can be moved.
    if [ "${1%/*}" = "$repo" ]; then ln -s "${1##*/}" "$link"; else ln -s "$1" "$link"; fi
    mv -T "$link" "$repo/.venv"
}

# Removes the environments but $1 that were replaced a week ago and that nobody holds; the others are marked as replaced.
remove_environments() {
    local other fd
    for other in "$environments"/.venv-*/; do
        other=${other%/}
        if [ "$other" = "$1" ] || [ ! -d "$other" ]; then
            rm -f "$other/replaced"
            continue
        fi
        [ -e "$other/replaced" ] || touch "$other/replaced"
        exec {fd}<"$other"
        if [ -n "$(find "$other/replaced" -mtime +6)" ] && flock -n "$fd"; then rm -rf "$other"; fi
        exec {fd}<&-
    done
}

# shellcheck shell=bash disable=SC2154  # lib.sh gives the names
# The Python environment .venv: a link to the one that pyproject.toml's dependencies ask for, .venv-<digest>. Sourced by
# ci/setup.
#
# Another one is made beside it and the link is moved: sessions that run keep theirs, which they hold (hold_environment in
# lib.sh). One that nobody holds is removed a week after another took its place: a person may have activated it.

# Where it stands in an environment that is complete.
stamp=dependencies.sha256

# Fills the environment in directory $1.
fill_environment() {
    "$1/bin/python" -m pip -q --disable-pip-version-check install 'pip==25.3'
    (cd "$repo" && "$1/bin/python" -m pip -q --disable-pip-version-check install --group test)
}

# Prints the digest of what it is to have.
wanted_environment() { sed -n '/^\[dependency-groups\]/,/^\[tool/p' "$repo/pyproject.toml" | sha256sum; }

make_environment() {
    local wanted made lock
    wanted=$(wanted_environment)
    if [ "$(cat "$repo/.venv/$stamp" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    # Two at once would make one between them.
    exec {lock}>"$repo/.venv-lock"
    flock "$lock"
    made="$repo/.venv-${wanted:0:12}"
    if [ "$(cat "$made/$stamp" 2>/dev/null)" != "$wanted" ]; then
        say "setting up .venv (ReFrame, numpy and the tools of the tests)"
        # What is left of one that was interrupted.
        rm -rf "$made"
        "$(machine python)" -m venv "$made"
        fill_environment "$made"
        printf '%s\n' "$wanted" >"$made/$stamp"
    fi
    use_environment "$made"
    remove_environments "$made"
    exec {lock}>&-
}

# Makes .venv a link to $1, in one step.
use_environment() {
    local link="$repo/.venv.$$"
    # As it was made until there were links. Whoever runs from there goes on in the new one.
    if [ -d "$repo/.venv" ] && [ ! -L "$repo/.venv" ]; then mv -T "$repo/.venv" "$repo/.venv-before"; fi
    ln -s "${1##*/}" "$link"
    mv -T "$link" "$repo/.venv"
}

# Removes the environments but $1 that were replaced a week ago and that nobody holds; the others are marked as replaced.
remove_environments() {
    local other fd
    for other in "$repo"/.venv-*/; do
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

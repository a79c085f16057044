# Ranges of ids for building images without being root. Sourced by ci/setup.

# Tells whether user $1 has a range in /etc/subuid and in /etc/subgid: apptainer build --fakeroot needs them.
has_ranges() { has_range "$1" /etc/subuid && has_range "$1" /etc/subgid; }

# Gives the current user a range in each, where there is none.
map_user() {
    local user
    user=$(id -un)
    as_root bash -euc "$(declare -f has_range next_range give_range); give_range \"\$1\"" - "$user"
}

# Tells whether user $1 has a range in the file $2, by name or number.
has_range() {
    [ -e "$2" ] && awk -F: -v name="$1" -v number="$(id -u "$1")" '$1 == name || $1 == number {found = 1} END {exit !found}' "$2"
}

# Prints the first id of the next range in the file $1: it begins where the highest ends, because ranges must not overlap.
next_range() {
    cat "$1" 2>/dev/null |
        awk -F: '$2 + $3 > top {top = $2 + $3} END {if (top < 100000) top = 100000; if (top + 65536 > 4294967294) exit 1; printf "%.0f\n", top}'
}

# As root: gives ranges to user $1, under a lock.
give_range() {
    local user=$1 kind file first
    umask 022
    (umask 077; : >>/run/containercheck-subids.lock)
    exec 9<>/run/containercheck-subids.lock
    flock 9
    for kind in uid gid; do
        file=/etc/sub$kind
        if has_range "$user" "$file"; then continue; fi
        first=$(next_range "$file") || { echo "error: no ids are left in $file" >&2; return 1; }
        if cut -d: -f1 /etc/passwd | grep -qxF -- "$user"; then
            usermod "--add-sub${kind}s" "$first-$((first + 65535))" "$user"
        else
            # usermod does not know users who are not in /etc/passwd. The last line may lack its end.
            [ -z "$(tail -c 1 "$file" 2>/dev/null)" ] || echo >>"$file"
            echo "$user:$first:65536" >>"$file"
        fi
    done
}

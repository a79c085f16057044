# usage: sh hand-on.sh COMMAND run OPTIONS...
command=$1 file=
shift 2
for word; do
    case $word in --env-file=*) file=${word#*=}; break ;; esac
done
names=$(OF_IMAGE=$file awk 'BEGIN {
    # Variables that this script, the shell and awk set.
    skipped["OF_IMAGE"] = skipped["PWD"] = skipped["OLDPWD"] = skipped["_"] = 1
    skipped["AWKPATH"] = skipped["AWKLIBPATH"] = 1
    file = ENVIRON["OF_IMAGE"]
    while (file != "" && (getline line <file) > 0) { sub(/=.*/, "", line); skipped[line] = 1 }
    for (name in ENVIRON) if (name ~ /^[A-Za-z_][A-Za-z0-9_]*$/ && !(name in skipped)) print "--env=" name
}')
exec "$command" run $names "$@"

# usage: sh container-runtime.sh IMAGE WORKDIR SOURCE:TARGET...
# Without a container the program would run on the host: after an error, the launcher gets a file that is not there.
fail() { echo "error: $1" >&2; echo "$PWD/environment-missing.toml"; exit 1; }
quoted() { printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')"; }
text="image = $(quoted "$1")
workdir = $(quoted "$2")"
shift 2
mounts=
for mount; do
    case $mount in
        -* | [!/]*) fail "an environment file has mounts, SOURCE:TARGET, and no option $mount" ;;
        *:/*) mounts="$mounts${mounts:+, }$(quoted "$mount")" ;;
        *) fail "no mount is $mount: SOURCE:TARGET" ;;
    esac
done
made=$(mktemp "$PWD/environment.XXXXXX") || fail "no environment file can be written into $PWD"
printf '%s\nmounts = [%s]\n' "$text" "$mounts" >"$made"
name=$PWD/environment-$(cksum <"$made" | cut -d ' ' -f 1).toml
mv "$made" "$name" || fail "no environment file can be written into $PWD"
echo "$name"

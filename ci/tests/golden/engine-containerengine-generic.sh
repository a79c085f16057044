#!/bin/bash
#SBATCH --job-name="rfm_PingPong_df4726b7"
#SBATCH --ntasks=128
#SBATCH --ntasks-per-node=64
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:31:10
#SBATCH --exclusive
#SBATCH --no-requeue
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
cat >baseline.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores ./bin/pingpong 1.5 40
END
cat >subject.sh <<'END'
$(cat subject.start) srun --cpus-per-task=1 --cpu-bind=cores --environment="$(sh container-runtime.sh "$PWD"/image.sqsh /rfm_workdir $TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir $(cat subject.options))" pingpong 1.5 40
END
cat >baseline.observe.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores sh ./observe.sh ./baseline.observing
END
cat >subject.ranks.sh <<'END'
$(cat subject.start) srun --cpus-per-task=1 --cpu-bind=cores --environment="$(sh container-runtime.sh "$PWD"/image.sqsh /rfm_workdir $TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir $(cat subject.options))" mpi-ranks
END
cat >subject.ranks.inside.sh <<'END'
$(cat subject.start) srun --nodes=1 --ntasks=1 --environment="$(sh container-runtime.sh "$PWD"/image.sqsh /rfm_workdir $TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir $(cat subject.options))" mpirun -np 128 --bind-to core mpi-ranks
END
cat >subject.lookup.sh <<'END'
$(cat subject.start) srun --nodes=1 --ntasks=1 --environment="$(sh container-runtime.sh "$PWD"/image.sqsh /rfm_workdir $TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir $(cat subject.options))" sh -c 'command -v mpi-ranks'
END
cat >subject.inside.sh <<'END'
$(cat subject.start) srun --nodes=1 --ntasks=1 --environment="$(sh container-runtime.sh "$PWD"/image.sqsh /rfm_workdir $TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir $(cat subject.options))" mpirun -np 128 --bind-to core pingpong 1.5 40
END
cat >container-runtime.sh <<'END'
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

END
cat >subject.observe.sh <<'END'
$(cat subject.start) srun --cpus-per-task=1 --cpu-bind=cores --environment="$(sh container-runtime.sh "$PWD"/image.sqsh /rfm_workdir $TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir $(cat subject.options))" sh /rfm_workdir/observe.sh /rfm_workdir/subject.observing
END
cat >prepare.sh <<'END'
python3 $REPOSITORY/checks/containercheck/node observe --ranks=128 baseline || true
python3 $REPOSITORY/checks/containercheck/node runtime --command=srun --ranks=64 --own-environment --runtime=ContainerEngine --image=image.sqsh --required-option=--environment subject
python3 $REPOSITORY/checks/containercheck/node observe --ranks=128 subject || true
python3 $REPOSITORY/checks/containercheck/node ranks --ranks=128 --nodes=2 '--launcher=srun --cpus-per-task=1 --cpu-bind=cores' subject
END
python3 $REPOSITORY/checks/containercheck/node rounds --seconds=70 --limit=300 --local-ranks=64 --collect=pairs.csv --prepare=prepare.sh --prepare-limit=600 --alone

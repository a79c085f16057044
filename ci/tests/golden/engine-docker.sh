#!/bin/bash
#SBATCH --job-name="rfm_PingPong_5ea09f99"
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
python3 $REPOSITORY/checks/containercheck/node each-node convert --load image.oci --runtime docker || exit 1
cat >baseline.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores ./bin/pingpong 1.5 40
END
cat >subject.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat subject.host-mpi.options) $(cat image.name) sh /rfm_workdir/subject.host-mpi.sh pingpong 1.5 40
END
cat >baseline.observe.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores sh ./observe.sh ./baseline.observing
END
cat >subject.ranks.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat subject.host-mpi.options) $(cat image.name) sh /rfm_workdir/subject.host-mpi.sh mpi-ranks
END
cat >subject.ranks.inside.sh <<'END'
$(cat subject.start) sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat subject.host-mpi.options) $(cat image.name) sh /rfm_workdir/subject.host-mpi.sh mpirun -np 128 --bind-to core mpi-ranks
END
cat >subject.lookup.sh <<'END'
$(cat subject.start) sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat subject.host-mpi.options) $(cat image.name) sh /rfm_workdir/subject.host-mpi.sh sh -c 'command -v mpi-ranks'
END
cat >subject.inside.sh <<'END'
$(cat subject.start) sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat subject.host-mpi.options) $(cat image.name) sh /rfm_workdir/subject.host-mpi.sh mpirun -np 128 --bind-to core pingpong 1.5 40
END
cat >hand-on.sh <<'END'
# usage: sh hand-on.sh COMMAND run OPTIONS...
command=$1 file=
shift 2
for word; do
    case $word in --env-file=*) file=${word#*=}; break ;; esac
done
names=$(OF_IMAGE=$file awk 'BEGIN {
    # What this script, the shell and awk set.
    skipped["OF_IMAGE"] = skipped["PWD"] = skipped["OLDPWD"] = skipped["_"] = 1
    skipped["AWKPATH"] = skipped["AWKLIBPATH"] = 1
    file = ENVIRON["OF_IMAGE"]
    while (file != "" && (getline line <file) > 0) { sub(/=.*/, "", line); skipped[line] = 1 }
    for (name in ENVIRON) if (name ~ /^[A-Za-z_][A-Za-z0-9_]*$/ && !(name in skipped)) print "--env=" name
}')
exec "$command" run $names "$@"

END
cat >subject.host-mpi.sh <<'END'
export LD_LIBRARY_PATH=/rfm_workdir/subject.host-mpi${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$@"
END
cat >subject.preflight.sh <<'END'
if ! program=$(command -v "$1"); then echo "$1: not found"; exit 127; fi
IFS= read -r first <"$program"
case $first in
    ?ELF*) exec env LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes "$program" ;;
    *) echo "script: $program"
       exec env LD_PRELOAD=/rfm_workdir/subject.host-mpi/libmpi-of-host.so LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes /bin/sh -c : ;;
esac
END
cat >subject.observe.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat subject.host-mpi.options) $(cat image.name) sh /rfm_workdir/subject.host-mpi.sh sh /rfm_workdir/observe.sh /rfm_workdir/subject.observing
END
cat >prepare.sh <<'END'
python3 $REPOSITORY/checks/containercheck/node observe --ranks=128 baseline || true
python3 $REPOSITORY/checks/containercheck/node runtime --command=docker --ranks=64 --several-nodes subject --stored-image=$(cat image.name)
python3 $REPOSITORY/checks/containercheck/node hostmpi plan '--bind=-v={source}:{target}' --side=subject ./bin/pingpong
python3 $REPOSITORY/checks/containercheck/node observe --ranks=128 subject || true
$(cat subject.start) sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat subject.host-mpi.options) $(cat image.name) sh /rfm_workdir/subject.host-mpi.sh sh /rfm_workdir/subject.preflight.sh pingpong >subject.preflight.out 2>&1 || true
python3 $REPOSITORY/checks/containercheck/node hostmpi verify subject
python3 $REPOSITORY/checks/containercheck/node ranks --ranks=128 --nodes=2 '--launcher=srun --cpus-per-task=1 --cpu-bind=cores' --host-mpi subject
END
python3 $REPOSITORY/checks/containercheck/node rounds --seconds=70 --limit=300 --local-ranks=64 --collect=pairs.csv --prepare=prepare.sh --prepare-limit=600 --alone

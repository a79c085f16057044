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
python3 $REPOSITORY/checks/containercheck/node each-node convert --load image.oci --runtime podman || exit 1
cat >baseline.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores ./bin/pingpong 1.5 40
END
cat >subject.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat image.name) pingpong 1.5 40
END
cat >baseline.observe.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores sh ./observe.sh ./baseline.observing
END
cat >subject.ranks.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat image.name) mpi-ranks
END
cat >subject.ranks.inside.sh <<'END'
$(cat subject.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat image.name) mpirun -np 128 --bind-to core mpi-ranks
END
cat >subject.lookup.sh <<'END'
$(cat subject.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat image.name) sh -c 'command -v mpi-ranks'
END
cat >subject.inside.sh <<'END'
$(cat subject.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat image.name) mpirun -np 128 --bind-to core pingpong 1.5 40
END
cat >subject.observe.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat subject.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat image.name) sh /rfm_workdir/observe.sh /rfm_workdir/subject.observing
END
cat >prepare.sh <<'END'
python3 $REPOSITORY/checks/containercheck/node observe --ranks=128 baseline || true
python3 $REPOSITORY/checks/containercheck/node runtime --command=podman --ranks=64 --own-environment subject --stored-image=$(cat image.name)
python3 $REPOSITORY/checks/containercheck/node observe --ranks=128 subject || true
python3 $REPOSITORY/checks/containercheck/node ranks --ranks=128 --nodes=2 '--launcher=srun --cpus-per-task=1 --cpu-bind=cores' subject
END
python3 $REPOSITORY/checks/containercheck/node rounds --seconds=70 --limit=300 --local-ranks=64 --collect=pairs.csv --prepare=prepare.sh --prepare-limit=600 --alone

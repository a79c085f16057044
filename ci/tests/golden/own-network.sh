#!/bin/bash
#SBATCH --job-name="rfm_PingPong_df4726b7"
#SBATCH --ntasks=128
#SBATCH --ntasks-per-node=64
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:41:10
#SBATCH --exclusive
#SBATCH --no-requeue
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
python3 $REPOSITORY/checks/containercheck/node each-node convert --load host.image.oci --runtime podman --command podman || exit 1
python3 $REPOSITORY/checks/containercheck/node each-node convert --load overlay.image.oci --runtime podman --command podman || exit 1
cat >baseline.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores ./bin/pingpong 1.5 40
END
cat >host.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat host.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat host.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat host.image.name) pingpong 1.5 40
END
cat >overlay.sh <<'END'
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --cpu-bind=none --mpi=none --kill-on-bad-exit=1 $(cat overlay.start) podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat overlay.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat overlay.image.name) sh /rfm_workdir/own-network.sh 2 64 mpirun -np 128 --bind-to core pingpong 1.5 40
END
cat >baseline.observe.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores sh ./observe.sh ./baseline.observing
END
cat >host.ranks.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat host.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat host.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat host.image.name) mpi-ranks
END
cat >host.ranks.inside.sh <<'END'
$(cat host.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat host.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat host.image.name) mpirun -np 128 --bind-to core mpi-ranks
END
cat >host.lookup.sh <<'END'
$(cat host.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat host.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat host.image.name) sh -c 'command -v mpi-ranks'
END
cat >host.inside.sh <<'END'
$(cat host.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat host.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat host.image.name) mpirun -np 128 --bind-to core pingpong 1.5 40
END
cat >host.observe.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat host.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat host.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat host.image.name) sh /rfm_workdir/observe.sh /rfm_workdir/host.observing
END
cat >overlay.ranks.sh <<'END'
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --cpu-bind=none --mpi=none --kill-on-bad-exit=1 $(cat overlay.start) podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat overlay.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat overlay.image.name) sh /rfm_workdir/own-network.sh 2 64 mpirun -np 128 --bind-to core mpi-ranks
END
cat >overlay.ranks.inside.sh <<'END'
$(cat overlay.start) podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat overlay.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat overlay.image.name) mpirun -np 128 --bind-to core mpi-ranks
END
cat >overlay.lookup.sh <<'END'
$(cat overlay.start) podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat overlay.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat overlay.image.name) sh -c 'command -v mpi-ranks'
END
cat >overlay.inside.sh <<'END'
$(cat overlay.start) podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat overlay.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat overlay.image.name) mpirun -np 128 --bind-to core pingpong 1.5 40
END
cat >own-network.sh <<'END'
# usage: sh own-network.sh NODES RANKS_PER_NODE MPIRUN...   in one container on each node
#        sh own-network.sh agent ADDRESS COMMAND...          for mpirun: runs a command in that container
if [ "$1" = agent ]; then
    place=$(grep -lxF -e "$2" "$MEETING"/address.*) || { echo "error: no container has the address $2" >&2; exit 1; }
    number=${place##*.}
    shift 2
    # In the foreground: the container ends with the daemon, which ends when mpirun is gone, however that ended.
    printf '%s\n' "$*" | sed 's/ --daemonize / /' >"$MEETING/new.$number"
    exec mv "$MEETING/new.$number" "$MEETING/start.$number"
fi
nodes=$1 ranks=$2 number=${SLURM_PROCID:-0}
shift 2
export MEETING="$PWD/own-network.${SLURM_JOB_ID:-0}.${SLURM_STEP_ID:-0}"
# The names of Slurm's nodes are not those of the containers.
for name in $(env | sed -n 's/^\(SLURM_[A-Za-z0-9_]*\)=.*/\1/p'); do unset "$name"; done
[ "$nodes" -gt 1 ] || exec "$@"
address=$(sed -n "s/^\([0-9][0-9.]*\)[[:space:]].*\b$(uname -n)\b.*/\1/p" /etc/hosts | head -n 1)
[ -n "$address" ] || { echo "error: the container on node $number has no address in its network" >&2; exit 1; }
mkdir -p "$MEETING"
echo "$address" >"$MEETING/new.$number" && mv "$MEETING/new.$number" "$MEETING/address.$number"
if [ "$number" != 0 ]; then
    tries=0
    until [ -e "$MEETING/start.$number" ] || [ -e "$MEETING/done" ] || [ $tries -ge 1200 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    [ ! -e "$MEETING/start.$number" ] || exec sh "$MEETING/start.$number"
    exit
fi
trap 'touch "$MEETING/done"' EXIT
tries=0
until [ "$(ls "$MEETING" | grep -c '^address\.')" -eq "$nodes" ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "error: not all containers came up: $(ls "$MEETING")" >&2; exit 1; }
    sleep 0.1
done
sed "s/\$/ slots=$ranks/" "$MEETING"/address.* >"$MEETING/hosts"
export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="sh $PWD/own-network.sh agent" OMPI_MCA_plm_rsh_no_tree_spawn=1
export OMPI_MCA_orte_default_hostfile="$MEETING/hosts"
"$@"

END
cat >overlay.observe.sh <<'END'
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --cpu-bind=none --mpi=none --kill-on-bad-exit=1 $(cat overlay.start) podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat overlay.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat overlay.image.name) sh /rfm_workdir/own-network.sh 2 64 mpirun -np 128 --bind-to core sh /rfm_workdir/observe.sh /rfm_workdir/overlay.observing
END
cat >prepare.sh <<'END'
python3 $REPOSITORY/checks/containercheck/node observe --ranks=128 baseline || true
bash -ec 'python3 $REPOSITORY/checks/containercheck/node runtime --command=podman --ranks=64 --own-environment host --stored-image=$(cat host.image.name)
python3 $REPOSITORY/checks/containercheck/node observe --ranks=128 host || true
python3 $REPOSITORY/checks/containercheck/node ranks --ranks=128 --nodes=2 '"'"'--launcher=srun --cpus-per-task=1 --cpu-bind=cores'"'"' host
(set -o pipefail; $(cat host.start) podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat host.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat host.image.name) sh -c '"'"'env -0; echo; cat /proc/self/mountinfo; echo; ulimit -a; grep -E ^Cap /proc/self/status'"'"' | python3 $REPOSITORY/checks/containercheck/node surroundings host)' 2>host.prepare.err || cp host.prepare.err host.lost; cat host.prepare.err >&2
bash -ec 'python3 $REPOSITORY/checks/containercheck/node runtime --command=podman --ranks=64 --own-environment --way=overlay overlay --stored-image=$(cat overlay.image.name)
python3 $REPOSITORY/checks/containercheck/node observe --ranks=128 overlay || true
python3 $REPOSITORY/checks/containercheck/node ranks --ranks=128 --nodes=2 '"'"'--launcher=srun --cpus-per-task=1 --cpu-bind=cores'"'"' --own-network overlay
(set -o pipefail; $(cat overlay.start) podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir $(cat overlay.options) --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN $(cat overlay.image.name) sh -c '"'"'env -0; echo; cat /proc/self/mountinfo; echo; ulimit -a; grep -E ^Cap /proc/self/status'"'"' | python3 $REPOSITORY/checks/containercheck/node surroundings overlay)' 2>overlay.prepare.err || cp overlay.prepare.err overlay.lost; cat overlay.prepare.err >&2
END
python3 $REPOSITORY/checks/containercheck/node rounds --seconds=70 --limit=300 --local-ranks=64 --collect=pairs.csv --prepare=prepare.sh --prepare-limit=600 --alone

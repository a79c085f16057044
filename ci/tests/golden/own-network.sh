#!/bin/bash
#SBATCH --job-name="rfm_PingPong_df4726b7"
#SBATCH --ntasks=128
#SBATCH --ntasks-per-node=64
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:42:20
#SBATCH --exclusive
#SBATCH --no-requeue
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "error: Slurm started this job a second time" >&2; exit 1; }
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
python3 $REPOSITORY/checks/containercheck/job each-node load host.image.oci podman podman || exit 1
python3 $REPOSITORY/checks/containercheck/job each-node load overlay.image.oci podman podman || exit 1
# The sides run in rounds, each run by a script of its own, rounds/ROUND-SIDE/run.sh:
# bare runs: srun --cpus-per-task=1 --cpu-bind=cores ./bin/pingpong 1.5 40
# host runs: srun --cpus-per-task=1 --cpu-bind=cores {{start}} podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} pingpong 1.5 40
# overlay runs: srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --cpu-bind=none --mpi=none --kill-on-bad-exit=1 {{start}} podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} sh /rfm_workdir/own-network.sh 2 64 mpirun -np 128 --bind-to core {{prefix}} pingpong 1.5 40
python3 $REPOSITORY/checks/containercheck/job rounds --seconds=70 --limit=300 --local-ranks=64 --collect=pairs.csv --prepare=prepare.sh --prepare-limit=600 --alone
#= prepare.sh
python3 $REPOSITORY/checks/containercheck/job observe --ranks=128 baseline || true
bash -ec 'python3 $REPOSITORY/checks/containercheck/job runtime host
python3 $REPOSITORY/checks/containercheck/job observe --ranks=128 host || true
python3 $REPOSITORY/checks/containercheck/job observe --alone host' 2>host.prepare.err || cp host.prepare.err host.lost; cat host.prepare.err >&2
bash -ec 'python3 $REPOSITORY/checks/containercheck/job runtime overlay
python3 $REPOSITORY/checks/containercheck/job observe --ranks=128 overlay || true
python3 $REPOSITORY/checks/containercheck/job observe --alone overlay' 2>overlay.prepare.err || cp overlay.prepare.err overlay.lost; cat overlay.prepare.err >&2

#= baseline: run
srun --cpus-per-task=1 --cpu-bind=cores {{prefix}} ./bin/pingpong 1.5 40
#= baseline: observe
srun --cpus-per-task=1 --cpu-bind=cores sh ./observe.sh ./{{side}}.observing
#= host: run
srun --cpus-per-task=1 --cpu-bind=cores {{start}} podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} pingpong 1.5 40
#= host: surroundings
{{start}} podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing
#= host: ranks
srun --cpus-per-task=1 --cpu-bind=cores {{start}} podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} mpi-ranks
#= host: ranks-inside
{{start}} podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} mpirun -np 128 --bind-to core mpi-ranks
#= host: look-up
{{start}} podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} sh -c 'command -v mpi-ranks'
#= host: run-inside
{{start}} podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} mpirun -np 128 --bind-to core pingpong 1.5 40
#= host: observe
srun --cpus-per-task=1 --cpu-bind=cores {{start}} podman run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing
#= overlay: run
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --cpu-bind=none --mpi=none --kill-on-bad-exit=1 {{start}} podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} sh /rfm_workdir/own-network.sh 2 64 mpirun -np 128 --bind-to core {{prefix}} pingpong 1.5 40
#= overlay: surroundings
{{start}} podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing
#= overlay: ranks
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --cpu-bind=none --mpi=none --kill-on-bad-exit=1 {{start}} podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} sh /rfm_workdir/own-network.sh 2 64 mpirun -np 128 --bind-to core {{prefix}} mpi-ranks
#= overlay: ranks-inside
{{start}} podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} mpirun -np 128 --bind-to core mpi-ranks
#= overlay: look-up
{{start}} podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} sh -c 'command -v mpi-ranks'
#= overlay: run-inside
{{start}} podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} mpirun -np 128 --bind-to core pingpong 1.5 40
#= overlay: observe
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --cpu-bind=none --mpi=none --kill-on-bad-exit=1 {{start}} podman run --rm --interactive --network=overlay --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/here/only/builtin/PingPong_df4726b7:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} sh /rfm_workdir/own-network.sh 2 64 mpirun -np 128 --bind-to core {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing

#!/bin/bash
#SBATCH --job-name="rfm_PingPong_5ea09f99"
#SBATCH --ntasks=128
#SBATCH --ntasks-per-node=64
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:32:20
#SBATCH --exclusive
#SBATCH --no-requeue
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "error: Slurm started this job a second time" >&2; exit 1; }
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
# The sides run in rounds, each run by a script of its own, rounds/ROUND-SIDE/run.sh:
# bare runs: srun --cpus-per-task=1 --cpu-bind=cores ./bin/pingpong 1.5 40
# integrated runs: srun --cpus-per-task=1 --cpu-bind=cores {{start}} ch-run --set-env --set-env=PWD=/rfm_workdir --bind=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir --cd=/rfm_workdir {{options}} --join-ct=64 {{mpi-options}} {{changes}} {{image}} -- sh /rfm_workdir/subject.host-mpi.sh {{prefix}} pingpong 1.5 40
python3 $REPOSITORY/checks/containercheck/job rounds --seconds=70 --limit=300 --local-ranks=64 --collect=pairs.csv --prepare=prepare.sh --prepare-limit=600 --alone
#= prepare.sh
python3 $REPOSITORY/checks/containercheck/job observe --ranks=128 baseline || true
python3 $REPOSITORY/checks/containercheck/job runtime subject
python3 $REPOSITORY/checks/containercheck/job hostmpi plan subject
python3 $REPOSITORY/checks/containercheck/job enter subject mount-points
python3 $REPOSITORY/checks/containercheck/job observe --ranks=128 subject || true
python3 $REPOSITORY/checks/containercheck/job enter subject preflight >subject.preflight.out 2>&1 || true
python3 $REPOSITORY/checks/containercheck/job hostmpi verify subject

#= baseline: run
srun --cpus-per-task=1 --cpu-bind=cores {{prefix}} ./bin/pingpong 1.5 40
#= baseline: observe
srun --cpus-per-task=1 --cpu-bind=cores sh ./observe.sh ./{{side}}.observing
#= subject: run
srun --cpus-per-task=1 --cpu-bind=cores {{start}} ch-run --set-env --set-env=PWD=/rfm_workdir --bind=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir --cd=/rfm_workdir {{options}} --join-ct=64 {{mpi-options}} {{changes}} {{image}} -- sh /rfm_workdir/subject.host-mpi.sh {{prefix}} pingpong 1.5 40
#= subject: mount-points
{{start}} ch-run --set-env --set-env=PWD=/rfm_workdir --bind=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir --cd=/rfm_workdir {{options}} --write {{mpi-options}} {{changes}} {{image}} -- true
#= subject: preflight
{{start}} ch-run --set-env --set-env=PWD=/rfm_workdir --bind=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir --cd=/rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} -- sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh /rfm_workdir/subject.preflight.sh pingpong
#= subject: ranks
srun --cpus-per-task=1 --cpu-bind=cores {{start}} ch-run --set-env --set-env=PWD=/rfm_workdir --bind=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir --cd=/rfm_workdir {{options}} --join-ct=64 {{mpi-options}} {{changes}} {{image}} -- sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpi-ranks
#= subject: ranks-inside
{{start}} ch-run --set-env --set-env=PWD=/rfm_workdir --bind=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir --cd=/rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} -- sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpirun -np 128 --bind-to core mpi-ranks
#= subject: look-up
{{start}} ch-run --set-env --set-env=PWD=/rfm_workdir --bind=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir --cd=/rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} -- sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh -c 'command -v mpi-ranks'
#= subject: run-inside
{{start}} ch-run --set-env --set-env=PWD=/rfm_workdir --bind=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir --cd=/rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} -- sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpirun -np 128 --bind-to core pingpong 1.5 40
#= subject: observe
srun --cpus-per-task=1 --cpu-bind=cores {{start}} ch-run --set-env --set-env=PWD=/rfm_workdir --bind=$TMP/stage/here/only/builtin/PingPong_5ea09f99:/rfm_workdir --cd=/rfm_workdir {{options}} --join-ct=64 {{mpi-options}} {{changes}} {{image}} -- sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing

#!/bin/bash
#SBATCH --job-name="rfm_PingPong_e7e5c5a6"
#SBATCH --ntasks=12288
#SBATCH --ntasks-per-node=48
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:32:20
#SBATCH --exclusive
#SBATCH --no-requeue
module load gcc
module load openmpi
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "error: Slurm started this job a second time" >&2; exit 1; }
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
# The sides run in rounds, each run by a script of its own, rounds/ROUND-SIDE/run.sh:
# bare runs: srun --cpus-per-task=1 --cpu-bind=cores ./bin/pingpong 1.5 40
# integrated runs: srun --cpus-per-task=1 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/marenostrum4/main/openmpi/PingPong_e7e5c5a6:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} pingpong 1.5 40
python3 $REPOSITORY/checks/containercheck/job rounds --seconds=70 --limit=300 --local-ranks=48 --collect=pairs.csv --prepare=prepare.sh --prepare-limit=600 --alone
#= prepare.sh
python3 $REPOSITORY/checks/containercheck/job observe baseline || true
python3 $REPOSITORY/checks/containercheck/job runtime subject
python3 $REPOSITORY/checks/containercheck/job hostmpi plan subject
python3 $REPOSITORY/checks/containercheck/job observe subject || true
python3 $REPOSITORY/checks/containercheck/job enter subject preflight >subject.preflight.out 2>&1 || true
python3 $REPOSITORY/checks/containercheck/job hostmpi verify subject

#= baseline: run
srun --cpus-per-task=1 --cpu-bind=cores {{prefix}} ./bin/pingpong 1.5 40
#= baseline: observe
sh ./observe.sh ./{{side}}.observing
#= subject: run
srun --cpus-per-task=1 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/marenostrum4/main/openmpi/PingPong_e7e5c5a6:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} pingpong 1.5 40
#= subject: unpack
{{start}} singularity exec -B$TMP/stage/marenostrum4/main/openmpi/PingPong_e7e5c5a6:/rfm_workdir --pwd /rfm_workdir {{options}} --contain {{changes}} image.sif sh -c '{ cd / && tar -cf - $(tar --help 2>&1 | grep -o -m 1 -e --ignore-failed-read) $(ls -d .singularity.d bin etc lib* opt sbin srv usr var 2>/dev/null); echo $? >/rfm_workdir/{{tree}}.status; } | { tar -C /rfm_workdir/{{tree}} -xof - && cat >/dev/null; } && [ "$(cat /rfm_workdir/{{tree}}.status)" -le 1 ] && cd /rfm_workdir/{{tree}} && mkdir -p dev proc sys tmp'
#= subject: preflight
{{start}} singularity exec -B$TMP/stage/marenostrum4/main/openmpi/PingPong_e7e5c5a6:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh /rfm_workdir/subject.preflight.sh pingpong
#= subject: ranks
srun --cpus-per-task=1 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/marenostrum4/main/openmpi/PingPong_e7e5c5a6:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpi-ranks
#= subject: ranks-inside
{{start}} singularity exec -B$TMP/stage/marenostrum4/main/openmpi/PingPong_e7e5c5a6:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpirun -np 12288 --bind-to core mpi-ranks
#= subject: look-up
{{start}} singularity exec -B$TMP/stage/marenostrum4/main/openmpi/PingPong_e7e5c5a6:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh -c 'command -v mpi-ranks'
#= subject: run-inside
{{start}} singularity exec -B$TMP/stage/marenostrum4/main/openmpi/PingPong_e7e5c5a6:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpirun -np 12288 --bind-to core pingpong 1.5 40
#= subject: observe
{{start}} singularity exec -B$TMP/stage/marenostrum4/main/openmpi/PingPong_e7e5c5a6:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing

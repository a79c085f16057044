#!/bin/bash
#SBATCH --job-name="rfm_HPCC_8189f43e"
#SBATCH --ntasks=640
#SBATCH --ntasks-per-node=40
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:33:0
#SBATCH --exclusive
#SBATCH --hint=nomultithread
#SBATCH --no-requeue
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "error: Slurm started this job a second time" >&2; exit 1; }
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
command -v hpcc >/dev/null || { printf 'no software: hpcc is not on the PATH of %s: install hpcc libopenblas0-serial (ci/setup does on Debian and Ubuntu), or name it in the site'"'"'s extras, software: HPCC' "$(uname -n)" >unsupported.txt; exit 1; }
# The sides run in rounds, each run by a script of its own, rounds/ROUND-SIDE/run.sh:
# bare runs: srun --cpus-per-task=1 --cpu-bind=cores hpcc
# generic runs: srun --cpus-per-task=1 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} hpcc
python3 $REPOSITORY/checks/containercheck/job rounds --seconds=90 --limit=300 --local-ranks=40 --collect=hpccoutf.txt --prepare=prepare.sh --prepare-limit=600 --alone
#= prepare.sh
python3 $REPOSITORY/checks/containercheck/job observe baseline || true
python3 $REPOSITORY/checks/containercheck/job runtime subject
python3 $REPOSITORY/checks/containercheck/job observe subject || true

#= baseline: run
srun --cpus-per-task=1 --cpu-bind=cores {{prefix}} hpcc
#= baseline: observe
sh ./observe.sh ./{{side}}.observing
#= subject: run
srun --cpus-per-task=1 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} hpcc
#= subject: unpack
{{start}} singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir {{options}} --contain {{changes}} image.sif sh -c '{ cd / && tar -cf - $(tar --help 2>&1 | grep -o -m 1 -e --ignore-failed-read) $(ls -d .singularity.d bin etc lib* opt sbin srv usr var 2>/dev/null); echo $? >/rfm_workdir/{{tree}}.status; } | { tar -C /rfm_workdir/{{tree}} -xof - && cat >/dev/null; } && [ "$(cat /rfm_workdir/{{tree}}.status)" -le 1 ] && cd /rfm_workdir/{{tree}} && mkdir -p dev proc sys tmp'
#= subject: ranks
srun --cpus-per-task=1 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} mpi-ranks
#= subject: ranks-inside
{{start}} singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} mpirun -np 640 --bind-to core mpi-ranks
#= subject: look-up
{{start}} singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} sh -c 'command -v mpi-ranks'
#= subject: run-inside
{{start}} singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} mpirun -np 640 --bind-to core hpcc
#= subject: observe
{{start}} singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing

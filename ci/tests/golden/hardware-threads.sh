#!/bin/bash
#SBATCH --job-name="rfm_HPCC_42428670"
#SBATCH --ntasks=256
#SBATCH --ntasks-per-node=128
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:20:0
#SBATCH --exclusive
#SBATCH --partition=openpower
#SBATCH --hint=multithread
#SBATCH --no-requeue
export OMP_NUM_THREADS=1
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "error: Slurm started this job a second time" >&2; exit 1; }
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
command -v hpcc >/dev/null || { printf 'no software: hpcc is not on the PATH of %s: install hpcc libopenblas0-serial (ci/setup does on Debian and Ubuntu), or name it in the site'"'"'s extras, software: HPCC' "$(uname -n)" >unsupported.txt; exit 1; }
# The sides run in rounds, each run by a script of its own, rounds/ROUND-SIDE/run.sh:
# bare runs: srun --cpus-per-task=1 --cpu-bind=threads hpcc
python3 $REPOSITORY/checks/containercheck/job rounds --rounds=1 --limit=300 --local-ranks=128 --collect=hpccoutf.txt --alone
#= baseline: run
srun --cpus-per-task=1 --cpu-bind=threads hpcc

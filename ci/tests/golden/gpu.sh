#!/bin/bash
#SBATCH --job-name="rfm_GROMACSHybrid_885fb998"
#SBATCH --ntasks=16
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=10
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:53:20
#SBATCH --exclusive
#SBATCH --partition=gpu
#SBATCH --gres=gpu:2
#SBATCH --no-requeue
export OMP_NUM_THREADS=10
export PMIX_MCA_gds=hash
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "error: Slurm started this job a second time" >&2; exit 1; }
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
export PATH="$PWD/spack/.spack-env/view/bin:$PATH"
# The sides run in rounds, each run by a script of its own, rounds/ROUND-SIDE/run.sh:
# bare runs: srun --cpus-per-task=10 --cpu-bind=cores ./spack/.spack-env/view/bin/gmx_mpi -nobackup mdrun -s topol.tpr -noconfout -ntomp 10 -nsteps 10000
# generic runs: srun --cpus-per-task=10 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} gmx_mpi -nobackup mdrun -s topol.tpr -noconfout -ntomp 10 -nsteps 10000
python3 $REPOSITORY/checks/containercheck/job rounds --seconds=100 --limit=600 --local-ranks=2 --collect=md.log --prepare=prepare.sh --prepare-limit=600 --alone
#= prepare.sh
python3 $REPOSITORY/checks/containercheck/job observe --ranks=16 baseline || true
python3 $REPOSITORY/checks/containercheck/job runtime subject
python3 $REPOSITORY/checks/containercheck/job observe --ranks=16 subject || true
cp $TMP/path/to/ueabs/gromacs/case-a/topol.tpr topol.tpr

#= baseline: run
srun --cpus-per-task=10 --cpu-bind=cores {{prefix}} ./spack/.spack-env/view/bin/gmx_mpi -nobackup mdrun -s topol.tpr -noconfout -ntomp 10 -nsteps 10000
#= baseline: observe
srun --cpus-per-task=10 --cpu-bind=cores sh ./observe.sh ./{{side}}.observing
#= subject: run
srun --cpus-per-task=10 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} gmx_mpi -nobackup mdrun -s topol.tpr -noconfout -ntomp 10 -nsteps 10000
#= subject: unpack
{{start}} singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir {{options}} --contain {{changes}} image.sif sh -c '{ cd / && tar -cf - $(tar --help 2>&1 | grep -o -m 1 -e --ignore-failed-read) $(ls -d .singularity.d bin etc lib* opt sbin srv usr var 2>/dev/null); echo $? >/rfm_workdir/{{tree}}.status; } | { tar -C /rfm_workdir/{{tree}} -xof - && cat >/dev/null; } && [ "$(cat /rfm_workdir/{{tree}}.status)" -le 1 ] && cd /rfm_workdir/{{tree}} && mkdir -p dev proc sys tmp'
#= subject: ranks
srun --cpus-per-task=10 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} mpi-ranks
#= subject: ranks-inside
{{start}} singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} mpirun -np 16 --map-by slot:PE=10 --bind-to core mpi-ranks
#= subject: look-up
{{start}} singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} sh -c 'command -v mpi-ranks'
#= subject: run-inside
{{start}} singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} mpirun -np 16 --map-by slot:PE=10 --bind-to core gmx_mpi -nobackup mdrun -s topol.tpr -noconfout -ntomp 10 -nsteps 10000
#= subject: observe
srun --cpus-per-task=10 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing

#!/bin/bash
#SBATCH --job-name="rfm_QuantumEspresso_7dc51f84"
#SBATCH --ntasks=96
#SBATCH --ntasks-per-node=48
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:32:0
#SBATCH --exclusive
#SBATCH --partition=skl_usr_prod
#SBATCH --no-requeue
module load intelmpi/2018
module load singularity/3.0.2
module load qe/6.3
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "error: Slurm started this job a second time" >&2; exit 1; }
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
command -v pw.x >/dev/null || { printf 'error: no software: pw.x is not on the PATH of %s; the site'"'"'s extras, software: QuantumEspresso, names it' "$(uname -n)" >&2; exit 1; }
# The sides run in rounds, each run by a script of its own, rounds/ROUND-SIDE/run.sh:
# bare runs: srun --cpus-per-task=1 --cpu-bind=cores pw.x -in SiH4.in
# integrated runs: srun --cpus-per-task=1 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} pw.x -in SiH4.in
python3 $REPOSITORY/checks/containercheck/job rounds --seconds=60 --limit=300 --local-ranks=48 --prepare=prepare.sh --prepare-limit=600 --alone
#= prepare.sh
python3 $REPOSITORY/checks/containercheck/job observe --ranks=96 baseline || true
python3 $REPOSITORY/checks/containercheck/job runtime subject
python3 $REPOSITORY/checks/containercheck/job hostmpi plan subject
python3 $REPOSITORY/checks/containercheck/job observe --ranks=96 subject || true
python3 $REPOSITORY/checks/containercheck/job enter subject preflight >subject.preflight.out 2>&1 || true
python3 $REPOSITORY/checks/containercheck/job hostmpi verify subject
cp "${ESPRESSO_PSEUDO:-/usr/share/espresso/pseudo}"/Si.pz-vbc.UPF "${ESPRESSO_PSEUDO:-/usr/share/espresso/pseudo}"/H.pz-vbc.UPF .

#= baseline: run
rm -rf scratch
srun --cpus-per-task=1 --cpu-bind=cores {{prefix}} pw.x -in SiH4.in
#= baseline: observe
srun --cpus-per-task=1 --cpu-bind=cores sh ./observe.sh ./{{side}}.observing
#= subject: run
rm -rf scratch
srun --cpus-per-task=1 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} pw.x -in SiH4.in
#= subject: unpack
{{start}} singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir {{options}} --contain {{changes}} image.sif sh -c '{ cd / && tar -cf - $(tar --help 2>&1 | grep -o -m 1 -e --ignore-failed-read) $(ls -d .singularity.d bin etc lib* opt sbin srv usr var 2>/dev/null); echo $? >/rfm_workdir/{{tree}}.status; } | { tar -C /rfm_workdir/{{tree}} -xof - && cat >/dev/null; } && [ "$(cat /rfm_workdir/{{tree}}.status)" -le 1 ] && cd /rfm_workdir/{{tree}} && mkdir -p dev proc sys tmp'
#= subject: preflight
{{start}} singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh /rfm_workdir/subject.preflight.sh pw.x
#= subject: ranks
srun --cpus-per-task=1 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpi-ranks
#= subject: ranks-inside
{{start}} singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpirun -np 96 --bind-to core mpi-ranks
#= subject: look-up
{{start}} singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh -c 'command -v mpi-ranks'
#= subject: run-inside
rm -rf scratch
{{start}} singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpirun -np 96 --bind-to core pw.x -in SiH4.in
#= subject: observe
srun --cpus-per-task=1 --cpu-bind=cores {{start}} singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir {{options}} {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing

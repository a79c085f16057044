#!/bin/bash
#SBATCH --job-name="rfm_IMB_cc30db01"
#SBATCH --ntasks=256
#SBATCH --ntasks-per-node=128
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:32:20
#SBATCH --exclusive
#SBATCH --account=bench
#SBATCH --hint=nomultithread
#SBATCH --no-requeue
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "error: Slurm started this job a second time" >&2; exit 1; }
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
. venv/bin/activate
export LD_LIBRARY_PATH=$PWD/bare-mpi${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# The sides run in rounds, each run by a script of its own, rounds/ROUND-SIDE/run.sh:
# bare runs: srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores IMB-MPI1 -iter 5000,100 -map 128x2 PingPong
# bare runs: srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores IMB-MPI1 -iter 5000,100 -map 128x2 -npmin 256 -msglog 3:3 Allreduce
# integrated runs: srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores {{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} IMB-MPI1 -iter 5000,100 -map 128x2 PingPong
# integrated runs: srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores {{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} IMB-MPI1 -iter 5000,100 -map 128x2 -npmin 256 -msglog 3:3 Allreduce
python3 $REPOSITORY/checks/containercheck/job rounds --seconds=70 --limit=300 --local-ranks=128 --prepare=prepare.sh --prepare-limit=600 --alone
#= prepare.sh
python3 $REPOSITORY/checks/containercheck/job hostmpi lend --libmpi=/opt/cray/pe/mpich/default/ofi/gnu/9.1/lib/libmpi_gnu_91.so.12 mpich
python3 $REPOSITORY/checks/containercheck/job observe baseline || true
python3 $REPOSITORY/checks/containercheck/job runtime subject
python3 $REPOSITORY/checks/containercheck/job hostmpi plan subject
python3 $REPOSITORY/checks/containercheck/job observe subject || true
python3 $REPOSITORY/checks/containercheck/job enter subject preflight >subject.preflight.out 2>&1 || true
python3 $REPOSITORY/checks/containercheck/job hostmpi verify subject

#= baseline: run
set -e
phase() {
    now=$(date +%s.%N)
    [ -z "${name:-}" ] || awk -v name="$name" -v t0="$began" -v t1="$now" \
        'BEGIN { printf "seconds %s %.3f\n", name, t1 - t0 }'
    name=$1
    began=$now
}
phase PingPong
srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores {{prefix}} IMB-MPI1 -iter 5000,100 -map 128x2 PingPong
phase Allreduce
srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores {{prefix}} IMB-MPI1 -iter 5000,100 -map 128x2 -npmin 256 -msglog 3:3 Allreduce
phase end
#= baseline: observe
sh ./observe.sh ./{{side}}.observing
#= subject: run
set -e
phase() {
    now=$(date +%s.%N)
    [ -z "${name:-}" ] || awk -v name="$name" -v t0="$began" -v t1="$now" \
        'BEGIN { printf "seconds %s %.3f\n", name, t1 - t0 }'
    name=$1
    began=$now
}
phase PingPong
srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores {{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} IMB-MPI1 -iter 5000,100 -map 128x2 PingPong
phase Allreduce
srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores {{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} IMB-MPI1 -iter 5000,100 -map 128x2 -npmin 256 -msglog 3:3 Allreduce
phase end
#= subject: unpack
{{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric --contain {{changes}} image.sif sh -c '{ cd / && tar -cf - $(tar --help 2>&1 | grep -o -m 1 -e --ignore-failed-read) $(ls -d .singularity.d bin etc lib* opt sbin srv usr var 2>/dev/null); echo $? >/rfm_workdir/{{tree}}.status; } | { tar -C /rfm_workdir/{{tree}} -xof - && cat >/dev/null; } && [ "$(cat /rfm_workdir/{{tree}}.status)" -le 1 ] && cd /rfm_workdir/{{tree}} && mkdir -p dev proc sys tmp'
#= subject: preflight
{{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh /rfm_workdir/subject.preflight.sh IMB-MPI1
#= subject: ranks
srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores {{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpi-ranks
#= subject: ranks-inside
{{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpirun -np 256 --bind-to core mpi-ranks
#= subject: look-up
{{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh -c 'command -v mpi-ranks'
#= subject: run-inside
set -e
phase() {
    now=$(date +%s.%N)
    [ -z "${name:-}" ] || awk -v name="$name" -v t0="$began" -v t1="$now" \
        'BEGIN { printf "seconds %s %.3f\n", name, t1 - t0 }'
    name=$1
    began=$now
}
phase PingPong
{{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpirun -np 256 --bind-to core IMB-MPI1 -iter 5000,100 -map 128x2 PingPong
phase Allreduce
{{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} mpirun -np 256 --bind-to core IMB-MPI1 -iter 5000,100 -map 128x2 -npmin 256 -msglog 3:3 Allreduce
phase end
#= subject: observe
{{start}} apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_cc30db01:/rfm_workdir --pwd /rfm_workdir {{options}} -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric {{mpi-options}} {{changes}} {{image}} sh /rfm_workdir/subject.host-mpi.sh {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing

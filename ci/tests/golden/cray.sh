#!/bin/bash
#SBATCH --job-name="rfm_IMB_0a24d307"
#SBATCH --ntasks=256
#SBATCH --ntasks-per-node=128
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:31:10
#SBATCH --exclusive
#SBATCH --account=bench
#SBATCH --hint=nomultithread
#SBATCH --no-requeue
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
. venv/bin/activate
export LD_LIBRARY_PATH=$PWD/bare-mpi${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cat >baseline.sh <<'END'
set -e
phase() {
    now=$(date +%s.%N)
    [ -z "${name:-}" ] || awk -v name="$name" -v t0="$began" -v t1="$now" \
        'BEGIN { printf "seconds %s %.3f\n", name, t1 - t0 }'
    name=$1
    began=$now
}
phase PingPong
srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores IMB-MPI1 -iter 5000,100 -map 128x2 PingPong
phase Allreduce
srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores IMB-MPI1 -iter 5000,100 -map 128x2 -npmin 256 -msglog 3:3 Allreduce
phase end
END
cat >subject.sh <<'END'
set -e
phase() {
    now=$(date +%s.%N)
    [ -z "${name:-}" ] || awk -v name="$name" -v t0="$began" -v t1="$now" \
        'BEGIN { printf "seconds %s %.3f\n", name, t1 - t0 }'
    name=$1
    began=$now
}
phase PingPong
srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores $(cat subject.start) apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_0a24d307:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh IMB-MPI1 -iter 5000,100 -map 128x2 PingPong
phase Allreduce
srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores $(cat subject.start) apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_0a24d307:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh IMB-MPI1 -iter 5000,100 -map 128x2 -npmin 256 -msglog 3:3 Allreduce
phase end
END
cat >baseline.observe.sh <<'END'
sh ./observe.sh ./baseline.observing
END
cat >subject.ranks.sh <<'END'
srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores $(cat subject.start) apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_0a24d307:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh mpi-ranks
END
cat >subject.ranks.inside.sh <<'END'
$(cat subject.start) apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_0a24d307:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh mpirun -np 256 --bind-to core mpi-ranks
END
cat >subject.lookup.sh <<'END'
$(cat subject.start) apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_0a24d307:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh sh -c 'command -v mpi-ranks'
END
cat >subject.inside.sh <<'END'
set -e
phase() {
    now=$(date +%s.%N)
    [ -z "${name:-}" ] || awk -v name="$name" -v t0="$began" -v t1="$now" \
        'BEGIN { printf "seconds %s %.3f\n", name, t1 - t0 }'
    name=$1
    began=$now
}
phase PingPong
$(cat subject.start) apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_0a24d307:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh mpirun -np 256 --bind-to core IMB-MPI1 -iter 5000,100 -map 128x2 PingPong
phase Allreduce
$(cat subject.start) apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_0a24d307:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh mpirun -np 256 --bind-to core IMB-MPI1 -iter 5000,100 -map 128x2 -npmin 256 -msglog 3:3 Allreduce
phase end
END
cat >subject.host-mpi.sh <<'END'
export LD_LIBRARY_PATH=/rfm_workdir/subject.host-mpi${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$@"
END
cat >subject.preflight.sh <<'END'
if ! program=$(command -v "$1"); then echo "$1: not found"; exit 127; fi
IFS= read -r first <"$program"
case $first in
    ?ELF*) exec env LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes "$program" ;;
    *) echo "script: $program"
       exec env LD_PRELOAD=/rfm_workdir/subject.host-mpi/libmpi-of-host.so LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes /bin/sh -c : ;;
esac
END
cat >subject.observe.sh <<'END'
$(cat subject.start) apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_0a24d307:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh sh /rfm_workdir/observe.sh /rfm_workdir/subject.observing
END
cat >prepare.sh <<'END'
python3 $REPOSITORY/checks/containercheck/node hostmpi lend --libmpi=/opt/cray/pe/mpich/default/ofi/gnu/9.1/lib/libmpi_gnu_91.so.12 mpich
python3 $REPOSITORY/checks/containercheck/node observe baseline || true
python3 $REPOSITORY/checks/containercheck/node runtime --command=apptainer --ranks=128 --image=image.sif subject
python3 $REPOSITORY/checks/containercheck/node hostmpi plan '--bind=-B{source}:{target}' --side=subject IMB-MPI1
python3 $REPOSITORY/checks/containercheck/node observe subject || true
$(cat subject.start) apptainer exec -B$TMP/stage/cray-ex/cpu/builtin/IMB_0a24d307:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) -B/var/spool/slurmd:/var/spool/slurmd -B/opt/cray/libfabric:/opt/cray/libfabric $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh sh /rfm_workdir/subject.preflight.sh IMB-MPI1 >subject.preflight.out 2>&1 || true
python3 $REPOSITORY/checks/containercheck/node hostmpi verify subject
python3 $REPOSITORY/checks/containercheck/node ranks --ranks=256 --nodes=2 '--launcher=srun --cpus-per-task=1 --mpi=pmi2 --cpu-bind=cores' --host-mpi subject
END
python3 $REPOSITORY/checks/containercheck/node rounds --seconds=70 --limit=300 --local-ranks=128 --prepare=prepare.sh --prepare-limit=600 --alone

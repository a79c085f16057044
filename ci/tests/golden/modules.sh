#!/bin/bash
#SBATCH --job-name="rfm_QuantumEspresso_7dc51f84"
#SBATCH --ntasks=96
#SBATCH --ntasks-per-node=48
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:31:0
#SBATCH --exclusive
#SBATCH --partition=skl_usr_prod
#SBATCH --no-requeue
module load intelmpi/2018
module load singularity/3.0.2
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
command -v pw.x >/dev/null || { printf 'no software: pw.x is not on the PATH of %s: install quantum-espresso quantum-espresso-data (ci/setup does on Debian and Ubuntu), or name it in the site'"'"'s extras, software: QuantumEspresso' "$(uname -n)" >unsupported.txt; exit 1; }
cat >baseline.sh <<'END'
rm -rf scratch
srun --cpus-per-task=1 --cpu-bind=cores pw.x -in SiH4.in
END
cat >subject.sh <<'END'
rm -rf scratch
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh pw.x -in SiH4.in
END
cat >baseline.observe.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores sh ./observe.sh ./baseline.observing
END
cat >subject.ranks.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh mpi-ranks
END
cat >subject.ranks.inside.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh mpirun -np 96 --bind-to core mpi-ranks
END
cat >subject.lookup.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh sh -c 'command -v mpi-ranks'
END
cat >subject.inside.sh <<'END'
rm -rf scratch
$(cat subject.start) singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh mpirun -np 96 --bind-to core pw.x -in SiH4.in
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
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh sh /rfm_workdir/observe.sh /rfm_workdir/subject.observing
END
cat >prepare.sh <<'END'
python3 $REPOSITORY/checks/containercheck/node observe --ranks=96 baseline || true
python3 $REPOSITORY/checks/containercheck/node runtime --command=singularity --ranks=48 --image=image.sif subject
python3 $REPOSITORY/checks/containercheck/node hostmpi plan '--bind=-B{source}:{target}' --side=subject pw.x
python3 $REPOSITORY/checks/containercheck/node observe --ranks=96 subject || true
$(cat subject.start) singularity exec -B$TMP/stage/marconi/skylake/intelmpi/QuantumEspresso_7dc51f84:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) $(cat subject.host-mpi.options) image.sif sh /rfm_workdir/subject.host-mpi.sh sh /rfm_workdir/subject.preflight.sh pw.x >subject.preflight.out 2>&1 || true
python3 $REPOSITORY/checks/containercheck/node hostmpi verify subject
python3 $REPOSITORY/checks/containercheck/node ranks --ranks=96 --nodes=2 '--launcher=srun --cpus-per-task=1 --cpu-bind=cores' --host-mpi subject
cp "${ESPRESSO_PSEUDO:-/usr/share/espresso/pseudo}"/Si.pz-vbc.UPF "${ESPRESSO_PSEUDO:-/usr/share/espresso/pseudo}"/H.pz-vbc.UPF .
END
python3 $REPOSITORY/checks/containercheck/node rounds --seconds=60 --limit=300 --local-ranks=48 --prepare=prepare.sh --prepare-limit=600 --alone

#!/bin/bash
#SBATCH --job-name="rfm_GROMACSHybrid_885fb998"
#SBATCH --ntasks=16
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=10
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:51:43
#SBATCH --exclusive
#SBATCH --partition=gpu
#SBATCH --gres=gpu:2
#SBATCH --no-requeue
export OMP_NUM_THREADS=10
export PMIX_MCA_gds=hash
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
command -v gmx_mpi >/dev/null || { printf 'no software: gmx_mpi is not on the PATH of %s: install gromacs (ci/setup does on Debian and Ubuntu), or name it in the site'"'"'s extras, software: GROMACSHybrid' "$(uname -n)" >unsupported.txt; exit 1; }
cat >baseline.sh <<'END'
srun --cpus-per-task=10 --cpu-bind=cores gmx_mpi -nobackup mdrun -s topol.tpr -noconfout -ntomp 10 -nsteps 200
END
cat >subject.sh <<'END'
srun --cpus-per-task=10 --cpu-bind=cores $(cat subject.start) singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir $(cat subject.options) image.sif gmx_mpi -nobackup mdrun -s topol.tpr -noconfout -ntomp 10 -nsteps 200
END
cat >baseline.observe.sh <<'END'
srun --cpus-per-task=10 --cpu-bind=cores sh ./observe.sh ./baseline.observing
END
cat >subject.ranks.sh <<'END'
srun --cpus-per-task=10 --cpu-bind=cores $(cat subject.start) singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir $(cat subject.options) image.sif mpi-ranks
END
cat >subject.ranks.inside.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir $(cat subject.options) image.sif mpirun -np 16 --map-by slot:PE=10 --bind-to core mpi-ranks
END
cat >subject.lookup.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir $(cat subject.options) image.sif sh -c 'command -v mpi-ranks'
END
cat >subject.inside.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir $(cat subject.options) image.sif mpirun -np 16 --map-by slot:PE=10 --bind-to core gmx_mpi -nobackup mdrun -s topol.tpr -noconfout -ntomp 10 -nsteps 200
END
cat >subject.observe.sh <<'END'
srun --cpus-per-task=10 --cpu-bind=cores $(cat subject.start) singularity exec -B$TMP/stage/aris/gpu/builtin/GROMACSHybrid_885fb998:/rfm_workdir --nv --pwd /rfm_workdir $(cat subject.options) image.sif sh /rfm_workdir/observe.sh /rfm_workdir/subject.observing
END
cat >prepare.sh <<'END'
python3 $REPOSITORY/checks/containercheck/node observe --ranks=16 baseline || true
python3 $REPOSITORY/checks/containercheck/node runtime --command=singularity --ranks=2 --own-environment --image=image.sif subject
python3 $REPOSITORY/checks/containercheck/node observe --ranks=16 subject || true
python3 $REPOSITORY/checks/containercheck/node ranks --ranks=16 --nodes=8 '--launcher=srun --cpus-per-task=10 --cpu-bind=cores' subject
sh $REPOSITORY/checks/src/gromacs/prepare gmx_mpi 5
END
python3 $REPOSITORY/checks/containercheck/node rounds --seconds=100 --limit=600 --local-ranks=2 --collect=md.log --prepare=prepare.sh --prepare-limit=648.6 --alone

#!/bin/bash
#SBATCH --job-name="rfm_HPCC_8189f43e"
#SBATCH --ntasks=640
#SBATCH --ntasks-per-node=40
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=0:31:30
#SBATCH --exclusive
#SBATCH --hint=nomultithread
#SBATCH --no-requeue
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
command -v hpcc >/dev/null || { printf 'no software: hpcc is not on the PATH of %s: install hpcc libopenblas0-serial (ci/setup does on Debian and Ubuntu), or name it in the site'"'"'s extras, software: HPCC' "$(uname -n)" >unsupported.txt; exit 1; }
cat >baseline.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores hpcc
END
cat >subject.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) image.sif hpcc
END
cat >baseline.observe.sh <<'END'
sh ./observe.sh ./baseline.observing
END
cat >subject.ranks.sh <<'END'
srun --cpus-per-task=1 --cpu-bind=cores $(cat subject.start) singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) image.sif mpi-ranks
END
cat >subject.ranks.inside.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) image.sif mpirun -np 640 --bind-to core mpi-ranks
END
cat >subject.lookup.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) image.sif sh -c 'command -v mpi-ranks'
END
cat >subject.inside.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) image.sif mpirun -np 640 --bind-to core hpcc
END
cat >subject.observe.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/cte-power/main/builtin/HPCC_8189f43e:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) image.sif sh /rfm_workdir/observe.sh /rfm_workdir/subject.observing
END
cat >prepare.sh <<'END'
python3 $REPOSITORY/checks/containercheck/node observe baseline || true
python3 $REPOSITORY/checks/containercheck/node runtime --command=singularity --ranks=40 --own-environment --image=image.sif subject
python3 $REPOSITORY/checks/containercheck/node observe subject || true
python3 $REPOSITORY/checks/containercheck/node ranks --ranks=640 --nodes=16 '--launcher=srun --cpus-per-task=1 --cpu-bind=cores' subject
END
python3 $REPOSITORY/checks/containercheck/node rounds --seconds=90 --limit=300 --local-ranks=40 --collect=hpccoutf.txt --prepare=prepare.sh --prepare-limit=600 --alone

#!/bin/bash
#$ -N "rfm_DB12_68eae1e2"
#$ -o rfm_job.out
#$ -e rfm_job.err
#$ -wd $TMP/stage/cc-in2p3/cpu/builtin/DB12_68eae1e2
#$ -l h_rt=0:32:15
#$ -q mc_long
#$ -pe multicores 32
export OMP_NUM_THREADS=32
export PMIX_MCA_gds=hash
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
. venv/bin/activate
cat >baseline.sh <<'END'
db12 multiple 32
END
cat >subject.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/cc-in2p3/cpu/builtin/DB12_68eae1e2:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) image.sif db12 multiple 32
END
cat >baseline.observe.sh <<'END'
sh ./observe.sh ./baseline.observing
END
cat >subject.observe.sh <<'END'
$(cat subject.start) singularity exec -B$TMP/stage/cc-in2p3/cpu/builtin/DB12_68eae1e2:/rfm_workdir --pwd /rfm_workdir $(cat subject.options) image.sif sh /rfm_workdir/observe.sh /rfm_workdir/subject.observing
END
cat >prepare.sh <<'END'
python3 $REPOSITORY/checks/containercheck/node observe baseline || true
python3 $REPOSITORY/checks/containercheck/node runtime --command=singularity --ranks=0 --own-environment --image=image.sif subject
python3 $REPOSITORY/checks/containercheck/node observe subject || true
END
python3 $REPOSITORY/checks/containercheck/node rounds --seconds=135 --limit=300 --local-ranks=0 --prepare=prepare.sh --prepare-limit=600 --alone

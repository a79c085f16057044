#!/bin/bash
#$ -N "rfm_DB12_68eae1e2"
#$ -o rfm_job.out
#$ -e rfm_job.err
#$ -wd $TMP/stage/cc-in2p3/cpu/builtin/DB12_68eae1e2
#$ -l h_rt=0:34:30
#$ -q mc_long
#$ -pe multicores 32
export OMP_NUM_THREADS=32
export PMIX_MCA_gds=hash
command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }
trap 'rm -rf -- variables.key' EXIT
. venv/bin/activate
# The sides run in rounds, each run by a script of its own, rounds/ROUND-SIDE/run.sh:
# bare runs: db12 multiple 32
# generic runs: {{start}} singularity exec -B$TMP/stage/cc-in2p3/cpu/builtin/DB12_68eae1e2:/rfm_workdir --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} db12 multiple 32
python3 $REPOSITORY/checks/containercheck/job rounds --seconds=135 --limit=300 --local-ranks=0 --prepare=prepare.sh --prepare-limit=600 --alone
#= prepare.sh
python3 $REPOSITORY/checks/containercheck/job observe baseline || true
python3 $REPOSITORY/checks/containercheck/job runtime subject
python3 $REPOSITORY/checks/containercheck/job observe subject || true

#= baseline: run
{{prefix}} db12 multiple 32
#= baseline: observe
sh ./observe.sh ./{{side}}.observing
#= subject: run
{{start}} singularity exec -B$TMP/stage/cc-in2p3/cpu/builtin/DB12_68eae1e2:/rfm_workdir --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} db12 multiple 32
#= subject: unpack
{{start}} singularity exec -B$TMP/stage/cc-in2p3/cpu/builtin/DB12_68eae1e2:/rfm_workdir --pwd /rfm_workdir {{options}} --contain {{changes}} image.sif sh -c '{ cd / && tar -cf - $(tar --help 2>&1 | grep -o -m 1 -e --ignore-failed-read) $(ls -d .singularity.d bin etc lib* opt sbin srv usr var 2>/dev/null); echo $? >/rfm_workdir/{{tree}}.status; } | { tar -C /rfm_workdir/{{tree}} -xof - && cat >/dev/null; } && [ "$(cat /rfm_workdir/{{tree}}.status)" -le 1 ] && cd /rfm_workdir/{{tree}} && mkdir -p dev proc sys tmp'
#= subject: observe
{{start}} singularity exec -B$TMP/stage/cc-in2p3/cpu/builtin/DB12_68eae1e2:/rfm_workdir --pwd /rfm_workdir {{options}} {{changes}} {{image}} {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing

#!/bin/bash
#SBATCH --job-name="rfm_build_HPCC_8189f43e"
#SBATCH --ntasks=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --output=rfm_build.out
#SBATCH --error=rfm_build.err
#SBATCH --time=1:0:0
#SBATCH --no-requeue

_onerror()
{
    exitcode=$?
    echo "-reframe: command \`$BASH_COMMAND' failed (exit code: $exitcode)"
    exit $exitcode
}

trap _onerror ERR

({ command -v python3 >/dev/null || { echo "error: no python3 on $(uname -n): install Python 3.6 or newer there, or name it: site's extras, python" >&2; exit 1; }; } && python3 $REPOSITORY/checks/containercheck/job image '{"name": "hpcc", "recipes": "$REPOSITORY/images", "images": "$TMP/cache/containercheck/images", "jars": "$TMP/cache/containercheck/jars", "runtime": "singularity", "architecture": "ppc64le", "release": "bookworm", "family": "openmpi", "arguments": [], "instead": true, "link": "image.sif"}') && echo $? >build.status || echo $? >build.status

#!/bin/bash

_onerror()
{
    exitcode=$?
    echo "-reframe: command \`$BASH_COMMAND' failed (exit code: $exitcode)"
    exit $exitcode
}

trap _onerror ERR

($PYTHON $REPOSITORY/checks/containercheck/job spack '{"link": "spack", "environment": "$REPOSITORY/spack-envs/gromacs", "architecture": "x86_64", "target": "haswell", "program": "bin/gmx_mpi", "command": "spack", "directory": "$TMP/cache/containercheck/spacks", "gpus": "+cuda cuda_arch=35"}' && $PYTHON $REPOSITORY/checks/containercheck/job image '{"name": "gromacs", "recipes": "$REPOSITORY/images", "images": "$TMP/cache/containercheck/images", "jars": "$TMP/cache/containercheck/jars", "runtime": "singularity", "architecture": "x86_64", "release": "bookworm", "family": "openmpi", "arguments": [], "tree": {"kind": "spack", "packed": true, "environment": "$REPOSITORY/spack-envs/gromacs", "architecture": "x86_64", "target": "haswell", "program": "bin/gmx_mpi", "command": "spack", "directory": "$TMP/cache/containercheck/spacks", "site_file": null, "gpus": "+cuda cuda_arch=35"}, "instead": true, "link": "image.sif"}') && echo $? >build.status || echo $? >build.status

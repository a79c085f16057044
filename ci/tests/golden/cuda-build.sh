#!/bin/bash

_onerror()
{
    exitcode=$?
    echo "-reframe: command \`$BASH_COMMAND' failed (exit code: $exitcode)"
    exit $exitcode
}

trap _onerror ERR

($PYTHON $REPOSITORY/checks/containercheck/job venv '{"name": "tensorflow", "requirements": "$REPOSITORY/checks/src/tensorflow/requirements-cuda.txt", "architecture": "x86_64", "directory": "$TMP/cache/containercheck/venvs", "link": "venv"}' && $PYTHON $REPOSITORY/checks/containercheck/job image '{"name": "tensorflow", "recipes": "$REPOSITORY/images", "images": "$TMP/cache/containercheck/images", "jars": "$TMP/cache/containercheck/jars", "runtime": "singularity", "architecture": "x86_64", "release": "bookworm", "family": "openmpi", "arguments": ["REQUIREMENTS=requirements-cuda.txt"], "instead": true, "link": "image.sif"}') && echo $? >build.status || echo $? >build.status

#!/bin/bash
export OMPI_MCA_orte_default_hostfile=$TMP/path/to/hosts
export OMP_NUM_THREADS=1
export PMIX_MCA_gds=hash
trap 'rm -rf -- variables.key' EXIT
export CONTAINERCHECK_EACH_NODE='mpirun -np 2 --map-by ppr:1:node --bind-to none'
$PYTHON $REPOSITORY/checks/containercheck/job each-node load image.oci docker || exit 1
# The sides run in rounds, each run by a script of its own, rounds/ROUND-SIDE/run.sh:
# bare runs: mpirun -np 56 --map-by ppr:28:node --bind-to core ./bin/pingpong 1.5 40
# generic runs: mpirun -np 56 --map-by ppr:28:node --bind-to core {{start}} sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/lenox/nodes/builtin/PingPong_06ca11a0:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} pingpong 1.5 40
$PYTHON $REPOSITORY/checks/containercheck/job rounds --seconds=70 --limit=300 --local-ranks=28 --collect=pairs.csv --prepare=prepare.sh --prepare-limit=600
#= prepare.sh
$PYTHON $REPOSITORY/checks/containercheck/job observe --ranks=56 baseline || true
$PYTHON $REPOSITORY/checks/containercheck/job runtime subject
$PYTHON $REPOSITORY/checks/containercheck/job observe --ranks=56 subject || true

#= baseline: run
export OMPI_MCA_mca_base_env_list=$(compgen -e | paste -sd ';')
mpirun -np 56 --map-by ppr:28:node --bind-to core {{prefix}} ./bin/pingpong 1.5 40
#= baseline: observe
export OMPI_MCA_mca_base_env_list=$(compgen -e | paste -sd ';')
mpirun -np 56 --map-by ppr:28:node --bind-to core sh ./observe.sh ./{{side}}.observing
#= subject: run
export OMPI_MCA_mca_base_env_list=$(compgen -e | paste -sd ';')
mpirun -np 56 --map-by ppr:28:node --bind-to core {{start}} sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/lenox/nodes/builtin/PingPong_06ca11a0:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} pingpong 1.5 40
#= subject: ranks
export OMPI_MCA_mca_base_env_list=$(compgen -e | paste -sd ';')
mpirun -np 56 --map-by ppr:28:node --bind-to core {{start}} sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/lenox/nodes/builtin/PingPong_06ca11a0:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} mpi-ranks
#= subject: ranks-inside
{{start}} sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/lenox/nodes/builtin/PingPong_06ca11a0:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} mpirun -np 56 --bind-to core mpi-ranks
#= subject: look-up
{{start}} sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/lenox/nodes/builtin/PingPong_06ca11a0:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} sh -c 'command -v mpi-ranks'
#= subject: run-inside
export OMPI_MCA_mca_base_env_list=$(compgen -e | paste -sd ';')
{{start}} sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/lenox/nodes/builtin/PingPong_06ca11a0:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} mpirun -np 56 --bind-to core pingpong 1.5 40
#= subject: observe
export OMPI_MCA_mca_base_env_list=$(compgen -e | paste -sd ';')
mpirun -np 56 --map-by ppr:28:node --bind-to core {{start}} sh hand-on.sh docker run --rm --interactive --network=host --pid=host -v=/dev/shm:/dev/shm -v=/tmp:/tmp -v=$TMP/stage/lenox/nodes/builtin/PingPong_06ca11a0:/rfm_workdir -w /rfm_workdir --env=PWD=/rfm_workdir {{options}} --label=CONTAINERCHECK_RUN=$CONTAINERCHECK_RUN {{changes}} {{image}} {{prefix}} sh /rfm_workdir/observe.sh /rfm_workdir/{{side}}.observing

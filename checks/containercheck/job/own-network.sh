# usage: sh own-network.sh NODES RANKS_PER_NODE MPIRUN...   in one container on each node
#        sh own-network.sh agent ADDRESS COMMAND...          for mpirun: runs a command in that container
if [ "$1" = agent ]; then
    place=$(grep -lxF -e "$2" "$MEETING"/address.*) || { echo "error: no container has the address $2" >&2; exit 1; }
    number=${place##*.}
    shift 2
    # In the foreground: the container ends with the daemon, which ends when mpirun is gone for any reason.
    printf '%s\n' "$*" | sed 's/ --daemonize / /' >"$MEETING/new.$number"
    exec mv "$MEETING/new.$number" "$MEETING/start.$number"
fi
nodes=$1 ranks=$2 number=${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-0}}
shift 2
export MEETING="$PWD/own-network.${PMIX_NAMESPACE:-${SLURM_JOB_ID:-0}.${SLURM_STEP_ID:-0}}"
# Slurm's names of nodes differ from the names of containers, and the host's mpirun is another job than the image's.
for name in $(env | sed -n '/^OMPI_ALLOW_\|^PMIX_MCA_gds/d; s/^\(\(SLURM\|OMPI\|PMIX\)_[A-Za-z0-9_]*\)=.*/\1/p'); do
    unset "$name"
done
[ "$nodes" -gt 1 ] || exec "$@"
address=$(sed -n "s/^\([0-9][0-9.]*\)[[:space:]].*\b$(uname -n)\b.*/\1/p" /etc/hosts | head -n 1)
[ -n "$address" ] || { echo "error: the container on node $number has no address in its network" >&2; exit 1; }
mkdir -p "$MEETING"
echo "$address" >"$MEETING/new.$number" && mv "$MEETING/new.$number" "$MEETING/address.$number"
if [ "$number" != 0 ]; then
    tries=0
    until [ -e "$MEETING/start.$number" ] || [ -e "$MEETING/done" ] || [ $tries -ge 1200 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    [ ! -e "$MEETING/start.$number" ] || exec sh "$MEETING/start.$number"
    exit
fi
trap 'touch "$MEETING/done"' EXIT
tries=0
until [ "$(ls "$MEETING" | grep -c '^address\.')" -eq "$nodes" ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "error: not all containers came up: $(ls "$MEETING")" >&2; exit 1; }
    sleep 0.1
done
sed "s/\$/ slots=$ranks/" "$MEETING"/address.* >"$MEETING/hosts"
export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="sh $PWD/own-network.sh agent" OMPI_MCA_plm_rsh_no_tree_spawn=1
export OMPI_MCA_orte_default_hostfile="$MEETING/hosts"
"$@"

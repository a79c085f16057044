# shellcheck shell=bash disable=SC2034  # the scripts that source this use the names
# Paths, addresses and configuration files of the cluster in a box. Sourced by ci/virtual-cluster and its parts.

state=/var/lib/virtual-cluster   # not /run, which may be mounted noexec: Slurm runs batch scripts from its spool
shared=/srv/virtual-cluster
host_link=virtcluster0
ucx=/etc/ucx   # configuration of UCX, through which Debian's MPICH sends
conf=$state/slurm.conf
build_conf=$state/slurm-build.conf   # of the nodes that have the machine's network
records=$state/processes         # records of its processes; only root can read them
lock_file=/run/virtual-cluster.lock
# Set aside for benchmarks (RFC 2544): it cannot clash with the machine's own networks.
eth=198.18.0
# Open MPI does not use 127.0.0.0/8 unless it is configured to. So an MPI that is not configured for this fabric does not
# use it, as if it had no driver for it; with any other address it would use both networks at once.
# (Of libfabric, through which Intel MPI sends, see part.sh.)
fab=127.19.0

# shellcheck source=ci/virtual_cluster/emulated.sh
. "$(dirname "${BASH_SOURCE[0]}")/emulated.sh"
# shellcheck source=ci/virtual_cluster/userlands.sh
. "$(dirname "${BASH_SOURCE[0]}")/userlands.sh"

# Settings that a cluster like a real one changes, in its file in like/.
packages=()             # further packages of Debian
parts=()                # further parts, started before the nodes: login, or one whose daemon is daemon_PART, and whose
                        # readiness PART_answers tells
needs_compilers=''      # not empty where nodes without compilers (up --small) will not do
usual_size=''           # nodes, and cores of each
special_conf() { cat; } # changes slurm.conf, for $1 nodes of $2 cores
special_env() { :; }    # adds to the environment of users' shells
furnish() { :; }        # makes files for all parts, for $1 nodes of $2 cores, before anything starts
furnish_node() { :; }   # runs in each node's own namespaces, before its daemon
furnish_login() { :; }  # runs in the login node's namespaces
declare -gA usual_emulated=()   # nodes of other architectures, by partition; none means that it goes without
furnish_userland() { :; }       # runs in each of them, where its own architecture's programs are

# For furnish: hides programs, by their paths. A device 0/0 marks a removed file in an overlay.
hide() {
    local program
    for program in "$@"; do
        mkdir -p "$state/removed${program%/*}"
        mknod "$state/removed$program" c 0 0
    done
}

# Prints the paths of hidden programs.
hidden() { find "$state/removed" -type c -printf '/%P\n'; }

# For furnish_node and furnish_login: removes the hidden programs from this part's view.
remove_hidden() {
    local directory
    while read -r directory; do
        mount -t overlay overlay -o "lowerdir=$state/removed$directory:$directory" "$directory"
    done < <(hidden | sed 's|/[^/]*$||' | sort -u)
}

# Sets the host name to $1, and uses the cluster's host names.
be_called() {
    hostname "$1"
    mount --bind "$state/hosts" /etc/hosts
}

# Reads the settings of a cluster like $1; none where $1 is empty.
be_like() {
    # shellcheck source=/dev/null
    [ -z "$1" ] || . "$(dirname "${BASH_SOURCE[0]}")/like/$1.sh"
}

# Prints the name in like/ of the cluster that was set up, or nothing.
written_like() { cat "$state/like" 2>/dev/null || true; }

# Makes the directory over which the nodes' UCX configuration is mounted, where the machine has none.
make_ucx() {
    [ -d "$ucx" ] || { touch "$state/made-ucx" && mkdir "$ucx"; }
}

# Removes the directory if make_ucx made it.
remove_ucx() {
    [ ! -e "$state/made-ucx" ] || rmdir "$ucx" 2>/dev/null || true
}

# Writes all files that the daemons read, for $1 nodes of $2 cores; slurm.conf last, as a mark that all are there.
write_files() {
    umask 022
    mkdir -p "$state"/{log,spool,controller,openmpi,ucx}
    install -d -m 700 "$records"
    install -d -m 1777 "$shared"
    install -d -m 755 "$state/munge"
    (umask 077; head -c 1024 /dev/urandom >"$state/munge/key")
    hosts_file "$1" >"$state/hosts"
    cp /etc/hosts "$state/machine-hosts"
    # For the build nodes, on which apt cannot be asked for it.
    [ "$(count_emulated)" -eq 0 ] || machine mirror >"$state/mirror"
    if [ -d /etc/openmpi ]; then
        cp -a /etc/openmpi/. "$state/openmpi/"
        mca_file "$1" "$2" >"$state/openmpi/openmpi-mca-params.conf"
    fi
    { cat "$ucx/ucx.conf" 2>/dev/null || true; echo UCX_NET_DEVICES=fab0; } >"$state/ucx/ucx.conf"
    # No daemon here uses control groups; v1 is the plugin that loads without systemd.
    echo CgroupPlugin=cgroup/v1 >"$state/cgroup.conf"
    echo "$like" >"$state/like"
    furnish "$1" "$2"
    write_userlands
    slurm_conf "$1" "$2" | special_conf "$1" "$2" >"$conf.new"
    # The build nodes' daemons listen on the cluster's network only.
    sed '$aCommunicationParameters=NoInAddrAny' "$conf.new" >"$build_conf"
    mv "$conf.new" "$conf"
}

hosts_file() {
    local name
    printf '%s\n' "127.0.0.1 localhost" "$eth.253 login" "$eth.254 controller"
    for name in $(build_names); do echo "$eth.253 $name"; done
    for name in $(node_names "$1"); do
        printf '%s.%d %s\n%s.%d %s-fab\n' "$eth" "$(number_of "$name")" "$name" "$fab" "$(number_of "$name")" "$name"
    done
}

# The host's Open MPI parameters as the nodes see them. A generic container does not see this file.
mca_file() {
    cat /etc/openmpi/openmpi-mca-params.conf 2>/dev/null
    cat <<-END

	# Messages use the fabric; mpirun itself uses the network that the login node has too.
	btl_tcp_if_include = fab0
	oob_tcp_if_include = eth0
	# Each node is pinned to cores of its own, and mpirun would put the first rank of every node on core 0.
	hwloc_base_binding_policy = none
	END
    if [ $((($1 + $(count_emulated)) * $2)) -gt "$(nproc)" ]; then
        printf '# More cores than the machine has: a waiting rank must let the others run.\nmpi_yield_when_idle = 1\n'
    fi
}

slurm_conf() {
    local memory
    memory=$(awk -v nodes=$(($1 + $(count_emulated))) '/^MemTotal:/ {print int($2 / 1024 / nodes)}' /proc/meminfo)
    cat <<-END
	ClusterName=virtual-cluster
	SlurmctldHost=$(hostname -s)($eth.254)
	SlurmUser=root
	AuthType=auth/munge
	AuthInfo=socket=$state/munge/socket
	StateSaveLocation=$state/controller
	SlurmdSpoolDir=$state/spool/%n
	SlurmctldPidFile=$state/controller/pid
	SlurmdPidFile=$state/spool/%n.pid
	SlurmctldLogFile=$state/log/slurmctld.log
	SlurmdLogFile=$state/log/slurmd-%n.log
	MailProg=/bin/true
	MpiDefault=pmix
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	SelectType=select/cons_tres
	SelectTypeParameters=CR_Core
	# The machine's limits on a login shell are not the nodes', and root may lack the right to raise them.
	PropagateResourceLimits=NONE
	# A node that dies is noticed soon, ends its job for good, and is welcome back.
	SlurmdTimeout=15
	JobRequeue=0
	ReturnToService=2
	KillWait=5
	# Ends an interactive job whose srun is gone, such as one that the controller recalls from just before it was killed.
	InactiveLimit=30
	SlurmdParameters=config_overrides
	NodeName=node[1-$1] NodeAddr=$eth.[1-$1] CPUs=$2 Sockets=1 CoresPerSocket=$2 ThreadsPerCore=1 RealMemory=$memory
	PartitionName=compute Nodes=node[1-$1] Default=YES MaxTime=INFINITE State=UP
	END
    emulated_conf "$2" "$memory"
}

# Prints "NODES CORES" from slurm.conf, or nothing.
written_size() {
    sed -nE 's/^NodeName=node\[1-([0-9]+)\].* CoresPerSocket=([0-9]+) .*/\1 \2/p' "$conf" 2>/dev/null || true
}

# Prints the $2 cores of node number $1 as a list; nodes share cores where the machine has too few.
cores_of_node() {
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , '\n' |
        while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done |
        awk -v first="$((($1 - 1) * $2))" -v count="$2" '
            {cpu[NR - 1] = $1}
            END {for (i = 0; i < count; i++) printf "%s%d", (i ? "," : ""), cpu[(first + i) % NR]}'
}

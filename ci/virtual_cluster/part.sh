#!/usr/bin/env bash
# First process in the namespaces of one part of the cluster (switch, munge, controller or a node); ci/virtual-cluster
# starts it. It ends when its daemon does, and the kernel then ends all other processes of the part.
# File descriptor 8 is the switch's network, 7 the machine's own.
set -eu
# shellcheck source=ci/virtual_cluster/layout.sh
. "$(dirname "$0")/layout.sh"
part=$1
be_like "$(written_like)"

# Removes interface $2 of the network $1. The kernel removes it with the network at its other end, but a moment later.
unplug() { nsenter --net="/proc/self/fd/$1" ip link delete "$2" 2>/dev/null || true; }

# Makes a pair of interfaces: $1 here with address $2 and packets of $3 bytes, the other end on the switch's bridge of the
# same name.
plug() {
    unplug 8 "$part-$1"
    ip link add "$1" mtu "$3" type veth peer name "$part-$1" mtu "$3" netns /proc/self/fd/8
    ip address add "$2/24" dev "$1"
    ip link set "$1" up
    nsenter --net=/proc/self/fd/8 ip link set "$part-$1" master "$1" up
}

switch() {
    ip link set lo up
    ip link add eth0 type bridge
    ip address add "$eth.254/24" dev eth0
    ip link set eth0 up
    ip link add fab0 type bridge
    ip link set fab0 up
    unplug 7 "$host_link"
    ip link add host type veth peer name "$host_link" netns /proc/self/fd/7
    ip link set host master eth0 up
    nsenter --net=/proc/self/fd/7 sh -c "ip address add $eth.253/24 dev $host_link && ip link set $host_link up"
}

connect_node() {
    local number
    number=$(number_of "$part")
    ip link set lo up
    ip address delete 127.0.0.1/8 dev lo   # the fabric has a part of that
    ip address add 127.0.0.1/16 dev lo
    # libfabric takes the last of equally fast interfaces, and must be told to use any other.
    plug fab0 "$fab.$number" 65535
    plug eth0 "$eth.$number" 1500
    sysctl -qw net.ipv4.conf.fab0.route_localnet=1
    # The burst takes the largest packet that an interface with segmentation offload hands over.
    tc qdisc add dev eth0 root tbf rate 1gbit burst 128kb latency 50ms
    # Without a limit two runs of the same program have 2 to 5 GB/s: that is the machine's memory, and nothing to compare.
    tc qdisc add dev fab0 root tbf rate 10gbit burst 128kb latency 50ms
}

# A fresh /sys, so that the node's own interfaces are in /sys/class/net; with the control groups slurmd looks for.
show_own_interfaces() {
    mkdir /tmp/cgroup
    mount --rbind /sys/fs/cgroup /tmp/cgroup
    mount -t sysfs sysfs /sys
    mount --move /tmp/cgroup /sys/fs/cgroup
    rmdir /tmp/cgroup
}

node() {
    rm -rf "${state:?}/spool/$part"   # remains of jobs that died with the node, such as sockets, would hinder new ones
    # A node for builds has the machine's network.
    [[ $part == *-build ]] || connect_node
    # Jobs must see the checkout, even if it lies in the /tmp that the node's own /tmp hides.
    local checkout
    checkout=$(readlink -f "$(dirname "$0")/../..")
    exec 6<"$checkout"
    mount -t tmpfs -o mode=1777 tmpfs /tmp
    case $checkout in
        # Not canonicalized, which would name the empty directory that now hides it.
        /tmp/*) mkdir -p "$checkout" && mount --no-canonicalize --bind /proc/self/fd/6 "$checkout" ;;
    esac
    exec 6<&-
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    be_called "$part"
    [ ! -d /etc/openmpi ] || mount --bind "$state/openmpi" /etc/openmpi
    mount --bind "$state/ucx" "$ucx"
    [[ $part == *-build ]] || show_own_interfaces
    furnish_node
    if [ "$(partition_of "$part")" != compute ]; then
        enter_userland "$part"
        furnish_userland
    fi
}

case $part in
    switch) switch; daemon=(sleep infinity) ;;
    munge) daemon=(munged --foreground --socket="$state/munge/socket" --key-file="$state/munge/key" --pid-file="$state/munge/pid"
                   --log-file="$state/munge/log" --seed-file="$state/munge/seed") ;;
    controller) daemon=(nsenter --net=/proc/self/fd/8 slurmctld -D -f "$conf") ;;
    *-build) node; daemon=(slurmd -D -f "$build_conf" -N "$part") ;;
    node* | arm* | power*) node; daemon=(slurmd -D -f "$conf" -N "$part") ;;
    login) be_called login; furnish_login; daemon=(sleep infinity) ;;
    *) daemon=("daemon_$part") ;;
esac
# Not exec: the first process of a PID namespace has to reap orphans, which the shell does and a daemon may not.
"${daemon[@]}" 7<&- &
exec 7<&- 8<&-
wait $!

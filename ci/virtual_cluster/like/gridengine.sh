# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# Like a centre with Grid Engine: one node, whose slots jobs get in a parallel environment, and a login node. Slurm runs
# beside it, and nobody uses it.

packages=(gridengine-master gridengine-exec gridengine-client)
parts=(qmaster login)
usual_size="1 $(nproc)"
sge=$state/gridengine

special_env() {
    printf 'export %s\n' "SGE_ROOT=$sge" SGE_CELL=default SGE_QMASTER_PORT=6444 SGE_EXECD_PORT=6445 SGE_ND=1
}

# What Debian's packages set up, in a directory of the cluster.
furnish() {
    local common=$sge/default/common spool=$sge/spool
    mkdir -p "$common" "$spool"/{qmaster,execd,spooldb}
    cp -a /var/lib/gridengine/{bin,lib,util,utilbin} "$sge/"
    sed -e 's/^admin_user .*/admin_user none/' -e "s|/var/spool/gridengine|$spool|" \
        /usr/share/gridengine/default-bootstrap >"$common/bootstrap"
    echo controller >"$common/act_qmaster"
    (
        eval "$(special_env)"
        /usr/share/gridengine/scripts/init_cluster "$sge" default "$spool/spooldb" root
    ) >"$state/log/init_cluster.log" 2>&1 || die "Grid Engine could not be set up: see $state/log/init_cluster.log"
}

# Grid Engine knows every machine by its name and address.
daemon_qmaster() {
    be_called controller
    eval "$(special_env)"
    [ -e "$sge/configured" ] || nsenter --net=/proc/self/fd/8 bash -c "$(declare -f configure); configure $sge $(written_size)" &
    nsenter --net=/proc/self/fd/8 /usr/sbin/sge_qmaster
}

# A job's shell is that of its first line, root may have jobs, and the scheduler looks every second.
configure() {
    local sge=$1 cores=$3
    set -e
    mkdir -p "$sge/files"
    cd "$sge/files"
    until qconf -sconf global >global.old 2>/dev/null; do sleep 0.2; done
    sed -E -e 's/^(min_[ug]id +).*/\10/' -e 's/^(shell_start_mode +).*/\1unix_behavior/' \
        -e "s|^(execd_spool_dir +).*|\\1$sge/spool/execd|" -e '/^#/d' global.old >global
    qconf -Mconf global
    qconf -ssconf | sed -E 's/^(schedule_interval +).*/\10:0:1/' >schedule
    qconf -Msconf schedule
    qconf -as login
    qconf -ah node1
    printf '%s\n' 'hostname node1' 'load_scaling NONE' 'complex_values NONE' 'user_lists NONE' 'xuser_lists NONE' \
        'projects NONE' 'xprojects NONE' 'usage_scaling NONE' 'report_variables NONE' >host
    qconf -Ae host
    printf '%s\n' 'pe_name mpi' "slots $cores" 'user_lists NONE' 'xuser_lists NONE' 'start_proc_args NONE' \
        'stop_proc_args NONE' 'allocation_rule $pe_slots' 'control_slaves TRUE' 'job_is_first_task FALSE' \
        'urgency_slots min' 'accounting_summary FALSE' 'qsort_args NONE' >pe
    qconf -Ap pe
    # The load is the whole machine's.
    qconf -sq | sed -E -e 's/^(qname +).*/\1all.q/' -e 's/^(hostlist +).*/\1node1/' -e "s/^(slots +).*/\\1$cores/" \
        -e 's/^(pe_list +).*/\1mpi/' -e 's|^(shell +).*|\1/bin/bash|' -e 's/^(shell_start_mode +).*/\1unix_behavior/' \
        -e 's/^(load_thresholds +).*/\1NONE/' >queue
    qconf -Aq queue
    touch "$sge/configured"
}

qmaster_answers() { [ -e "$sge/configured" ]; }

furnish_node() {
    eval "$(special_env)"
    sge_execd 7<&- 8<&- &
}

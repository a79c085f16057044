# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# Slurm's accounting with its own database, for those clusters in like/ that have it.

packages=(slurmdbd mariadb-server)
parts=(database)
database=$state/database

# Prints the lines of slurm.conf for accounting.
accounting_conf() {
    printf '%s\n' AccountingStorageType=accounting_storage/slurmdbd "AccountingStorageHost=$eth.254" \
        "AccountingStoragePass=$state/munge/socket" AccountingStorageEnforce=associations,limits \
        JobAcctGatherType=jobacct_gather/linux
}

furnish() {
    install -d -m 700 "$database"
    mariadb-install-db --no-defaults --user=root --datadir="$database" --auth-root-authentication-method=normal \
        --skip-test-db >"$state/log/mariadb-install.log" 2>&1 || die "no database: see $state/log/mariadb-install.log"
    printf '%s\n' AuthType=auth/munge "AuthInfo=socket=$state/munge/socket" "DbdHost=$(hostname -s)" \
        "DbdAddr=$eth.254" SlurmUser=root StorageType=accounting_storage/mysql StorageHost=localhost StorageUser=root \
        StorageLoc=slurm "PidFile=$state/slurmdbd.pid" "LogFile=$state/log/slurmdbd.log" >"$state/slurmdbd.conf"
    chmod 600 "$state/slurmdbd.conf"
}

# Users have jobs only with an account, which the controller reads when it starts.
daemon_database() {
    export MYSQL_UNIX_PORT=$database/socket SLURM_CONF=$conf
    mariadbd --no-defaults --user=root --datadir="$database" --socket="$MYSQL_UNIX_PORT" --skip-networking &
    until [ -S "$MYSQL_UNIX_PORT" ]; do sleep 0.1; done
    add_users &
    nsenter --net=/proc/self/fd/8 slurmdbd -D
}

add_users() {
    local cluster=virtual-cluster
    until sacctmgr -n show cluster; do sleep 0.5; done
    if [ -z "$(sacctmgr -n list associations user=root account=bench)" ]; then
        sacctmgr -i add cluster "$cluster"
        sacctmgr -i add account bench description=benchmarks organization=here
        sacctmgr -i add user root account=bench
    fi
    touch "$database/ready"
} </dev/null >>"$state/log/sacctmgr.log" 2>&1

database_answers() { [ -e "$database/ready" ]; }

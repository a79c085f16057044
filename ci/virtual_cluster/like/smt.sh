# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# Like most Slurm sites: cores have two hardware threads, jobs a time limit, and accounting is on.

# shellcheck source=ci/virtual_cluster/accounting.sh
. "$(dirname "${BASH_SOURCE[0]}")/../accounting.sh"

special_conf() {
    sed -E -e "/^NodeName=/s/ CPUs=[0-9]+ (.*) ThreadsPerCore=1 / CPUs=$((2 * $2)) \\1 ThreadsPerCore=2 /" \
        -e '/^PartitionName=/s/MaxTime=INFINITE/DefaultTime=5 MaxTime=60/'
    accounting_conf
}

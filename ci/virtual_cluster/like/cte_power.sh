# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# Like BSC's CTE-POWER, for config/cte_power.py: POWER9 nodes of two sockets, 20 cores each with four threads. They have no
# network but the cluster's: images are made before, in the session of config/virtual_cluster.py, in the same cache.

# ReFrame's scheduler for Slurm, which the site file has, asks for accounting.
# shellcheck source=ci/virtual_cluster/accounting.sh
. "$(dirname "${BASH_SOURCE[0]}")/../accounting.sh"
usual_emulated=([power]=1)

special_conf() { as_partition main power 2 20 4; accounting_conf; }
furnish_userland() { have_singularity; }

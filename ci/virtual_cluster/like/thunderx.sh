# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# Like BSC's ThunderX, for config/thunderx.py: Arm nodes of two sockets, 48 cores each. They have no network but the
# cluster's: images are made before, in the session of config/virtual_cluster.py, in the same cache.

# ReFrame's scheduler for Slurm, which the site file has, asks for accounting.
# shellcheck source=ci/virtual_cluster/accounting.sh
. "$(dirname "${BASH_SOURCE[0]}")/../accounting.sh"
usual_emulated=([arm]=1)

special_conf() { as_partition main arm 2 48 1; accounting_conf; }
furnish_userland() { have_singularity; }

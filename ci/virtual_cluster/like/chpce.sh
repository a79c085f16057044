# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# Like the POWER8 servers of CHPCE, for config/chpce.py: two sockets, 8 cores each with eight threads, and MPICH. They
# have no network but the cluster's: images are made before, in the same cache.

# ReFrame's scheduler for Slurm, which the site file has, asks for accounting.
# shellcheck source=ci/virtual_cluster/accounting.sh
. "$(dirname "${BASH_SOURCE[0]}")/../accounting.sh"
usual_emulated=([power]=1)
# Its MPI is chosen among those with compilers.
needs_compilers=yes

# Debian's MPICH knows no PMIx.
special_conf() { as_partition openpower power 2 8 8 | sed 's/^MpiDefault=.*/MpiDefault=pmi2/'; accounting_conf; }

# Open MPI is there too, and was what mpicc and mpirun meant.
furnish_userland() {
    update-alternatives --set mpi /usr/bin/mpicc.mpich
    update-alternatives --set mpirun /usr/bin/mpirun.mpich
    have_singularity
}

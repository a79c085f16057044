# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# Like a centre with modules: programs and the container runtime come with Lmod's modules only, on the nodes and on a
# login node.

packages=(lmod)
parts=(login)
# What each module brings, and the module that it needs.
declare -gA programs=(
    [openmpi]='mpirun mpiexec mpicc ompi_info'
    [hpcc]=hpcc
    [gromacs]='gmx_mpi gmx'
    [apptainer]='apptainer singularity'
)
declare -gA needs=([hpcc]=openmpi [gromacs]=openmpi)

# Each module has a directory with its programs. Where they are found without, there is nothing by their names.
furnish() {
    local module program found
    mkdir -p "$state/modulefiles"
    echo "$state/modulefiles" >"$state/modulespath"
    for module in "${!programs[@]}"; do
        mkdir -p "$state/software/$module/bin"
        for program in ${programs[$module]}; do
            found=$(type -P "$program") || continue
            if [ -L "$found" ]; then
                ln -sf "$(readlink -f "$found")" "$state/software/$module/bin/$program"
            else
                touch "$state/software/$module/bin/$program"
            fi
            hide "$found"
        done
        {
            [ -z "${needs[$module]:-}" ] || echo "depends_on(\"${needs[$module]}\")"
            echo "prepend_path(\"PATH\", \"$state/software/$module/bin\")"
        } >"$state/modulefiles/$module.lua"
    done
}

furnish_node() {
    local program
    for program in "$state"/software/*/bin/*; do
        [ -L "$program" ] ||
            mount --bind "$(hidden | grep "/${program##*/}\$")" "$program"
    done
    remove_hidden
    mount --bind "$state/modulespath" /etc/lmod/modulespath
}
furnish_login() { furnish_node; }

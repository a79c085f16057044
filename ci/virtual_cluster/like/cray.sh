# shellcheck shell=bash disable=SC2034,SC2154  # the scripts that source this give and use the names
# Like a Cray: the MPI is MPICH under Cray's name of the library, srun starts ranks by PMI2, and no Open MPI is there.

packages=(libmpich-dev patchelf make libopenblas-serial-dev)
cray=$state/cray

special_conf() { sed 's/^MpiDefault=.*/MpiDefault=pmi2/'; }

furnish() {
    local original include programs
    original=$(ldconfig -p | sed -n 's/^\tlibmpich\.so\.12 .* => //p' | head -n 1)
    include=/usr/include/$(gcc -print-multiarch)/mpich
    mkdir -p "$cray/lib" "$cray/bin"
    mapfile -t programs < <(open_mpi)
    hide "${programs[@]}"
    cp "$(readlink -f "$original")" "$cray/lib/libmpi_gnu_91.so.12.0.0"
    patchelf --set-soname libmpi_gnu_91.so.12 "$cray/lib/libmpi_gnu_91.so.12.0.0"
    ln -sf libmpi_gnu_91.so.12.0.0 "$cray/lib/libmpi_gnu_91.so.12"
    ln -sf libmpi_gnu_91.so.12 "$cray/lib/libmpi_gnu_91.so"
    # As Cray's compiler driver does.
    printf '#!/bin/sh\nexec gcc -I%s "$@" -L%s -lmpi_gnu_91 -Wl,-rpath,%s\n' "$include" "$cray/lib" "$cray/lib" \
        >"$cray/bin/mpicc"
    chmod 755 "$cray/bin/mpicc"
    hpcc_from_source
}

# Debian's HPCC is linked with Open MPI: a Cray's staff would have built their own.
hpcc_from_source() {
    say "building HPCC with the cluster's MPI"
    (
        mkdir "$cray/source"
        cd "$cray/source"
        source_of "$cray/source" hpcc
        tar --strip-components=1 -xf hpcc_*.orig.tar.gz
        cp "$repo/checks/src/hpcc/Make.image" hpl/
        PATH=$cray/bin:$PATH make arch=image
        cp hpcc "$cray/bin/"
    ) >"$state/log/hpcc.log" 2>&1 || die "HPCC could not be built: see $state/log/hpcc.log"
    rm -rf "$cray/source"
}

# Prints the paths of Open MPI's programs, by all of their names.
open_mpi() {
    local name
    for name in mpirun mpiexec mpicc; do type -P "$name" || true; done
    { dpkg -L openmpi-bin 2>/dev/null || true; } | grep '^/usr/bin/.'
}

furnish_node() { remove_hidden; }

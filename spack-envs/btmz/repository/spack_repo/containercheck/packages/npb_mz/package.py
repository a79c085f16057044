"""BT-MZ: Spack's own package ``npb`` has the NAS Parallel Benchmarks without their multi-zone versions."""

import os

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class NpbMz(MakefilePackage):
    """BT-MZ of the multi-zone NAS Parallel Benchmarks, with MPI and OpenMP."""

    homepage = "https://www.nas.nasa.gov/software/npb.html"
    # With ports of BT-MZ to other programming models beside the Fortran of NPB 3.3.1-MZ.
    git = "https://github.com/devreal/npb3.3.git"

    version("3.3.1", commit="b15a6826bb1a9a418828f96c6f42cf9d6384ec16")

    variant("classes", values=("S", "W", "A", "B", "C", "D", "E", "F"), default="S", multi=True, description="Sizes")
    variant("ranks", values=lambda text: text.isdigit(), default="1", multi=True, description="Numbers of MPI ranks")

    depends_on("c", type="build")
    depends_on("fortran", type="build")
    depends_on("mpi")

    parallel = False

    def edit(self, spec, prefix):
        """Take Spack's compilers; the suite is for those that took a mismatch of arguments for no error."""
        settings = FileFilter("config/make.def")
        old = "-fallow-argument-mismatch " if spec.satisfies("%gcc@10:") else ""
        for name, value in (("F77", spec["mpi"].mpifc), ("CC", spec["mpi"].mpicc), ("UCC", spack_cc)):
            settings.filter(rf"^{name}\s*=.*", f"{name} = {value}")
        settings.filter(r"^FFLAGS\s*=.*", f"FFLAGS = -O3 {old}{self.compiler.openmp_flag}")
        settings.filter(r"^FLINKFLAGS\s*=.*", f"FLINKFLAGS = -O3 {self.compiler.openmp_flag}")
        # This script does not say what runs it, which qemu on a machine of another architecture wants to know.
        FileFilter("Makefile").filter("sys/print_header", "sh sys/print_header")
        mkdirp("bin")

    def build(self, spec, prefix):
        """Compile a program for each class and number of ranks, where the class has so many zones."""
        zones = {"S": 4, "W": 16, "A": 16, "B": 64, "C": 256, "D": 1024, "E": 4096, "F": 16384}
        for size in spec.variants["classes"].value:
            for ranks in spec.variants["ranks"].value:
                if int(ranks) <= zones[size]:
                    make("bt-mz", f"CLASS={size}", f"NPROCS={ranks}", "IMPL=F")

    def install(self, spec, prefix):
        """Call them as NASA's makefile does: class and ranks, no language."""
        mkdirp(prefix.bin)
        for program in find("bin", "bt-mz.*.F"):
            install(program, join_path(prefix.bin, os.path.basename(program)[: -len(".F")]))

/* Says how a launcher started it, in the words of mpi-ranks.c, with the MPI library that its argument names.
 *
 * It is compiled on the host, without any MPI, and run in images that have no program of ours (session/rank_start.py).
 * What MPI_COMM_WORLD is, depends on the ABI: an address in Open MPI (mpi.h, OMPI_PREDEFINED_GLOBAL), a number in MPICH
 * (mpi.h, MPI_COMM_WORLD) and in the standard's ABI (MPI 5.0, section 20.3: 257).
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *symbol(void *library, const char *name)
{
    void *address = dlsym(library, name);
    if (!address) {
        fprintf(stderr, "error: %s\n", dlerror());
        exit(2);
    }
    return address;
}

int main(int argc, char **argv)
{
    static char version[1 << 14];
    const char *server = getenv("PMIX_VERSION");
    const char *(*own)(void) = NULL;
    int length = 0, rank = -1, ranks = 0;
    void *world, *pmix, *mpi = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;

    if (!mpi) {
        fprintf(stderr, "error: %s\n", argc > 1 ? dlerror() : "no library is named");
        return 2;
    }
    world = dlsym(mpi, "ompi_mpi_comm_world");
    if (!world)
        world = (void *)(intptr_t)(strstr(argv[1], "libmpi_abi.so") ? 257 : 0x44000000);
    ((int (*)(char *, int *))symbol(mpi, "MPI_Get_library_version"))(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    pmix = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
    if (pmix)
        own = (const char *(*)(void))dlsym(pmix, "PMIx_Get_version");
    printf("library %s\nown %s\nserver %s\n", version, own ? own() : "none", server ? server : "none");
    fflush(stdout);

    ((int (*)(int *, char ***))symbol(mpi, "MPI_Init"))(NULL, NULL);
    ((int (*)(void *, int *))symbol(mpi, "MPI_Comm_rank"))(world, &rank);
    ((int (*)(void *, int *))symbol(mpi, "MPI_Comm_size"))(world, &ranks);
    printf("rank %d of %d\n", rank, ranks);
    fflush(stdout);
    ((int (*)(void))symbol(mpi, "MPI_Finalize"))();
    return 0;
}

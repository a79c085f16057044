/* Prints the versions of this program's MPI and PMIx, the launcher's PMIx, and this process's place among the ranks.
 *
 * It is in every image with MPI. job/ranks.py starts it once before the rounds, as the application will be started. If
 * the launcher and this MPI do not understand each other, the program ends in MPI_Init or is the only rank. The lines
 * before MPI_Init then name both.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    const char *server = getenv("PMIX_VERSION");
    const char *(*own)(void) = NULL;
    void *pmix = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
    int length, rank, ranks;

    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    if (pmix)
        own = (const char *(*)(void))dlsym(pmix, "PMIx_Get_version");
    printf("library %s\nown %s\nserver %s\n", version, own ? own() : "none", server ? server : "none");
    fflush(stdout);

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    printf("rank %d of %d\n", rank, ranks);
    MPI_Finalize();
    return 0;
}

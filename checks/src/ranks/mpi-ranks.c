/* Says how a launcher started it: which MPI and PMIx it has, which PMIx the launcher has, and its place among the ranks.
 *
 * In every image with MPI: job/ranks.py starts it before the rounds, once as the application will be started. Where the
 * launcher and this MPI do not understand each other, it ends in MPI_Init or finds itself alone, and the lines before
 * tell who they are.
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

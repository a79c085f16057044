// A tool of another maker, as DLB: it counts a barrier and hands it on by PMPI.
#include <mpi.h>
#include <stdio.h>
int MPI_Init(int *argc, char ***argv)
{
    puts("the tool has MPI_Init");
    return PMPI_Init(argc, argv);
}
int MPI_Barrier(MPI_Comm communicator)
{
    puts("the tool has MPI_Barrier");
    return PMPI_Barrier(communicator);
}

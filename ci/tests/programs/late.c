// Rank 0 comes half a second later to the barrier than the other, which waits that long in it. Each prints the seconds
// that it was there, and those from the end of MPI_Init on. They begin together, by a call that is not timed.
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank;
    MPI_Comm other;
    double start, came, left;
    MPI_Init(&argc, &argv);
    start = MPI_Wtime();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (rank == 0) usleep(500000);
    came = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    left = MPI_Wtime();
    printf("rank %d %f %f\n", rank, left - came, left - start);
    fflush(stdout);
    return MPI_Finalize();
}

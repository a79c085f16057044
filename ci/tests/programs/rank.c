// A rank that works until it is told to end.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>
int main(int count, char **words)
{
    MPI_Init(&count, &words);
    if (count > 2)
        creat(words[2], 0600);
    for (volatile long number = 0; access(words[1], F_OK) != 0;)
        for (long until = number + 10000000; number < until; number++) ;
    MPI_Finalize();
    return 0;
}

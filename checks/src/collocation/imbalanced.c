/* A program of uneven ranks, for what sharing cores between ranks and programs gains (D12.5 section 3.2).
 *
 * usage: imbalanced STEPS CHUNKS
 *
 * Each step is a parallel region and a reduction over the ranks, at which the ranks with less work wait. Rank r of n
 * works on CHUNKS * (1 + 2 r / (n - 1)) chunks: the last one on three times as many as the first, a single one on twice
 * as many. BT-MZ with its zones
 * undistributed, as D12.5 runs it, is uneven in the same way. The regions are small and their chunks are dealt out one
 * by one, so that a rank makes use of a core from the next step on in which it is lent one.
 *
 * It prints the number of ranks, whether DLB is loaded into it, the most threads of a region, the seconds between two
 * barriers, the processor time that all threads spent on chunks ("useful"), and a sum that does not depend on who
 * worked on what.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Turns of the generator in a chunk: some 0.2 ms. */
#define TURNS 100000

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Marsaglia's xorshift: each turn needs the one before, so that no compiler and no wide register makes it shorter. */
static uint64_t chunk(uint64_t seed)
{
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (int turn = 0; turn < TURNS; turn++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    return state >> 32;
}

int main(int argc, char **argv)
{
    int rank, ranks, provided, most_threads = 1;
    double useful = 0.0;
    uint64_t sum = 0;
    if (argc != 3 || atoi(argv[1]) < 1 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: imbalanced STEPS CHUNKS\n");
        return 2;
    }
    const int steps = atoi(argv[1]), chunks = atoi(argv[2]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int own = ranks > 1 ? chunks + 2 * chunks * rank / (ranks - 1) : 2 * chunks;
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        uint64_t part = 0, whole = 0;
#pragma omp parallel reduction(+ : part, useful)
        {
            const double start = thread_seconds();
#pragma omp master
            most_threads = omp_get_num_threads() > most_threads ? omp_get_num_threads() : most_threads;
#pragma omp for schedule(dynamic, 1) nowait
            for (int number = 0; number < own; number++)
                part += chunk(((uint64_t)step * (uint64_t)ranks + (uint64_t)rank) * 1000003u + (uint64_t)number);
            useful += thread_seconds() - start;
        }
        MPI_Allreduce(&part, &whole, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        sum ^= whole;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - began;
    double all_useful = 0.0;
    int all_threads = 0;
    MPI_Reduce(&useful, &all_useful, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&most_threads, &all_threads, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ranks %d\n", ranks);
        printf("dlb %s\n", dlsym(RTLD_DEFAULT, "DLB_Init") ? "yes" : "no");
        printf("most threads %d\n", all_threads);
        printf("seconds %.4f\n", seconds);
        printf("useful %.4f s\n", all_useful);
        printf("sum %llu\n", (unsigned long long)sum);
    }
    MPI_Finalize();
    return 0;
}

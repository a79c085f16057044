/* Runs uneven ranks, to measure the gain of sharing cores between ranks and programs (D12.5 section 3.2).
 *
 * usage: imbalanced STEPS REGIONS CHUNKS
 *
 * In each step a rank works on parallel regions of CHUNKS chunks each. A sum over the ranks follows, at which ranks
 * with less work wait. Rank r of n has REGIONS * (1 + 2 r / (n - 1)) regions: the last rank has three times as many as
 * the first; a single rank has twice as many. BT-MZ with its zones undistributed, as in D12.5, is uneven in the same
 * way. A rank uses a lent core from its next region on. So a step has several regions, and chunks are dealt out one by
 * one.
 *
 * The program prints the number of ranks, whether DLB is loaded, the most threads of a region, and the seconds between
 * two barriers. It also prints the processor time of all threads on chunks ("useful") and that of each core, and a sum
 * that does not depend on the distribution of the work.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Most cores of a node. */
#define CORES 4096
/* Turns of the generator in a chunk: about 0.2 ms. */
#define TURNS 100000

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Marsaglia's xorshift: each turn needs the one before, so that neither compiler nor wide registers shorten it. */
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
    static double by_core[CORES], all_by_core[CORES];
    if (argc != 4 || atoi(argv[1]) < 1 || atoi(argv[2]) < 1 || atoi(argv[3]) < 1) {
        fprintf(stderr, "usage: imbalanced STEPS REGIONS CHUNKS\n");
        return 2;
    }
    const int steps = atoi(argv[1]), regions = atoi(argv[2]), chunks = atoi(argv[3]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int own = ranks > 1 ? regions + 2 * regions * rank / (ranks - 1) : 2 * regions;
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        uint64_t part = 0, whole = 0;
        for (int region = 0; region < own; region++) {
            const uint64_t place = ((uint64_t)step * (uint64_t)ranks + (uint64_t)rank) * 1000003u + (uint64_t)region;
#pragma omp parallel reduction(+ : part, useful)
            {
                const double start = thread_seconds();
#pragma omp master
                most_threads = omp_get_num_threads() > most_threads ? omp_get_num_threads() : most_threads;
#pragma omp for schedule(dynamic, 1) nowait
                for (int number = 0; number < chunks; number++)
                    part += chunk(place * 1009u + (uint64_t)number);
                const double spent = thread_seconds() - start;
                const int core = sched_getcpu();
                useful += spent;
#pragma omp atomic
                by_core[core >= 0 && core < CORES ? core : 0] += spent;
            }
        }
        MPI_Allreduce(&part, &whole, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        sum ^= whole;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - began;
    double all_useful = 0.0;
    int all_threads = 0;
    MPI_Reduce(&useful, &all_useful, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(by_core, all_by_core, CORES, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&most_threads, &all_threads, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ranks %d\n", ranks);
        printf("dlb %s\n", dlsym(RTLD_DEFAULT, "DLB_Init") ? "yes" : "no");
        printf("most threads %d\n", all_threads);
        printf("seconds %.4f\n", seconds);
        printf("useful %.4f s\n", all_useful);
        for (int core = 0; core < CORES; core++)
            if (all_by_core[core] > 0.0)
                printf("core %d %.4f s\n", core, all_by_core[core]);
        printf("sum %llu\n", (unsigned long long)sum);
    }
    MPI_Finalize();
    return 0;
}

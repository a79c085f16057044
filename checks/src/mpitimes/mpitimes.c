/* Measures the time that each rank spends in MPI, per function: a library that is preloaded into a program.
 *
 * D12.6 table 6.3 and D12.5 figure 22 show such times (from Extrae and Intel's trace collector), and CHPCE (from TAU).
 * The library times each call of the functions below, from the end of MPI_Init to MPI_Finalize. A call within another
 * one, as in Fortran's bindings, counts once. Programs in Fortran are timed by the names that compilers give to mpif.h
 * and the module mpi; those of mpi_f08 are not timed. In MPI_Finalize rank 0 appends these lines to the file that
 * CONTAINERCHECK_MPI_TIMES names, in the working directory:
 *
 *     ranks 4
 *     seconds 12.345                          mean of the ranks
 *     mpi 1.234 s, share 10.00 %              mean of the ranks; share of their time
 *     imbalance 3.10 %                        computing time of the busiest rank, above the mean
 *     function MPI_Allreduce 0.400 s 123      seconds and calls, mean of the ranks
 *     rank 0: 1.200 s of 12.345 s, 9.72 %
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define VARIABLE "CONTAINERCHECK_MPI_TIMES"

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The timed functions: name, name in Fortran, number of parameters, parameters in C. Fortran adds the error. */
#define FUNCTIONS(_)                                                                                                   \
    _(Send, send, 6, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f), (a, b, c, d, e, f))             \
    _(Ssend, ssend, 6, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f), (a, b, c, d, e, f))           \
    _(Rsend, rsend, 6, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f), (a, b, c, d, e, f))           \
    _(Recv, recv, 7, (void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Status *g), (a, b, c, d, e, f, g)) \
    _(Isend, isend, 7, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request *g),               \
      (a, b, c, d, e, f, g))                                                                                           \
    _(Irecv, irecv, 7, (void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request *g),                     \
      (a, b, c, d, e, f, g))                                                                                           \
    _(Sendrecv, sendrecv, 12,                                                                                          \
      (const void *a, int b, MPI_Datatype c, int d, int e, void *f, int g, MPI_Datatype h, int i, int j, MPI_Comm k,   \
       MPI_Status *l),                                                                                                 \
      (a, b, c, d, e, f, g, h, i, j, k, l))                                                                            \
    _(Sendrecv_replace, sendrecv_replace, 9,                                                                           \
      (void *a, int b, MPI_Datatype c, int d, int e, int f, int g, MPI_Comm h, MPI_Status *i),                         \
      (a, b, c, d, e, f, g, h, i))                                                                                     \
    _(Wait, wait, 2, (MPI_Request * a, MPI_Status * b), (a, b))                                                        \
    _(Waitall, waitall, 3, (int a, MPI_Request b[], MPI_Status c[]), (a, b, c))                                        \
    _(Waitany, waitany, 4, (int a, MPI_Request b[], int *c, MPI_Status *d), (a, b, c, d))                              \
    _(Waitsome, waitsome, 5, (int a, MPI_Request b[], int *c, int d[], MPI_Status e[]), (a, b, c, d, e))               \
    _(Test, test, 3, (MPI_Request * a, int *b, MPI_Status *c), (a, b, c))                                              \
    _(Testall, testall, 4, (int a, MPI_Request b[], int *c, MPI_Status d[]), (a, b, c, d))                             \
    _(Testany, testany, 5, (int a, MPI_Request b[], int *c, int *d, MPI_Status *e), (a, b, c, d, e))                   \
    _(Probe, probe, 4, (int a, int b, MPI_Comm c, MPI_Status *d), (a, b, c, d))                                        \
    _(Iprobe, iprobe, 5, (int a, int b, MPI_Comm c, int *d, MPI_Status *e), (a, b, c, d, e))                           \
    _(Start, start, 1, (MPI_Request * a), (a))                                                                         \
    _(Startall, startall, 2, (int a, MPI_Request b[]), (a, b))                                                         \
    _(Barrier, barrier, 1, (MPI_Comm a), (a))                                                                          \
    _(Ibarrier, ibarrier, 2, (MPI_Comm a, MPI_Request *b), (a, b))                                                     \
    _(Bcast, bcast, 5, (void *a, int b, MPI_Datatype c, int d, MPI_Comm e), (a, b, c, d, e))                           \
    _(Ibcast, ibcast, 6, (void *a, int b, MPI_Datatype c, int d, MPI_Comm e, MPI_Request *f), (a, b, c, d, e, f))      \
    _(Reduce, reduce, 7, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, int f, MPI_Comm g),                 \
      (a, b, c, d, e, f, g))                                                                                           \
    _(Allreduce, allreduce, 6, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f),                  \
      (a, b, c, d, e, f))                                                                                              \
    _(Iallreduce, iallreduce, 7,                                                                                       \
      (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f, MPI_Request *g), (a, b, c, d, e, f, g))    \
    _(Reduce_scatter, reduce_scatter, 6,                                                                               \
      (const void *a, void *b, const int c[], MPI_Datatype d, MPI_Op e, MPI_Comm f), (a, b, c, d, e, f))               \
    _(Scan, scan, 6, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f), (a, b, c, d, e, f))        \
    _(Gather, gather, 8,                                                                                               \
      (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f, int g, MPI_Comm h),                       \
      (a, b, c, d, e, f, g, h))                                                                                        \
    _(Gatherv, gatherv, 9,                                                                                             \
      (const void *a, int b, MPI_Datatype c, void *d, const int e[], const int f[], MPI_Datatype g, int h,             \
       MPI_Comm i),                                                                                                    \
      (a, b, c, d, e, f, g, h, i))                                                                                     \
    _(Scatter, scatter, 8,                                                                                             \
      (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f, int g, MPI_Comm h),                       \
      (a, b, c, d, e, f, g, h))                                                                                        \
    _(Scatterv, scatterv, 9,                                                                                           \
      (const void *a, const int b[], const int c[], MPI_Datatype d, void *e, int f, MPI_Datatype g, int h,             \
       MPI_Comm i),                                                                                                    \
      (a, b, c, d, e, f, g, h, i))                                                                                     \
    _(Allgather, allgather, 7,                                                                                         \
      (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f, MPI_Comm g), (a, b, c, d, e, f, g))       \
    _(Allgatherv, allgatherv, 8,                                                                                       \
      (const void *a, int b, MPI_Datatype c, void *d, const int e[], const int f[], MPI_Datatype g, MPI_Comm h),       \
      (a, b, c, d, e, f, g, h))                                                                                        \
    _(Alltoall, alltoall, 7,                                                                                           \
      (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f, MPI_Comm g), (a, b, c, d, e, f, g))       \
    _(Alltoallv, alltoallv, 9,                                                                                         \
      (const void *a, const int b[], const int c[], MPI_Datatype d, void *e, const int f[], const int g[],             \
       MPI_Datatype h, MPI_Comm i),                                                                                    \
      (a, b, c, d, e, f, g, h, i))                                                                                     \
    _(Comm_split, comm_split, 4, (MPI_Comm a, int b, int c, MPI_Comm *d), (a, b, c, d))                                \
    _(Win_fence, win_fence, 2, (int a, MPI_Win b), (a, b))

#define NUMBER(name, lower, count, parameters, arguments) IN_##name,
enum { FUNCTIONS(NUMBER) COUNT };
#define NAME(name, lower, count, parameters, arguments) "MPI_" #name,
static const char *const names[COUNT] = {FUNCTIONS(NAME)};

static uint64_t spent[COUNT], calls[COUNT], began;
static __thread int depth;

static uint64_t enter(void)
{
    return depth++ ? 0 : nanoseconds();
}

static void leave(int function, uint64_t start)
{
    if (--depth == 0 && began) {
        __atomic_add_fetch(&spent[function], nanoseconds() - start, __ATOMIC_RELAXED);
        __atomic_add_fetch(&calls[function], 1, __ATOMIC_RELAXED);
    }
}

/* Returns the function of the next library: MPI's, or that of another tool such as DLB, which a call of PMPI would
 * leave out. */
static void *next(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) {
        fprintf(stderr, "mpitimes: error: no library has %s\n", name);
        abort();
    }
    return function;
}

#define TIMED(name, lower, count, parameters, arguments)                                                               \
    int MPI_##name parameters                                                                                          \
    {                                                                                                                  \
        static int(*real) parameters;                                                                                  \
        if (!real)                                                                                                     \
            real = (int(*) parameters)next("MPI_" #name);                                                              \
        const uint64_t start = enter();                                                                                \
        const int status = real arguments;                                                                             \
        leave(IN_##name, start);                                                                                       \
        return status;                                                                                                 \
    }
FUNCTIONS(TIMED)

/* Fortran passes addresses only; the next library gets them unchanged. */
#define P1 void *p1, void *e
#define P2 void *p1, void *p2, void *e
#define P3 void *p1, void *p2, void *p3, void *e
#define P4 void *p1, void *p2, void *p3, void *p4, void *e
#define P5 void *p1, void *p2, void *p3, void *p4, void *p5, void *e
#define P6 void *p1, void *p2, void *p3, void *p4, void *p5, void *p6, void *e
#define P7 void *p1, void *p2, void *p3, void *p4, void *p5, void *p6, void *p7, void *e
#define P8 void *p1, void *p2, void *p3, void *p4, void *p5, void *p6, void *p7, void *p8, void *e
#define P9 void *p1, void *p2, void *p3, void *p4, void *p5, void *p6, void *p7, void *p8, void *p9, void *e
#define P12                                                                                                            \
    void *p1, void *p2, void *p3, void *p4, void *p5, void *p6, void *p7, void *p8, void *p9, void *p10, void *p11,    \
        void *p12, void *e
#define A1 p1, e
#define A2 p1, p2, e
#define A3 p1, p2, p3, e
#define A4 p1, p2, p3, p4, e
#define A5 p1, p2, p3, p4, p5, e
#define A6 p1, p2, p3, p4, p5, p6, e
#define A7 p1, p2, p3, p4, p5, p6, p7, e
#define A8 p1, p2, p3, p4, p5, p6, p7, p8, e
#define A9 p1, p2, p3, p4, p5, p6, p7, p8, p9, e
#define A12 p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, e

#define FORTRAN(name, lower, count, parameters, arguments)                                                             \
    void mpi_##lower##_(P##count)                                                                                      \
    {                                                                                                                  \
        static void (*real)(P##count);                                                                                 \
        if (!real)                                                                                                     \
            real = (void (*)(P##count))next("mpi_" #lower "_");                                                        \
        const uint64_t start = enter();                                                                                \
        real(A##count);                                                                                                \
        leave(IN_##name, start);                                                                                       \
    }
FUNCTIONS(FORTRAN)

static void write_report(FILE *file, int ranks, const double *all)
{
    const int columns = 1 + 2 * COUNT;
    double seconds = 0.0, mpi = 0.0, most = 0.0;
    double *own = calloc((size_t)ranks, sizeof *own);
    for (int rank = 0; own && rank < ranks; rank++) {
        for (int function = 0; function < COUNT; function++)
            own[rank] += all[rank * columns + 1 + function];
        seconds += all[rank * columns] / ranks;
        mpi += own[rank] / ranks;
        most = all[rank * columns] - own[rank] > most ? all[rank * columns] - own[rank] : most;
    }
    if (!own || seconds <= 0.0) {
        fprintf(stderr, "mpitimes: error: nothing was measured\n");
        free(own);
        return;
    }
    fprintf(file, "ranks %d\nseconds %.6f\nmpi %.6f s, share %.4f %%\n", ranks, seconds, mpi, 100 * mpi / seconds);
    fprintf(file, "imbalance %.4f %%\n", seconds > mpi ? 100 * (most / (seconds - mpi) - 1) : 0.0);
    for (int function = 0; function < COUNT; function++) {
        double time = 0.0, number = 0.0;
        for (int rank = 0; rank < ranks; rank++) {
            time += all[rank * columns + 1 + function] / ranks;
            number += all[rank * columns + 1 + COUNT + function] / ranks;
        }
        if (number > 0)
            fprintf(file, "function %s %.6f s %.0f\n", names[function], time, number);
    }
    for (int rank = 0; rank < ranks; rank++)
        fprintf(file, "rank %d: %.6f s of %.6f s, %.2f %%\n", rank, own[rank], all[rank * columns],
                100 * own[rank] / all[rank * columns]);
    free(own);
}

/* Writes the report once: C's or Fortran's MPI_Finalize calls this first, and may call the other one. */
static void finish(void)
{
    int rank, ranks;
    double mine[1 + 2 * COUNT], *all = NULL;
    if (!began)
        return;
    mine[0] = 1e-9 * (double)(nanoseconds() - began);
    began = 0;
    for (int function = 0; function < COUNT; function++) {
        mine[1 + function] = 1e-9 * (double)spent[function];
        mine[1 + COUNT + function] = (double)calls[function];
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        all = malloc((size_t)ranks * sizeof mine);
    PMPI_Gather(mine, 1 + 2 * COUNT, MPI_DOUBLE, all, 1 + 2 * COUNT, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        const char *path = getenv(VARIABLE);
        FILE *file = path && all ? fopen(path, "a") : NULL;
        if (file) {
            write_report(file, ranks, all);
            fclose(file);
        } else
            fprintf(stderr, "mpitimes: error: %s cannot be written\n", path ? path : VARIABLE);
    }
    free(all);
}

int MPI_Init(int *argc, char ***argv)
{
    const int status = ((int (*)(int *, char ***))next("MPI_Init"))(argc, argv);
    began = nanoseconds();
    return status;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int status =
        ((int (*)(int *, char ***, int, int *))next("MPI_Init_thread"))(argc, argv, required, provided);
    began = nanoseconds();
    return status;
}

int MPI_Finalize(void)
{
    finish();
    return ((int (*)(void))next("MPI_Finalize"))();
}

void mpi_init_(void *e)
{
    ((void (*)(void *))next("mpi_init_"))(e);
    began = nanoseconds();
}

void mpi_init_thread_(void *required, void *provided, void *e)
{
    ((void (*)(void *, void *, void *))next("mpi_init_thread_"))(required, provided, e);
    began = nanoseconds();
}

void mpi_finalize_(void *e)
{
    finish();
    ((void (*)(void *))next("mpi_finalize_"))(e);
}

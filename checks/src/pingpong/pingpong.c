/*
 * Ping Pong between every pair of ranks, one pair at a time (D12.6 section 8.1.1, HLRS).
 *
 *   pingpong [SECONDS]
 *
 * SECONDS are shared among the pairs: each has trials until its share is used up, at least three. A trial is 10000
 * exchanges of 4 bytes and 50 of 1 MiB, as in the seed (figures 8.4 and 8.5). Reported are, for each class of pair, the
 * median over pairs and trials, and the dispersion: the distance between the quartiles in percent of the median. Every
 * message is checked at both ends.
 *
 * Latency is half a round trip; bandwidth is the message's size over half a round trip, in 10^6 bytes per second.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 4, LARGE = 1 << 20, SMALL_EXCHANGES = 10000, LARGE_EXCHANGES = 50, WARM_UP = 10, LEAST_TRIALS = 3 };
enum { WITHIN_SOCKET, BETWEEN_SOCKETS, BETWEEN_NODES, CLASSES };
static const char *const class_names[CLASSES] = {"within_socket", "between_sockets", "between_nodes"};

struct place {
    char node[MPI_MAX_PROCESSOR_NAME];
    int socket;
};

struct series {
    double *values;
    size_t count, room;
};

static void append(struct series *series, double value)
{
    if (series->count == series->room) {
        series->room = series->room ? 2 * series->room : 64;
        series->values = realloc(series->values, series->room * sizeof *series->values);
        if (!series->values) {
            fprintf(stderr, "pingpong: out of memory\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    series->values[series->count++] = value;
}

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Linear interpolation between the neighbours; the values are sorted. */
static double quantile(const struct series *series, double part)
{
    double position = part * (series->count - 1);
    size_t below = (size_t)position;
    size_t above = below + 1 < series->count ? below + 1 : below;
    return series->values[below] + (position - below) * (series->values[above] - series->values[below]);
}

static void report(const char *what, const char *class, const char *unit, struct series *series)
{
    qsort(series->values, series->count, sizeof *series->values, by_size);
    double median = quantile(series, 0.5);
    double dispersion = 100.0 * (quantile(series, 0.75) - quantile(series, 0.25)) / median;
    printf("%s %s %.6g %s dispersion %.3g %%\n", what, class, median, unit, dispersion);
}

/* The socket of the core that this rank runs on; 0 where the system does not say. */
static int own_socket(void)
{
    char path[128];
    int socket = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", sched_getcpu());
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%d", &socket) != 1)
            socket = 0;
        fclose(file);
    }
    return socket;
}

static int class_of(const struct place *one, const struct place *other)
{
    if (strcmp(one->node, other->node) != 0)
        return BETWEEN_NODES;
    return one->socket == other->socket ? WITHIN_SOCKET : BETWEEN_SOCKETS;
}

/* Bytes that differ from what the partner sends in this exchange; the first and the last tell which one it was. */
static long wrong_bytes(const unsigned char *buffer, int size, int exchange)
{
    return (buffer[0] != (unsigned char)exchange) + (buffer[size - 1] != (unsigned char)~exchange);
}

/* Returns seconds for one exchange, there and back. */
static double exchange(int rank, int first, int second, int size, int count, unsigned char *buffer, long *errors)
{
    double started = 0.0;
    int partner = rank == first ? second : first;
    for (int number = -WARM_UP; number < count; number++) {
        if (number == 0)
            started = MPI_Wtime();
        if (rank == first) {
            buffer[0] = (unsigned char)number;
            buffer[size - 1] = (unsigned char)~number;
            MPI_Send(buffer, size, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, size, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            *errors += wrong_bytes(buffer, size, number);
        } else {
            MPI_Recv(buffer, size, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            *errors += wrong_bytes(buffer, size, number);
            MPI_Send(buffer, size, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - started) / count;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks, length;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *end = "";
    double budget = argc > 1 ? strtod(argv[1], &end) : 1.0;
    if (*end != '\0' || !(budget > 0.0)) {
        if (rank == 0)
            fprintf(stderr, "pingpong: error: '%s' is not a number of seconds: give more than 0\n", argv[1]);
        MPI_Finalize();
        return 2;
    }

    struct place own = {.socket = own_socket()};
    MPI_Get_processor_name(own.node, &length);
    struct place *places = malloc(ranks * sizeof *places);
    unsigned char *buffer = calloc(LARGE, 1);
    if (!places || !buffer) {
        fprintf(stderr, "pingpong: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Allgather(&own, sizeof own, MPI_BYTE, places, sizeof own, MPI_BYTE, MPI_COMM_WORLD);

    double share = budget / (ranks > 1 ? ranks * (ranks - 1.0) / 2 : 1.0);
    struct series latency[CLASSES] = {{0}}, bandwidth[CLASSES] = {{0}};
    long errors = 0, pairs[CLASSES] = {0};
    for (int first = 0; first < ranks; first++) {
        for (int second = first + 1; second < ranks; second++) {
            int class = class_of(&places[first], &places[second]);
            pairs[class]++;
            int more = 1;
            double started = MPI_Wtime();
            for (int trial = 1; more; trial++) {
                double seconds[2] = {0.0, 0.0};
                MPI_Barrier(MPI_COMM_WORLD);
                if (rank == first || rank == second) {
                    seconds[0] = exchange(rank, first, second, SMALL, SMALL_EXCHANGES, buffer, &errors);
                    seconds[1] = exchange(rank, first, second, LARGE, LARGE_EXCHANGES, buffer, &errors);
                }
                if (first != 0) {
                    if (rank == first)
                        MPI_Send(seconds, 2, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
                    if (rank == 0)
                        MPI_Recv(seconds, 2, MPI_DOUBLE, first, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                }
                if (rank == 0) {
                    append(&latency[class], seconds[0] / 2 * 1e6);
                    append(&bandwidth[class], LARGE / (seconds[1] / 2) / 1e6);
                    more = trial < LEAST_TRIALS || MPI_Wtime() - started < share;
                }
                MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
            }
        }
    }

    long all_errors = 0;
    MPI_Reduce(&errors, &all_errors, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ranks %d\nwrong bytes %ld\n", ranks, all_errors);
        for (int class = 0; class < CLASSES; class++) {
            printf("pairs %s %ld\n", class_names[class], pairs[class]);
            if (pairs[class]) {
                report("latency", class_names[class], "us", &latency[class]);
                report("bandwidth", class_names[class], "MB/s", &bandwidth[class]);
            }
        }
    }
    free(buffer);
    free(places);
    MPI_Finalize();
    return all_errors != 0;
}

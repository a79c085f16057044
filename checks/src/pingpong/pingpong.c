/*
 * Runs Ping Pong between pairs of ranks, one pair at a time (D12.6 section 8.1.1, HLRS).
 *
 *   pingpong [SECONDS [PAIRS]]
 *
 * At most PAIRS pairs of each class take part; 0 (the default) means all. They are drawn evenly from all pairs of the
 * class. The same pairs are drawn in each run with the same number of ranks and the same layout of nodes. The pairs
 * share SECONDS: each has trials until its share is used up, but at least three. A trial is 10000 exchanges of 4 bytes
 * and 50 of 1 MiB, as in D12.6 (figures 8.4 and 8.5). The program prints, for each class of pair, the median over pairs
 * and trials, and the dispersion: the distance between the quartiles in percent of the median. Both ends check every
 * message. The file pairs.csv, the map of the pairs, has the median of each pair's trials.
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

struct name {
    char node[MPI_MAX_PROCESSOR_NAME];
    int socket;
};

/* A node is identified by the first rank on it. */
struct place {
    int node, socket;
};

struct pair {
    int first, second, class;
};

struct series {
    double *values;
    size_t count, room;
};

static void *checked(void *room)
{
    if (!room) {
        fprintf(stderr, "pingpong: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return room;
}

static void *room_for(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size));
}

static void append(struct series *series, double value)
{
    if (series->count == series->room) {
        series->room = series->room ? 2 * series->room : 64;
        series->values = checked(realloc(series->values, series->room * sizeof *series->values));
    }
    series->values[series->count++] = value;
}

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Returns a quantile of sorted values, by linear interpolation. */
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

/* Returns the median of the values from index `from` on. */
static double median_from(const struct series *series, size_t from)
{
    size_t count = series->count - from;
    double *values = room_for(count, sizeof *values);
    memcpy(values, series->values + from, count * sizeof *values);
    struct series part = {values, count, count};
    qsort(values, count, sizeof *values, by_size);
    double median = quantile(&part, 0.5);
    free(values);
    return median;
}

/* Returns the socket of this rank's core; 0 if the system does not report it. */
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
    if (one->node != other->node)
        return BETWEEN_NODES;
    return one->socket == other->socket ? WITHIN_SOCKET : BETWEEN_SOCKETS;
}

/* Returns the place of each rank. Most ranks are on the node of the rank before, so that is compared first. */
static struct place *places_of(const struct name *names, int ranks)
{
    struct place *places = room_for(ranks, sizeof *places);
    for (int rank = 0; rank < ranks; rank++) {
        int same = rank ? places[rank - 1].node : 0;
        if (strcmp(names[same].node, names[rank].node) != 0)
            for (same = 0; strcmp(names[same].node, names[rank].node) != 0;)
                same++;
        places[rank] = (struct place){same, names[rank].socket};
    }
    return places;
}

/* Returns a number from 0 to 1, the same series in each run: Knuth's 64-bit linear congruential generator (MMIX). */
static double draw(unsigned long long *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (*state >> 11) / (double)(1ULL << 53);
}

/* Returns the number of the next pair among all of a class; it is drawn if not all are wanted. */
static long next_of(long taken, long wanted, long there, unsigned long long *state)
{
    double inside = wanted < there ? draw(state) : 0.0;
    return wanted ? (long)((taken + inside) * there / wanted) : 0;
}

/*
 * Chooses the pairs that take part, returns their number, and counts all pairs of each class in there[]. A class with
 * more than `most` pairs is cut into `most` parts; one pair is drawn from each.
 */
static int choose_pairs(const struct place *places, int ranks, long most, long there[], struct pair **chosen)
{
    long room = 0, seen[CLASSES] = {0}, taken[CLASSES] = {0}, next[CLASSES], wanted[CLASSES];
    unsigned long long state = 1;
    for (int first = 0; first < ranks; first++)
        for (int second = first + 1; second < ranks; second++)
            there[class_of(&places[first], &places[second])]++;
    for (int class = 0; class < CLASSES; class++) {
        wanted[class] = most && there[class] > most ? most : there[class];
        next[class] = next_of(0, wanted[class], there[class], &state);
        room += wanted[class];
    }
    struct pair *pairs = *chosen = room_for(room, sizeof *pairs);
    for (int first = 0; first < ranks; first++)
        for (int second = first + 1; second < ranks; second++) {
            int class = class_of(&places[first], &places[second]);
            if (seen[class]++ != next[class] || taken[class] == wanted[class])
                continue;
            *pairs++ = (struct pair){first, second, class};
            taken[class]++;
            long drawn = next_of(taken[class], wanted[class], there[class], &state);
            /* Two parts of little more than one pair may share a pair at their border: take the next one then. */
            next[class] = drawn < seen[class] ? seen[class] : drawn;
        }
    return (int)(pairs - *chosen);
}

/* Returns the number of wrong bytes; the first and the last byte encode the number of the exchange. */
static long wrong_bytes(const unsigned char *buffer, int size, int exchange)
{
    return (buffer[0] != (unsigned char)exchange) + (buffer[size - 1] != (unsigned char)~exchange);
}

/* Returns the seconds of one exchange, there and back. */
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
    char *end = "", *end_of_pairs = "";
    double budget = argc > 1 ? strtod(argv[1], &end) : 1.0;
    long most = argc > 2 ? strtol(argv[2], &end_of_pairs, 10) : 0;
    if (*end != '\0' || !(budget > 0.0) || *end_of_pairs != '\0' || most < 0) {
        if (rank == 0)
            fprintf(stderr, "pingpong: error: '%s' is not a number of seconds: give more than 0%s\n", argv[1],
                    argc > 2 ? "; nor less than 0 pairs" : "");
        MPI_Finalize();
        return 2;
    }

    struct name own = {.socket = own_socket()};
    MPI_Get_processor_name(own.node, &length);
    struct name *names = room_for(ranks, sizeof *names);
    unsigned char *buffer = room_for(LARGE, 1);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, names, sizeof own, MPI_BYTE, MPI_COMM_WORLD);

    struct pair *pairs = NULL;
    int count = 0;
    long there[CLASSES] = {0}, taken[CLASSES] = {0};
    if (rank == 0) {
        struct place *places = places_of(names, ranks);
        count = choose_pairs(places, ranks, most, there, &pairs);
        free(places);
    }
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank != 0)
        pairs = room_for(count, sizeof *pairs);
    MPI_Bcast(pairs, count * (int)sizeof *pairs, MPI_BYTE, 0, MPI_COMM_WORLD);

    double share = budget / (count ? count : 1);
    struct series latency[CLASSES] = {{0}}, bandwidth[CLASSES] = {{0}};
    long errors = 0;
    FILE *map = NULL;
    if (rank == 0 && !(map = fopen("pairs.csv", "w"))) {
        perror("pingpong: error: pairs.csv");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (map)
        fprintf(map, "first,second,class,latency_us,bandwidth_MB_s\n");
    for (struct pair *pair = pairs; pair < pairs + count; pair++) {
        int first = pair->first, second = pair->second, more = 1;
        taken[pair->class]++;
        size_t before = latency[pair->class].count;
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
                append(&latency[pair->class], seconds[0] / 2 * 1e6);
                append(&bandwidth[pair->class], LARGE / (seconds[1] / 2) / 1e6);
                more = trial < LEAST_TRIALS || MPI_Wtime() - started < share;
            }
            MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
        if (map)
            fprintf(map, "%d,%d,%s,%.6g,%.6g\n", first, second, class_names[pair->class],
                    median_from(&latency[pair->class], before), median_from(&bandwidth[pair->class], before));
    }
    if (map && fclose(map) != 0) {
        perror("pingpong: error: pairs.csv");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }

    long all_errors = 0;
    MPI_Reduce(&errors, &all_errors, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ranks %d\nwrong bytes %ld\n", ranks, all_errors);
        for (int class = 0; class < CLASSES; class++) {
            printf("pairs %s %ld\n", class_names[class], there[class]);
            printf("measured %s %ld\n", class_names[class], taken[class]);
            if (taken[class]) {
                report("latency", class_names[class], "us", &latency[class]);
                report("bandwidth", class_names[class], "MB/s", &bandwidth[class]);
            }
        }
    }
    free(buffer);
    free(names);
    free(pairs);
    MPI_Finalize();
    return all_errors != 0;
}

/* Counts the occurrences of each word in a text, over MPI (Word Count).
 *
 *     mpirun wordcount text.txt
 *
 * Each rank reads its part of the text with MPI-IO, block by block. It counts the words that begin in its part, in a
 * hash table. The tables are merged along a binary tree. A word is a run of letters, digits and bytes above 127
 * (UTF-8); capital letters count as small ones.
 *
 * The program prints the totals, a checksum over all words and counts, the most frequent words, and the times: reading
 * and counting of the slowest rank, the merge, and "outside". That is the wall-clock time since RUN_BEGAN (seconds
 * since 1970, set when the run was started) less that of reading, counting and merging.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "words.h"

enum { BLOCK = 4 << 20, TOP = 10, TAG = 1 };

static int rank, ranks;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "wordcount: rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(int status, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (status == MPI_SUCCESS)
        return;
    MPI_Error_string(status, text, &length);
    fail(what, text);
}

/* The letter for each byte of a word; 0 for bytes that are not part of a word. */

static unsigned char letter[256];

static void define_letters(void)
{
    for (int c = 0; c < 256; c++)
        letter[c] = c >= 'A' && c <= 'Z'                                                ? c + 'a' - 'A'
                    : (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c >= 128 ? c
                                                                                   : 0;
}

static double seconds_reading, seconds_counting;

static int read_block(MPI_File file, MPI_Offset at, MPI_Offset size, char *block)
{
    MPI_Status status;
    int wanted = size - at < BLOCK ? (int)(size - at) : BLOCK, got;
    double began = MPI_Wtime();
    check(MPI_File_read_at(file, at, block, wanted, MPI_BYTE, &status), "cannot read the text");
    MPI_Get_count(&status, MPI_BYTE, &got);
    seconds_reading += MPI_Wtime() - began;
    if (got != wanted)
        fail("cannot read the text", "it ended early");
    return got;
}

/* Counts the words that begin in [begin, end); the last one may end later. */
static void count_part(MPI_File file, MPI_Offset size, MPI_Offset begin, MPI_Offset end)
{
    char *block = resize(NULL, BLOCK), *word = resize(NULL, 256);
    size_t length = 0, room = 256;
    uint64_t hash = HASH_START;
    /* The byte before the part shows whether its first word began in the previous part. */
    MPI_Offset at = begin > 0 ? begin - 1 : 0;
    int skip = begin > 0, done = begin >= end;
    while (!done && at < size) {
        int got = read_block(file, at, size, block);
        double began = MPI_Wtime();
        for (int i = 0; i < got; i++) {
            unsigned char c = letter[(unsigned char)block[i]];
            if (c != 0) {
                if (skip)
                    continue;
                if (length == 0 && at + i >= end) {
                    done = 1;
                    break;
                }
                if (length == room)
                    word = resize(word, room *= 2);
                word[length++] = (char)c;
                hash = (hash ^ c) * HASH_FACTOR;
                continue;
            }
            skip = 0;
            if (length > 0) {
                if (length > UINT32_MAX / 2)
                    fail("counting", "a word of more than 2 GB: this is no text");
                add(hash, word, (uint32_t)length, 1);
                length = 0;
                hash = HASH_START;
            }
            if (at + i >= end) {
                done = 1;
                break;
            }
        }
        seconds_counting += MPI_Wtime() - began;
        at += got;
    }
    if (length > 0)
        add(hash, word, (uint32_t)length, 1);
    free(word);
    free(block);
}

/* Merging: a table is sent as two messages, the entries and the words. */

static void send_bytes(const void *data, size_t bytes, int to)
{
    uint64_t announced = bytes;
    MPI_Send(&announced, 1, MPI_UINT64_T, to, TAG, MPI_COMM_WORLD);
    for (size_t at = 0; at < bytes; at += INT_MAX)
        MPI_Send((const char *)data + at, bytes - at < INT_MAX ? (int)(bytes - at) : INT_MAX, MPI_BYTE, to, TAG,
                 MPI_COMM_WORLD);
}

static void *receive_bytes(size_t *bytes, int from)
{
    uint64_t announced;
    MPI_Recv(&announced, 1, MPI_UINT64_T, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    char *data = resize(NULL, announced + 1);
    for (size_t at = 0; at < announced; at += INT_MAX)
        MPI_Recv(data + at, announced - at < INT_MAX ? (int)(announced - at) : INT_MAX, MPI_BYTE, from, TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *bytes = announced;
    return data;
}

static void send_table(int to)
{
    struct entry *entries = resize(NULL, (used + 1) * sizeof *entries);
    size_t n = 0;
    for (size_t i = 0; i < slots; i++)
        if (table[i].length != 0)
            entries[n++] = table[i];
    send_bytes(entries, n * sizeof *entries, to);
    send_bytes(pool, pool_used, to);
    free(entries);
}

static void receive_table(int from)
{
    size_t entry_bytes, word_bytes;
    struct entry *entries = receive_bytes(&entry_bytes, from);
    char *words = receive_bytes(&word_bytes, from);
    for (size_t i = 0; i < entry_bytes / sizeof *entries; i++)
        add(entries[i].hash, words + entries[i].offset, entries[i].length, entries[i].count);
    free(words);
    free(entries);
}

static void merge(void)
{
    for (int step = 1; step < ranks; step *= 2) {
        if (rank % (2 * step) != 0) {
            send_table(rank - step);
            return;
        }
        if (rank + step < ranks)
            receive_table(rank + step);
    }
}

/* Orders words by frequency, the highest first, then by the alphabet. */
static int before(const struct entry *a, const struct entry *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    uint32_t shorter = a->length < b->length ? a->length : b->length;
    int order = memcmp(pool + a->offset, pool + b->offset, shorter);
    return order != 0 ? order < 0 : a->length < b->length;
}

static void print_words(void)
{
    struct entry top[TOP + 1];
    int tops = 0;
    uint64_t total = 0, checksum = 0;
    for (size_t i = 0; i < slots; i++) {
        if (table[i].length == 0)
            continue;
        total += table[i].count;
        checksum += table[i].hash * (2 * table[i].count + 1);
        int at = tops;
        for (; at > 0 && before(&table[i], &top[at - 1]); at--)
            top[at] = top[at - 1];
        top[at] = table[i];
        tops += tops < TOP;
    }
    printf("words %llu\ndistinct %zu\n", (unsigned long long)total, used);
    /* 52 bits, which a double holds exactly. */
    printf("checksum %llu\n", (unsigned long long)((checksum ^ checksum >> 52) & ((1ull << 52) - 1)));
    for (int i = 0; i < tops; i++)
        printf("word %d %.*s: %llu\n", i + 1, (int)top[i].length, pool + top[i].offset,
               (unsigned long long)top[i].count);
}

static void print_times(const char *began, double compute, double merging)
{
    double mine[2] = {seconds_reading, seconds_counting}, most[2], sum[2], megabytes;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double memory = usage.ru_maxrss / 1024.0;
    MPI_Reduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&memory, &megabytes, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank != 0)
        return;
    printf("seconds reading %.4f\nseconds counting %.4f\nseconds merging %.4f\nseconds compute %.4f\n", most[0],
           most[1], merging, compute);
    printf("efficiency %.2f %%\n", 100 * (sum[0] + sum[1]) / (ranks * compute));
    printf("memory %.1f MB\n", megabytes);
    if (began != NULL) {
        struct timeval now;
        gettimeofday(&now, NULL);
        printf("seconds outside %.4f\n", now.tv_sec + 1e-6 * now.tv_usec - atof(began) - compute);
    } else
        printf("outside unknown: RUN_BEGAN is not set\n");
}

/* Drops a part from this node's memory, so that it is read from its file system. */
static void drop_from_memory(const char *path, MPI_Offset begin, MPI_Offset end)
{
    int file = open(path, O_RDONLY);
    if (file >= 0) {
        posix_fadvise(file, begin, end - begin, POSIX_FADV_DONTNEED);
        close(file);
    }
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Offset size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2)
        fail("usage", "wordcount TEXT");
    define_letters();
    table = resize(NULL, slots * sizeof *table);
    memset(table, 0, slots * sizeof *table);

    check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file), argv[1]);
    check(MPI_File_get_size(file, &size), argv[1]);
    MPI_Offset begin = size / ranks * rank + size % ranks * rank / ranks;
    MPI_Offset end = size / ranks * (rank + 1) + size % ranks * (rank + 1) / ranks;
    drop_from_memory(argv[1], begin, end);

    MPI_Barrier(MPI_COMM_WORLD);
    double started = MPI_Wtime();
    count_part(file, size, begin, end);
    MPI_Barrier(MPI_COMM_WORLD);
    double counted = MPI_Wtime();
    merge();
    MPI_Barrier(MPI_COMM_WORLD);
    double finished = MPI_Wtime();

    if (rank == 0) {
        printf("ranks %d\nbytes %lld\n", ranks, (long long)size);
        print_words();
    }
    print_times(getenv("RUN_BEGAN"), finished - started, finished - counted);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}

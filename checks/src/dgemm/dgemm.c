/*
 * Computes C = alpha A B + beta C in blocks, with threads of OpenMP (CHPCE, section "DGEMM").
 *
 *   dgemm ORDER BLOCK
 *
 * The matrices are square, of doubles. The rows of C are shared out evenly to the threads, independent of BLOCK. A
 * thread takes one block of BLOCK x BLOCK of B after the other, and adds its products to all of the thread's rows. So
 * the block decides only which data stay in which cache. The product is checked with a vector: C x against alpha A (B
 * x) + beta C x.
 */
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static const double ALPHA = 1.5, BETA = 0.5;

static long smaller(long one, long other)
{
    return one < other ? one : other;
}

/* Returns a number of 1 or more; 0 for any other text. */
static long number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    return *text != '\0' && *end == '\0' && value > 0 ? value : 0;
}

static double *room_for(size_t count)
{
    double *room = aligned_alloc(64, (count * sizeof(double) + 63) / 64 * 64);
    if (!room) {
        fprintf(stderr, "dgemm: error: out of memory\n");
        exit(1);
    }
    return room;
}

/* Fills the matrix with numbers from -0.5 to 0.5, the same for any number of threads. A row's own thread fills it. */
static void fill(double *matrix, long order, unsigned long long seed)
{
#pragma omp parallel for schedule(static)
    for (long row = 0; row < order; row++) {
        unsigned long long state = seed + 0x9E3779B97F4A7C15ULL * (unsigned long long)(row + 1);
        for (long column = 0; column < order; column++) {
            /* Knuth's 64-bit linear congruential generator (MMIX). */
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            matrix[row * order + column] = (double)(state >> 11) / (double)(1ULL << 53) - 0.5;
        }
    }
}

/* Computes result = factor * matrix * vector + share * result; returns the largest absolute result. */
static double apply(const double *matrix, const double *vector, long order, double factor, double share, double *result)
{
    double largest = 0.0;
#pragma omp parallel for schedule(static) reduction(max : largest)
    for (long row = 0; row < order; row++) {
        double sum = 0.0;
        for (long column = 0; column < order; column++)
            sum += matrix[row * order + column] * vector[column];
        result[row] = factor * sum + (share == 0.0 ? 0.0 : share * result[row]);
        largest = fmax(largest, fabs(result[row]));
    }
    return largest;
}

static void add_block(const double *restrict a, const double *restrict b, double *restrict c, long order, long rows,
                      long depth, long width)
{
    for (long row = 0; row < rows; row++)
        for (long k = 0; k < depth; k++) {
            double factor = ALPHA * a[row * order + k];
            for (long column = 0; column < width; column++)
                c[row * order + column] += factor * b[k * order + column];
        }
}

static void multiply(const double *a, const double *b, double *c, long order, long block)
{
#pragma omp parallel
    {
        long threads = omp_get_num_threads(), thread = omp_get_thread_num();
        long first = order * thread / threads, rows = order * (thread + 1) / threads - first;
        double *own = c + first * order;
        for (long place = 0; place < rows * order; place++)
            own[place] *= BETA;
        for (long k = 0; k < order; k += block)
            for (long column = 0; column < order; column += block)
                add_block(a + first * order + k, b + k * order + column, own + column, order, rows,
                          smaller(block, order - k), smaller(block, order - column));
    }
}

int main(int argc, char **argv)
{
    long order = argc == 3 ? number(argv[1]) : 0, block = argc == 3 ? number(argv[2]) : 0;
    if (!order || !block) {
        fprintf(stderr, "dgemm: error: usage: dgemm ORDER BLOCK, both from 1 on\n");
        return 2;
    }
    size_t elements = (size_t)order * order;
    double *a = room_for(elements), *b = room_for(elements), *c = room_for(elements);
    fill(a, order, 1);
    fill(b, order, 2);
    fill(c, order, 3);
    double *vector = room_for(order), *product = room_for(order), *expected = room_for(order), *found = room_for(order);
    for (long row = 0; row < order; row++)
        vector[row] = 1.0 + (double)row / order;
    apply(b, vector, order, 1.0, 0.0, product);
    apply(c, vector, order, BETA, 0.0, expected);
    double largest = apply(a, product, order, ALPHA, 1.0, expected);

    double began = omp_get_wtime();
    multiply(a, b, c, order, block);
    double seconds = omp_get_wtime() - began;

    apply(c, vector, order, 1.0, 0.0, found);
    double error = 0.0, squares = 0.0;
    for (long row = 0; row < order; row++) {
        error = fmax(error, fabs(found[row] - expected[row]));
        squares += found[row] * found[row];
    }
    printf("threads %d\norder %ld\nblock %ld\n", omp_get_max_threads(), order, smaller(block, order));
    printf("seconds %.6g\nGFLOPS %.6g\n", seconds, 2.0 * order * order * order / seconds / 1e9);
    /* The residual is relative to the order and the largest sum, with which rounding errors grow. */
    printf("norm %.10g\nresidual %.4g\n", sqrt(squares), error / (largest * order * DBL_EPSILON));
    return 0;
}

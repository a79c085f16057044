/* Counts words: the words in one array, and an open hash table with the place of each.
 *
 * A file that includes this one defines fail(), which ends the program.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what, const char *why);

static void *resize(void *memory, size_t bytes)
{
    memory = realloc(memory, bytes);
    if (memory == NULL)
        fail("counting", "out of memory: use more ranks, or a smaller text");
    return memory;
}

struct entry {
    uint64_t hash, count, offset;
    uint32_t length; /* 0: free */
};

static struct entry *table;
static size_t slots = 1 << 16, used;
static char *pool;
static size_t pool_bytes, pool_used;

static const uint64_t HASH_START = 1469598103934665603u, HASH_FACTOR = 1099511628211u; /* FNV-1a */

static struct entry *find(uint64_t hash, const char *word, uint32_t length)
{
    size_t at = (hash ^ hash >> 32) & (slots - 1);
    while (table[at].length != 0 && !(table[at].hash == hash && table[at].length == length &&
                                      memcmp(pool + table[at].offset, word, length) == 0))
        at = (at + 1) & (slots - 1);
    return &table[at];
}

static void grow(void)
{
    struct entry *old = table;
    size_t old_slots = slots;
    slots *= 2;
    table = resize(NULL, slots * sizeof *table);
    memset(table, 0, slots * sizeof *table);
    for (size_t i = 0; i < old_slots; i++) {
        if (old[i].length == 0)
            continue;
        size_t at = (old[i].hash ^ old[i].hash >> 32) & (slots - 1);
        while (table[at].length != 0)
            at = (at + 1) & (slots - 1);
        table[at] = old[i];
    }
    free(old);
}

static void add(uint64_t hash, const char *word, uint32_t length, uint64_t count)
{
    struct entry *entry = find(hash, word, length);
    if (entry->length == 0) {
        if (pool_used + length > pool_bytes)
            pool = resize(pool, pool_bytes = 2 * (pool_bytes + length));
        memcpy(pool + pool_used, word, length);
        *entry = (struct entry){hash, 0, pool_used, length};
        pool_used += length;
        used++;
    }
    entry->count += count;
    if (2 * used > slots)
        grow();
}

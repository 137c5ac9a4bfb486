/*
 * Reads a recording through memprof_read.h, as a user's program does. Prints each table's name, its number of rows, and
 * the sum of all its numbers and lengths of texts. Two threads make the tables at the same time.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include <memprof_read.h>

static uint64_t sum_of(struct memprof_recording *run, const struct memprof_table *table)
{
    uint64_t sum = 0;
    for (const struct memprof_column *column = table->columns; column < table->columns + table->column_count;
         column++) {
        for (size_t row = 0; row < table->rows; row++) {
            size_t length;
            switch (column->type) {
            case MEMPROF_U8:
                sum += ((const uint8_t *)column->values)[row];
                break;
            case MEMPROF_U32:
                sum += ((const uint32_t *)column->values)[row];
                break;
            case MEMPROF_U64:
                sum += ((const uint64_t *)column->values)[row];
                break;
            case MEMPROF_I64:
                sum += (uint64_t)((const int64_t *)column->values)[row];
                break;
            case MEMPROF_TEXT:
                memprof_read_text(run, ((const uint32_t *)column->values)[row], &length);
                sum += length;
                break;
            }
        }
    }
    return sum;
}

static void *make_all(void *run)
{
    for (const char *const *name = memprof_read_tables(); *name; name++)
        if (!memprof_read_table(run, *name, NULL)) return run;
    return NULL;
}

int main(int count, char **arguments)
{
    char why[MEMPROF_READ_ERROR_MAX];
    struct memprof_recording *run = memprof_read_open(count > 1 ? arguments[1] : "", why);
    if (!run) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, make_all, run);
    for (int i = 0; i < 2; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        if (failed) return 1;
    }
    printf("%d\n", memprof_read_version());
    for (const char *const *name = memprof_read_tables(); *name; name++) {
        const struct memprof_table *table = memprof_read_table(run, *name, why);
        printf("%s %zu %" PRIu64 "\n", *name, table->rows, sum_of(run, table));
    }
    if (memprof_read_table(run, "no such table", why) ||
        memprof_read_column(memprof_read_table(run, "blocks", why), "x"))
        return 1;
    memprof_read_close(run);
    return 0;
}

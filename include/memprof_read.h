/*
 * Reads recordings from programs: libmemprof-read.so, link with -lmemprof-read.
 *
 * A recording is a set of tables. A table is a set of columns: plain arrays, which a program reads without a call per
 * row. docs/manual/reading.md lists them. Names are those of `memprof export --format sqlite`.
 *
 *     char why[MEMPROF_READ_ERROR_MAX];
 *     struct memprof_recording *run = memprof_read_open("run.mp", why);
 *     if (!run) errx(1, "%s", why);
 *     const struct memprof_table *blocks = memprof_read_table(run, "blocks", why);
 *     const uint64_t *bytes = memprof_read_column(blocks, "bytes")->values;
 *     for (size_t i = 0; i < blocks->rows; i++)
 *         sum += bytes[i];
 *     memprof_read_close(run);
 *
 * The library reads every file that the commands read. It never prints, and never ends the process: a failure is NULL
 * and one sentence. It trusts no file. Any thread may use a recording; a table does not change once it is returned.
 *
 * Interface 1 is stable for all versions 1.x of memprof: tables and columns are only added. It is not for the program
 * that is being recorded; that one uses memprof.h.
 */
#ifndef MEMPROF_READ_H
#define MEMPROF_READ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define MEMPROF_READ_VERSION   1   /* the interface of this header */
#define MEMPROF_READ_ERROR_MAX 512 /* room for a sentence, with its end */

/* All bits of a number are set where it is unknown or does not exist, as the time at which a live block was freed. */
enum memprof_type {
    MEMPROF_U8 = 1,
    MEMPROF_U32,
    MEMPROF_U64,
    MEMPROF_I64,  /* a difference; always known */
    MEMPROF_TEXT, /* uint32_t: a number for memprof_read_text(); 0: none */
};

struct memprof_column {
    const char *name;
    enum memprof_type type;
    const void *values; /* one for each row; aligned for its type */
};

struct memprof_table {
    const char *name;
    size_t rows, column_count;
    const struct memprof_column *columns;
};

/* One line of a stack; texts are NULL and numbers 0 where unknown. */
struct memprof_line {
    const char *function, *file, *module; /* module: the shared object's path */
    const char *language;                 /* "native", "python", "backward" (no call; see docs/FORMAT.md) */
    uint32_t line;
};

struct memprof_recording;

/* The interface that the loaded library has; programs compiled with an older header run with it. */
int memprof_read_version(void);

/* Reads a file. NULL on failure; `why` (MEMPROF_READ_ERROR_MAX bytes, or NULL) then says why. The file may be changed
 * or removed afterwards. */
struct memprof_recording *memprof_read_open(const char *path, char *why);
/* Ends the caller's use of the recording, its tables and its texts. Arrow arrays made of it stay valid; the last of them
 * frees it. */
void memprof_read_close(struct memprof_recording *recording);

/* The table of that name. The recording owns it; a second call returns the same. NULL if there is no such table, or
 * memory is short. */
const struct memprof_table *memprof_read_table(struct memprof_recording *recording, const char *name, char *why);
/* The names of all tables, ended by NULL. */
const char *const *memprof_read_tables(void);
/* The column of that name; NULL if there is none. */
const struct memprof_column *memprof_read_column(const struct memprof_table *table, const char *name);

/* The text of a number in a column of texts of a table that was already returned. NULL for 0 and unknown numbers. The
 * recording owns it, until it is closed. It may hold any bytes but NUL. `length` may be NULL. */
const char *memprof_read_text(struct memprof_recording *recording, uint32_t number, size_t *length);

/* The lines of a stack (a number in a column `stack_id`), innermost first. *count is their number. The recording owns
 * the array until the next call of this function in the same recording. NULL for a stack without lines. */
const struct memprof_line *memprof_read_stack(struct memprof_recording *recording, uint32_t stack, size_t *count);

/*
 * The Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html), for pandas, polars, DuckDB and
 * others. Fills both structs with a table: a struct array without nulls of its own, numbers with validity bitmaps,
 * texts as dictionaries of UTF-8. The numbers are not copied, so the array keeps the recording in memory. The caller
 * owns both structs, and ends each with its `release`. 0 on success, -1 if memory is short.
 */
struct ArrowSchema;
struct ArrowArray;
int memprof_read_arrow(struct memprof_recording *recording, const struct memprof_table *table,
                       struct ArrowSchema *schema, struct ArrowArray *array);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

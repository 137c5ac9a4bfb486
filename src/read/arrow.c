/*
 * Tables in the Arrow C data interface. A table becomes a struct array with one child a column. Numbers are not copied.
 * Where a column has unknown values, a bitmap is made: a bit is set for each known value. Texts become numbers in a
 * dictionary, which has the texts that the column uses, as UTF-8: offsets and bytes.
 *
 * Example: the texts "cpu", none, "gpu", "cpu" have the indices 0, 0, 1, 0, the bitmap 1101 (lowest bit first: 0x0d),
 * and the dictionary "cpugpu" with the offsets 0, 3, 6.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "read/recording.h"

/* As the interface defines them: https://arrow.apache.org/docs/format/CDataInterface.html#structure-definitions */
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#define FLAG_NULLABLE 2

/* A column as the consumer sees it. All columns are in one piece of memory with their table. */
struct column {
    struct ArrowSchema schema, dictionary_schema;
    struct ArrowArray array, dictionary;
    const void *buffers[2], *dictionary_buffers[3];
    void *owned[4];
};

struct shared {
    atomic_int users; /* schema and array */
    struct memprof_recording *recording;
    size_t count;
    struct column columns[MP_READ_COLUMNS];
    struct ArrowSchema *schemas[MP_READ_COLUMNS];
    struct ArrowArray *arrays[MP_READ_COLUMNS];
    const void *no_buffer[1];
};

static void end_use(struct shared *shared)
{
    if (atomic_fetch_sub(&shared->users, 1) > 1) return;
    for (size_t i = 0; i < shared->count; i++)
        for (size_t j = 0; j < sizeof shared->columns[i].owned / sizeof *shared->columns[i].owned; j++)
            free(shared->columns[i].owned[j]);
    mp_read_release(shared->recording);
    free(shared);
}

/* A consumer may move a child out of its parent and release it later, so each child counts as a use of its own. */
static void release_schema(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++)
        if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
    if (schema->dictionary && schema->dictionary->release) schema->dictionary->release(schema->dictionary);
    schema->release = NULL;
    end_use(schema->private_data);
}

static void release_array(struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release) array->children[i]->release(array->children[i]);
    if (array->dictionary && array->dictionary->release) array->dictionary->release(array->dictionary);
    array->release = NULL;
    end_use(array->private_data);
}

static struct ArrowSchema new_schema(struct shared *shared, const char *format, const char *name)
{
    atomic_fetch_add(&shared->users, 1);
    return (struct ArrowSchema){.format = format, .name = name, .release = release_schema, .private_data = shared};
}

static struct ArrowArray new_array(struct shared *shared, size_t length, const void **buffers, int64_t buffer_count)
{
    atomic_fetch_add(&shared->users, 1);
    return (struct ArrowArray){.length = (int64_t)length,
                               .n_buffers = buffer_count,
                               .buffers = buffers,
                               .release = release_array,
                               .private_data = shared};
}

static bool is_known(const struct memprof_column *column, size_t row)
{
    switch (column->type) {
    case MEMPROF_U8:
        return ((const uint8_t *)column->values)[row] != UINT8_MAX;
    case MEMPROF_U32:
        return ((const uint32_t *)column->values)[row] != UINT32_MAX;
    case MEMPROF_U64:
        return ((const uint64_t *)column->values)[row] != UINT64_MAX;
    case MEMPROF_TEXT:
        return ((const uint32_t *)column->values)[row] != 0;
    case MEMPROF_I64:
        break;
    }
    return true;
}

static void add_validity(const struct memprof_column *from, size_t rows, struct column *to)
{
    size_t unknown = 0;
    for (size_t i = 0; i < rows; i++)
        unknown += !is_known(from, i);
    to->array.null_count = (int64_t)unknown;
    if (!unknown) return;
    uint8_t *bits = to->owned[0] = mp_alloc_zeroed(rows / 8 + 1, 1);
    for (size_t i = 0; i < rows; i++)
        bits[i / 8] |= (uint8_t)(is_known(from, i) << i % 8);
    to->buffers[0] = bits;
}

static void add_dictionary(struct shared *shared, const struct memprof_column *from, size_t rows, struct column *to)
{
    const uint32_t *numbers = from->values;
    uint32_t *places = mp_alloc_zeroed(mp_read_texts(shared->recording), sizeof *places); /* by text: 1 + index */
    uint32_t *indices = to->owned[1] = mp_alloc_zeroed(rows + 1, sizeof *indices);
    MP_VEC(int64_t) offsets = {0};
    struct mp_buffer bytes = {0};
    mp_vec_add(&offsets, 0);
    for (size_t i = 0; i < rows; i++) {
        uint32_t *place = &places[numbers[i]];
        if (numbers[i] && !*place) {
            size_t length;
            const char *text = mp_read_text(shared->recording, numbers[i], &length);
            mp_buffer_append_utf8(&bytes, text, length);
            *place = (uint32_t)offsets.count;
            mp_vec_add(&offsets, (int64_t)bytes.size);
        }
        indices[i] = *place ? *place - 1 : 0;
    }
    free(places);
    mp_buffer_append(&bytes, "", 1); /* never NULL */
    to->buffers[1] = indices;
    to->owned[2] = offsets.at;
    to->owned[3] = bytes.data;
    to->dictionary_buffers[1] = offsets.at;
    to->dictionary_buffers[2] = bytes.data;
    to->dictionary_schema = new_schema(shared, "U", ""); /* 64-bit offsets */
    to->dictionary = new_array(shared, offsets.count - 1, to->dictionary_buffers, 3);
    to->schema.dictionary = &to->dictionary_schema;
    to->array.dictionary = &to->dictionary;
}

static void add_column(struct shared *shared, const struct memprof_column *from, size_t rows)
{
    static const char *const formats[] = {
        [MEMPROF_U8] = "C", [MEMPROF_U32] = "I", [MEMPROF_U64] = "L", [MEMPROF_I64] = "l", [MEMPROF_TEXT] = "I"};
    struct column *to = &shared->columns[shared->count];
    to->schema = new_schema(shared, formats[from->type], from->name);
    to->schema.flags = FLAG_NULLABLE;
    to->array = new_array(shared, rows, to->buffers, 2);
    to->buffers[1] = from->values;
    shared->schemas[shared->count] = &to->schema;
    shared->arrays[shared->count++] = &to->array;
    add_validity(from, rows, to);
    if (from->type == MEMPROF_TEXT) add_dictionary(shared, from, rows, to);
}

struct making {
    struct shared *shared;
    const struct memprof_table *table;
};

static void make_it(void *context)
{
    struct making *making = context;
    for (size_t i = 0; i < making->table->column_count; i++)
        add_column(making->shared, &making->table->columns[i], making->table->rows);
}

int memprof_read_arrow(struct memprof_recording *recording, const struct memprof_table *table,
                       struct ArrowSchema *schema, struct ArrowArray *array)
{
    struct shared *shared = calloc(1, sizeof *shared);
    struct making making = {.shared = shared, .table = table};
    if (!shared) return -1;
    atomic_init(&shared->users, 0);
    shared->recording = recording;
    atomic_fetch_add(&recording->users, 1);
    pthread_mutex_lock(&recording->lock);
    bool made = mp_memory_try(make_it, &making);
    pthread_mutex_unlock(&recording->lock);
    if (!made) {
        atomic_store(&shared->users, 1);
        end_use(shared);
        return -1;
    }
    *schema = new_schema(shared, "+s", "");
    schema->n_children = (int64_t)shared->count;
    schema->children = shared->schemas;
    *array = new_array(shared, table->rows, shared->no_buffer, 1);
    array->n_children = (int64_t)shared->count;
    array->children = shared->arrays;
    return 0;
}

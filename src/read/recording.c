#include "read/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exchange/load/load.h"

static void tell(char *why, const char *text)
{
    if (why) snprintf(why, MEMPROF_READ_ERROR_MAX, "%s", text);
}

int memprof_read_version(void)
{
    return MEMPROF_READ_VERSION;
}

struct opening {
    const char *path;
    struct memprof_recording *recording;
    struct mp_error error;
};

static void open_it(void *context)
{
    struct opening *opening = context;
    mp_exchange_load(opening->path, &opening->recording->model, &opening->error);
}

struct memprof_recording *memprof_read_open(const char *path, char *why)
{
    struct memprof_recording *recording = calloc(1, sizeof *recording);
    struct opening opening = {.path = path, .recording = recording};
    if (!recording || !mp_memory_try(open_it, &opening)) {
        free(recording);
        tell(why, "not enough memory to read the file");
        return NULL;
    }
    if (!recording->model) {
        tell(why, opening.error.text);
        free(recording);
        return NULL;
    }
    atomic_init(&recording->users, 1);
    pthread_mutex_init(&recording->lock, NULL);
    return recording;
}

void mp_read_release(struct memprof_recording *recording)
{
    if (atomic_fetch_sub(&recording->users, 1) > 1) return;
    for (struct mp_read_table *table = recording->tables; table < recording->tables + MP_READ_TABLES; table++)
        for (size_t i = 0; i < MP_READ_COLUMNS; i++)
            free(table->owned[i]);
    mp_vec_each (char *, copy, &recording->copies)
        free(*copy);
    mp_vec_free(&recording->copies);
    mp_vec_free(&recording->shown_lines);
    mp_stack_lines_free(&recording->lines);
    mp_map_free(&recording->known);
    mp_intern_free(&recording->words);
    mp_model_free(recording->model);
    pthread_mutex_destroy(&recording->lock);
    free(recording);
}

void memprof_read_close(struct memprof_recording *recording)
{
    if (recording) mp_read_release(recording);
}

uint32_t mp_read_number(struct memprof_recording *recording, const char *text)
{
    if (!text || !*text) return 0;
    size_t length = strlen(text);
    uint32_t number = mp_intern_find(&recording->model->strings, text, length);
    if (number != MP_INTERN_FAILED) return number;
    uint32_t before = recording->words.count, word = mp_intern_add(&recording->words, text, length);
    if (recording->words.count > before) {
        mp_vec_grow_to(&recording->copies, recording->words.count);
        recording->copies.at[word] = mp_text_copy(text);
    }
    return recording->model->strings.count + word;
}

uint32_t mp_read_number_kept(struct memprof_recording *recording, const char *text)
{
    if (!text || !*text) return 0;
    bool added;
    uint64_t *number = mp_map_at(&recording->known, (uintptr_t)text, &added);
    if (added) *number = mp_read_number(recording, text);
    return (uint32_t)*number;
}

uint32_t mp_read_texts(const struct memprof_recording *recording)
{
    return recording->model->strings.count + (uint32_t)recording->copies.count;
}

const char *mp_read_text(const struct memprof_recording *recording, uint32_t number, size_t *length)
{
    const struct mp_intern *strings = &recording->model->strings;
    const char *text = NULL;
    if (length) *length = 0;
    if (!number || number >= mp_read_texts(recording)) return NULL;
    if (number < strings->count) return mp_intern_get(strings, number, length);
    text = recording->copies.at[number - strings->count];
    if (text && length) *length = strlen(text);
    return text;
}

const char *memprof_read_text(struct memprof_recording *recording, uint32_t number, size_t *length)
{
    pthread_mutex_lock(&recording->lock);
    const char *text = mp_read_text(recording, number, length);
    pthread_mutex_unlock(&recording->lock);
    return text;
}

struct asking {
    struct memprof_recording *recording;
    uint32_t stack;
};

static void resolve_it(void *context)
{
    struct asking *asking = context;
    struct memprof_recording *recording = asking->recording;
    recording->shown_lines.count = 0;
    if (asking->stack >= recording->model->stacks.count) return;
    mp_stack_resolve(recording->model, asking->stack, &recording->lines);
    mp_vec_each (const struct mp_stack_line, line, &recording->lines)
        mp_vec_add(&recording->shown_lines,
                   ((struct memprof_line){.function = line->cut ? "[frames left out]" : line->function,
                                          .file = line->file,
                                          .module = line->module,
                                          .language = mp_language_name(line->language),
                                          .line = line->line}));
}

const struct memprof_line *memprof_read_stack(struct memprof_recording *recording, uint32_t stack, size_t *count)
{
    struct asking asking = {.recording = recording, .stack = stack};
    pthread_mutex_lock(&recording->lock);
    bool resolved = mp_memory_try(resolve_it, &asking);
    *count = resolved ? recording->shown_lines.count : 0;
    const struct memprof_line *lines = *count ? recording->shown_lines.at : NULL;
    pthread_mutex_unlock(&recording->lock);
    return lines;
}

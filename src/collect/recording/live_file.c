#include "collect/recording/live_file.h"
#include "collect/recording/recording_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A block, ended or live, that was born after the first step began. Older blocks are in `base`. */
struct entry {
    struct mp_base_block block;
    uint32_t birth, death; /* units; death UINT32_MAX: live */
};

struct live_file {
    struct mp_recording *recording;
    struct mp_writer *writer;
    struct mp_tables tables;
    MP_VEC(struct mp_base_block) base;
    MP_VEC(struct entry) entries;
    MP_VEC(struct mp_event) events;
    MP_VEC(struct mp_label) labels;
    MP_VEC(uint64_t) live_bytes, before; /* by track: live bytes now, and before the first event of `events` */
    uint64_t next_block;
};

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "out of memory for what is live");
}

static enum mp_status start_writer(struct live_file *file, int fd, struct mp_error *error)
{
    const struct mp_spool_header *spool = file->recording->spool.header;
    const struct mp_lives *lives = &file->recording->lives;
    char configuration[MP_SPOOL_TEXT + 128];
    snprintf(configuration, sizeof configuration, "%.*s;live_each=%u;live_steps=%u;live_source=%s", MP_SPOOL_TEXT - 1,
             spool->configuration, 1u << lives->shift, lives->steps,
             lives->source == MP_LIVES_OPTIMIZER ? "torch"
             : *file->recording->step_at         ? "function"
                                                 : "");
    return mp_recording_open_writer(file->recording, fd, configuration, false, &file->writer, error);
}

/* Writes all tables of the spool, and one thread. */
static enum mp_status write_tables(struct live_file *file, uint32_t *thread, uint32_t *step, struct mp_error *error)
{
    struct mp_spool_header *spool = file->recording->spool.header;
    struct mp_thread_info entry = {.tid = file->recording->pid};
    enum mp_status status = mp_tables_read(&file->tables, spool, NULL, NULL, error);
    *thread = 0;
    if (!status) status = mp_tables_text(&file->tables, file->recording->step_at, step, error);
    if (!status && !mp_vec_push(&file->tables.threads, entry)) status = no_memory(error);
    if (!status) status = mp_tables_write(&file->tables, spool, file->writer, error);
    if (!status) status = mp_recording_read_tables(file->recording, error); /* new modules */
    return status ? status : mp_recording_write_symbols(file->recording, &file->tables, file->writer, error);
}

static enum mp_status flush(struct live_file *file, struct mp_error *error)
{
    if (!file->events.count) return MP_OK;
    enum mp_status status = mp_writer_events(file->writer, file->events.at, file->events.count, file->before.at,
                                             file->before.count, NULL, 0, error);
    file->events.count = 0;
    return status;
}

static enum mp_status put_event(struct live_file *file, const struct mp_event *event, struct mp_error *error)
{
    if (!file->events.count) {
        file->before.count = 0;
        if (!mp_vec_append(&file->before, file->live_bytes.at, file->live_bytes.count)) return no_memory(error);
    }
    if (!mp_vec_push(&file->events, *event)) return no_memory(error);
    uint64_t bytes = event->bytes == MP_BYTES_UNKNOWN ? 0 : event->bytes;
    if (event->type == MP_EVENT_ALLOC) file->live_bytes.at[event->track] += bytes;
    if (event->type == MP_EVENT_FREE) file->live_bytes.at[event->track] -= bytes;
    return file->events.count == MP_CHUNK_EVENTS ? flush(file, error) : MP_OK;
}

/* Gives text `id` of the recording a number in the file. */
static enum mp_status put_text(struct live_file *file, uint32_t id, uint32_t *to, struct mp_error *error)
{
    *to = 0;
    if (!id) return MP_OK;
    return mp_tables_text(&file->tables, mp_intern_get(&file->recording->tables.strings, id, NULL), to, error);
}

static enum mp_status add(struct live_file *file, const struct mp_base_block *block, uint32_t birth, uint32_t death,
                          struct mp_error *error)
{
    struct entry entry = {*block, birth, death};
    if (block->track >= file->live_bytes.count && !mp_vec_extend(&file->live_bytes, block->track + 1u))
        return no_memory(error);
    return mp_vec_push(&file->entries, entry) ? MP_OK : no_memory(error);
}

static enum mp_status gather(struct live_file *file, struct mp_error *error)
{
    const struct mp_ledger *ledger = &file->recording->state.ledger;
    const struct mp_lives *lives = &file->recording->lives;
    enum mp_status status = MP_OK;
    if (ledger->tracks.count && !mp_vec_extend(&file->live_bytes, ledger->tracks.count)) return no_memory(error);
    for (size_t i = 0; !status && i < lives->ended.count; i++) {
        const struct mp_life *life = &lives->ended.at[i];
        struct mp_base_block block = {.address = (UINT64_C(1) << 62) + i,
                                      .bytes = life->bytes,
                                      .stack = life->stack,
                                      .track = life->track,
                                      .kind = life->kind};
        status = add(file, &block, life->birth, life->death, error);
    }
    for (size_t i = 0; !status && i < ledger->blocks.count; i++) {
        struct mp_base_block block = ledger->blocks.at[i];
        if (block.track == MP_LEDGER_SLOT_FREE) continue;
        status = put_text(file, block.module, &block.module, error);
        if (!status) status = put_text(file, block.label, &block.label, error);
        if (status) return status;
        if (ledger->births.at[i]) {
            status = add(file, &block, mp_lives_unit(lives, ledger->births.at[i]), UINT32_MAX, error);
            continue;
        }
        block.block = file->base.count;
        if (!mp_vec_push(&file->base, block)) status = no_memory(error);
    }
    return status;
}

/* Sorts the entries' indices by unit: those of unit N are order[first[N]] to order[first[N + 1] - 1]. NULL: out of
 * memory. */
static uint32_t *sort(const struct live_file *file, bool by_death, uint32_t *first)
{
    size_t units = file->recording->lives.begun_ns.count;
    uint32_t *order = malloc((file->entries.count + 1) * sizeof *order);
    if (!order) return NULL;
    memset(first, 0, (units + 2) * sizeof *first);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < file->entries.count; i++) {
            uint32_t unit = by_death ? file->entries.at[i].death : file->entries.at[i].birth;
            if (unit >= units) continue;
            if (pass)
                order[first[unit + 1]++] = (uint32_t)i;
            else
                first[unit + 2]++;
        }
        for (size_t unit = 1; !pass && unit < units + 2; unit++)
            first[unit] += first[unit - 1];
    }
    return order;
}

static enum mp_status put_blocks(struct live_file *file, const uint32_t *order, const uint32_t *first, uint32_t unit,
                                 struct mp_event *event, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    for (uint32_t i = first[unit]; !status && i < first[unit + 1]; i++) {
        struct entry *entry = &file->entries.at[order[i]];
        event->address = entry->block.address;
        event->bytes = entry->block.bytes;
        event->stack = event->type == MP_EVENT_ALLOC ? entry->block.stack : 0;
        event->name = event->type == MP_EVENT_ALLOC ? entry->block.module : 0;
        event->track = entry->block.track;
        event->kind = entry->block.kind;
        if (event->type == MP_EVENT_ALLOC) entry->block.block = file->base.count + file->next_block++;
        event->block = entry->block.block;
        struct mp_label label = {event->time_ns, event->block, entry->block.role, entry->block.label};
        if (event->type == MP_EVENT_ALLOC && label.role && !mp_vec_push(&file->labels, label)) return no_memory(error);
        status = put_event(file, event, error);
    }
    return status;
}

/* Writes for each unit a step, the frees of blocks that end in it, and the allocs of blocks that begin in it. */
static enum mp_status put_units(struct live_file *file, uint32_t thread, uint32_t step, struct mp_error *error)
{
    const struct mp_lives *lives = &file->recording->lives;
    size_t units = lives->begun_ns.count;
    uint32_t *born = calloc(units + 2, sizeof *born), *dead = calloc(units + 2, sizeof *dead);
    uint32_t *by_birth = born ? sort(file, false, born) : NULL, *by_death = dead ? sort(file, true, dead) : NULL;
    enum mp_status status = by_birth && by_death ? MP_OK : no_memory(error);
    for (uint32_t unit = 0; !status && unit < units; unit++) {
        struct mp_event event = {
            .type = MP_EVENT_STEP, .time_ns = lives->begun_ns.at[unit], .thread = thread, .name = step};
        status = put_event(file, &event, error);
        event.name = 0;
        event.type = MP_EVENT_FREE;
        if (!status) status = put_blocks(file, by_death, dead, unit, &event, error);
        event.type = MP_EVENT_ALLOC;
        if (!status) status = put_blocks(file, by_birth, born, unit, &event, error);
    }
    free(born);
    free(dead);
    free(by_birth);
    free(by_death);
    return status;
}

/* Writes the allocators' reserved totals. From these totals a reader knows which memory of the layer below belongs to
 * the allocators, and does not count it twice. */
static enum mp_status put_reserved(struct live_file *file, uint32_t thread, struct mp_error *error)
{
    const struct mp_state *state = &file->recording->state;
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < state->ledger.tracks.count; i++) {
        struct mp_event event = {.type = MP_EVENT_RESERVED,
                                 .time_ns = state->time_ns,
                                 .thread = thread,
                                 .track = (uint16_t)i,
                                 .bytes = state->ledger.tracks.at[i].reserved_bytes};
        if (event.bytes != MP_BYTES_UNKNOWN) status = put_event(file, &event, error);
    }
    return status ? status : flush(file, error);
}

static enum mp_status finish(struct live_file *file, struct mp_error *error)
{
    static const char note[] = "taken from a program that runs: of what had ended, only what outlived a step is in it";
    uint32_t text, limits[MP_RECORDING_LIMITS], limit_count = 0;
    enum mp_status status = mp_tables_text(&file->tables, note, &text, error);
    if (!status) status = mp_recording_limits(file->recording, limits, &limit_count, error);
    for (uint32_t i = 0; !status && i < limit_count; i++)
        status = put_text(file, limits[i], &limits[i], error);
    if (!status) status = mp_tables_write(&file->tables, file->recording->spool.header, file->writer, error);
    struct mp_coverage coverage = {.events = file->recording->events,
                                   .dropped = mp_recording_dropped(file->recording->spool.header),
                                   .notes = &text,
                                   .note_count = 1,
                                   .limits = limits,
                                   .limit_count = limit_count};
    if (!status && file->labels.count)
        status = mp_writer_labels(file->writer, file->labels.at, file->labels.count, error);
    if (!status) status = mp_writer_coverage(file->writer, &coverage, error);
    if (status) return status;
    status = mp_writer_finish(file->writer, error);
    file->writer = NULL;
    return status;
}

enum mp_status mp_live_file_write(struct mp_recording *recording, int fd, struct mp_error *error)
{
    struct live_file file = {.recording = recording};
    uint32_t thread, step = 0;
    uint64_t base_ns = recording->lives.begun_ns.count ? recording->lives.begun_ns.at[0] : recording->state.time_ns;
    enum mp_status status = start_writer(&file, fd, error);
    if (!status) status = write_tables(&file, &thread, &step, error);
    if (!status) status = gather(&file, error);
    if (!status && file.base.count) status = mp_writer_base(file.writer, base_ns, file.base.at, file.base.count, error);
    for (size_t i = 0; !status && i < file.base.count; i++)
        if (file.base.at[i].bytes != MP_BYTES_UNKNOWN)
            file.live_bytes.at[file.base.at[i].track] += file.base.at[i].bytes;
    if (!status) status = put_units(&file, thread, step, error);
    if (!status) status = put_reserved(&file, thread, error);
    if (!status) status = finish(&file, error);
    mp_writer_abandon(file.writer);
    mp_tables_free(&file.tables);
    mp_vec_free(&file.base);
    mp_vec_free(&file.entries);
    mp_vec_free(&file.events);
    mp_vec_free(&file.labels);
    mp_vec_free(&file.live_bytes);
    mp_vec_free(&file.before);
    return status;
}

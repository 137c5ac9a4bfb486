#include "exchange/common/save.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "format/writer.h"

struct saver {
    const struct mp_model *model;
    struct mp_writer *writer;
    struct mp_error *error;
    uint64_t *numbers; /* by block: its number in the file: blocks of the base first, then in order of birth */
    uint64_t *live;    /* by track: bytes */
    uint64_t next_number;
    uint32_t unknown_thread; /* number of a thread for events whose thread is MP_NONE */
};

static enum mp_status save_strings(struct saver *s)
{
    const struct mp_intern *texts = &s->model->strings;
    struct mp_string *strings = mp_alloc((texts->count + 1) * sizeof *strings);
    for (uint32_t i = 0; i < texts->count; i++)
        strings[i].text = mp_intern_get(texts, i, &strings[i].length);
    enum mp_status status = mp_writer_strings(s->writer, strings, texts->count, s->error);
    free(strings);
    return status;
}

/* Adds an unnamed thread: every event in a file needs one, and events without a thread come from damaged files. */
static enum mp_status save_threads(struct saver *s)
{
    const struct mp_model *model = s->model;
    static const struct mp_thread_info unknown;
    bool any_unknown = false;
    s->unknown_thread = (uint32_t)model->threads.count;
    for (size_t i = 0; i < model->events.count; i++)
        any_unknown |= model->events.thread[i] == MP_NONE;
    enum mp_status status = mp_writer_threads(s->writer, model->threads.at, model->threads.count, s->error);
    return status || !any_unknown ? status : mp_writer_threads(s->writer, &unknown, 1, s->error);
}

static enum mp_status save_frames(struct saver *s)
{
    const struct mp_model *model = s->model;
    MP_VEC(struct mp_symbol) symbols = {0};
    struct mp_frame *frames = mp_alloc((model->frames.count + 1) * sizeof *frames);
    for (size_t i = 0; i < model->frames.count; i++) {
        const struct mp_model_frame *frame = &model->frames.at[i];
        frames[i] = frame->raw;
        for (uint32_t k = 0; frame->raw.language == MP_NATIVE && k < frame->line_count; k++) {
            const struct mp_model_line *line = &model->lines.at[frame->first_line + k];
            struct mp_symbol symbol = {(uint32_t)i, line->function, line->file, line->line};
            mp_vec_add(&symbols, symbol);
        }
    }
    enum mp_status status = mp_writer_frames(s->writer, frames, model->frames.count, s->error);
    if (!status) status = mp_writer_symbols(s->writer, symbols.at, symbols.count, s->error);
    mp_vec_free(&symbols);
    free(frames);
    return status;
}

static enum mp_status save_tables(struct saver *s)
{
    const struct mp_model *model = s->model;
    enum mp_status status = save_strings(s);
    if (!status) status = mp_writer_devices(s->writer, model->devices.at, model->devices.count, s->error);
    if (!status) status = mp_writer_tracks(s->writer, model->tracks.at, model->tracks.count, s->error);
    if (!status) status = save_threads(s);
    if (!status) status = mp_writer_modules(s->writer, model->modules.at, model->modules.count, s->error);
    if (!status) status = save_frames(s);
    return status ? status : mp_writer_stacks(s->writer, model->stacks.at, model->stacks.count, s->error);
}

static enum mp_status save_past(struct saver *s)
{
    const struct mp_model *model = s->model;
    MP_VEC(struct mp_past_peak) peaks = {0};
    if (!model->past.events && !model->past.steps) return MP_OK;
    for (size_t i = 0; model->past.events && i < model->sums.count; i++) {
        struct mp_past_peak peak = model->sums.at[i].past;
        peak.track = (uint16_t)i;
        mp_vec_add(&peaks, peak);
    }
    enum mp_status status = mp_writer_past(s->writer, &model->past, s->error);
    if (!status) status = mp_writer_past_peaks(s->writer, peaks.at, peaks.count, s->error);
    if (!status) status = mp_writer_past_sites(s->writer, model->past_sites.at, model->past_sites.count, s->error);
    mp_vec_free(&peaks);
    return status;
}

/* The event that allocated a block, with the next number, and with the block's size at that time. */
static struct mp_event make_birth(struct saver *s, uint32_t block)
{
    const struct mp_model_blocks *blocks = &s->model->blocks;
    s->numbers[block] = s->next_number++;
#define TAKE(field, type) .field = blocks->field[block],
    return (struct mp_event){.block = s->numbers[block],
                             .name = mp_model_module(s->model, block),
                             .type = MP_EVENT_ALLOC,
                             MP_BLOCK_FIELDS(TAKE)};
#undef TAKE
}

static enum mp_status save_base(struct saver *s)
{
    const struct mp_model_blocks *blocks = &s->model->blocks;
    MP_VEC(struct mp_base_block) base = {0};
    for (size_t i = 0; i < blocks->count; i++) {
        if (blocks->alloc_event[i] != MP_NONE) continue;
        const struct mp_event birth = make_birth(s, (uint32_t)i);
        struct mp_base_block block = mp_block_born(&birth);
        const struct mp_model_label *label = mp_model_label_first(s->model, (uint32_t)i);
        if (label && label->event == MP_NONE) {
            block.role = (uint8_t)label->role;
            block.label = label->name;
        }
        const struct mp_request *request = mp_model_request_of(s->model, (uint32_t)i);
        if (request) block.request = *request;
        s->live[block.track] += mp_known(block.bytes);
        mp_vec_add(&base, block);
    }
    enum mp_status status = base.count ? mp_writer_base(s->writer, 0, base.at, base.count, s->error) : MP_OK;
    mp_vec_free(&base);
    return status;
}

/* One event. Applies its effect to the live blocks. */
static struct mp_event make_event(struct saver *s, uint32_t at)
{
    const struct mp_model *model = s->model;
    const struct mp_model_events *events = &model->events;
    uint32_t subject = events->subject[at];
    struct mp_event event = {.time_ns = events->time_ns[at],
                             .thread = events->thread[at] == MP_NONE ? s->unknown_thread : events->thread[at],
                             .track = events->track[at],
                             .type = events->type[at]};
    if (event.type != MP_EVENT_ALLOC && event.type != MP_EVENT_FREE && event.type != MP_EVENT_RESIZE) {
        event.bytes = model->notes.at[subject].bytes;
        event.stack = model->notes.at[subject].stack;
        event.name = model->notes.at[subject].name;
        return event;
    }
    if (event.type == MP_EVENT_ALLOC) {
        struct mp_event birth = make_birth(s, subject);
        birth.time_ns = event.time_ns;
        birth.thread = event.thread;
        s->live[birth.track] += mp_known(birth.bytes);
        return birth;
    }
    uint64_t before = at ? mp_model_bytes_at(model, subject, at - 1) : model->blocks.bytes[subject];
    event.address = model->blocks.address[subject];
    event.bytes = event.type == MP_EVENT_RESIZE ? mp_model_bytes_at(model, subject, at) : before;
    event.block = s->numbers[subject];
    if (event.type == MP_EVENT_FREE) event.stack = mp_model_freed_at(model, subject);
    s->live[event.track] -= mp_known(before);
    if (event.type == MP_EVENT_RESIZE) s->live[event.track] += mp_known(event.bytes);
    return event;
}

static enum mp_status save_events(struct saver *s)
{
    const struct mp_model *model = s->model;
    size_t tracks = model->tracks.count;
    struct mp_event *batch = mp_alloc(MP_CHUNK_EVENTS * sizeof *batch);
    uint64_t *live = mp_alloc((tracks + 1) * sizeof *live);
    enum mp_status status = MP_OK;
    for (size_t done = 0; !status && done < model->events.count;) {
        size_t count = 0;
        memcpy(live, s->live, tracks * sizeof *live);
        for (; count < MP_CHUNK_EVENTS && done < model->events.count; count++)
            batch[count] = make_event(s, (uint32_t)done++);
        status = mp_writer_events(s->writer, batch, count, live, tracks, NULL, 0, s->error);
    }
    free(batch);
    free(live);
    return status;
}

/* Writes the labels, except those from the very start, which are in the base. */
static enum mp_status save_labels(struct saver *s)
{
    const struct mp_model *model = s->model;
    MP_VEC(struct mp_label) labels = {0};
    for (size_t i = 0; i < model->labels.count; i++) {
        const struct mp_model_label *from = &model->labels.at[i];
        if (from->event == MP_NONE) continue;
        struct mp_label label = {model->events.time_ns[from->event], s->numbers[from->block], (uint8_t)from->role,
                                 from->name};
        mp_vec_add(&labels, label);
    }
    enum mp_status status = mp_writer_labels(s->writer, labels.at, labels.count, s->error);
    mp_vec_free(&labels);
    return status;
}

/* Writes the holders that each look found, and the end of the look. */
static enum mp_status save_holders(struct saver *s)
{
    const struct mp_model *model = s->model;
    MP_VEC(struct mp_block_holder) rows = {0};
    for (size_t look = 0; look <= model->looks.count; look++) {
        const struct mp_model_look *end = look < model->looks.count ? &model->looks.at[look] : NULL;
        uint64_t time_ns = end ? end->time_ns : model->duration_ns;
        mp_vec_each (const struct mp_model_holder, from, &model->holders) {
            struct mp_block_holder row = {
                time_ns, s->numbers[from->block], from->kind, from->certain, from->path, from->file, from->line};
            if (from->look == look || from->since == look) mp_vec_add(&rows, row);
        }
        struct mp_block_holder last = {.time_ns = time_ns, .block = MP_HOLDER_LOOK};
        if (end) {
            last.certain = end->complete;
            last.path = end->note;
            mp_vec_add(&rows, last);
        }
    }
    enum mp_status status = mp_writer_holders(s->writer, rows.at, rows.count, s->error);
    mp_vec_free(&rows);
    return status;
}

static enum mp_status save_uses(struct saver *s)
{
    MP_VEC(struct mp_block_use) rows = {0};
    mp_vec_each (const struct mp_model_use, from, &s->model->uses) {
        const struct mp_block_use row = {
            from->time_ns, s->numbers[from->block], from->operator, from->node, from->shape, from->module, from->how};
        mp_vec_add(&rows, row);
    }
    enum mp_status status = mp_writer_uses(s->writer, rows.at, rows.count, s->error);
    mp_vec_free(&rows);
    return status;
}

static enum mp_status save_metadata(struct saver *s)
{
    const struct mp_model *model = s->model;
    MP_VEC(struct mp_block_metadata) rows = {0};
    mp_vec_each (const struct mp_model_metadata, from, &model->metadata) {
        struct mp_block_metadata row = {from->time_ns, s->numbers[from->block], from->kind, from->text};
        mp_vec_add(&rows, row);
    }
    enum mp_status status = mp_writer_metadata(s->writer, rows.at, rows.count, s->error);
    mp_vec_free(&rows);
    return status;
}

/* Requests of base blocks are in the base. */
static enum mp_status save_requests(struct saver *s)
{
    const struct mp_model *model = s->model;
    MP_VEC(struct mp_block_request) requests = {0};
    for (size_t i = 0; i < model->requests.count; i++) {
        const struct mp_model_request *from = &model->requests.at[i];
        struct mp_block_request request = {s->numbers[from->block], from->request};
        if (model->blocks.alloc_event[from->block] != MP_NONE) mp_vec_add(&requests, request);
    }
    enum mp_status status = mp_writer_requests(s->writer, requests.at, requests.count, s->error);
    mp_vec_free(&requests);
    return status;
}

static enum mp_status save_job(struct saver *s)
{
    const struct mp_model_job *job = &s->model->job;
    const struct {
        enum mp_chunk_kind kind;
        const void *rows;
        size_t count;
    } tables[] = {{MP_CHUNK_JOB_PROCESSES, job->processes.at, job->processes.count},
                  {MP_CHUNK_JOB_TRACKS, job->tracks.at, job->tracks.count},
                  {MP_CHUNK_JOB_SITES, job->sites.at, job->sites.count},
                  {MP_CHUNK_JOB_HOLDINGS, job->holdings.at, job->holdings.count},
                  {MP_CHUNK_JOB_FINDINGS, job->findings.at, job->findings.count},
                  {MP_CHUNK_JOB_POINTS, job->points.at, job->points.count},
                  {MP_CHUNK_JOB_TROUBLES, job->troubles.at, job->troubles.count}};
    enum mp_status status = save_tables(s);
    for (size_t i = 0; !status && i < sizeof tables / sizeof *tables; i++)
        status = mp_writer_rows(s->writer, tables[i].kind, tables[i].rows, tables[i].count, s->error);
    return status;
}

static enum mp_status save_all(struct saver *s)
{
    if (mp_model_is_job(s->model)) return save_job(s);
    const struct mp_model *model = s->model;
    s->numbers = mp_alloc_zeroed(model->blocks.count + 1, sizeof *s->numbers);
    s->live = mp_alloc_zeroed(model->tracks.count + 1, sizeof *s->live);
    enum mp_status status = save_tables(s);
    if (!status) status = save_past(s);
    if (!status) status = save_base(s);
    if (!status) status = save_events(s);
    if (!status) status = save_labels(s);
    if (!status) status = save_holders(s);
    if (!status) status = save_uses(s);
    if (!status) status = save_metadata(s);
    if (!status) status = save_requests(s);
    if (!status) status = mp_writer_samples(s->writer, model->samples.at, model->samples.count, s->error);
    if (!status) status = mp_writer_segments(s->writer, model->segments.at, model->segments.count, s->error);
    if (!status) status = mp_writer_parts(s->writer, model->parts.at, model->parts.count, s->error);
    if (!status) status = mp_writer_calls(s->writer, model->calls.at, model->calls.count, s->error);
    if (!status) status = mp_writer_asides(s->writer, model->asides.at, model->asides.count, s->error);
    if (mp_damage_any(&model->file.damage))
        mp_writer_lost(s->writer, model->file.damage.lost_chunks + !model->file.damage.lost_chunks, 0);
    if (!status) status = mp_writer_coverage(s->writer, &model->coverage, s->error);
    if (!status) status = mp_writer_exit(s->writer, &model->how, s->error);
    free(s->numbers);
    free(s->live);
    return status;
}

enum mp_status mp_exchange_save(const struct mp_model *model, int fd, struct mp_error *error)
{
    struct saver s = {.model = model, .error = error};
    struct mp_recording_start start = model->start;
    start.spool = "";
    start.spool_id = 0;
    enum mp_status status = mp_writer_open(fd, &start, &s.writer, error);
    if (status) return status;
    status = save_all(&s);
    if (!status) return mp_writer_finish(s.writer, error);
    mp_writer_abandon(s.writer);
    return status;
}

#include <stdlib.h>
#include <string.h>

#include "analysis/job/job_state.h"
#include "analysis/leaks/leaks.h"
#include "analysis/sites/profile.h"
#include "analysis/sites/steps.h"
#include "base/buffer.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"
#include "model/stack.h"
#include "model/track.h"

_Static_assert((int)MP_JOB_VERDICTS == (int)MP_VERDICT_UNKNOWN + 1, "rows of jobs know every verdict");
_Static_assert((int)MP_JOB_CLASSES == (int)MP_LEAK_CLASSES, "rows of jobs know every class");

#define COMMAND_MAX 4096 /* bytes of a command that are kept */
#define LEFT_OUT    2    /* value in `wanted` while tracks are chosen: a track for which there is no room */

/* Bytes that one process holds at a site. */
struct held {
    uint32_t stack, kind;
    uint64_t bytes[MP_JOB_SENSES], blocks[MP_JOB_SENSES];
};

struct taker {
    struct mp_job *job;
    const struct mp_model *model;
    uint32_t process;
    uint32_t *stacks; /* by the recording's stack: the job's stack; MP_NONE: not known yet */
    MP_VEC(struct held) held;
    struct mp_map at;      /* (kind, stack) to 1 + the index in held */
    unsigned char *wanted; /* by track: its memory counts */
    uint16_t chosen;
};

/* ---- stacks ----------------------------------------------------------------------------------------------------- */

static uint32_t text_of(struct mp_job *job, const char *text)
{
    return text ? mp_job_text(job, text) : 0;
}

/* Adds a frame's lines, the outermost first. A named line loses its address, which has no meaning in other
 * processes. */
static uint32_t add_lines(struct taker *t, uint32_t parent, uint32_t frame, struct mp_stack_lines *lines)
{
    mp_stack_resolve_frame(t->model, frame, lines);
    for (size_t i = lines->count; i-- > 0;) {
        const struct mp_stack_line *line = &lines->at[i];
        uint64_t address = line->language == MP_NATIVE && !line->function && !line->file ? line->address : 0;
        const struct mp_job_frame added = {.language = line->language,
                                           .module = text_of(t->job, line->module),
                                           .function = text_of(t->job, line->function),
                                           .file = text_of(t->job, line->file),
                                           .line = line->line,
                                           .address = {(uint32_t)address, (uint32_t)(address >> 32)}};
        parent = mp_job_stack(t->job, parent, mp_job_frame(t->job, &added));
    }
    return parent;
}

/* The job's stack for one of the recording's. Adds missing nodes from the outside in. */
static uint32_t stack_of(struct taker *t, uint32_t stack)
{
    MP_VEC(uint32_t) path = {0};
    struct mp_stack_lines lines = {0};
    if (stack >= t->model->stacks.count) return 0;
    for (uint32_t at = stack; at && t->stacks[at] == MP_NONE; at = t->model->stacks.at[at].parent)
        mp_vec_add(&path, at);
    for (size_t i = path.count; i-- > 0;) {
        const struct mp_stack_node *node = &t->model->stacks.at[path.at[i]];
        uint32_t parent = node->parent ? t->stacks[node->parent] : 0;
        t->stacks[path.at[i]] = node->frame == MP_FRAME_CUT ? mp_job_stack(t->job, parent, MP_FRAME_CUT)
                                                            : add_lines(t, parent, node->frame, &lines);
    }
    mp_vec_free(&path);
    mp_stack_lines_free(&lines);
    return stack ? t->stacks[stack] : 0;
}

/* ---- sites ------------------------------------------------------------------------------------------------------ */

static struct held *find_held(struct taker *t, uint32_t kind, uint32_t stack)
{
    bool fresh;
    uint64_t *at = mp_map_at(&t->at, (uint64_t)kind << 32 | stack, &fresh);
    if (fresh) {
        struct held empty = {.stack = stack, .kind = kind};
        mp_vec_add(&t->held, empty);
        *at = t->held.count;
    }
    return &t->held.at[*at - 1];
}

static void hold(struct taker *t, uint32_t kind, uint32_t stack, enum mp_job_sense sense, uint64_t bytes,
                 uint64_t blocks)
{
    if (!bytes && !blocks) return;
    struct held *held = find_held(t, kind, stack);
    held->bytes[sense] += bytes;
    held->blocks[sense] += blocks;
}

static void put_sites(struct taker *t)
{
    mp_vec_each (const struct held, held, &t->held) {
        for (int sense = 0; sense < MP_JOB_SENSES; sense++) {
            if (!held->bytes[sense] && !held->blocks[sense]) continue;
            const struct mp_job_site site = {.bytes = held->bytes[sense],
                                             .blocks = held->blocks[sense],
                                             .least = held->bytes[sense],
                                             .most = held->bytes[sense],
                                             .stack = held->stack,
                                             .kind = held->kind,
                                             .processes = 1,
                                             .least_process = t->process,
                                             .most_process = t->process,
                                             .sense = (uint8_t)sense};
            mp_job_add_site(t->job, &site);
        }
    }
}

MP_ORDER(by_peak, struct held, MP_FALLING(bytes[MP_JOB_PEAK]))

/* Puts the process's largest sites into the job. Sites with equal bytes stay in the recording's order. */
static void put_holdings(struct taker *t, uint32_t kind)
{
    MP_VEC(struct held) own = {0};
    for (size_t i = 0; i < t->held.count; i++) {
        struct held held = t->held.at[i];
        if (held.kind == kind && held.bytes[MP_JOB_PEAK]) mp_vec_add(&own, held);
    }
    for (size_t first = 0; first < own.count && first < MP_JOB_HOLDINGS; first++) {
        size_t highest = first;
        for (size_t i = first + 1; i < own.count; i++)
            if (by_peak(&own.at[i], &own.at[highest]) < 0) highest = i;
        struct held held = own.at[highest];
        memmove(own.at + first + 1, own.at + first, (highest - first) * sizeof held);
        own.at[first] = held;
        struct mp_job_holding row = {held.bytes[MP_JOB_PEAK], held.blocks[MP_JOB_PEAK], t->process, held.stack};
        mp_vec_add(&t->job->rows.holdings, row);
    }
    mp_vec_free(&own);
}

/* ---- tracks ----------------------------------------------------------------------------------------------------- */

/* "cuda/torch" of "cuda:3/torch". */
static uint32_t kind_of(struct taker *t, uint16_t track)
{
    char id[MP_TRACK_ID_MAX];
    mp_track_id(t->model, track, id);
    size_t name = strcspn(id, ":/");
    size_t rest = id[name] == ':' ? name + 1 + strspn(id + name + 1, "0123456789") : name;
    memmove(id + name, id + rest, strlen(id + rest) + 1);
    return mp_job_text(t->job, id);
}

/* Rows differ by their track's id. No recorder makes two tracks of one id; from a broken file, only one of them is
 * kept. */
static bool is_named(const struct taker *t, size_t track)
{
    char id[MP_TRACK_ID_MAX], other[MP_TRACK_ID_MAX];
    mp_track_id(t->model, (uint16_t)track, id);
    for (size_t i = 0; i < t->model->tracks.count; i++)
        if (t->wanted[i] == 1 && !strcmp(mp_track_id(t->model, (uint16_t)i, other), id)) return true;
    return false;
}

/* Keeps the tracks with the highest peaks, and the chosen one. */
static void choose_tracks(struct taker *t)
{
    const struct mp_model *model = t->model;
    t->wanted = mp_alloc_zeroed(model->tracks.count + 1, 1);
    if (t->chosen != MP_TRACK_NONE) t->wanted[t->chosen] = 1;
    for (size_t taken = 1; taken < MP_JOB_TRACKS;) {
        size_t best = model->tracks.count;
        for (size_t i = 0; i < model->tracks.count; i++) {
            const struct mp_model_track_sum *sum = &model->sums.at[i];
            if (t->wanted[i] || (!sum->events && !sum->peak_bytes)) continue;
            if (best == model->tracks.count || sum->peak_bytes > model->sums.at[best].peak_bytes) best = i;
        }
        if (best == model->tracks.count) break;
        bool named = is_named(t, best);
        t->wanted[best] = named ? LEFT_OUT : 1;
        taken += !named;
    }
    for (size_t i = 0; i < model->tracks.count; i++)
        t->wanted[i] &= 1;
}

static uint32_t step_at(const struct mp_step_report *steps, uint64_t ns)
{
    uint32_t number = 0;
    for (size_t i = 0; i < steps->steps.count && steps->steps.at[i].start_ns <= ns; i++)
        number = ns < steps->steps.at[i].end_ns || steps->steps.at[i].to_end ? steps->steps.at[i].number : 0;
    return number;
}

static void put_track(struct taker *t, uint16_t track, uint32_t kind, const struct mp_step_report *steps)
{
    const struct mp_model *model = t->model;
    const struct mp_model_track_sum *sum = &model->sums.at[track];
    const struct mp_track *facts = &model->tracks.at[track];
    const struct mp_device *device = facts->device < model->devices.count ? &model->devices.at[facts->device] : NULL;
    char id[MP_TRACK_ID_MAX];
    const struct mp_job_track row = {.events = sum->events,
                                     .peak_bytes = sum->peak_bytes,
                                     .peak_ns = sum->peak_ns,
                                     .peak_blocks = sum->peak_blocks,
                                     .peak_step = sum->peak_in_past ? sum->past.step : step_at(steps, sum->peak_ns),
                                     .end_bytes = sum->end_bytes,
                                     .end_blocks = sum->end_blocks,
                                     .reserved_bytes = sum->reserved_peak_bytes,
                                     .device_bytes = device ? device->total_bytes : MP_BYTES_UNKNOWN,
                                     .process = t->process,
                                     .id = mp_job_text(t->job, mp_track_id(model, track, id)),
                                     .kind = kind,
                                     .device = text_of(t->job, mp_track_device(model, track)),
                                     .uuid = device ? text_of(t->job, mp_model_text(model, device->uuid)) : 0,
                                     .layer = facts->layer,
                                     .size_basis = facts->size_basis,
                                     .chosen = track == t->chosen,
                                     .memory = mp_model_track_holds_memory(model, track)};
    mp_vec_add(&t->job->rows.tracks, row);
}

static void take_track(struct taker *t, uint16_t track, const struct mp_step_report *steps)
{
    struct mp_profile profile;
    const struct mp_profile_query ask = {.track = track, .window = mp_window_all(t->model), .at = MP_NONE};
    uint32_t kind = kind_of(t, track);
    put_track(t, track, kind, steps);
    if (!mp_model_track_holds_memory(t->model, track)) return;
    mp_profile_make(t->model, &ask, &profile);
    mp_vec_each (const struct mp_profile_sample, sample, &profile.samples) {
        const struct mp_profile_value *peak = &sample->values[MP_PROFILE_PEAK];
        const struct mp_profile_value *end = &sample->values[MP_PROFILE_OUTSTANDING];
        if (!peak->blocks && !end->blocks) continue;
        uint32_t stack = stack_of(t, sample->stack);
        hold(t, kind, stack, MP_JOB_PEAK, peak->bytes, peak->blocks);
        hold(t, kind, stack, MP_JOB_END, end->bytes, end->blocks);
    }
    mp_profile_free(&profile);
    if (track == t->chosen) put_holdings(t, kind);
}

/* ---- leaks ------------------------------------------------------------------------------------------------------ */

/* The holder of most blocks of a finding, with the line to change. */
static uint32_t holder_of(struct taker *t, const struct mp_leaks *leaks, const struct mp_leak_finding *finding)
{
    if (!finding->held || !finding->held->count) return 0;
    const struct mp_holder *holder = &leaks->holders.holders.at[finding->held->first];
    struct mp_buffer text = {0};
    mp_buffer_append_text(&text, holder->certain ? "" : "probably ");
    mp_buffer_append_text(&text, holder->path);
    const char *file = holder->file ? mp_model_text(t->model, holder->file) : NULL,
               *slash = file ? strrchr(file, '/') : NULL;
    if (file) mp_buffer_printf(&text, " (%s:%u)", slash ? slash + 1 : file, holder->line);
    mp_buffer_append(&text, "", 1);
    uint32_t id = mp_job_text(t->job, (const char *)text.data);
    mp_buffer_free(&text);
    return id;
}

static enum mp_status take_leaks(struct taker *t, struct mp_job_process *process, struct mp_error *error)
{
    struct mp_leaks leaks;
    char id[MP_TRACK_ID_MAX];
    const struct mp_leaks_query ask = {.track = MP_TRACK_NONE,
                                       .window = mp_window_all(t->model),
                                       .grouping = {.by = MP_GROUP_STACK, .sort = MP_SORT_GROWTH}};
    enum mp_status status = mp_leaks_find(t->model, &ask, &leaks, error);
    if (status) return status;
    for (size_t i = 0; i < leaks.findings.count; i++) {
        const struct mp_leak_finding *finding = &leaks.findings.at[i];
        uint64_t growth = finding->bytes_per_step > 0 ? (uint64_t)(finding->bytes_per_step + 0.5) : 0;
        double together = finding->sum.bytes_per_step;
        const struct mp_job_finding row = {.bytes = finding->sum.bytes,
                                           .blocks = finding->sum.blocks,
                                           .bytes_per_step = together > 0 ? (uint64_t)(together + 0.5) : 0,
                                           .eta_oom_steps = finding->eta_oom_steps,
                                           .process = t->process,
                                           .track = mp_job_text(t->job, mp_track_id(t->model, finding->track, id)),
                                           .stack = stack_of(t, finding->stack),
                                           .first_step = finding->first_step,
                                           .holder = holder_of(t, &leaks, finding),
                                           .class = (uint8_t)finding->class,
                                           .certain = finding->confidence == MP_LEAK_CERTAIN};
        if (finding->sum.sites) mp_vec_add(&t->job->rows.findings, row); /* one row for each cause */
        if (!mp_leak_is_leak(finding)) continue;
        process->growth += growth;
        hold(t, kind_of(t, finding->track), row.stack, MP_JOB_GROWTH, growth, 0);
    }
    process->verdict = (uint8_t)leaks.verdict;
    process->reason = mp_job_text(t->job, leaks.reason);
    process->steps = leaks.step_count;
    process->step_source = mp_job_text(t->job, leaks.step_source);
    mp_leaks_free(&leaks);
    return MP_OK;
}

/* ---- the process ------------------------------------------------------------------------------------------------ */

static uint32_t command_of(struct mp_job *job, const struct mp_model *model)
{
    struct mp_buffer words = {0};
    for (const char *const *word = model->start.command; word && *word; word++)
        mp_buffer_printf(&words, "%s%s", word == model->start.command ? "" : " ", *word);
    size_t length = words.size < COMMAND_MAX ? words.size : COMMAND_MAX;
    while (length && length < words.size && (words.data[length] & 0xc0) == 0x80)
        length--;
    uint32_t id = mp_intern_add(&job->texts, (const char *)words.data, length);
    mp_buffer_free(&words);
    return id;
}

static void miss(struct mp_buffer *text, const char *format, const char *number)
{
    if (text->size) mp_buffer_append_text(text, "; ");
    mp_buffer_printf(text, format, number);
}

uint32_t mp_job_missing(struct mp_job *job, const struct mp_model *model)
{
    char number[MP_UNIT_TEXT];
    const struct mp_damage *damage = &model->damage;
    struct mp_buffer text = {0};
    if (!mp_model_incomplete(model)) return 0;
    if (damage->cut) miss(&text, "the file is cut%s", "");
    if (damage->lost_bytes) miss(&text, "%s of the file cannot be read", mp_format_bytes(number, damage->lost_bytes));
    if (damage->lost_chunks)
        miss(&text, damage->lost_chunks == 1 ? "%s chunk of it is lost" : "%s chunks of it are lost",
             mp_format_count(number, damage->lost_chunks));
    if (model->coverage.dropped)
        miss(&text, model->coverage.dropped == 1 ? "%s event was dropped" : "%s events were dropped",
             mp_format_count(number, model->coverage.dropped));
    uint32_t id = mp_intern_add(&job->texts, (const char *)text.data, text.size);
    mp_buffer_free(&text);
    return id;
}

static struct mp_job_process describe(struct mp_job *job, const char *path, const struct mp_model *model)
{
    const struct mp_job_member member = mp_job_member_of(model);
    return (struct mp_job_process){.start_unix_ns = model->start.realtime_ns,
                                   .duration_ns = model->duration_ns,
                                   .events = mp_model_event_count(model),
                                   .dropped = model->coverage.dropped,
                                   .path = mp_job_text(job, path),
                                   .command = command_of(job, model),
                                   .host = mp_job_text(job, model->start.host),
                                   .role = mp_job_text(job, member.role),
                                   .job = mp_job_text(job, member.job),
                                   .exit = mp_job_text(job, mp_model_text(model, model->how.text)),
                                   .missing = mp_job_missing(job, model),
                                   .pid = model->start.pid ? model->start.pid : MP_NONE,
                                   .parent = member.parent,
                                   .rank = member.rank,
                                   .local_rank = member.local_rank,
                                   .world_size = member.world_size,
                                   .node = member.node,
                                   .verdict = MP_VERDICT_UNKNOWN, /* until the search for leaks */
                                   .limited = mp_model_limited(model),
                                   .helper = member.helper};
}

static enum mp_status take_memory(struct taker *t, struct mp_job_process *process, struct mp_error *error)
{
    struct mp_step_report steps = {0};
    const struct mp_window all = mp_window_all(t->model);
    enum mp_status status = take_leaks(t, process, error);
    t->job->rows.processes.at[t->process] = *process;
    if (!status && t->chosen != MP_TRACK_NONE) mp_steps_report(t->model, t->chosen, &all, &steps);
    for (size_t i = 0; !status && i < t->model->tracks.count; i++)
        if (t->wanted[i]) take_track(t, (uint16_t)i, &steps);
    if (!status && t->chosen != MP_TRACK_NONE) {
        char id[MP_TRACK_ID_MAX];
        uint32_t track = mp_job_text(t->job, mp_track_id(t->model, t->chosen, id));
        mp_job_curve_by_step(t->job, t->process, track, &steps);
        for (size_t i = 0; i < t->model->tracks.count; i++)
            t->wanted[i] &= mp_model_track_holds_memory(t->model, i);
        mp_job_curves_by_time(t->job, t->process, t->model, t->wanted);
        put_sites(t);
    }
    mp_step_report_free(&steps);
    return status;
}

void mp_job_add_recording(struct mp_job *job, const char *path, const struct mp_model *model, enum mp_status *status,
                          struct mp_error *error)
{
    struct taker t = {
        .job = job, .model = model, .process = (uint32_t)job->rows.processes.count, .chosen = mp_track_default(model)};
    struct mp_job_process process = describe(job, path, model);
    mp_vec_add(&job->rows.processes, process);
    t.stacks = mp_alloc((model->stacks.count + 1) * sizeof *t.stacks);
    memset(t.stacks, 0xff, (model->stacks.count + 1) * sizeof *t.stacks);
    choose_tracks(&t);
    for (uint32_t i = 0; i < model->coverage.limit_count; i++)
        mp_job_add_trouble(job, MP_JOB_LIMITED, path, mp_model_text(model, model->coverage.limits[i]));
    for (uint32_t i = 0; i < model->coverage.note_count; i++) {
        const char *note = mp_model_text(model, model->coverage.notes[i]);
        if (strstr(note, MP_COPIED_NOTE)) mp_job_add_trouble(job, MP_JOB_COPIED, path, note);
    }
    *status = take_memory(&t, &process, error);
    free(t.stacks);
    free(t.wanted);
    mp_vec_free(&t.held);
    mp_map_free(&t.at);
}

#include "jobs/join.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leaks.h"
#include "analysis/sites/level.h"
#include "analysis/sites/profile.h"
#include "analysis/sites/steps.h"
#include "base/buffer.h"
#include "base/intern.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"
#include "base/vec.h"
#include "model/builder.h"
#include "model/model.h"
#include "model/stack.h"
#include "model/track.h"

/* A source line of a stack. Texts are ids in mp_job.texts. A native line without a function has only its `address`.
 * Structs are compared as bytes, so this one has no padding. */
struct job_frame {
    uint32_t language, module, function, file, line;
    uint32_t address[2]; /* low, high */
};

struct mp_job_node {
    uint32_t parent, frame; /* MP_FRAME_CUT: lines are missing here */
};

struct mp_job_site_key {
    uint32_t stack, kind, sense;
};

struct mp_job {
    struct mp_intern texts, frames, stacks; /* frame N has id N + 1; stack 0 is empty */
    MP_VEC(uint16_t) depths;                /* of stacks */
    struct mp_intern keys;                  /* keys of sites: site N has id N + 1 */
    struct mp_model_job rows;
};

/* The role of a recording's process in its job. */
struct mp_job_member {
    uint32_t rank, local_rank, world_size, node, parent; /* MP_NONE: unknown */
    const char *role, *job;                              /* owned by the model; "": unknown */
    bool helper;                                         /* works for the rank that started it */
};

static uint32_t job_text(struct mp_job *job, const char *text);
static uint32_t job_frame(struct mp_job *job, const struct job_frame *frame);
static uint32_t job_stack(struct mp_job *job, uint32_t parent, uint32_t frame);
static void job_add_site(struct mp_job *job, const struct mp_job_site *site);

/* ---- a process's memory over time, in at most MP_JOB_POINTS points a curve ----
 * Units are powers of two, so any two curves have a common unit. */

/* The smallest unit with which `first` to `last` give few enough points. */
static unsigned shift_for(uint64_t first, uint64_t last)
{
    unsigned shift = 0;
    while (shift < 63 && last > first && (last >> shift) - (first >> shift) >= MP_JOB_POINTS)
        shift++;
    return shift;
}

struct curve {
    struct mp_level level;
    uint64_t at, most;
    uint32_t track; /* text in the job */
};

struct clock {
    struct mp_job *job;
    uint32_t process;
    uint64_t start_ns;
    unsigned shift;
};

/* Adds the finished point. A level that does not change adds none. */
static void put_point(const struct clock *clock, const struct curve *curve)
{
    struct mp_job_point point = {.at = curve->at,
                                 .most = curve->most,
                                 .last = curve->level.bytes,
                                 .process = clock->process,
                                 .track = curve->track,
                                 .shift = (uint8_t)clock->shift,
                                 .curve = MP_JOB_BY_TIME};
    mp_vec_add(&clock->job->rows.points, point);
}

static void follow(const struct clock *clock, const struct mp_model *model, struct curve *curve, uint16_t track,
                   uint32_t event)
{
    uint64_t at = mp_job_time_after(clock->start_ns, model->events.time_ns[event]) >> clock->shift;
    struct mp_level next = curve->level;
    if (!mp_level_apply(&next, model, track, event)) return;
    if (at > curve->at) {
        put_point(clock, curve);
        curve->at = at;
        curve->most = curve->level.bytes;
    }
    curve->level = next;
    if (next.bytes > curve->most) curve->most = next.bytes;
}

/* Makes the curves over time, for each track whose byte in `wanted` is set. */
static void job_curves_by_time(struct mp_job *job, uint32_t process, const struct mp_model *model,
                               const unsigned char *wanted)
{
    size_t tracks = model->tracks.count;
    struct clock clock = {.job = job, .process = process, .start_ns = model->start.realtime_ns};
    struct curve *curves = mp_alloc_zeroed(tracks + 1, sizeof *curves);
    char id[MP_TRACK_ID_MAX];
    clock.shift = shift_for(clock.start_ns, mp_job_time_after(clock.start_ns, model->duration_ns));
    for (size_t i = 0; i < tracks; i++) {
        if (!wanted[i]) continue;
        curves[i].level = mp_level_start(model, (uint16_t)i);
        curves[i].at = clock.start_ns >> clock.shift;
        curves[i].most = curves[i].level.bytes;
        curves[i].track = job_text(job, mp_track_id(model, (uint16_t)i, id));
    }
    for (uint32_t event = 0; event < model->events.count; event++) {
        uint16_t track = model->events.track[event];
        if (track < tracks && wanted[track]) follow(&clock, model, &curves[track], track, event);
    }
    for (size_t i = 0; i < tracks; i++)
        if (wanted[i]) put_point(&clock, &curves[i]);
    free(curves);
}

static void job_curve_by_step(struct mp_job *job, uint32_t process, uint32_t track, const struct mp_step_report *steps)
{
    size_t count = steps->steps.count;
    if (!count) return;
    unsigned shift = shift_for(steps->steps.at[0].number, steps->steps.at[count - 1].number);
    struct mp_job_point point = {.process = process, .track = track, .shift = (uint8_t)shift, .curve = MP_JOB_BY_STEP};
    for (size_t i = 0; i < count; i++) {
        const struct mp_step_row *row = &steps->steps.at[i];
        if (i && row->number >> shift != point.at) {
            mp_vec_add(&job->rows.points, point);
            point.most = 0;
        }
        point.at = row->number >> shift;
        if (row->peak_bytes > point.most) point.most = row->peak_bytes;
        point.last = row->end_bytes;
    }
    mp_vec_add(&job->rows.points, point);
}

static uint32_t number(const struct mp_member *member, enum mp_member_number which)
{
    uint64_t known = mp_member_number(member, which);
    return known == UINT64_MAX ? MP_NONE : (uint32_t)known;
}

static struct mp_job_member job_member_of(const struct mp_model *model)
{
    const struct mp_member *member = &model->start.member;
    return (struct mp_job_member){.rank = number(member, MP_MEMBER_RANK),
                                  .local_rank = number(member, MP_MEMBER_LOCAL_RANK),
                                  .world_size = number(member, MP_MEMBER_WORLD_SIZE),
                                  .node = number(member, MP_MEMBER_NODE),
                                  .parent = number(member, MP_MEMBER_PARENT),
                                  .role = member->role,
                                  .job = member->job,
                                  .helper = mp_member_is_helper(member)};
}

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
    return text ? job_text(job, text) : 0;
}

/* Adds a frame's lines, the outermost first. A named line loses its address, which has no meaning in other
 * processes. */
static uint32_t add_lines(struct taker *t, uint32_t parent, uint32_t frame, struct mp_stack_lines *lines)
{
    mp_stack_resolve_frame(t->model, frame, lines);
    for (size_t i = lines->count; i-- > 0;) {
        const struct mp_stack_line *line = &lines->at[i];
        uint64_t address = line->language == MP_NATIVE && !line->function && !line->file ? line->address : 0;
        const struct job_frame added = {.language = line->language,
                                        .module = text_of(t->job, line->module),
                                        .function = text_of(t->job, line->function),
                                        .file = text_of(t->job, line->file),
                                        .line = line->line,
                                        .address = {(uint32_t)address, (uint32_t)(address >> 32)}};
        parent = job_stack(t->job, parent, job_frame(t->job, &added));
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
        t->stacks[path.at[i]] = node->frame == MP_FRAME_CUT ? job_stack(t->job, parent, MP_FRAME_CUT)
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
            job_add_site(t->job, &site);
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
    return job_text(t->job, id);
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
                                     .id = job_text(t->job, mp_track_id(model, track, id)),
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
    uint32_t id = job_text(t->job, mp_buffer_text(&text));
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
        const struct mp_job_finding row = {
            .bytes = finding->sum.bytes,
            .blocks = finding->sum.blocks,
            .bytes_per_step = together > 0 ? (uint64_t)(together + 0.5) : 0,
            .eta_oom_steps = finding->eta_oom_steps,
            .process = t->process,
            .track = job_text(t->job, mp_track_id(t->model, finding->track, id)),
            .stack = stack_of(t, finding->stack),
            .first_step = finding->first_step,
            .holder = holder_of(t, &leaks, finding),
            .class = (uint8_t)finding->class,
            .certain = finding->confidence == MP_LEAK_POSSIBLE ? 2 : finding->confidence == MP_LEAK_CERTAIN};
        if (finding->sum.sites) mp_vec_add(&t->job->rows.findings, row); /* one row for each cause */
        if (!mp_leak_is_leak(finding)) continue;
        process->growth += growth;
        hold(t, kind_of(t, finding->track), row.stack, MP_JOB_GROWTH, growth, 0);
    }
    process->verdict = (uint8_t)leaks.verdict;
    process->reason = job_text(t->job, leaks.reason);
    process->steps = leaks.step_count;
    process->step_source = job_text(t->job, leaks.step_source);
    mp_leaks_free(&leaks);
    return MP_OK;
}

/* ---- the process ------------------------------------------------------------------------------------------------ */

static uint32_t command_of(struct mp_job *job, const struct mp_model *model)
{
    struct mp_buffer words = {0};
    mp_model_command(model, &words);
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

/* The losses of a recording, in the words of its own reports, as a text of the job; 0: none. */
static uint32_t job_missing(struct mp_job *job, const struct mp_model *model)
{
    char number[MP_UNIT_TEXT];
    const struct mp_damage *damage = &model->file.damage;
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
    const struct mp_job_member member = job_member_of(model);
    return (struct mp_job_process){.start_unix_ns = model->start.realtime_ns,
                                   .duration_ns = model->duration_ns,
                                   .events = mp_model_event_count(model),
                                   .dropped = model->coverage.dropped,
                                   .path = job_text(job, path),
                                   .command = command_of(job, model),
                                   .host = job_text(job, model->start.host),
                                   .role = job_text(job, member.role),
                                   .job = job_text(job, member.job),
                                   .exit = job_text(job, mp_model_text(model, model->how.text)),
                                   .missing = job_missing(job, model),
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
        uint32_t track = job_text(t->job, mp_track_id(t->model, t->chosen, id));
        job_curve_by_step(t->job, t->process, track, &steps);
        for (size_t i = 0; i < t->model->tracks.count; i++)
            t->wanted[i] &= mp_model_track_holds_memory(t->model, i);
        job_curves_by_time(t->job, t->process, t->model, t->wanted);
        put_sites(t);
    }
    mp_step_report_free(&steps);
    return status;
}

static void job_add_recording(struct mp_job *job, const char *path, const struct mp_model *model,
                              enum mp_status *status, struct mp_error *error)
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

#define DEPTH_MAX 10000 /* a reader of the model would cut the end of a longer path */

struct mp_job *mp_job_new(void)
{
    struct mp_job *job = mp_alloc_zeroed(1, sizeof *job);
    mp_intern_add_text(&job->texts, "");
    mp_intern_add_text(&job->frames, "");
    mp_intern_add_text(&job->stacks, "");
    mp_vec_add(&job->depths, 0);
    return job;
}

void mp_job_free(struct mp_job *job)
{
    if (!job) return;
    mp_intern_free(&job->texts);
    mp_intern_free(&job->frames);
    mp_intern_free(&job->stacks);
    mp_intern_free(&job->keys);
    mp_vec_free(&job->depths);
    mp_vec_free(&job->rows.processes);
    mp_vec_free(&job->rows.tracks);
    mp_vec_free(&job->rows.sites);
    mp_vec_free(&job->rows.holdings);
    mp_vec_free(&job->rows.findings);
    mp_vec_free(&job->rows.points);
    mp_vec_free(&job->rows.troubles);
    free(job);
}

/* Ids in the job, added if new. */
static uint32_t job_text(struct mp_job *job, const char *text)
{
    return mp_intern_add_text(&job->texts, text);
}

static uint32_t job_frame(struct mp_job *job, const struct job_frame *frame)
{
    return mp_intern_add(&job->frames, (const char *)frame, sizeof *frame) - 1;
}

static struct job_frame job_frame_at(const struct mp_job *job, uint32_t frame)
{
    struct job_frame found;
    memcpy(&found, mp_intern_get(&job->frames, frame + 1, NULL), sizeof found);
    return found;
}

static struct mp_job_node job_node_at(const struct mp_job *job, uint32_t stack)
{
    struct mp_job_node found = {0, 0};
    if (stack) memcpy(&found, mp_intern_get(&job->stacks, stack, NULL), sizeof found);
    return found;
}

static uint32_t job_stack(struct mp_job *job, uint32_t parent, uint32_t frame)
{
    struct mp_job_node node = {parent, frame};
    if (job->depths.at[parent] >= DEPTH_MAX) return parent;
    uint32_t id = mp_intern_add(&job->stacks, (const char *)&node, sizeof node);
    if (id == job->depths.count) mp_vec_add(&job->depths, (uint16_t)(job->depths.at[parent] + 1));
    return id;
}

static int by_number(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

static int by_text(const struct mp_job *job, uint32_t left, uint32_t right)
{
    return left == right ? 0 : strcmp(mp_intern_get(&job->texts, left, NULL), mp_intern_get(&job->texts, right, NULL));
}

/* The order of processes: by rank, each rank before its helpers; then by node, host and path. */
static int compare_processes(const struct mp_job *job, uint32_t left, uint32_t right)
{
    const struct mp_job_process *a = &job->rows.processes.at[left], *b = &job->rows.processes.at[right];
    if (left == right) return 0;
    int order = by_number(a->rank, b->rank);
    if (!order) order = by_number(a->helper, b->helper);
    if (!order) order = by_number(a->node, b->node);
    if (!order) order = by_text(job, a->host, b->host);
    if (!order) order = by_text(job, a->path, b->path);
    if (!order) order = by_text(job, a->role, b->role);
    if (!order) order = by_number(a->pid, b->pid);
    if (!order) order = by_number(a->start_unix_ns, b->start_unix_ns);
    if (!order) order = by_number(a->duration_ns, b->duration_ns);
    if (!order) order = by_number(a->events, b->events);
    if (!order) order = by_number(a->steps, b->steps);
    if (!order) order = by_number(a->growth, b->growth);
    if (!order) order = by_text(job, a->command, b->command);
    return order;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Merges the values of a site. Its processes must be rows of the job. */
static void job_add_site(struct mp_job *job, const struct mp_job_site *site)
{
    const struct mp_job_site_key key = {site->stack, site->kind, site->sense};
    uint32_t id = mp_intern_add(&job->keys, (const char *)&key, sizeof key);
    if (id > job->rows.sites.count) {
        mp_vec_add(&job->rows.sites, *site);
        return;
    }
    struct mp_job_site *known = &job->rows.sites.at[id - 1];
    known->bytes = sum(known->bytes, site->bytes);
    known->blocks = sum(known->blocks, site->blocks);
    known->processes += site->processes;
    if (site->least < known->least ||
        (site->least == known->least && compare_processes(job, site->least_process, known->least_process) < 0)) {
        known->least = site->least;
        known->least_process = site->least_process;
    }
    if (site->most > known->most ||
        (site->most == known->most && compare_processes(job, site->most_process, known->most_process) < 0)) {
        known->most = site->most;
        known->most_process = site->most_process;
    }
}

void mp_job_add_trouble(struct mp_job *job, enum mp_job_trouble_kind kind, const char *path, const char *why)
{
    struct mp_job_trouble row = {job_text(job, path), job_text(job, why), (uint8_t)kind};
    mp_vec_add(&job->rows.troubles, row);
}

/* ---- adding a finished job ---------------------------------------------------------------------------- */

struct translation {
    struct mp_job *job;
    const struct mp_model *model;
    uint32_t *texts, *stacks; /* by id in the model: the id in the job */
    uint32_t first;           /* index of the first process added */
};

static uint32_t translated(const struct translation *t, uint32_t id)
{
    if (t->texts[id] == MP_NONE) {
        size_t length;
        const char *text = mp_intern_get(&t->model->strings, id, &length);
        t->texts[id] = mp_intern_add(&t->job->texts, text, length);
    }
    return t->texts[id];
}

static uint32_t frame_of(const struct translation *t, const struct mp_model_frame *from)
{
    const struct mp_model_line *line = from->line_count ? &t->model->lines.at[from->first_line] : NULL;
    uint32_t module = from->raw.module ? t->model->modules.at[from->raw.module].path : 0;
    const struct job_frame frame = {.language = from->raw.language,
                                    .module = translated(t, module),
                                    .function = line ? translated(t, line->function) : 0,
                                    .file = line ? translated(t, line->file) : 0,
                                    .line = line ? line->line : 0,
                                    .address = {(uint32_t)from->raw.address, (uint32_t)(from->raw.address >> 32)}};
    return job_frame(t->job, &frame);
}

static void translate_stacks(struct translation *t)
{
    const struct mp_model *model = t->model;
    uint32_t *frames = mp_alloc((model->frames.count + 1) * sizeof *frames);
    for (size_t i = 0; i < model->frames.count; i++)
        frames[i] = frame_of(t, &model->frames.at[i]);
    t->stacks = mp_alloc_zeroed(model->stacks.count + 1, sizeof *t->stacks);
    for (size_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        uint32_t frame = node->frame == MP_FRAME_CUT ? MP_FRAME_CUT : frames[node->frame];
        t->stacks[i] = job_stack(t->job, t->stacks[node->parent], frame);
    }
    free(frames);
}

static void add_processes(struct translation *t)
{
    for (size_t i = 0; i < t->model->job.processes.count; i++) {
        struct mp_job_process row = t->model->job.processes.at[i];
        uint32_t *const texts[] = {&row.path, &row.command, &row.host,   &row.role,       &row.job,
                                   &row.exit, &row.missing, &row.reason, &row.step_source};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            *texts[k] = translated(t, *texts[k]);
        mp_vec_add(&t->job->rows.processes, row);
    }
}

static void add_of_processes(struct translation *t)
{
    const struct mp_model_job *from = &t->model->job;
    struct mp_model_job *to = &t->job->rows;
    for (size_t i = 0; i < from->tracks.count; i++) {
        struct mp_job_track row = from->tracks.at[i];
        uint32_t *const texts[] = {&row.id, &row.kind, &row.device, &row.uuid};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            *texts[k] = translated(t, *texts[k]);
        row.process += t->first;
        mp_vec_add(&to->tracks, row);
    }
    for (size_t i = 0; i < from->holdings.count; i++) {
        struct mp_job_holding row = from->holdings.at[i];
        row.process += t->first;
        row.stack = t->stacks[row.stack];
        mp_vec_add(&to->holdings, row);
    }
    for (size_t i = 0; i < from->findings.count; i++) {
        struct mp_job_finding row = from->findings.at[i];
        row.process += t->first;
        row.stack = t->stacks[row.stack];
        row.track = translated(t, row.track);
        row.holder = translated(t, row.holder);
        mp_vec_add(&to->findings, row);
    }
    for (size_t i = 0; i < from->points.count; i++) {
        struct mp_job_point row = from->points.at[i];
        row.process += t->first;
        row.track = translated(t, row.track);
        mp_vec_add(&to->points, row);
    }
}

static void add_job(struct mp_job *job, const char *path, const struct mp_model *model)
{
    struct translation t = {.job = job, .model = model, .first = (uint32_t)job->rows.processes.count};
    t.texts = mp_alloc((model->strings.count + 1) * sizeof *t.texts);
    memset(t.texts, 0xff, (model->strings.count + 1) * sizeof *t.texts);
    translate_stacks(&t);
    add_processes(&t);
    add_of_processes(&t);
    for (size_t i = 0; i < model->job.sites.count; i++) {
        struct mp_job_site row = model->job.sites.at[i];
        row.stack = t.stacks[row.stack];
        row.kind = translated(&t, row.kind);
        row.least_process += t.first;
        row.most_process += t.first;
        job_add_site(job, &row);
    }
    for (size_t i = 0; i < model->job.troubles.count; i++) {
        struct mp_job_trouble row = model->job.troubles.at[i];
        row.path = translated(&t, row.path);
        row.text = translated(&t, row.text);
        mp_vec_add(&job->rows.troubles, row);
    }
    uint32_t missing = job_missing(job, model);
    if (missing) {
        struct mp_job_trouble row = {job_text(job, path), missing, MP_JOB_PARTIAL};
        mp_vec_add(&job->rows.troubles, row);
    }
    free(t.texts);
    free(t.stacks);
}

enum mp_status mp_job_add(struct mp_job *job, const char *path, const struct mp_model *model, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    if (mp_model_is_job(model))
        add_job(job, path, model);
    else
        job_add_recording(job, path, model, &status, error);
    return status;
}

/* Brings a job's rows, which came in any order, into the order of the file. Each table is numbered in the order of its
 * texts. Rows that refer to a table's entries are then sorted by these numbers. */
struct finisher {
    struct mp_job *job;
    uint32_t *texts, *frames, *stacks, *processes; /* from the job's id to the file's */
    uint32_t *modules;                             /* by the text's number in the file; 0: no module */
    MP_VEC(struct mp_string_entry) strings;
    MP_VEC(struct mp_module) module_rows;
    MP_VEC(struct mp_frame) frame_rows;
    MP_VEC(struct mp_symbol) symbols;
    MP_VEC(struct mp_stack_node) nodes;
};

/* ---- texts ------------------------------------------------------------------------------------------------------ */

static int texts_by_content(const void *left, const void *right, void *context)
{
    size_t first, second;
    const char *a = mp_intern_get(context, *(const uint32_t *)left, &first);
    const char *b = mp_intern_get(context, *(const uint32_t *)right, &second);
    int order = memcmp(a, b, first < second ? first : second);
    return order ? order : MP_COMPARE(first, second);
}

static void number_texts(struct finisher *f)
{
    struct mp_intern *texts = &f->job->texts;
    uint32_t *order = mp_alloc(texts->count * sizeof *order);
    f->texts = mp_alloc(texts->count * sizeof *f->texts);
    for (uint32_t i = 0; i < texts->count; i++)
        order[i] = i;
    qsort_r(order, texts->count, sizeof *order, texts_by_content, texts);
    for (uint32_t i = 0; i < texts->count; i++) {
        struct mp_string_entry entry;
        entry.text = mp_intern_get(texts, order[i], &entry.length);
        f->texts[order[i]] = i;
        mp_vec_add(&f->strings, entry);
    }
    free(order);
}

/* ---- frames and stacks ------------------------------------------------------------------------------------------ */

struct placed_frame {
    struct job_frame frame; /* its texts have the file's numbers */
    uint32_t of;            /* in the job */
};

MP_ORDER(by_frame, struct job_frame,
         MP_RISING(language) ?: MP_RISING(module) ?: MP_RISING(function) ?: MP_RISING(file)
         ?: MP_RISING(line) ?: MP_RISING(address[1]) ?: MP_RISING(address[0]))

static uint64_t address_of(const struct job_frame *frame)
{
    return (uint64_t)frame->address[1] << 32 | frame->address[0];
}

/* A native line with a function's name becomes a frame of its own, with only this line. */
static void add_frame(struct finisher *f, const struct job_frame *from)
{
    struct mp_frame row = {
        .language = (uint8_t)from->language, .module = f->modules[from->module], .address = address_of(from)};
    if (from->language != MP_NATIVE) {
        row.function = from->function;
        row.file = from->file;
        row.line = from->line;
    } else if (from->function || from->file) {
        struct mp_symbol symbol = {(uint32_t)f->frame_rows.count, from->function, from->file, from->line};
        mp_vec_add(&f->symbols, symbol);
    }
    mp_vec_add(&f->frame_rows, row);
}

static void number_frames(struct finisher *f)
{
    size_t count = f->job->frames.count - 1;
    struct placed_frame *placed = mp_alloc((count + 1) * sizeof *placed);
    f->frames = mp_alloc((count + 1) * sizeof *f->frames);
    f->modules = mp_alloc_zeroed(f->strings.count, sizeof *f->modules);
    for (uint32_t i = 0; i < count; i++) {
        struct job_frame frame = job_frame_at(f->job, i);
        frame.module = f->texts[frame.module];
        frame.function = f->texts[frame.function];
        frame.file = f->texts[frame.file];
        f->modules[frame.module] = frame.module > 0;
        placed[i] = (struct placed_frame){frame, i};
    }
    struct mp_module module = {.path = 0};
    mp_vec_add(&f->module_rows, module);
    for (uint32_t text = 0; text < f->strings.count; text++) {
        if (!f->modules[text]) continue;
        f->modules[text] = (uint32_t)f->module_rows.count;
        module.path = text;
        mp_vec_add(&f->module_rows, module);
    }
    qsort(placed, count, sizeof *placed, by_frame);
    for (uint32_t i = 0; i < count; i++) {
        f->frames[placed[i].of] = i;
        add_frame(f, &placed[i].frame);
    }
    free(placed);
}

struct placed_node {
    uint32_t depth, parent, frame, of;
};

MP_ORDER(by_place, struct placed_node, MP_RISING(parent) ?: MP_RISING(frame))

MP_ORDER(by_depth, struct placed_node, MP_RISING(depth) ?: MP_RISING(of))

/* Works depth by depth: parents are numbered before their children are sorted. */
static void number_stacks(struct finisher *f)
{
    const struct mp_job *job = f->job;
    size_t count = job->stacks.count;
    struct placed_node *placed = mp_alloc(count * sizeof *placed);
    f->stacks = mp_alloc(count * sizeof *f->stacks);
    for (uint32_t i = 0; i < count; i++)
        placed[i] = (struct placed_node){.depth = job->depths.at[i], .of = i};
    qsort(placed, count, sizeof *placed, by_depth);
    f->stacks[0] = 0;
    struct mp_stack_node empty = {0, 0};
    mp_vec_add(&f->nodes, empty);
    for (size_t first = 1, end; first < count; first = end) {
        for (end = first; end < count && placed[end].depth == placed[first].depth; end++) {
            struct mp_job_node node = job_node_at(job, placed[end].of);
            placed[end].parent = f->stacks[node.parent];
            placed[end].frame = node.frame == MP_FRAME_CUT ? MP_FRAME_CUT : f->frames[node.frame];
        }
        qsort(placed + first, end - first, sizeof *placed, by_place);
        for (size_t i = first; i < end; i++) {
            struct mp_stack_node node = {placed[i].parent, placed[i].frame};
            f->stacks[placed[i].of] = (uint32_t)i;
            mp_vec_add(&f->nodes, node);
        }
    }
    free(placed);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static int by_process(const void *left, const void *right, void *context)
{
    return compare_processes(context, *(const uint32_t *)left, *(const uint32_t *)right);
}

#define TEXT(row, member) (row)->member = f->texts[(row)->member]

static void number_processes(struct finisher *f)
{
    struct mp_model_job *rows = &f->job->rows;
    size_t count = rows->processes.count;
    uint32_t *order = mp_alloc((count + 1) * sizeof *order);
    struct mp_job_process *placed = mp_alloc((count + 1) * sizeof *placed);
    f->processes = mp_alloc((count + 1) * sizeof *f->processes);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    qsort_r(order, count, sizeof *order, by_process, f->job);
    for (uint32_t i = 0; i < count; i++) {
        f->processes[order[i]] = i;
        placed[i] = rows->processes.at[order[i]];
        TEXT(&placed[i], path);
        TEXT(&placed[i], command);
        TEXT(&placed[i], host);
        TEXT(&placed[i], role);
        TEXT(&placed[i], job);
        TEXT(&placed[i], exit);
        TEXT(&placed[i], missing);
        TEXT(&placed[i], reason);
        TEXT(&placed[i], step_source);
    }
    if (count) memcpy(rows->processes.at, placed, count * sizeof *placed);
    free(order);
    free(placed);
}

MP_ORDER(by_track, struct mp_job_track,
         MP_RISING(process) ?: MP_RISING(id) ?: MP_RISING(uuid) ?: MP_RISING(peak_bytes) ?: MP_RISING(events))

MP_ORDER(by_site, struct mp_job_site, MP_RISING(sense) ?: MP_RISING(kind) ?: MP_RISING(stack))

MP_ORDER(by_holding, struct mp_job_holding,
         MP_RISING(process) ?: MP_FALLING(bytes) ?: MP_RISING(stack) ?: MP_RISING(blocks))

MP_ORDER(by_finding, struct mp_job_finding,
         MP_RISING(process) ?: MP_FALLING(bytes_per_step) ?: MP_RISING(track) ?: MP_RISING(class) ?: MP_RISING(stack)
         ?: MP_RISING(bytes) ?: MP_RISING(blocks) ?: MP_RISING(first_step) ?: MP_RISING(certain) ?: MP_RISING(holder)
         ?: MP_RISING(eta_oom_steps))

MP_ORDER(by_point, struct mp_job_point,
         MP_RISING(process) ?: MP_RISING(track) ?: MP_RISING(curve) ?: MP_RISING(at) ?: MP_RISING(most)
         ?: MP_RISING(last) ?: MP_RISING(shift))

MP_ORDER(by_trouble, struct mp_job_trouble, MP_RISING(path) ?: MP_RISING(text) ?: MP_RISING(kind))

#define SORT(rows, order)                                                                                              \
    do {                                                                                                               \
        if ((rows).count) qsort((rows).at, (rows).count, sizeof *(rows).at, order);                                    \
    } while (0)

static void place_rows(struct finisher *f)
{
    struct mp_model_job *rows = &f->job->rows;
    mp_vec_each (struct mp_job_track, row, &rows->tracks) {
        row->process = f->processes[row->process];
        TEXT(row, id);
        TEXT(row, kind);
        TEXT(row, device);
        TEXT(row, uuid);
    }
    mp_vec_each (struct mp_job_site, row, &rows->sites) {
        row->stack = f->stacks[row->stack];
        row->least_process = f->processes[row->least_process];
        row->most_process = f->processes[row->most_process];
        if (row->processes > rows->processes.count)
            row->processes = (uint32_t)rows->processes.count; /* a file's number may be wrong */
        TEXT(row, kind);
    }
    mp_vec_each (struct mp_job_holding, row, &rows->holdings) {
        row->process = f->processes[row->process];
        row->stack = f->stacks[row->stack];
    }
    mp_vec_each (struct mp_job_finding, row, &rows->findings) {
        row->process = f->processes[row->process];
        row->stack = f->stacks[row->stack];
        TEXT(row, holder);
        TEXT(row, track);
    }
    mp_vec_each (struct mp_job_point, row, &rows->points) {
        row->process = f->processes[row->process];
        TEXT(row, track);
    }
    for (size_t i = 0; i < rows->troubles.count; i++) {
        TEXT(&rows->troubles.at[i], path);
        TEXT(&rows->troubles.at[i], text);
    }
    SORT(rows->tracks, by_track);
    SORT(rows->sites, by_site);
    SORT(rows->holdings, by_holding);
    SORT(rows->findings, by_finding);
    SORT(rows->points, by_point);
    SORT(rows->troubles, by_trouble);
}

static enum mp_status build(const struct finisher *f, struct mp_model **model, struct mp_error *error)
{
    const struct mp_model_job *rows = &f->job->rows;
    static const char *const no_command[] = {NULL};
    struct mp_recording_start start = {
        .host = "", .command = no_command, .configuration = MP_JOB_KEY "=1", .spool = ""};
    for (size_t i = 0; i < rows->processes.count; i++) {
        uint64_t began = rows->processes.at[i].start_unix_ns;
        if (began && (!start.realtime_ns || began < start.realtime_ns)) start.realtime_ns = began;
    }
    const struct mp_chunk chunks[] = {
        {.kind = MP_CHUNK_STRINGS, .count = f->strings.count, .as.strings = f->strings.at},
        {.kind = MP_CHUNK_MODULES, .count = f->module_rows.count, .as.modules = f->module_rows.at},
        {.kind = MP_CHUNK_FRAMES, .count = f->frame_rows.count, .as.frames = f->frame_rows.at},
        {.kind = MP_CHUNK_SYMBOLS, .count = f->symbols.count, .as.symbols = f->symbols.at},
        {.kind = MP_CHUNK_STACKS, .count = f->nodes.count, .as.stacks = f->nodes.at},
        {.kind = MP_CHUNK_JOB_PROCESSES, .count = rows->processes.count, .as.job_processes = rows->processes.at},
        {.kind = MP_CHUNK_JOB_TRACKS, .count = rows->tracks.count, .as.job_tracks = rows->tracks.at},
        {.kind = MP_CHUNK_JOB_SITES, .count = rows->sites.count, .as.job_sites = rows->sites.at},
        {.kind = MP_CHUNK_JOB_HOLDINGS, .count = rows->holdings.count, .as.job_holdings = rows->holdings.at},
        {.kind = MP_CHUNK_JOB_FINDINGS, .count = rows->findings.count, .as.job_findings = rows->findings.at},
        {.kind = MP_CHUNK_JOB_POINTS, .count = rows->points.count, .as.job_points = rows->points.at},
        {.kind = MP_CHUNK_JOB_TROUBLES, .count = rows->troubles.count, .as.job_troubles = rows->troubles.at},
    };
    struct mp_builder *builder;
    enum mp_status status = MP_OK;
    mp_builder_new(&start, &builder);
    for (size_t i = 0; !status && i < sizeof chunks / sizeof *chunks; i++)
        if (chunks[i].count) status = mp_builder_add(builder, &chunks[i], error);
    static const struct mp_damage none;
    if (status)
        mp_builder_free(builder);
    else
        mp_builder_finish(builder, &none, 0, model);
    return status;
}

enum mp_status mp_job_finish(struct mp_job *job, struct mp_model **model, struct mp_error *error)
{
    struct finisher f = {.job = job};
    number_texts(&f);
    number_frames(&f);
    number_stacks(&f);
    number_processes(&f);
    place_rows(&f);
    enum mp_status status = build(&f, model, error);
    free(f.texts);
    free(f.frames);
    free(f.stacks);
    free(f.processes);
    free(f.modules);
    mp_vec_free(&f.strings);
    mp_vec_free(&f.module_rows);
    mp_vec_free(&f.frame_rows);
    mp_vec_free(&f.symbols);
    mp_vec_free(&f.nodes);
    mp_job_free(job);
    return status;
}

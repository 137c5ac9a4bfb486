#include <stdlib.h>
#include <string.h>

#include "analysis/job/job_state.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/builder.h"

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

static int by_text(const void *left, const void *right, void *context)
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
    qsort_r(order, texts->count, sizeof *order, by_text, texts);
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
    struct mp_job_frame frame; /* its texts have the file's numbers */
    uint32_t of;               /* in the job */
};

MP_ORDER(by_frame, struct mp_job_frame,
         MP_RISING(language) ?: MP_RISING(module) ?: MP_RISING(function) ?: MP_RISING(file)
         ?: MP_RISING(line) ?: MP_RISING(address[1]) ?: MP_RISING(address[0]))

static uint64_t address_of(const struct mp_job_frame *frame)
{
    return (uint64_t)frame->address[1] << 32 | frame->address[0];
}

/* A native line with a function's name becomes a frame of its own, with only this line. */
static void add_frame(struct finisher *f, const struct mp_job_frame *from)
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
        struct mp_job_frame frame = mp_job_frame_at(f->job, i);
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
            struct mp_job_node node = mp_job_node_at(job, placed[end].of);
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
    return mp_job_compare(context, *(const uint32_t *)left, *(const uint32_t *)right);
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
        {.kind = MP_CHUNK_STRINGS, .count = f->strings.count, .strings = f->strings.at},
        {.kind = MP_CHUNK_MODULES, .count = f->module_rows.count, .modules = f->module_rows.at},
        {.kind = MP_CHUNK_FRAMES, .count = f->frame_rows.count, .frames = f->frame_rows.at},
        {.kind = MP_CHUNK_SYMBOLS, .count = f->symbols.count, .symbols = f->symbols.at},
        {.kind = MP_CHUNK_STACKS, .count = f->nodes.count, .stacks = f->nodes.at},
        {.kind = MP_CHUNK_JOB_PROCESSES, .count = rows->processes.count, .job_processes = rows->processes.at},
        {.kind = MP_CHUNK_JOB_TRACKS, .count = rows->tracks.count, .job_tracks = rows->tracks.at},
        {.kind = MP_CHUNK_JOB_SITES, .count = rows->sites.count, .job_sites = rows->sites.at},
        {.kind = MP_CHUNK_JOB_HOLDINGS, .count = rows->holdings.count, .job_holdings = rows->holdings.at},
        {.kind = MP_CHUNK_JOB_FINDINGS, .count = rows->findings.count, .job_findings = rows->findings.at},
        {.kind = MP_CHUNK_JOB_POINTS, .count = rows->points.count, .job_points = rows->points.at},
        {.kind = MP_CHUNK_JOB_TROUBLES, .count = rows->troubles.count, .job_troubles = rows->troubles.at},
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

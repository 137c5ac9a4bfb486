#include "plan/messages.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/categories/categories.h"
#include "analysis/device/plan.h"
#include "analysis/device/server.h"
#include "analysis/sites/peak.h"
#include "base/units.h"
#include "base/words.h"
#include "cli/messages.h"
#include "model/load.h"
#include "model/stack.h"
#include "model/track.h"
#include "output/report/plan.h"
#include "output/report/server.h"
#include "output/report/view.h"

#define PLACES_MAX 4

static bool on_device(const struct mp_model *model, uint16_t track)
{
    return !strncmp(mp_track_device(model, track), "cuda:", 5);
}

/* The track of PyTorch's allocator, else of the driver, on the device that holds most; MP_TRACK_NONE. */
static uint16_t find_track(const struct mp_model *model)
{
    uint16_t found = MP_TRACK_NONE;
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_model_track_sum *sum = &model->sums.at[i];
        if (!on_device(model, (uint16_t)i) || (!sum->peak_bytes && !sum->ooms)) continue;
        if (found == MP_TRACK_NONE) found = (uint16_t)i;
        bool torch = model->tracks.at[i].layer == MP_LAYER_TORCH, had = model->tracks.at[found].layer == MP_LAYER_TORCH;
        if (torch > had || (torch == had && model->sums.at[i].peak_bytes > model->sums.at[found].peak_bytes))
            found = (uint16_t)i;
    }
    return found;
}

static void judge(const struct mp_model *model, const struct mp_plan *plan, const struct mp_plan_device *device,
                  struct mp_plan_outcome *outcome)
{
    uint16_t track = find_track(model);
    *outcome = (struct mp_plan_outcome){.has_device = track != MP_TRACK_NONE,
                                        .has_torch = plan->has_torch,
                                        .waited = plan->waited.name,
                                        .estimated = plan->estimated_bytes};
    for (uint16_t i = 0; i < model->tracks.count; i++)
        outcome->begun |= on_device(model, i);
    for (size_t i = 0; i < plan->estimated.count; i++)
        outcome->unknown |= plan->estimated.at[i].bytes == MP_BYTES_UNKNOWN;
    mp_vec_each (const struct mp_plan_read_back, read, &plan->read_backs) {
        /* A value of int64, such as the result of lengths.max(). */
        bool counts = read->use == MP_PLAN_VALUE && read->bytes == 8 * read->count;
        ++*(read->use == MP_PLAN_SIZE || counts ? &outcome->sizes : &outcome->values);
    }
    if (track == MP_TRACK_NONE) return;
    const struct mp_plan_xla *xla = &plan->xla;
    if (xla->limit) { /* its allocator takes most of the device at once */
        outcome->allocated = outcome->reserved = xla->held;
        outcome->ooms = xla->ran_out;
        outcome->fits = !xla->ran_out;
        return;
    }
    for (size_t i = 0; i < model->tracks.count; i++) /* only one layer counts: PyTorch's out-of-memory follows the
                                                      * driver's, and is the same failure */
        if (on_device(model, (uint16_t)i) && model->tracks.at[i].layer == model->tracks.at[track].layer)
            outcome->ooms += model->sums.at[i].ooms;
    const struct mp_model_track_sum *sum = &model->sums.at[track];
    outcome->allocated = sum->peak_bytes;
    outcome->reserved = sum->reserved_peak_bytes == MP_BYTES_UNKNOWN || sum->reserved_peak_bytes < sum->peak_bytes
                            ? sum->peak_bytes
                            : sum->reserved_peak_bytes;
    uint64_t needed = outcome->reserved + outcome->estimated;
    outcome->over = needed > device->total ? needed - device->total : 0;
    outcome->fits = !outcome->ooms && !outcome->over && !outcome->waited;
}

enum mp_status mp_plan_judge(const char *path, const struct mp_plan_device *device, struct mp_plan_outcome *outcome,
                             struct mp_error *error)
{
    struct mp_model *model;
    struct mp_plan plan;
    enum mp_status status = mp_model_load(path, &model, error);
    if (status) return status;
    mp_plan_find(model, &plan);
    judge(model, &plan, device, outcome);
    mp_plan_free(&plan);
    mp_model_free(model);
    return MP_OK;
}

void mp_plan_outcome_heading(const char *name)
{
    printf("  %10s  %12s  %12s  %12s  fits\n", name, "allocated", "reserved", "estimated");
}

void mp_plan_outcome_row(uint64_t value, const struct mp_plan_outcome *outcome)
{
    char allocated[MP_UNIT_TEXT], reserved[MP_UNIT_TEXT], estimated[MP_UNIT_TEXT], over[MP_UNIT_TEXT];
    printf("  %10llu  %12s  %12s  %12s  ", (unsigned long long)value, mp_format_bytes(allocated, outcome->allocated),
           mp_format_bytes(reserved, outcome->reserved), mp_format_bytes(estimated, outcome->estimated));
    if (outcome->fits || outcome->ooms)
        printf(outcome->fits ? "yes\n" : "no, memory ran out\n");
    else if (outcome->waited && !outcome->over)
        printf("unknown, a rank waited in vain\n");
    else
        printf("no, %s over\n", mp_format_bytes(over, outcome->over));
}

void mp_plan_outcome_json(struct mp_json *json, const char *name, uint64_t value, const struct mp_plan_outcome *outcome)
{
    mp_json_object(json, NULL);
    mp_json_number(json, name, value);
    mp_json_number(json, "allocated_bytes", outcome->allocated);
    mp_json_number(json, "reserved_bytes", outcome->reserved);
    mp_json_number(json, "device_bytes", outcome->reserved + outcome->estimated);
    mp_json_text(json, "fits", outcome->fits ? "yes" : "no");
    mp_json_end_object(json);
}

void mp_plan_print_json(struct mp_json *json)
{
    mp_json_end_object(json);
    printf("%.*s\n", (int)json->out->size, (const char *)json->out->data);
    mp_buffer_free(json->out);
}

/* PyTorch names its regions so while it measures candidates: CachingAutotuner.benchmark_all_configs,
 * mm_template_autotuning, InductorBenchmarker.benchmark_gpu. */
static bool is_autotuning(const char *region)
{
    return strcasestr(region, "autotun") || strstr(region, "benchmark_gpu");
}

/* Bytes that measurements of candidates hold at the peak. */
static uint64_t autotuning_bytes(const struct mp_model *model, uint16_t track)
{
    struct mp_peak peak;
    struct mp_peak_query ask = {
        .track = track, .window = mp_window_all(model), .grouping = {.by = MP_GROUP_REGION, .sort = MP_SORT_BYTES}};
    uint64_t bytes = 0;
    mp_peak_find(model, &ask, &peak);
    mp_vec_each (const struct mp_site, one, &peak.sites)
        if (one->group != MP_NONE && is_autotuning(mp_intern_get(&peak.sites.groups, one->group, NULL)))
            bytes += one->bytes;
    mp_peak_free(&peak);
    return bytes;
}

/* Prints "parameters 5.6 GiB, activations 38.9 GiB, ..." and the time. Returns the bytes of parameters. `stepped`:
 * steps are marked; inferred ones say nothing about a program that made none. */
static uint64_t print_peak(const struct mp_model *model, uint16_t track, bool stepped)
{
    struct mp_peak peak;
    struct mp_peak_query ask = {
        .track = track, .window = mp_window_all(model), .grouping = {.by = MP_GROUP_STACK, .sort = MP_SORT_BYTES}};
    struct mp_categories *categories = mp_categories_make(model, NULL);
    ask.categories = categories;
    mp_peak_find(model, &ask, &peak);
    struct mp_buffer text = {0};
    char bytes[MP_UNIT_TEXT], moment[MP_UNIT_TEXT];
    uint64_t parameters = 0;
    for (size_t i = 0; i < peak.categories.count; i++) {
        const struct mp_site *one = &peak.categories.at[i];
        const char *name = one->group == MP_NONE ? "other" : mp_intern_get(&peak.categories.groups, one->group, NULL);
        mp_buffer_printf(&text, "%s%s %s", i ? ", " : "", name, mp_format_bytes(bytes, one->bytes));
        if (!strcmp(name, "parameters")) parameters = one->bytes;
    }
    char step[48] = "";
    if (peak.step && stepped) snprintf(step, sizeof step, ", in step %u", peak.step);
    if (text.size)
        mp_message("at the peak (%s%s%s%s): %.*s", mp_format_duration(moment, peak.ns), step, peak.phase ? ", " : "",
                   peak.phase ? peak.phase : "", (int)text.size, (const char *)text.data);
    uint64_t measuring = autotuning_bytes(model, track);
    if (measuring)
        mp_message("of that, autotuning holds %s; a run that finds its choices in a cache needs none of it",
                   mp_format_bytes(bytes, measuring));
    mp_buffer_free(&text);
    mp_peak_free(&peak);
    mp_categories_free(categories);
    return parameters;
}

/* The source text of `line`, cut to `bytes`; "": the file cannot be read. */
static const char *source_line(const struct mp_stack_line *line, char *room, size_t bytes)
{
    FILE *file = line->language == MP_PYTHON && line->file && line->line ? fopen(line->file, "re") : NULL;
    size_t length = 0;
    *room = '\0';
    for (uint32_t i = 0; file && i < line->line; i++)
        if (!fgets(room, (int)bytes, file)) {
            *room = '\0';
            break;
        } else if (!strchr(room, '\n')) {
            for (int c = fgetc(file); c != '\n' && c != EOF; c = fgetc(file))
                ;
        }
    if (file) fclose(file);
    room += strspn(room, " \t");
    length = strcspn(room, "\r\n");
    room[length] = '\0';
    return room;
}

/* The line of a library that read the value for the user's line, as ", in masking_utils.py:249"; "": the user's line or
 * PyTorch read it. */
static const char *library_line(const struct mp_stack_lines *lines, const struct mp_stack_line *user, char *room,
                                size_t bytes)
{
    *room = '\0';
    for (const struct mp_stack_line *at = lines->at; at < user; at++) {
        if (at->language != MP_PYTHON || !at->file || strstr(at->file, "/torch/")) continue;
        const char *name = strrchr(at->file, '/');
        snprintf(room, bytes, ", in %s:%u", name ? name + 1 : at->file, at->line);
        break;
    }
    return room;
}

static void print_place(const struct mp_model *model, const struct mp_plan_read_back *one)
{
    struct mp_stack_lines lines = {0};
    char count[MP_UNIT_TEXT], source[96], library[128];
    mp_stack_resolve(model, one->stack, &lines);
    const struct mp_stack_line *line = mp_stack_headline(&lines);
    if (line && line->file)
        mp_message("  %s:%u%s  %s %s, %s%s  %s", mp_path_short(line->file), line->line,
                   library_line(&lines, line, library, sizeof library), mp_format_count(count, one->count),
                   one->count == 1 ? "time" : "times", mp_plan_use_text(one->use), mp_plan_origin_text(one->origin),
                   source_line(line, source, sizeof source));
    else
        mp_message("  (no Python)  %s %s, %s%s", mp_format_count(count, one->count), one->count == 1 ? "time" : "times",
                   mp_plan_use_text(one->use), mp_plan_origin_text(one->origin));
    mp_stack_lines_free(&lines);
}

/* Prints a fact with the program's line. */
static void print_missing(const struct mp_model *model, const struct mp_plan_missing *one, const char *before,
                          const char *after)
{
    struct mp_stack_lines lines = {0};
    mp_stack_resolve(model, one->stack, &lines);
    const struct mp_stack_line *line = mp_stack_headline(&lines);
    char place[256] = "(no Python)", source[96];
    if (line && line->file) snprintf(place, sizeof place, "%s:%u", mp_path_short(line->file), line->line);
    mp_message("%s%s%s: %s  %s", before, one->name, after, place, line ? source_line(line, source, sizeof source) : "");
    mp_stack_lines_free(&lines);
}

/* Prints which functions the stand-in GPU lacks, who waited for whom, and which version was never tried. */
static void print_unknown(const struct mp_model *model, const struct mp_plan *plan)
{
    for (size_t i = 0; i < plan->missing.count; i++)
        print_missing(model, &plan->missing.at[i], "the stand-in GPU does not imitate ",
                      ", and the memory that it needs is unknown");
    if (plan->waited.name) print_missing(model, &plan->waited, "", " (60 s)");
    struct mp_buffer untried = {0};
    if (mp_plan_untried(plan, &untried))
        mp_message("plan was never tried with %.*s: what libraries take, such as cuBLAS's workspaces, may differ",
                   (int)untried.size, (const char *)untried.data);
    mp_buffer_free(&untried);
}

static void print_read_backs(const struct mp_model *model, const struct mp_plan *plan)
{
    size_t count = plan->read_backs.count, sizes = 0;
    for (size_t i = 0; i < count; i++)
        sizes += plan->read_backs.at[i].use == MP_PLAN_SIZE;
    char chosen[128] = "", values[64];
    mp_plan_values_text(plan, values, sizeof values);
    if (sizes)
        snprintf(chosen, sizeof chosen, "; conditions selected %g %% of the elements, a guess (--selected)",
                 100 * plan->selected);
    if (!count)
        mp_message("depends on no value read from the device");
    else
        mp_message("depends on %zu %s read from the device, which %s %s%s:", count, count == 1 ? "value" : "values",
                   count == 1 ? "was" : "were", values, chosen);
    for (size_t i = 0; i < count && i < PLACES_MAX; i++)
        print_place(model, &plan->read_backs.at[i]);
    if (count > PLACES_MAX) mp_message("  and %zu more: memprof info lists them", count - PLACES_MAX);
    if (!mp_plan_kernels_known(plan))
        mp_message("conditions are known for PyTorch " MP_PLAN_TORCH ": with %.*s some may be false and select "
                   "nothing",
                   (int)strcspn(plan->torch, " "), plan->torch);
}

static void print_fit_of_xla(const struct mp_plan_xla *xla, bool failed)
{
    char room[MP_UNIT_TEXT], held[MP_UNIT_TEXT], limit[MP_UNIT_TEXT], output[MP_UNIT_TEXT], temporaries[MP_UNIT_TEXT];
    mp_format_bytes(held, xla->held);
    mp_format_bytes(limit, xla->limit);
    if (xla->ran_out)
        mp_message("does not fit: memory ran out; XLA's allocator held %s, and may hold %s", held, limit);
    else if (failed)
        mp_message("unknown whether it fits: until it failed, XLA's allocator held %s of %s", held, limit);
    else
        mp_message("fits, with %s to spare: XLA's allocator held %s at the peak, and may hold %s",
                   mp_format_bytes(room, xla->limit - xla->held), held, limit);
    if (*xla->program)
        mp_message("largest program: %s, peak %s: arguments %s, output %s, temporaries %s", xla->program,
                   mp_format_bytes(room, xla->peak), mp_format_bytes(held, xla->arguments),
                   mp_format_bytes(output, xla->output), mp_format_bytes(temporaries, xla->temporaries));
}

/* Prints whether the program fits. `failed`: the command failed, so later needs are unknown. `who`: the rank that
 * decides, "rank 1"; "": there are no ranks. */
static void print_fit(const struct mp_plan_outcome *outcome, const struct mp_plan_device *device,
                      const struct mp_plan *plan, bool failed, const char *who)
{
    struct mp_buffer unknown = {0};
    for (size_t i = 0; i < plan->estimated.count; i++)
        if (plan->estimated.at[i].bytes == MP_BYTES_UNKNOWN)
            mp_buffer_printf(&unknown, "%s%s", unknown.size ? " and " : "; not known: ", plan->estimated.at[i].name);
    char room[MP_UNIT_TEXT], reserved[MP_UNIT_TEXT], allocated[MP_UNIT_TEXT], other[MP_UNIT_TEXT];
    uint64_t needed = outcome->reserved + outcome->estimated;
    mp_format_bytes(reserved, outcome->reserved);
    mp_format_bytes(allocated, outcome->allocated);
    mp_format_bytes(other, outcome->estimated);
    if (plan->xla.limit) {
        print_fit_of_xla(&plan->xla, failed);
        mp_message("context and libraries take another %s (estimated)%s", other, mp_buffer_text(&unknown));
        mp_buffer_free(&unknown);
        return;
    }
    if ((outcome->fits && failed) || (outcome->waited && !outcome->ooms && !outcome->over))
        mp_message("unknown whether it fits: until %s, %s reserved %s and allocated %s at the peak",
                   outcome->waited ? plan->waited.name : "it failed", *who ? who : "it", reserved, allocated);
    else if (outcome->fits)
        mp_message("fits, with %s to spare: %s%sreserved %s, allocated %s at the peak%s",
                   mp_format_bytes(room, device->total - needed), who, *who ? " " : "", reserved, allocated,
                   plan->stepped || !plan->has_torch ? "" : "; no optimizer stepped");
    else if (outcome->ooms)
        mp_message("does not fit: memory ran out %lu %s%s%s%s, with %s reserved and %s allocated at the peak",
                   outcome->ooms, outcome->ooms == 1 ? "time" : "times", *who ? " on " : "", who,
                   failed ? "" : " (the command went on)", reserved, allocated);
    else
        mp_message("does not fit, by %s: %s%sreserved %s, allocated %s at the peak",
                   mp_format_bytes(room, outcome->over), who, *who ? " " : "", reserved, allocated);
    mp_message("%scontext and libraries take another %s (estimated)%s",
               plan->has_torch ? "allocated and reserved are PyTorch's own; " : "", other, mp_buffer_text(&unknown));
    mp_buffer_free(&unknown);
}

/* Prints how the command ended, if it failed. */
static void print_failure(int status, const char *then)
{
    const char *signal = status > 128 ? mp_signal_name((unsigned)status - 128) : NULL;
    if (signal)
        mp_message("the command was ended by SIG%s%s", signal, then);
    else if (status)
        mp_message("the command failed, with status %d%s", status, then);
}

/* Prints why nothing was planned: the program allocated on no device. */
static bool print_nothing(const struct mp_plan *plan, const struct mp_plan_device *device, bool begun, int status)
{
    char room[MP_UNIT_TEXT];
    print_failure(status, begun ? " before it allocated on the device" : " before it used a CUDA device");
    if (begun)
        mp_message("nothing was planned: of the %s that the context leaves on %s, the command allocated nothing",
                   mp_format_bytes(room, device->total - device->context), device->key);
    else if (strstr(plan->torch, "cuda none"))
        mp_message("nothing was planned: this PyTorch (%.*s) is built without CUDA; plan runs the build for CUDA, on a "
                   "machine without a GPU, too",
                   (int)strcspn(plan->torch, " "), plan->torch);
    else if (plan->hidden)
        mp_message("nothing was planned: the command saw no device, since it set CUDA_VISIBLE_DEVICES to what is not "
                   "there; --devices N gives it N of them");
    else
        mp_message("nothing was planned: the command used no CUDA device%s",
                   *plan->torch || *plan->xla.version ? "" : ", and imported neither PyTorch nor JAX");
    return false;
}

/* How much a server's cache holds, or what it lacks; nothing: no recording says so. In a server of several processes,
 * only the engine's process knows what is missing, and it has no device. */
static bool find_server(const struct mp_model *model, const struct mp_collector_result *result, size_t worst,
                        struct mp_buffer *sentence)
{
    struct mp_model *other;
    struct mp_error error;
    bool lacks = false, said = mp_server_sentence(sentence, model, &lacks);
    for (size_t i = 0; result->exit_status && i < result->recordings.count && !said; i++) {
        const char *path = i == worst ? NULL : result->recordings.at[i].path;
        if (!path || mp_model_load(path, &other, &error)) continue;
        said = mp_server_sentence(sentence, other, &lacks);
        mp_model_free(other);
    }
    return lacks;
}

static bool tells_of_server(const char *path)
{
    struct mp_model *model;
    struct mp_server server;
    struct mp_error error;
    if (mp_model_load(path, &model, &error)) return true; /* it stays */
    mp_server_find(model, &server);
    bool tells = server.known;
    mp_server_free(&server);
    mp_model_free(model);
    return tells;
}

/* Removes the files of processes that only help: no device, no mark of a server. If the program's own file is one of
 * them, the file that decides takes its name, since the user chose it. */
static void leave_out_helpers(struct mp_collector_result *result, size_t worst)
{
    struct mp_recording_summary *decides = &result->recordings.at[worst];
    if (!decides->path || !decides->used_device) return;
    for (size_t i = 0; i < result->recordings.count; i++) {
        struct mp_recording_summary *one = &result->recordings.at[i];
        if (!one->path || i == worst || one->used_device || one->failed || one->dropped || tells_of_server(one->path) ||
            !mp_recording_is_in_place(one) || unlink(one->path))
            continue;
        size_t stem = strlen(one->path) - strlen(".mp");
        bool named = !strncmp(decides->path, one->path, stem + 1) && strcmp(decides->path + stem, ".mp");
        if (named && !rename(decides->path, one->path)) {
            free(decides->path);
            decides->path = one->path;
        } else {
            free(one->path);
        }
        one->path = NULL;
    }
}

/* The recording that decides: memory ran out there, or else it needs most. */
static size_t find_worst(const struct mp_collector_result *result, const struct mp_plan_device *device)
{
    struct mp_plan_outcome worst = {0}, one;
    struct mp_error error;
    size_t found = 0;
    for (size_t i = 0; result->recordings.count > 1 && i < result->recordings.count; i++) {
        const char *path = result->recordings.at[i].path;
        if (!path || mp_plan_judge(path, device, &one, &error) || one.has_device < worst.has_device || !one.begun)
            continue;
        bool ran_out = (one.ooms && !worst.ooms) || (one.waited && !worst.waited && !worst.ooms),
             more = one.reserved + one.estimated > worst.reserved + worst.estimated;
        bool alike = one.has_device == worst.has_device;
        if (alike && !ran_out && (!more || (worst.ooms && !one.ooms) || (worst.waited && !one.waited && !one.ooms)))
            continue;
        worst = one;
        found = i;
    }
    return found;
}

/* True if memory ran out while parameters alone filled it, so that no setting and no smaller batch would help. They
 * take 95 % of what was reserved, and three quarters of the room: the failed request wanted the rest. */
static bool weights_fill(const struct mp_plan_outcome *outcome, uint64_t parameters, uint64_t room)
{
    return outcome->ooms && parameters >= outcome->reserved / 20 * 19 && parameters >= room / 4 * 3;
}

/* Prints what the plan of a program says. Returns whether its weights alone fill the memory. */
static bool print_program(const struct mp_model *model, const struct mp_plan_outcome *outcome,
                          const struct mp_plan_device *device, const struct mp_plan *plan, int exit_status,
                          const char *who)
{
    print_fit(outcome, device, plan, exit_status, who);
    uint64_t room = device->total - device->context;
    uint64_t parameters = plan->xla.limit ? 0 : print_peak(model, find_track(model), plan->stepped);
    bool filled = weights_fill(outcome, parameters, room);
    char taken[MP_UNIT_TEXT], all[MP_UNIT_TEXT];
    if (filled)
        mp_message("capacity: parameters alone took %s of %s; less is needed with weights of fewer bits, or on several "
                   "devices (tensor parallelism, FSDP)",
                   mp_format_bytes(taken, parameters), mp_format_bytes(all, room));
    print_read_backs(model, plan);
    print_unknown(model, plan);
    if (plan->world > 1)
        mp_message(
            "rank %u of %u, alone: buffers for data of the other ranks kept their contents%s", plan->rank, plan->world,
            exit_status && plan->rank ? "; files that rank 0 makes may be missing: plan it first, or --rank all" : "");
    return filled;
}

/* A server's own numbers say all. If it does not fit, they are the last line. */
static bool print_one(const struct mp_collector_result *result, size_t worst, const struct mp_plan_device *device)
{
    struct mp_model *model;
    struct mp_plan plan;
    struct mp_plan_outcome outcome;
    struct mp_error error;
    struct mp_buffer server = {0};
    char room[MP_UNIT_TEXT], shown[MP_SHOWN_ROOM], framework[160];
    const char *path = result->recordings.at[worst].path;
    if (mp_model_load(path, &model, &error)) {
        mp_message("%s: %s", path, error.text);
        return false;
    }
    mp_plan_find(model, &plan);
    judge(model, &plan, device, &outcome);
    bool filled = false;
    bool planned = outcome.has_device || print_nothing(&plan, device, outcome.begun, result->exit_status);
    if (outcome.has_device) {
        bool lacks = find_server(model, result, worst, &server);
        if (!lacks) print_failure(result->exit_status, ": the plan is of what it did until then");
        mp_message("planned on %s (%s for the program; %snothing was computed)", device->key,
                   mp_format_bytes(room, device->total - device->context),
                   mp_plan_framework(&plan, framework, sizeof framework));
        char who[32] = "";
        const struct mp_member *member = &result->recordings.at[worst].member;
        if (result->recordings.count > 1 && mp_member_knows(member, MP_MEMBER_RANK))
            snprintf(who, sizeof who, "rank %llu", (unsigned long long)mp_member_number(member, MP_MEMBER_RANK));
        if (!server.size) filled = print_program(model, &outcome, device, &plan, result->exit_status, who);
        if (mp_plan_device_is_estimate(device))
            mp_message("no %s was read: its total of %s is an %s", device->key, mp_format_bytes(room, device->total),
                       device->source);
        if (!lacks && server.size) mp_message("%.*s", (int)server.size, (const char *)server.data);
        mp_shown_path(shown, path);
        mp_message(
            server.size                             ? "%s.   Next: memprof report %s"
            : !plan.has_torch && !*plan.xla.version ? "%s.   Next: memprof report %s"
            : outcome.waited || (result->exit_status && !outcome.ooms && !outcome.over)
                ? "%s.   Next: mend what failed, and plan again; memprof report %s shows what was planned until then"
            : outcome.fits ? "%s.   Next: memprof report %s, or memprof plan --size batch=N for the largest batch"
            : filled ? "%s.   Next: the same command with a larger --device; memprof plan --device list names them"
                     : "%s.   Next: the same command with plan --advise, which plans the changes that may "
                       "make it fit",
            shown, shown);
        if (lacks) mp_message("%.*s", (int)server.size, (const char *)server.data);
    }
    mp_buffer_free(&server);
    mp_plan_free(&plan);
    mp_model_free(model);
    return planned;
}

bool mp_plan_report(struct mp_collector_result *result, const struct mp_plan_device *device, bool quiet)
{
    size_t count = result->recordings.count;
    bool whole = count > 0;
    for (size_t i = 0; i < count; i++) {
        const struct mp_recording_summary *summary = &result->recordings.at[i];
        if (summary->failed)
            mp_message("%s: the recording stopped early: %s", summary->path ? summary->path : "plan",
                       summary->failure.text);
        whole &= !summary->failed && !summary->dropped;
    }
    if (!count) return print_nothing(&(struct mp_plan){0}, device, false, result->exit_status);
    size_t worst = find_worst(result, device);
    leave_out_helpers(result, worst);
    if (quiet) return whole;
    for (size_t i = 0; i < count; i++) {
        char peak[MP_UNIT_TEXT], shown[MP_SHOWN_ROOM];
        const struct mp_recording_summary *summary = &result->recordings.at[i];
        if (i != worst && summary->path && *summary->track_id)
            mp_message("%s  %s allocated %s at the peak", mp_shown_path(shown, summary->path), summary->track_id,
                       mp_format_bytes(peak, summary->track.peak_bytes));
    }
    return result->recordings.at[worst].path && print_one(result, worst, device) && whole;
}

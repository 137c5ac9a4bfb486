#include "cli/record/advise_try.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/words.h"
#include "cli/query.h"
#include "cli/size_probing.h"
#include "model/load.h"
#include "model/track.h"
#include "output/report/advise.h"

#define TRIALS_MAX 16                /* runs: a change beyond them is not tried */
#define APPLIED    "memprof applied" /* the mark of apply.py */

struct trying {
    const struct mp_invocation *invocation;
    mp_advise_words *words; /* NULL: the command is recorded */
    struct mp_probing probing;
    struct mp_model *model; /* of the program as it is */
    struct mp_advise advise;
    size_t runs;
};

/* The words of one run: the caller's, or "memprof snapshot --quiet -o PATH -- COMMAND". */
static char **make_words(const struct trying *trying, bool stacks, const char *path)
{
    const struct mp_invocation *invocation = trying->invocation;
    const char *const own[] = {"memprof", "snapshot", "--quiet", stacks ? "--holders" : "--no-symbols",
                               "-o",      path,       "--"};
    size_t count = sizeof own / sizeof *own;
    if (trying->words) return trying->words(invocation, stacks, path);
    char **words = mp_alloc_zeroed(count + invocation->operand_count + 1, sizeof *words);
    for (size_t i = 0; i < count + invocation->operand_count; i++)
        words[i] = mp_text_copy(i < count ? own[i] : invocation->operands[i - count]);
    return words;
}

/* Returns an exit status. *model: the recording; NULL: there is none, and the last lines of the output are shown if
 * `must`. *failed: the program ended with an error. */
static int run(struct trying *trying, bool must, const char *shown, struct mp_model **model, bool *failed)
{
    struct mp_error error;
    char *path = mp_text_make("%s/%zu.mp", trying->probing.folder, trying->runs);
    char *log = mp_text_make("%s/%zu.log", trying->probing.folder, trying->runs++);
    int ended = mp_probing_run_words(trying->invocation, shown, make_words(trying, must, path), log);
    int status = ended < 0 || mp_probing_is_interrupted(ended) ? MP_EXIT_COULD_NOT : MP_EXIT_DONE;
    *model = NULL;
    *failed = ended != 0;
    if (!status && !access(path, R_OK) && mp_model_load(path, model, &error)) *model = NULL;
    if (!status && !*model && must) {
        mp_message("the command could not be recorded; it printed last:");
        mp_probing_print_tail(log);
        status = MP_EXIT_COULD_NOT;
    }
    unlink(path);
    free(path);
    free(log);
    return status;
}

/* The innermost line of Python on a stack; NULL: none. */
static const struct mp_model_line *line_of(const struct mp_model *model, uint32_t stack)
{
    for (; stack; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame != MP_FRAME_CUT && model->frames.at[frame].raw.language == MP_PYTHON &&
            model->frames.at[frame].line_count)
            return &model->lines.at[model->frames.at[frame].first_line];
    }
    return NULL;
}

static bool is_applicable(const struct mp_change *change)
{
    static const bool known[MP_CHANGE_PATTERNS] = {
        [MP_CHANGE_SETTINGS] = true,       [MP_CHANGE_LATE_ZERO_GRAD] = true, [MP_CHANGE_GRADIENTS_KEPT] = true,
        [MP_CHANGE_GRADIENTS_IDLE] = true, [MP_CHANGE_FUSED] = true,          [MP_CHANGE_ONE_BY_ONE] = true,
        [MP_CHANGE_CHECKPOINTING] = true,  [MP_CHANGE_NO_GRAD] = true,        [MP_CHANGE_CHUNKED_LOSS] = true,
        [MP_CHANGE_EIGHT_BIT] = true,      [MP_CHANGE_SPARSE] = true,         [MP_CHANGE_COLLECT] = true,
        [MP_CHANGE_GARBAGE] = true,        [MP_CHANGE_AUTOCAST] = true};
    if (change->pattern == MP_CHANGE_GRADIENTS_IDLE) return change->module && !change->flows;
    return known[change->pattern];
}

/* Tells the run's program the change: settings in PyTorch's variables, others in MEMPROF_APPLY. */
static void set_change(const struct mp_model *model, const struct mp_change *change)
{
    struct mp_buffer out = {0};
    struct mp_json json;
    if (change->pattern == MP_CHANGE_SETTINGS) {
        setenv("PYTORCH_CUDA_ALLOC_CONF", change->setting, 1);
        setenv("PYTORCH_ALLOC_CONF", change->setting, 1);
        return;
    }
    const struct mp_model_line *line = line_of(model, change->stack);
    mp_json_start(&json, &out);
    json.flat = true;
    mp_json_object(&json, NULL);
    bool collects = change->pattern == MP_CHANGE_GARBAGE;
    mp_json_text(&json, "pattern", mp_change_pattern_name(collects ? MP_CHANGE_COLLECT : change->pattern));
    mp_json_text(&json, "module", change->module);
    mp_json_number(&json, "modules", change->modules);
    mp_json_number(&json, "bytes", change->bytes);
    mp_json_text(&json, "file", line ? mp_model_text(model, line->file) : NULL);
    mp_json_number(&json, "line", line ? line->line : 0);
    mp_json_end_object(&json);
    setenv("MEMPROF_APPLY", mp_buffer_text(&out), 1);
    mp_buffer_free(&out);
}

/* Sets the environment back to what it was. */
static void restore(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static bool has_mark(const struct mp_model *model)
{
    for (size_t i = 0; i < model->noted.count; i++) {
        uint32_t event = model->noted.at[i];
        if (model->events.type[event] == MP_EVENT_MARK &&
            !strcmp(mp_model_text(model, model->notes.at[model->events.subject[event]].name), APPLIED))
            return true;
    }
    return false;
}

static uint64_t less(uint64_t from, uint64_t bytes)
{
    return from > bytes ? from - bytes : 0;
}

/* Compares a run with the program as it is. */
static void measure(struct trying *trying, const struct mp_model *ran, bool failed, struct mp_change *change)
{
    char id[MP_TRACK_ID_MAX];
    const struct mp_model_track_sum *before = &trying->model->sums.at[trying->advise.track];
    change->run = MP_RUN_FAILED;
    uint16_t track = ran ? mp_track_find(ran, mp_track_id(trying->model, trying->advise.track, id)) : MP_TRACK_NONE;
    if (track == MP_TRACK_NONE) return;
    if (change->pattern != MP_CHANGE_SETTINGS && !has_mark(ran)) {
        change->run = MP_RUN_NONE; /* it cannot be made from outside here */
        return;
    }
    const struct mp_model_track_sum *after = &ran->sums.at[track];
    if (failed && !(before->ooms && after->ooms)) return;
    change->run = before->ooms && !after->ooms ? MP_RUN_ENDS : MP_RUN_DONE;
    change->run_peak = after->peak_bytes;
    /* Both ran out of memory: each peak is as high as the device lets it be. */
    if (change->run == MP_RUN_ENDS || before->ooms) return;
    change->measured = less(before->peak_bytes, after->peak_bytes);
    if (before->reserved_peak_bytes != MP_BYTES_UNKNOWN && after->reserved_peak_bytes != MP_BYTES_UNKNOWN)
        change->measured_reserved = less(before->reserved_peak_bytes, after->reserved_peak_bytes);
}

static int try_change(struct trying *trying, struct mp_change *change)
{
    char shown[256];
    bool failed;
    struct mp_model *ran;
    const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "MEMPROF_APPLY"};
    char *values[3];
    for (size_t i = 0; i < 3; i++)
        values[i] = getenv(names[i]) ? mp_text_copy(getenv(names[i])) : NULL;
    snprintf(shown, sizeof shown, "run %zu, with a change: %s%s%s", trying->runs + 1,
             mp_change_pattern_name(change->pattern), change->module ? " " : "", change->module ? change->module : "");
    set_change(trying->model, change);
    int status = run(trying, false, shown, &ran, &failed);
    for (size_t i = 0; i < 3; i++) {
        restore(names[i], values[i]);
        free(values[i]);
    }
    if (!status) measure(trying, ran, failed, change);
    mp_model_free(ran);
    return status;
}

static int write_advice(struct trying *trying)
{
    const struct mp_invocation *invocation = trying->invocation;
    struct mp_buffer out = {0};
    struct mp_text text = {.out = &out};
    struct mp_json json;
    struct mp_view view = {.path = "", .window = mp_window_all(trying->model)};
    mp_json_start(&json, &out);
    int status = mp_query_color(invocation, &text.color);
    if (!status && mp_given(invocation, MP_OPT_JSON))
        mp_advise_json(&json, NULL, trying->model, &trying->advise, &view);
    else if (!status)
        mp_advise_text(&text, trying->model, &trying->advise, &view);
    /* With the caller's words -o names a recording, which this command does not write. */
    if (!status && trying->words)
        fwrite(out.data, 1, out.size, stdout);
    else if (!status)
        status = mp_output_buffer(invocation, &out);
    mp_buffer_free(&out);
    return status;
}

static int try_all(struct trying *trying, unsigned kinds)
{
    struct mp_error error;
    bool failed;
    int status = run(trying, true, "run 1, without a change", &trying->model, &failed);
    if (status) return status;
    const struct mp_advise_query ask = {.track = mp_track_default(trying->model), .kinds = kinds};
    if (ask.track == MP_TRACK_NONE) return mp_give_up("the command allocated nothing");
    if (failed && !trying->model->sums.at[ask.track].ooms)
        return mp_give_up(
            "the command failed; only a program that ends, or runs out of memory, shows what a change saves");
    if (mp_advise_find(trying->model, &ask, &trying->advise, &error)) return mp_message_error(&error);
    trying->advise.tried = true;
    mp_advise_add_trials(&trying->advise);
    for (size_t i = 0; !status && i < trying->advise.changes.count; i++) {
        struct mp_change *change = &trying->advise.changes.at[i];
        bool room = change->kind == MP_CHANGE_TRIAL || trying->runs + 2 <= TRIALS_MAX;
        if (is_applicable(change) && room) status = try_change(trying, change);
    }
    mp_advise_settle_trials(&trying->advise);
    if (!status) status = write_advice(trying);
    mp_advise_free(&trying->advise);
    return status;
}

int mp_advise_try(const struct mp_invocation *invocation, unsigned kinds, mp_advise_words *words)
{
    struct trying trying = {.invocation = invocation, .words = words};
    int status = mp_probing_begin(&trying.probing);
    if (!status) status = try_all(&trying, kinds);
    mp_model_free(trying.model);
    mp_probing_end(&trying.probing);
    return status;
}

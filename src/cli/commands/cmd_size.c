#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/advise/advise.h"
#include "analysis/device/device_use.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/progress.h"
#include "cli/query.h"
#include "cli/size_probing.h"
#include "exchange/load/load.h"
#include "output/page/size_page.h"
#include "output/report/size.h"

#define POINTS_MAX  64
#define PLOT_POINTS 60

struct sizing {
    const struct mp_invocation *invocation;
    struct mp_size_question question;
    uint64_t batches[MP_SIZE_PROBES_MAX], predict[POINTS_MAX];
    struct mp_size_probe probes[MP_SIZE_PROBES_MAX];
    struct mp_model *models[MP_SIZE_PROBES_MAX];
    char *paths[MP_SIZE_PROBES_MAX]; /* of recordings that this command made */
    size_t count;
    struct mp_probing probing;
    double margin_part;      /* the margin as a part of the capacity; negative: the margin is in bytes */
    MP_VEC(char *) verdicts; /* the results of runs at the answer */
};

/* ---- the user's options ---------------------------------------------------------------------------------------- */

/* Reads a number such as "16" at *text, and moves *text behind it. */
static bool read_batch(const char **text, uint64_t *batch)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(*text, &end, 10);
    if (**text < '0' || **text > '9' || errno || !value || value > UINT32_MAX) return false;
    *text = end;
    *batch = value;
    return true;
}

static int two_variables(const char *text)
{
    return mp_refuse("\"%s\": a second variable is gone: run size once for each length, with its recordings alone",
                     text);
}

/* "4,8,12" */
static int read_batches(const char *option, const char *text, uint64_t *batches, size_t room, size_t *count)
{
    const char *at = text;
    do {
        if (*count && *at == ',') at++;
        if (*count == room) return mp_refuse("--%s: more than %zu values", option, room);
        bool read = read_batch(&at, &batches[*count]);
        if (read && *at == 'x') return two_variables(text);
        if (!read || (*at && *at != ','))
            return mp_refuse("--%s: \"%s\" is not a list of batches, such as 16,32,64", option, text);
        ++*count;
    } while (*at);
    return MP_EXIT_DONE;
}

/* "4=b4.mp" */
static int read_operand(struct sizing *sizing, const char *operand)
{
    const char *at = operand;
    if (sizing->count == MP_SIZE_PROBES_MAX) return mp_refuse("give at most %d recordings", MP_SIZE_PROBES_MAX);
    bool read = read_batch(&at, &sizing->batches[sizing->count]);
    if (read && *at == 'x') return two_variables(operand);
    if (!read || *at != '=' || !at[1])
        return mp_refuse("\"%s\": write each recording with its batch, as in 8=b8.mp", operand);
    sizing->probes[sizing->count++].name = at + 1;
    return MP_EXIT_DONE;
}

static int read_margin(struct sizing *sizing)
{
    const char *text = sizing->invocation->value[MP_OPT_MARGIN];
    char *end;
    sizing->margin_part = 0.05;
    if (!text) return MP_EXIT_DONE;
    double part = strtod(text, &end);
    if (end != text && !strcmp(end, "%") && part >= 0 && part < 100) {
        sizing->margin_part = part / 100;
        return MP_EXIT_DONE;
    }
    sizing->margin_part = -1;
    if (mp_parse_bytes(text, &sizing->question.margin)) return MP_EXIT_DONE;
    return mp_refuse("--margin: \"%s\" is not a part (5%%) nor an amount of memory (512MiB)", text);
}

static int read_capacity(struct sizing *sizing)
{
    const char *text = sizing->invocation->value[MP_OPT_CAPACITY];
    if (!text || !strcmp(text, "auto")) return MP_EXIT_DONE;
    if (mp_parse_bytes(text, &sizing->question.capacity) && sizing->question.capacity) return MP_EXIT_DONE;
    return mp_refuse("--capacity: \"%s\" is not an amount of memory, as 24GiB", text);
}

/* These options choose how to record; with existing recordings they are refused, unless they come from a settings
 * file. */
static int refuse_ways_of_probing(const struct mp_invocation *invocation)
{
    static const enum mp_option ways[] = {MP_OPT_TORCH_HISTORY, MP_OPT_NO_TORCH_HISTORY, MP_OPT_NO_VERIFY};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!mp_given(invocation, ways[i]) || invocation->setting_line[ways[i]]) continue;
        return mp_refuse("--%s is only for --probe, which is missing", mp_option_rows[ways[i]].name);
    }
    return MP_EXIT_DONE;
}

static int read_question(struct sizing *sizing)
{
    const struct mp_invocation *invocation = sizing->invocation;
    const char *probe = invocation->value[MP_OPT_PROBE], *predict = invocation->value[MP_OPT_PREDICT];
    struct mp_size_question *question = &sizing->question;
    int status = mp_progress_valid(invocation) ? read_capacity(sizing) : MP_EXIT_USAGE;
    if (!status) status = read_margin(sizing);
    if (!status && probe) /* one probe is kept for the run at the answer */
        status = read_batches("probe", probe, sizing->batches, MP_SIZE_PROBES_MAX - 1, &sizing->count);
    for (size_t i = 0; !status && !probe && i < invocation->operand_count; i++)
        status = read_operand(sizing, invocation->operands[i]);
    if (!status && !sizing->count) {
        mp_message(
            "size needs recordings of different batches, such as 4=b4.mp 8=b8.mp 12=b12.mp, or --probe 4,8,12 -- "
            "COMMAND ... {batch} ...");
        status = MP_EXIT_USAGE;
    }
    if (!status && !probe) status = refuse_ways_of_probing(invocation);
    if (!status && predict)
        status = read_batches("predict", predict, sizing->predict, POINTS_MAX, &question->predict_count);
    question->predict = sizing->predict;
    question->probes = sizing->probes;
    question->track = invocation->value[MP_OPT_TRACK];
    return status;
}

/* ---- recordings ------------------------------------------------------------------------------------------------- */

static int load(struct sizing *sizing, size_t index, const char *path)
{
    struct mp_error error;
    mp_progress_start(sizing->invocation, path);
    enum mp_status loaded = mp_exchange_load(path, &sizing->models[index], &error);
    mp_progress_end();
    if (loaded) return mp_message_error(&error);
    if (sizing->models[index]->sample_bytes)
        return mp_give_up("%s has a sample of its blocks (--sample), but sizes need all blocks", path);
    sizing->probes[index].model = sizing->models[index];
    sizing->probes[index].batch = sizing->batches[index];
    return MP_EXIT_DONE;
}

static int get_recordings(struct sizing *sizing)
{
    bool run_size = mp_given(sizing->invocation, MP_OPT_PROBE);
    int status =
        run_size ? mp_probing_run(sizing->invocation, sizing->batches, sizing->count, &sizing->probing, sizing->paths)
                 : MP_EXIT_DONE;
    for (size_t i = 0; i < sizing->count && !status; i++) {
        if (run_size) sizing->probes[i].name = strrchr(sizing->paths[i], '/') + 1;
        status = load(sizing, i, run_size ? sizing->paths[i] : sizing->probes[i].name);
    }
    sizing->question.count = sizing->count;
    return status;
}

/* Bytes of a device that other processes used; 0 if unknown. */
static uint64_t used_by_others(const struct mp_model *model, uint32_t device)
{
    struct mp_device_uses uses = {0};
    uint64_t others = 0;
    mp_device_uses_find(model, &uses);
    for (size_t i = 0; i < uses.count; i++)
        if (uses.at[i].device == device && uses.at[i].others_bytes != MP_BYTES_UNKNOWN)
            others = uses.at[i].others_bytes;
    mp_device_uses_free(&uses);
    return others;
}

/* Finds the capacity: the memory of the last probe's device, less the bytes of other processes, if recorded. */
static int find_capacity(struct sizing *sizing)
{
    struct mp_size_question *question = &sizing->question;
    const struct mp_model *model = sizing->models[sizing->count - 1];
    uint16_t track = question->track ? mp_track_find(model, question->track) : mp_track_default(model);
    if (!question->capacity && track != MP_TRACK_NONE) {
        uint32_t device = model->tracks.at[track].device;
        uint64_t total = device < model->devices.count ? model->devices.at[device].total_bytes : MP_BYTES_UNKNOWN;
        uint64_t others = used_by_others(model, device);
        if (total != MP_BYTES_UNKNOWN && total > others) question->capacity = total - others;
    }
    if (!question->capacity)
        return mp_refuse("the recordings do not give the device's memory; give it: --capacity 24GiB");
    if (sizing->margin_part >= 0) question->margin = (uint64_t)((double)question->capacity * sizing->margin_part + 0.5);
    if (question->margin < question->capacity) return MP_EXIT_DONE;
    return mp_refuse("the margin leaves nothing of the capacity");
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

/* True for -o FILE.html. */
static bool is_page(const struct mp_invocation *invocation)
{
    const char *path = invocation->value[MP_OPT_OUTPUT], *ending = path ? strrchr(path, '.') : NULL;
    return ending && (!strcmp(ending, ".html") || !strcmp(ending, ".htm")) && !mp_given(invocation, MP_OPT_JSON);
}

static int write_answer(struct sizing *sizing, const struct mp_size_answer *answer, const struct mp_advise *advise)
{
    const struct mp_invocation *invocation = sizing->invocation;
    struct mp_buffer out = {0};
    struct mp_text text = {.out = &out};
    struct mp_json json;
    struct mp_view view = {0};
    mp_json_start(&json, &out);
    int status = mp_query_color(invocation, &text.color);
    if (!status && mp_given(invocation, MP_OPT_JSON))
        mp_size_json(&json, answer, advise, &view);
    else if (!status && is_page(invocation))
        mp_size_page(&out, answer, advise);
    else if (!status)
        mp_size_text(&text, answer, advise);
    if (!status) status = mp_output_buffer(invocation, &out);
    mp_buffer_free(&out);
    return status;
}

/* Available memory of this machine; 0 if it is not known. */
static uint64_t available_memory(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (file) fclose(file);
    return (uint64_t)kib * 1024;
}

/* True if a run with `bytes` may be tried here. */
static bool is_takeable(const struct sizing *sizing, const struct mp_size_answer *answer, uint64_t bytes)
{
    uint32_t device = answer->model->tracks.at[answer->track].device;
    if (!strcmp(mp_track_device(answer->model, answer->track), "cpu")) return bytes <= available_memory();
    return device < answer->model->devices.count &&
           sizing->question.capacity <= answer->model->devices.at[device].total_bytes;
}

/* The bytes of a probe that are compared with the limit. */
static uint64_t bytes_of(const struct mp_size_answer *answer, const struct mp_size_probed *ran)
{
    return answer->binds[0] == 'd' && ran->device != MP_BYTES_UNKNOWN ? ran->device
           : answer->binds[0] != 'a'                                  ? ran->reserved
                                                                      : ran->allocated;
}

/* The next batch to run: the answer, or the middle between the largest probe that fits and the smallest one above it
 * that does not, if a run refuted the answer. 0: the answer was run, or every batch fits. */
static uint64_t next_batch(const struct mp_size_answer *answer)
{
    uint64_t fits = 0, fails = UINT64_MAX;
    mp_vec_each (const struct mp_size_probed, ran, &answer->probes) {
        bool is_fit = bytes_of(answer, ran) <= answer->limit;
        if (is_fit && ran->batch > fits) fits = ran->batch;
        if (!is_fit && ran->batch < fails) fails = ran->batch;
    }
    bool is_open = answer->about > fits && answer->about < fails;
    if (answer->about == UINT64_MAX || answer->about == fits) return 0;
    if (is_open || fails == UINT64_MAX) return is_open ? answer->about : 0;
    return fails > fits + 1 ? fits + (fails - fits) / 2 : 0;
}

static const struct mp_size_need *need_at(const struct mp_size_answer *answer, uint64_t batch)
{
    for (size_t i = 0; i < answer->needs.count; i++)
        if (answer->needs.at[i].batch == batch) return &answer->needs.at[i];
    return NULL;
}

static int say_verdict(struct sizing *sizing, char *verdict)
{
    mp_vec_add(&sizing->verdicts, verdict);
    return MP_EXIT_DONE;
}

/* Runs the command at a batch, and answers again with that run as one more probe. A failure is reported, and leaves the
 * answer as it is. *again: true if this run, or an earlier one, refuted an answer, and another batch is to be run. */
static int verify(struct sizing *sizing, uint64_t batch, struct mp_size_answer *answer, bool *again)
{
    struct mp_error error;
    char needed[MP_UNIT_TEXT], over[MP_UNIT_TEXT];
    size_t index = sizing->question.count;
    unsigned long long shown = batch;
    const struct mp_size_need *need = need_at(answer, batch);
    if (need && !is_takeable(sizing, answer, need->allocated))
        return say_verdict(sizing,
                           mp_text_make("not verified by a run with %llu: this machine has too little memory for "
                                        "it",
                                        shown));
    sizing->batches[index] = batch;
    int status = mp_probing_run(sizing->invocation, &batch, 1, &sizing->probing, &sizing->paths[index]);
    if (!status) status = load(sizing, index, sizing->paths[index]);
    if (status) return say_verdict(sizing, mp_text_make("not verified: the run with %llu failed", shown));
    struct mp_size_answer verified;
    sizing->probes[index].name = strrchr(sizing->paths[index], '/') + 1;
    sizing->question.count = index + 1;
    if (mp_size_find(&sizing->question, &verified, &error))
        return say_verdict(sizing, mp_text_make("not verified: %s", error.text));
    mp_size_answer_free(answer);
    *answer = verified;
    const struct mp_size_probed *ran = answer->probes.at;
    while (ran->batch != batch)
        ran++;
    uint64_t bytes = bytes_of(answer, ran);
    *again = bytes > answer->limit || (sizing->verdicts.count && next_batch(answer) > batch);
    if (bytes <= answer->limit)
        return say_verdict(sizing, mp_text_make("verified by a run with %llu, which needed %s", shown,
                                                mp_format_bytes(needed, bytes)));
    return say_verdict(sizing,
                       mp_text_make("refuted by a run with %llu, which needed %s, %s too many", shown,
                                    mp_format_bytes(needed, bytes), mp_format_bytes(over, bytes - answer->limit)));
}

static int verify_all(struct sizing *sizing, struct mp_size_answer *answer)
{
    int status = MP_EXIT_DONE;
    bool again = true;
    for (uint64_t batch;
         !status && again && sizing->question.count < MP_SIZE_PROBES_MAX && (batch = next_batch(answer));) {
        again = false;
        status = verify(sizing, batch, answer, &again);
    }
    return status;
}

static int advise_and_write(struct sizing *sizing, const struct mp_size_answer *answer)
{
    struct mp_error error;
    struct mp_advise advise;
    const struct mp_advise_query changes = {.track = answer->track, .kinds = mp_advise_quick_kinds(answer->model)};
    if (!mp_given(sizing->invocation, MP_OPT_ADVISE)) return write_answer(sizing, answer, NULL);
    if (mp_advise_find(answer->model, &changes, &advise, &error)) return mp_message_error(&error);
    int status = write_answer(sizing, answer, &advise);
    mp_advise_free(&advise);
    return status;
}

static int find(struct sizing *sizing)
{
    struct mp_error error;
    struct mp_size_answer answer;
    int status = find_capacity(sizing);
    if (status) return status;
    if (is_page(sizing->invocation)) sizing->question.plot_points = PLOT_POINTS;
    if (mp_size_find(&sizing->question, &answer, &error)) return mp_message_error(&error);
    if (mp_given(sizing->invocation, MP_OPT_PROBE) && !mp_given(sizing->invocation, MP_OPT_NO_VERIFY))
        status = verify_all(sizing, &answer);
    mp_vec_each (char *, verdict, &sizing->verdicts)
        mp_vec_add(&answer.notes, *verdict);
    mp_vec_free(&sizing->verdicts);
    if (!status) status = advise_and_write(sizing, &answer);
    mp_size_answer_free(&answer);
    return status;
}

static int run_size(const struct mp_invocation *invocation)
{
    struct sizing *sizing = mp_alloc_zeroed(1, sizeof *sizing);
    sizing->invocation = invocation;
    int status = read_question(sizing);
    if (!status) status = get_recordings(sizing);
    if (!status) status = find(sizing);
    for (size_t i = 0; i < MP_SIZE_PROBES_MAX; i++) {
        mp_model_free(sizing->models[i]);
        free(sizing->paths[i]);
    }
    mp_probing_end(&sizing->probing);
    free(sizing);
    return status;
}

const struct mp_command mp_command_size = {
    .name = "size",
    .summary = "which batch fits into memory",
    .usage = "SIZE=FILE... | --probe LIST -- COMMAND ... {batch} ...",
    .about =
        "Takes three recordings of the same program at small batch sizes, or makes them, and predicts the memory of "
        "any other batch and the largest batch that fits. It solves how each allocation's size depends on the batch, "
        "and replays their sequence for the batch in question; the peak may move to another moment. Sizes that follow "
        "no rule are bounded: \"at least\" to \"at most\". A batch is \"unsure\" if its bounds reach over the limit, "
        "or nothing proves it.\n\n--probe makes the recordings, and runs the command once more at the answer to verify "
        "it, if the machine has the memory.\n\nWith -o FILE.html the answer is a page: the curve, and tables of "
        "predictions, sites and probes.\n\n--advise adds the three best changes that `memprof advise` finds for the "
        "largest probe.",
    .example = "memprof size --capacity 24GiB --probe 4,8,12 -- python3 train.py --batch-size {batch}",
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_JSON, MP_OPT_COLOR, MP_OPT_PROGRESS, MP_OPT_TRACK, MP_OPT_CAPACITY,
                MP_OPT_MARGIN, MP_OPT_PREDICT, MP_OPT_PROBE, MP_OPT_ADVISE, MP_OPT_TORCH_HISTORY,
                MP_OPT_NO_TORCH_HISTORY, MP_OPT_NO_VERIFY},
    .operands_max = SIZE_MAX,
    .stops_at_operand = false,
    .run = run_size,
};

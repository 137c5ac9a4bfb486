#include "output/report/advise.h"

#include <string.h>

#include "base/units.h"

#define VARIABLE "PYTORCH_CUDA_ALLOC_CONF" /* every version obeys it, also those that know PYTORCH_ALLOC_CONF */

/* What is to be changed, in a sentence; what it costs or breaks; how it is written. Each may stay empty. */
struct words {
    struct mp_buffer text, cost, code;
};

static void free_words(struct words *words)
{
    mp_buffer_free(&words->text);
    mp_buffer_free(&words->cost);
    mp_buffer_free(&words->code);
}

static const char *also(const struct mp_buffer *cost)
{
    return cost->size ? "; " : "";
}

static uint32_t most_divisions(const struct mp_torch_settings *settings, bool *same)
{
    uint32_t least = 0;
    *same = true;
    for (unsigned i = 0; i < MP_TORCH_DIVISIONS; i++) {
        *same = *same && settings->divisions[i] == settings->divisions[0];
        if (settings->divisions[i] > 1 && (!least || settings->divisions[i] < least)) least = settings->divisions[i];
    }
    return least;
}

static void put_settings_cost(const struct mp_change *change, struct words *words)
{
    const struct mp_torch_settings *settings = &change->settings;
    char one[MP_UNIT_TEXT], two[MP_UNIT_TEXT];
    bool same;
    if (settings->expandable)
        mp_buffer_printf(&words->cost,
                         "%sbreaks CUDA IPC of tensors before PyTorch 2.6, pools of graphs and MemPool before "
                         "2.5, and sleep modes that need a pool of their own%s",
                         also(&words->cost), change->phased ? " (what comes while they are set)" : "");
    if (settings->max_split != MP_TORCH_UNLIMITED)
        mp_buffer_printf(&words->cost, "%scached blocks of %s and more serve only requests of about their size",
                         also(&words->cost), mp_format_bytes(one, settings->max_split));
    uint32_t divisions = most_divisions(settings, &same);
    if (divisions)
        mp_buffer_printf(&words->cost, "%srounds %s up, by one part in %u at most", also(&words->cost),
                         same ? "sizes" : "some sizes", divisions);
    if (change->ooms < change->ooms_before)
        mp_buffer_printf(&words->cost, "%s%s found no memory would have found some", also(&words->cost),
                         change->ooms ? "some requests that" : "every request that");
    if (settings->gc_threshold > 0)
        mp_buffer_printf(&words->cost, "%sgives cached memory back sooner", also(&words->cost));
    if (change->driver_calls > change->driver_calls_before)
        mp_buffer_printf(&words->cost, "%sasks the driver for memory %s times, not %s", also(&words->cost),
                         mp_format_count(one, change->driver_calls), mp_format_count(two, change->driver_calls_before));
}

static void put_settings(const struct mp_change *change, struct words *words)
{
    const char *quote = strchr(change->setting, '[') ? "'" : "";
    if (*change->setting)
        mp_buffer_printf(&words->text, VARIABLE "=%s%s%s", quote, change->setting, quote);
    else
        mp_buffer_printf(&words->text, "none of the settings that it has: unset " VARIABLE);
    mp_buffer_printf(&words->code, *change->setting ? "export %.*s" : "unset " VARIABLE, (int)words->text.size,
                     (const char *)words->text.data);
    put_settings_cost(change, words);
}

static bool is_of_library(const char *file)
{
    return strstr(file, "/torch/") || strstr(file, "-packages/") || *file == '<' || !*file;
}

/* The innermost line of Python that is no library's. */
static void put_line(const struct mp_model *model, uint32_t stack, struct mp_buffer *code)
{
    for (; stack; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != MP_PYTHON) continue;
        if (!model->frames.at[frame].line_count) continue;
        const struct mp_model_line *line = &model->lines.at[model->frames.at[frame].first_line];
        if (is_of_library(mp_model_text(model, line->file))) continue;
        mp_buffer_printf(code, " (%s:%u, in %s)", mp_model_text(model, line->file), line->line,
                         mp_model_text(model, line->function));
        return;
    }
}

static void put_phase_settings(const struct mp_model *model, const struct mp_change *change, struct words *words)
{
    static const char *const names[] = {
        [MP_TUNE_LOAD] = "loading", [MP_TUNE_TRAIN] = "training", [MP_TUNE_SERVE] = "serving"};
    const struct mp_tune_phased *phased = change->phased;
    const char *setting = *change->setting ? change->setting : "no settings";
    mp_buffer_printf(&words->text, "%s %s %s alone", setting, phased->early ? "up to the end of" : "for",
                     names[phased->phase]);
    if (phased->early) mp_buffer_printf(&words->code, "export " VARIABLE "='%s', then ", change->setting);
    mp_buffer_printf(&words->code,
                     "torch.cuda.memory._set_allocator_settings(\"%s\") before the first call of a module%s",
                     phased->then, phased->behind_training ? " behind training" : "");
    put_line(model, change->stack, &words->code);
    mp_buffer_append_text(&words->cost, "that function of PyTorch's is not public");
    put_settings_cost(change, words);
}

/* Of changes to the code. */
static const struct {
    const char *text, *code, *cost;
} said[MP_CHANGE_WHATS] = {
    [MP_CHANGE_LATE_ZERO_GRAD] = {"free gradients before forward, not behind it",
                                  "optimizer.zero_grad(set_to_none=True) right after optimizer.step()", ""},
    [MP_CHANGE_GRADIENTS_KEPT] = {"free gradients with each step, in place of setting them to zero",
                                  "optimizer.zero_grad(set_to_none=True) right after optimizer.step()",
                                  "each backward allocates them anew"},
    [MP_CHANGE_HELD_VARIABLES] = {"let go of what variables hold of a step before the next one makes it anew",
                                  "del them behind backward()", "only where nothing reads them later"},
    [MP_CHANGE_FUSED] = {"a fused optimizer, whose step needs no temporaries", "torch.optim.AdamW(..., fused=True)",
                         ""},
    [MP_CHANGE_ONE_BY_ONE] = {"an optimizer that takes one parameter after the other", "foreach=False",
                              "more kernels, which are smaller"},
};

static void put_checkpoint(const struct mp_change *change, struct words *words)
{
    mp_buffer_printf(&words->text, "make again in backward what ");
    if (change->modules < change->modules_of)
        mp_buffer_printf(&words->text, "the first %zu of %zu ", change->modules, change->modules_of);
    mp_buffer_printf(&words->text, "%s keep%s for it", change->module, change->modules_of == 1 ? "s" : "");
    mp_buffer_printf(&words->code, "torch.utils.checkpoint.checkpoint(%s, ..., use_reentrant=False) for each call",
                     change->module);
    if (change->share < 0)
        mp_buffer_printf(&words->cost, "does a part of forward twice, which the recording does not time");
    else
        mp_buffer_printf(&words->cost, "does %.0f %% of forward twice", change->share * 100);
}

static void find_words(const struct mp_model *model, const struct mp_change *change, struct words *words)
{
    *words = (struct words){0};
    switch (change->what) {
    case MP_CHANGE_SETTINGS:
        put_settings(change, words);
        break;
    case MP_CHANGE_PHASE_SETTINGS:
        put_phase_settings(model, change, words);
        break;
    case MP_CHANGE_CHECKPOINTING:
        put_checkpoint(change, words);
        break;
    default:
        mp_buffer_append_text(&words->text, said[change->what].text);
        mp_buffer_append_text(&words->code, said[change->what].code);
        put_line(model, change->stack, &words->code);
        mp_buffer_append_text(&words->cost, said[change->what].cost);
    }
}

static void put_part(struct mp_json *json, const char *key, const struct mp_buffer *part)
{
    if (part->size)
        mp_json_bytes_of_text(json, key, (const char *)part->data, part->size);
    else
        mp_json_null(json, key);
}

static void change_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise,
                        const struct mp_change *change, bool with_stack)
{
    struct words words;
    find_words(model, change, &words);
    mp_json_object(json, NULL);
    mp_json_text(json, "kind", mp_change_kind_name(change->kind));
    mp_json_text(json, "pattern", mp_change_what_name(change->what));
    put_part(json, "text", &words.text);
    mp_json_number(json, "saved_bytes", change->saved);
    mp_json_known(json, "saved_reserved_bytes", advise->has_allocator ? change->saved_reserved : MP_BYTES_UNKNOWN);
    mp_json_number(json, "peak_bytes", change->peak);
    mp_json_known(json, "reserved_peak_bytes", advise->has_allocator ? change->reserved : MP_BYTES_UNKNOWN);
    mp_json_bool(json, "exact", change->exact);
    mp_json_bool(json, "out_of_memory", change->ooms);
    put_part(json, "cost", &words.cost);
    put_part(json, "code", &words.code);
    mp_json_text(json, "setting", change->setting);
    mp_json_text(json, "module", change->module);
    mp_json_known(json, "modules", change->module ? change->modules : MP_BYTES_UNKNOWN);
    mp_json_known(json, "modules_of", change->module ? change->modules_of : MP_BYTES_UNKNOWN);
    if (change->module && change->share >= 0)
        mp_json_real(json, "forward_share", change->share);
    else
        mp_json_null(json, "forward_share");
    mp_json_known(json, "blocks", change->kind == MP_CHANGE_ALLOCATOR ? MP_BYTES_UNKNOWN : change->blocks);
    if (with_stack && change->stack)
        mp_stack_json(json, model, change->stack);
    else if (with_stack)
        mp_json_null(json, "stack");
    mp_json_end_object(json);
    free_words(&words);
}

static void fit_json(struct mp_json *json, const struct mp_advise *advise)
{
    const struct mp_advise_fit *fit = &advise->fit;
    if (!fit->capacity) {
        mp_json_null(json, "fit");
        return;
    }
    mp_json_object(json, "fit");
    mp_json_number(json, "capacity_bytes", fit->capacity);
    mp_json_bool(json, "fits", fit->fits);
    mp_json_bool(json, "fits_now", fit->fits_now);
    mp_json_array(json, "changes");
    for (size_t i = 0; i < fit->changes.count; i++)
        mp_json_number(json, NULL, fit->changes.at[i] + 1);
    mp_json_end_array(json);
    mp_json_number(json, "peak_bytes", fit->peak);
    mp_json_known(json, "reserved_peak_bytes", advise->has_allocator ? fit->reserved : MP_BYTES_UNKNOWN);
    mp_json_number(json, "beside_bytes", fit->beside);
    mp_json_end_object(json);
}

static bool is_shown(size_t i, const struct mp_view *view)
{
    return !view->limit || i < view->limit;
}

/* What was asked for at a time is a bound where it is known: not where only blocks are, or where less was reserved. */
static bool has_bound(const struct mp_advise *advise)
{
    return advise->has_allocator && advise->tuning.bound <= advise->reserved;
}

void mp_advise_changes_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise)
{
    mp_json_array(json, "changes");
    for (size_t i = 0; i < advise->changes.count; i++)
        change_json(json, model, advise, &advise->changes.at[i], false);
    mp_json_end_array(json);
}

void mp_advise_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_advise *advise,
                    const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    bool reserved = advise->has_allocator;
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.advise/1");
    mp_json_text(json, "track", mp_track_id(model, advise->track, id));
    mp_json_number(json, "peak_bytes", advise->peak);
    mp_json_known(json, "reserved_peak_bytes", reserved ? advise->reserved : MP_BYTES_UNKNOWN);
    mp_json_known(json, "least_reserved_bytes", has_bound(advise) ? advise->tuning.bound : MP_BYTES_UNKNOWN);
    mp_json_known(json, "replays", reserved ? advise->tuning.replays : MP_BYTES_UNKNOWN);
    mp_json_number(json, "change_count", advise->changes.count);
    mp_json_array(json, "changes");
    for (size_t i = 0; i < advise->changes.count; i++)
        if (is_shown(i, view)) change_json(json, model, advise, &advise->changes.at[i], true);
    mp_json_end_array(json);
    fit_json(json, advise);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

static void put_answer(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise)
{
    char peak[MP_UNIT_TEXT], reserved[MP_UNIT_TEXT], id[MP_TRACK_ID_MAX];
    mp_text_put(text, MP_BOLD, "%s", mp_format_bytes(peak, advise->peak));
    mp_text_put(text, MP_PLAIN, " allocated at the peak of ");
    mp_text_clean(text->out, mp_track_id(model, advise->track, id));
    if (advise->has_allocator)
        mp_text_put(text, MP_PLAIN, ", %s reserved", mp_format_bytes(reserved, advise->reserved));
    if (!advise->changes.count) {
        mp_text_put(text, MP_PLAIN,
                    advise->replayed ? "; nothing that was tried would lower it\n"
                                     : "; the recording has no allocations that could be replayed\n");
        return;
    }
    mp_text_put(text, MP_PLAIN, "; what would lower it (proved by a replay unless marked ~):\n\n");
}

static void put_row(struct mp_table *table, const struct mp_model *model, const struct mp_advise *advise, size_t number)
{
    const struct mp_change *change = &advise->changes.at[number];
    bool reserves = change->kind == MP_CHANGE_ALLOCATOR || change->saved_reserved > change->saved;
    char bytes[MP_UNIT_TEXT];
    struct words words;
    find_words(model, change, &words);
    mp_table_cell(table, MP_DIM, "%s%zu.", change->exact ? "" : "~ ", number + 1);
    if (change->saved || change->saved_reserved)
        mp_table_cell(table, MP_BOLD, "%s", mp_format_bytes(bytes, reserves ? change->saved_reserved : change->saved));
    else
        mp_table_cell(table, MP_BOLD, "it fits");
    mp_table_cell(table, MP_PLAIN, "%s", mp_format_bytes(bytes, reserves ? change->reserved : change->peak));
    mp_table_cell(table, MP_PLAIN, "%s", reserves ? "reserved" : "allocated");
    mp_table_wide(table, MP_PLAIN, "%.*s", (int)words.text.size, (const char *)words.text.data);
    mp_table_end_row(table);
    const struct mp_buffer *more[] = {change->what == MP_CHANGE_SETTINGS ? NULL : &words.code, &words.cost};
    for (size_t i = 0; i < 2; i++) {
        if (!more[i] || !more[i]->size) continue;
        mp_table_skip(table, 4);
        mp_table_wide(table, MP_DIM, "%.*s", (int)more[i]->size, (const char *)more[i]->data);
        mp_table_end_row(table);
    }
    free_words(&words);
}

static void put_table(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise,
                      const struct mp_view *view)
{
    struct mp_table table;
    if (!advise->changes.count) return;
    mp_table_start_titled(&table, "rrrll", "change", "", "saves", "peak then", "", NULL);
    for (size_t i = 0; i < advise->changes.count; i++)
        if (is_shown(i, view)) put_row(&table, model, advise, i);
    mp_table_finish(&table, text);
    if (view->limit && view->limit < advise->changes.count)
        mp_text_put(text, MP_DIM, "%zu more; -n %zu shows them\n", advise->changes.count - view->limit,
                    advise->changes.count);
}

/* "1", "1 and 3", "1, 2 and 3" */
static void put_numbers(struct mp_text *text, const struct mp_advise_fit *fit)
{
    for (size_t i = 0; i < fit->changes.count; i++)
        mp_text_put(text, MP_PLAIN, "%s%zu",
                    !i                            ? ""
                    : i + 1 == fit->changes.count ? " and "
                                                  : ", ",
                    fit->changes.at[i] + 1);
}

static void put_fit(struct mp_text *text, const struct mp_advise *advise)
{
    const struct mp_advise_fit *fit = &advise->fit;
    char capacity[MP_UNIT_TEXT], rest[MP_UNIT_TEXT];
    if (!fit->capacity) return;
    uint64_t need = (advise->has_allocator ? fit->reserved : fit->peak) + fit->beside;
    mp_text_put(text, MP_BOLD, "\n%s: ", mp_format_bytes(capacity, fit->capacity));
    if (fit->fits_now) {
        mp_text_put(text, MP_PLAIN, "it fits as it is\n");
    } else if (fit->fits) {
        mp_text_put(text, MP_PLAIN, "with ");
        put_numbers(text, fit);
        mp_text_put(text, MP_PLAIN, " it fits, with %s to spare\n",
                    mp_format_bytes(rest, need < fit->capacity ? fit->capacity - need : 0));
    } else if (fit->changes.count) {
        mp_text_put(text, MP_PLAIN, "it does not fit, not even with ");
        put_numbers(text, fit);
        mp_text_put(text, MP_PLAIN, "; memprof size finds the batch that does\n");
    } else {
        mp_text_put(text, MP_PLAIN, "it does not fit; memprof size finds the batch that does\n");
    }
}

static void put_evidence(struct mp_text *text, const struct mp_advise *advise)
{
    const struct mp_tuning *tuning = &advise->tuning;
    char number[MP_UNIT_TEXT], count[MP_UNIT_TEXT];
    if (!advise->has_allocator) return;
    mp_text_put(text, MP_PLAIN, "\nreplayed %s settings", mp_format_count(count, tuning->replays));
    if (has_bound(advise))
        mp_text_put(text, MP_PLAIN, "; none reserves less than the %s that were asked for at a time",
                    mp_format_bytes(number, tuning->bound));
    mp_text_put(text, MP_PLAIN, "\n");
    if (tuning->base_bytes)
        mp_text_put(text, MP_PLAIN, "the %s from before the recording were placed anew, close together\n",
                    mp_format_bytes(number, tuning->base_bytes));
    if (!tuning->known)
        mp_text_put(text, MP_PLAIN,
                    "not all that was asked for is known, or the record replays otherwise than it was: estimates\n");
}

static uint64_t saving_of(const struct mp_change *change)
{
    return change->saved ? change->saved : change->saved_reserved;
}

void mp_advise_best_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise,
                         size_t most)
{
    for (size_t i = 0; i < advise->changes.count && i < most; i++) {
        const struct mp_change *change = &advise->changes.at[i];
        struct words words;
        find_words(model, change, &words);
        mp_json_object(json, NULL);
        put_part(json, "text", &words.text);
        mp_json_number(json, "saved_bytes", saving_of(change));
        mp_json_text(json, "evidence",
                     change->exact ? "replay of the recording with the change made"
                                   : "replay of the recording with the change made, estimated in part");
        mp_json_text(json, "kind", mp_change_kind_name(change->kind));
        put_part(json, "code", &words.code);
        put_part(json, "cost", &words.cost);
        mp_json_end_object(json);
        free_words(&words);
    }
}

void mp_advise_best_text(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise,
                         size_t most, unsigned first)
{
    char number[MP_UNIT_TEXT];
    for (size_t i = 0; i < advise->changes.count && i < most; i++) {
        const struct mp_change *change = &advise->changes.at[i];
        struct words words;
        find_words(model, change, &words);
        mp_text_put(text, MP_PLAIN, "  %zu. %.*s      saves %s%s", i + first, (int)words.text.size,
                    (const char *)words.text.data, change->exact ? "" : "~",
                    mp_format_bytes(number, saving_of(change)));
        mp_text_put(text, MP_PLAIN, "%s\n", change->saved ? "" : " of reserved memory");
        free_words(&words);
    }
}

void mp_advise_best_document(struct mp_document *document, const struct mp_model *model, const struct mp_advise *advise,
                             size_t most)
{
    static const char *const heads[] = {"saves", "change", "it costs", "how"};
    char number[MP_UNIT_TEXT];
    if (!advise->changes.count) return;
    mp_document_table(document, "rlll", heads);
    for (size_t i = 0; i < advise->changes.count && i < most; i++) {
        const struct mp_change *change = &advise->changes.at[i];
        struct words words;
        find_words(model, change, &words);
        mp_document_cell(document, "%s%s%s", change->exact ? "" : "~", mp_format_bytes(number, saving_of(change)),
                         change->saved ? "" : " of reserved memory");
        const struct mp_buffer *parts[] = {&words.text, &words.cost, &words.code};
        for (size_t k = 0; k < 3; k++)
            mp_document_cell(document, "%.*s", (int)parts[k]->size, parts[k]->size ? (const char *)parts[k]->data : "");
        free_words(&words);
    }
    mp_document_end_table(document);
}

void mp_advise_text(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise,
                    const struct mp_view *view)
{
    put_answer(text, model, advise);
    put_table(text, model, advise, view);
    put_fit(text, advise);
    put_evidence(text, advise);
    mp_text_put(text, MP_PLAIN, "\n");
    mp_coverage_text(text, model);
}

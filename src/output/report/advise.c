#include "output/report/advise.h"

#include <string.h>

#include "base/units.h"
#include "model/stack.h"
#include "output/report/coverage.h"

#define VARIABLE "PYTORCH_CUDA_ALLOC_CONF" /* all versions of PyTorch read it, even those with PYTORCH_ALLOC_CONF */

/* A change's sentence, its costs and risks, and its code. Each may be empty. */
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
    bool same;
    if (settings->expandable)
        mp_buffer_printf(&words->cost,
                         "%sbreaks CUDA IPC of tensors before PyTorch 2.6, pools of graphs and MemPool before "
                         "2.5, and sleep modes that need a pool of their own%s",
                         also(&words->cost),
                         change->phased ? " (for blocks that are made while the settings hold)" : "");
    if (settings->max_split != MP_TORCH_UNLIMITED)
        mp_buffer_printf(&words->cost, "%scached blocks of %s and more serve only requests of about their size",
                         also(&words->cost), mp_bytes(settings->max_split));
    uint32_t divisions = most_divisions(settings, &same);
    if (divisions)
        mp_buffer_printf(&words->cost, "%srounds %s up, by one part in %u at most", also(&words->cost),
                         same ? "sizes" : "some sizes", divisions);
    if (change->ooms < change->ooms_before)
        mp_buffer_printf(&words->cost, "%s%s failed would fit", also(&words->cost),
                         change->ooms ? "some requests that" : "every request that");
    if (settings->gc_threshold > 0)
        mp_buffer_printf(&words->cost, "%sgives cached memory back sooner", also(&words->cost));
    if (change->driver_calls > change->driver_calls_before)
        mp_buffer_printf(&words->cost, "%sasks the driver for memory %s times, not %s", also(&words->cost),
                         mp_count(change->driver_calls), mp_count(change->driver_calls_before));
}

static void put_settings(const struct mp_change *change, struct words *words)
{
    const char *quote = strchr(change->setting, '[') ? "'" : "";
    if (*change->setting)
        mp_buffer_printf(&words->text, VARIABLE "=%s%s%s", quote, change->setting, quote);
    else
        mp_buffer_printf(&words->text, "no settings at all: unset " VARIABLE);
    mp_buffer_printf(&words->code, *change->setting ? "export %.*s" : "unset " VARIABLE, (int)words->text.size,
                     (const char *)words->text.data);
    put_settings_cost(change, words);
}

/* Appends the stack's innermost Python line that is not in a library. */
static void put_line(const struct mp_model *model, uint32_t stack, struct mp_buffer *code)
{
    for (; stack; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != MP_PYTHON) continue;
        if (!model->frames.at[frame].line_count) continue;
        const struct mp_model_line *line = &model->lines.at[model->frames.at[frame].first_line];
        if (!*mp_model_text(model, line->file) || !mp_stack_is_user_file(mp_model_text(model, line->file))) continue;
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
    mp_buffer_printf(&words->text, "%s %s %s", setting, phased->early ? "up to the end of" : "only for",
                     names[phased->phase]);
    if (phased->early) mp_buffer_printf(&words->code, "export " VARIABLE "='%s', then ", change->setting);
    mp_buffer_printf(&words->code,
                     "torch.cuda.memory._set_allocator_settings(\"%s\") before the first call of a module%s",
                     phased->then, phased->behind_training ? " after training" : "");
    put_line(model, change->stack, &words->code);
    mp_buffer_append_text(&words->cost, "that function of PyTorch's is not public");
    put_settings_cost(change, words);
}

/* The words for changes to the code. */
static const struct {
    const char *text, *code, *cost;
} said[MP_CHANGE_PATTERNS] = {
    [MP_CHANGE_LATE_ZERO_GRAD] = {"free gradients before forward, not after it",
                                  "optimizer.zero_grad(set_to_none=True) right after optimizer.step()", ""},
    [MP_CHANGE_GRADIENTS_KEPT] = {"free gradients in each step instead of setting them to zero",
                                  "optimizer.zero_grad(set_to_none=True) right after optimizer.step()",
                                  "each backward allocates them anew"},
    [MP_CHANGE_GRADIENTS_IDLE] =
        {"compute no gradients that no optimizer uses (a teacher's, or those of frozen layers)",
         "requires_grad_(False) for them", "saves at least this: forward then keeps less for backward, too"},
    [MP_CHANGE_HELD_VARIABLES] = {"free a step's variables before the next step makes them again",
                                  "del them after their last use", "only if nothing reads them later"},
    [MP_CHANGE_FUSED] = {"use a fused optimizer: its step needs no temporaries", "torch.optim.AdamW(..., fused=True)",
                         ""},
    [MP_CHANGE_ONE_BY_ONE] = {"let the optimizer update one parameter after the other", "foreach=False",
                              "launches more and smaller kernels"},
    [MP_CHANGE_EIGHT_BIT] = {"keep the optimizer's state in 8 bits",
                             "bitsandbytes.optim.AdamW8bit(...), or torchao.optim.AdamW8bit(...)", "changes numerics"},
    [MP_CHANGE_SPARSE] = {"keep gradients of embeddings sparse: only the batch's rows",
                          "nn.Embedding(..., sparse=True), with torch.optim.SparseAdam for its parameter",
                          "changes numerics: Adam then leaves the other rows as they are"},
    [MP_CHANGE_GATHERED] = {"reduce each batch's output before all are joined",
                            "argmax(-1), or a sum, of each output before torch.cat()",
                            "only if the whole outputs are not needed"},
    [MP_CHANGE_NO_GRAD] = {"run forward without a graph if no backward follows", "with torch.no_grad(): around it", ""},
    [MP_CHANGE_BACKWARD_SOONER] = {"run backward for each micro-batch, not once for the sum of their losses",
                                   "loss.backward() as soon as each loss is made; keep loss.detach()",
                                   "only if micro-batches do not use one another's results"},
    [MP_CHANGE_ONE_STREAM] = {"allocate on one stream: each side stream keeps segments that no other stream may use",
                              "make the blocks before torch.cuda.stream(...) and call record_stream() on them, or make "
                              "one side stream once",
                              "work of these streams may wait for each other"},
    [MP_CHANGE_CHUNKED_LOSS] = {"use chunked or fused cross-entropy: 8 chunks of tokens, each with its own logits",
                                "torch.utils.checkpoint.checkpoint() of head and loss for each of hidden.chunk(8)",
                                "computes the head's forward twice"},
    [MP_CHANGE_COLLECT] =
        {"run Python's garbage collector after each step: garbage in cycles holds memory until it runs",
         "gc.collect() after optimizer.step(); or break the cycle, with weakref", "takes time in each step"},
    [MP_CHANGE_AUTOCAST] = {"run forward in bfloat16", "with torch.autocast(\"cuda\", torch.bfloat16): around forward",
                            "changes numerics"},
    [MP_CHANGE_SMALLER_BATCH] = {"halve the evaluation's batch, whose forward is the peak",
                                 "the batch_size of the evaluation's DataLoader",
                                 "twice as many batches; saves less where blocks do not shrink with them"},
};

static void put_idle(const struct mp_model *model, const struct mp_change *change, struct words *words)
{
    mp_buffer_printf(&words->text, "free the blocks of `%s` that nothing reads again", change->variable);
    const char *name = strrchr(change->variable, '.');
    if (change
            ->variable[mp_holder_variable(change->variable)]) /* an attribute or an entry: others may share its owner */
        mp_buffer_append_text(&words->code, "drop it, or move it to the CPU,");
    else
        mp_buffer_printf(&words->code, "del %s", name ? name + 1 : change->variable);
    mp_buffer_append_text(&words->code, change->before_backward ? " before backward()" : " after its last use");
    put_line(model, change->stack, &words->code);
}

/* True if a stack has a line of this library. */
static bool uses(const struct mp_model *model, const char *file)
{
    for (size_t i = 0; i < model->lines.count; i++)
        if (strstr(mp_model_text(model, model->lines.at[i].file), file)) return true;
    return false;
}

/* The same change in the words of the framework that runs the program. */
static void put_framework(const struct mp_model *model, const struct mp_change *change, struct words *words)
{
    static const struct {
        enum mp_change_pattern pattern;
        const char *file, *code;
    } frameworks[] = {
        {MP_CHANGE_CHECKPOINTING, "/transformers/trainer.py", "TrainingArguments(gradient_checkpointing=True)"},
        {MP_CHANGE_CHECKPOINTING, "/transformers/modeling_utils.py", "model.gradient_checkpointing_enable()"},
        {MP_CHANGE_EIGHT_BIT, "/transformers/trainer.py", "TrainingArguments(optim=\"adamw_bnb_8bit\")"},
        {MP_CHANGE_CHUNKED_LOSS, "/transformers/trainer.py", "TrainingArguments(use_liger_kernel=True)"},
        {MP_CHANGE_SMALLER_BATCH, "/transformers/trainer.py", "TrainingArguments(per_device_eval_batch_size=...)"},
        {MP_CHANGE_GATHERED, "/transformers/trainer.py", "Trainer(preprocess_logits_for_metrics=...)"},
        {MP_CHANGE_SMALLER_BATCH, "/lightning/pytorch/", "the batch_size of val_dataloader()"},
        {MP_CHANGE_SMALLER_BATCH, "/pytorch_lightning/", "the batch_size of val_dataloader()"},
    };
    for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
        if (frameworks[i].pattern != change->pattern || !uses(model, frameworks[i].file)) continue;
        mp_buffer_printf(&words->code, "%s, or ", frameworks[i].code);
        return;
    }
}

/* Only no_grad frees what forward keeps; where gradients flow through the network, it would cut them off. */
static void put_idle_gradients(const struct mp_model *model, const struct mp_change *change, struct words *words)
{
    if (!change->module || change->flows) {
        mp_buffer_append_text(&words->text, said[MP_CHANGE_GRADIENTS_IDLE].text);
        mp_buffer_append_text(&words->code, said[MP_CHANGE_GRADIENTS_IDLE].code);
        mp_buffer_append_text(&words->cost, said[MP_CHANGE_GRADIENTS_IDLE].cost);
    } else {
        mp_buffer_printf(&words->text, "run %s without a graph: no optimizer uses its gradients", change->module);
        mp_buffer_printf(&words->code, "with torch.no_grad(): around the call of %s", change->module);
    }
    put_line(model, change->stack, &words->code);
}

/* "`evaluate().logits` keeps the graphs of 3 forwards, and no backward follows" */
static void put_no_grad(const struct mp_model *model, const struct mp_change *change, struct words *words)
{
    if (change->variable)
        mp_buffer_printf(&words->text, "`%s` keeps the graph%s of %s that no backward follows", change->variable,
                         change->passes == 1 ? "" : "s", mp_counted(change->passes, "forward"));
    else
        mp_buffer_append_text(&words->text, said[MP_CHANGE_NO_GRAD].text);
    mp_buffer_append_text(&words->code, said[MP_CHANGE_NO_GRAD].code);
    put_line(model, change->stack, &words->code);
}

static void put_leak(const struct mp_model *model, const struct mp_change *change, struct words *words)
{
    mp_buffer_printf(&words->text, "stop the leak first: %s holds blocks of step after step",
                     change->variable ? change->variable : "something");
    mp_buffer_append_text(&words->code, change->advice ? change->advice : "free each step's blocks with the step");
    put_line(model, change->stack, &words->code);
    mp_buffer_append_text(&words->cost, change->before_backward
                                            ? "only if no backward pass is to follow; none has run so far"
                                            : "saves at least this: other blocks may end with them, too");
}

static void put_held(const struct mp_model *model, const struct mp_change *change, struct words *words)
{
    const char *form = change->pattern == MP_CHANGE_GARBAGE ? "free at once what waits for Python's collector: %s"
                       : change->pattern == MP_CHANGE_CYCLE ? "break %s, which nothing frees"
                                                            : "keep no graphs of earlier backward passes in `%s`";
    struct mp_buffer name = {0};
    mp_text_clean(&name, change->variable);
    mp_buffer_printf(&words->text, form, mp_buffer_text(&name));
    mp_buffer_append_text(&words->code, change->advice ? change->advice : "free it as soon as it is not needed");
    put_line(model, change->stack, &words->code);
    if (change->pattern == MP_CHANGE_GARBAGE)
        mp_buffer_append_text(&words->cost, "gc.collect() takes time that grows with the number of objects");
    mp_buffer_free(&name);
}

static void put_checkpoint(const struct mp_model *model, const struct mp_change *change, struct words *words)
{
    mp_buffer_append_text(&words->text, "checkpoint ");
    if (change->modules < change->modules_of)
        mp_buffer_printf(&words->text, "the first %zu of %zu ", change->modules, change->modules_of);
    mp_buffer_printf(&words->text, "%s: recompute %s activations in backward", change->module,
                     change->modules_of == 1 ? "its" : "their");
    put_framework(model, change, words);
    mp_buffer_printf(&words->code, "torch.utils.checkpoint.checkpoint(%s, ..., use_reentrant=False) for each call",
                     change->module);
    if (change->share < 0)
        mp_buffer_append_text(&words->cost,
                              "computes a part of forward twice; the recording does not show how long that takes");
    else
        mp_buffer_printf(&words->cost, "computes %s%.0f %% of forward twice%s", change->by_bytes ? "about " : "",
                         change->share * 100, change->by_bytes ? ", by the bytes that operators use" : "");
    if (change->share >= 0 && change->flops_share >= 0)
        mp_buffer_printf(&words->cost, " (%.0f %% of its FLOPs)", change->flops_share * 100);
    if (change->before_backward && change->run != MP_RUN_ENDS)
        mp_buffer_append_text(&words->cost, "; memory ran out in forward, so backward and the optimizer need more");
    if (change->offloaded_peak)
        mp_buffer_printf(&words->cost,
                         "; offloaded instead, by torch.autograd.graph.save_on_cpu() around it, the peak is %s",
                         mp_bytes(change->offloaded_peak));
}

static void find_words(const struct mp_model *model, const struct mp_change *change, struct words *words)
{
    *words = (struct words){0};
    switch (change->pattern) {
    case MP_CHANGE_SETTINGS:
        put_settings(change, words);
        break;
    case MP_CHANGE_PHASE_SETTINGS:
        put_phase_settings(model, change, words);
        break;
    case MP_CHANGE_CHECKPOINTING:
        put_checkpoint(model, change, words);
        break;
    case MP_CHANGE_GRADIENTS_IDLE:
        put_idle_gradients(model, change, words);
        break;
    case MP_CHANGE_NO_GRAD:
        put_no_grad(model, change, words);
        break;
    case MP_CHANGE_LEAK:
        put_leak(model, change, words);
        break;
    case MP_CHANGE_GARBAGE:
    case MP_CHANGE_CYCLE:
    case MP_CHANGE_KEPT_GRAPH:
        put_held(model, change, words);
        break;
    case MP_CHANGE_IDLE_VARIABLE:
        put_idle(model, change, words);
        break;
    default:
        mp_buffer_append_text(&words->text, said[change->pattern].text);
        put_framework(model, change, words);
        mp_buffer_append_text(&words->code, said[change->pattern].code);
        put_line(model, change->stack, &words->code);
        mp_buffer_append_text(&words->cost, said[change->pattern].cost);
    }
}

/* The recorded peak, for display. Savings are relative to the replay's peak. */
static uint64_t reserved_peak(const struct mp_advise *advise)
{
    return advise->tuning.recorded_reserved ? advise->tuning.recorded_reserved : advise->reserved;
}

/* True if the most bytes requested at one time are a lower bound. They are none if only block sizes are known, or if
 * less was reserved. */
static bool has_bound(const struct mp_advise *advise)
{
    return advise->has_allocator && advise->tuning.bound <= advise->reserved;
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

struct table {
    const struct mp_model *model;
    const struct mp_advise *advise;
};

static void get_part(struct mp_value *value, const void *of, const void *row, size_t part)
{
    struct words words;
    find_words(((const struct table *)of)->model, row, &words);
    const struct mp_buffer *parts[] = {&words.text, &words.cost, &words.code};
    mp_buffer_append(&value->made, parts[part]->data, parts[part]->size);
    free_words(&words);
}

static void get_text(struct mp_value *value, const void *of, const void *row)
{
    get_part(value, of, row, 0);
}

static void get_cost(struct mp_value *value, const void *of, const void *row)
{
    get_part(value, of, row, 1);
}

static void get_code(struct mp_value *value, const void *of, const void *row)
{
    get_part(value, of, row, 2);
}

static void get_number(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_change *change = row;
    size_t number = (size_t)(change - ((const struct table *)of)->advise->changes.at);
    mp_buffer_printf(&value->made, "%s%zu.", change->exact ? "" : "~ ", number + 1);
}

/* A saving that a run measured, or why there is none. */
static void get_run(struct mp_value *value, const void *row, uint64_t saved)
{
    static const char *const words[] = {
        [MP_RUN_NONE] = "not tried", [MP_RUN_FAILED] = "failed", [MP_RUN_DONE] = NULL, [MP_RUN_ENDS] = "it runs"};
    const struct mp_change *change = row;
    value->number = change->run == MP_RUN_DONE ? saved : MP_BYTES_UNKNOWN;
    value->text = words[change->run];
}

MP_GETTER(get_measured, struct mp_change, change, get_run(value, change, change->measured))
MP_GETTER(get_measured_reserved, struct mp_change, change, get_run(value, change, change->measured_reserved))
MP_GETTER(get_saved, struct mp_change, change,
          value->number = change->run == MP_RUN_DONE ? change->measured : MP_BYTES_UNKNOWN)
MP_GETTER(get_saved_reserved, struct mp_change, change,
          value->number = change->run == MP_RUN_DONE ? change->measured_reserved : MP_BYTES_UNKNOWN)

static void get_estimate(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_change *change = row;
    (void)of;
    value->number = change->kind == MP_CHANGE_TRIAL ? MP_BYTES_UNKNOWN : change->saved;
    if (change->kind != MP_CHANGE_TRIAL && !change->saved && !change->saved_reserved) value->text = "it fits";
}

MP_GETTER(get_known_saved, struct mp_change, change,
          value->number = change->kind == MP_CHANGE_TRIAL ? MP_BYTES_UNKNOWN : change->saved)
MP_GETTER(get_reserved_then, struct mp_change, change,
          value->number = change->kind == MP_CHANGE_TRIAL ? MP_BYTES_UNKNOWN : change->reserved)
MP_GETTER(get_then, struct mp_change, change,
          value->number = change->run >= MP_RUN_DONE        ? change->run_peak
                          : change->kind == MP_CHANGE_TRIAL ? MP_BYTES_UNKNOWN
                                                            : change->peak)
MP_GETTER(get_estimate_reserved, struct mp_change, change,
          value->number = change->kind == MP_CHANGE_TRIAL ? MP_BYTES_UNKNOWN : change->saved_reserved)

static const char *run_name(unsigned run)
{
    static const char *const names[] = {"none", "failed", "done", "ends"};
    return names[run];
}

static bool is_checkpoint(const struct mp_change *change)
{
    return change->pattern == MP_CHANGE_CHECKPOINTING;
}

MP_GETTER(get_share, struct mp_change, change,
          value->real = is_checkpoint(change) && change->share >= 0 ? change->share : NAN)
MP_GETTER(get_flops_share, struct mp_change, change,
          value->real = is_checkpoint(change) && change->flops_share >= 0 ? change->flops_share : NAN)
MP_GETTER(get_reentrant, struct mp_change, change,
          value->number = change->reentrant_peak ? change->reentrant_peak : MP_BYTES_UNKNOWN)
MP_GETTER(get_offloaded, struct mp_change, change,
          value->number = change->offloaded_peak ? change->offloaded_peak : MP_BYTES_UNKNOWN)
MP_GETTER(get_modules, struct mp_change, change,
          value->number = is_checkpoint(change) ? change->modules : MP_BYTES_UNKNOWN)
MP_GETTER(get_modules_of, struct mp_change, change,
          value->number = is_checkpoint(change) ? change->modules_of : MP_BYTES_UNKNOWN)
MP_GETTER(get_blocks, struct mp_change, change,
          value->number = change->kind == MP_CHANGE_ALLOCATOR ? MP_BYTES_UNKNOWN : change->blocks)

static void put_stack(struct mp_json *json, const char *key, const void *of, const void *row)
{
    uint32_t stack = ((const struct mp_change *)row)->stack;
    if (stack)
        mp_stack_json(json, ((const struct table *)of)->model, stack);
    else
        mp_json_null(json, key);
}

static void get_evidence(struct mp_value *value, const void *of, const void *row)
{
    value->text = ((const struct mp_change *)row)->exact
                      ? "replay of the recording with the change made"
                      : "replay of the recording with the change made, estimated in part";
}

static void get_best(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_change *change = row;
    value->number = mp_change_saving(change);
    mp_buffer_printf(&value->made, "%s%s%s", change->exact ? "" : "~", mp_bytes(value->number),
                     mp_change_is_reserved(change) ? " of reserved memory" : "");
}

enum { RESERVED = 1, STACK = 2, TRIED = 4 }; /* bits of columns */
#define CHANGE(member) MP_MEMBER(struct mp_change, member)

const struct mp_column mp_change_columns[] = {
    {"number", NULL, MP_NAME, .get = get_number, .style = MP_DIM, .right = true},
    {"allocated", NULL, MP_BYTES, .get = get_estimate, .style = MP_BOLD},
    {"measured", NULL, MP_BYTES, .get = get_measured, .only = TRIED, .style = MP_BOLD},
    {"reserved", NULL, MP_BYTES, .get = get_estimate_reserved, .only = RESERVED},
    {"measured", NULL, MP_BYTES, .get = get_measured_reserved, .only = TRIED | RESERVED, .style = MP_BOLD},
    {"peak then", NULL, MP_BYTES, .get = get_then},
    {NULL, "kind", MP_WORD, CHANGE(kind), .word = mp_change_kind_name},
    {NULL, "pattern", MP_WORD, CHANGE(pattern), .word = mp_change_pattern_name},
    {"change", "text", MP_NAME, .get = get_text, .wide = true},
    {NULL, "saved_bytes", MP_BYTES, .get = get_known_saved},
    {NULL, "saved_reserved_bytes", MP_BYTES, .get = get_estimate_reserved, .unknown = RESERVED},
    {NULL, "peak_bytes", MP_BYTES, .get = get_then},
    {NULL, "reserved_peak_bytes", MP_BYTES, .get = get_reserved_then, .unknown = RESERVED},
    {NULL, "run", MP_WORD, CHANGE(run), .word = run_name},
    {NULL, "measured_bytes", MP_BYTES, .get = get_saved},
    {NULL, "measured_reserved_bytes", MP_BYTES, .get = get_saved_reserved, .unknown = RESERVED},
    {NULL, "exact", MP_FLAG, CHANGE(exact)},
    {NULL, "out_of_memory", MP_FLAG, CHANGE(ooms)},
    {"cost", "cost", MP_NAME, .get = get_cost, .not_in_text = true},
    {"how", "code", MP_NAME, .get = get_code, .not_in_text = true},
    {NULL, "setting", MP_NAME, CHANGE(setting)},
    {NULL, "module", MP_NAME, CHANGE(module)},
    {NULL, "modules", MP_COUNT, .get = get_modules},
    {NULL, "modules_of", MP_COUNT, .get = get_modules_of},
    {NULL, "forward_share", MP_REAL, .get = get_share},
    {NULL, "forward_flops_share", MP_REAL, .get = get_flops_share},
    {NULL, "reentrant_peak_bytes", MP_BYTES, .get = get_reentrant},
    {NULL, "offloaded_peak_bytes", MP_BYTES, .get = get_offloaded},
    {NULL, "blocks", MP_COUNT, .get = get_blocks},
    {NULL, "stack", .put = put_stack, .only = STACK},
    {NULL},
};

static const struct mp_column best_columns[] = {
    {"change", "text", MP_NAME, .get = get_text, .place = 1},
    {"saves", "saved_bytes", MP_BYTES, .get = get_best},
    {NULL, "evidence", MP_NAME, .get = get_evidence},
    {NULL, "kind", MP_WORD, CHANGE(kind), .word = mp_change_kind_name},
    {"how", "code", MP_NAME, .get = get_code, .place = 3},
    {"it costs", "cost", MP_NAME, .get = get_cost, .place = 2},
    {NULL},
};

/* Writes the rows below a change: its code and its cost. */
static void put_below(struct mp_table *table, unsigned columns, const void *of, const void *row)
{
    const struct mp_change *change = row;
    struct words words;
    find_words(((const struct table *)of)->model, change, &words);
    const struct mp_buffer *more[] = {change->pattern == MP_CHANGE_SETTINGS ? NULL : &words.code, &words.cost};
    for (size_t i = 0; i < 2; i++) {
        if (!more[i] || !more[i]->size) continue;
        mp_table_skip(table, columns);
        mp_table_wide(table, MP_DIM, "%.*s", (int)more[i]->size, (const char *)more[i]->data);
        mp_table_end_row(table);
    }
    free_words(&words);
}

static struct mp_rows rows_of(const struct table *table, const struct mp_column *columns, size_t limit)
{
    const struct mp_advise *advise = table->advise;
    return MP_ROWS(columns, advise->changes.at, mp_shown(advise->changes.count, limit), .of = table,
                   .model = table->model, .unknown = advise->has_allocator ? 0 : RESERVED, .below = put_below,
                   .without = (advise->has_allocator ? 0 : RESERVED) | (advise->tried ? 0 : TRIED), .json_without = 0);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void put_numbers_json(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_advise_fit *fit = row;
    MP_JSON_LIST(json, key, i, fit->changes.count, mp_json_number(json, NULL, fit->changes.at[i] + 1));
}

#define FIT(member) MP_MEMBER(struct mp_advise_fit, member)

static const struct mp_column fit_members[] = {
    {NULL, "capacity_bytes", MP_BYTES, FIT(capacity)},
    {NULL, "fits", MP_FLAG, FIT(fits)},
    {NULL, "fits_now", MP_FLAG, FIT(fits_now)},
    {NULL, "changes", .put = put_numbers_json},
    {NULL, "peak_bytes", MP_BYTES, FIT(peak)},
    {NULL, "reserved_peak_bytes", MP_BYTES, FIT(reserved), .unknown = RESERVED},
    {NULL, "beside_bytes", MP_BYTES, FIT(outside)},
    {NULL},
};

void mp_advise_changes_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise)
{
    const struct table table = {model, advise};
    struct mp_rows rows = rows_of(&table, mp_change_columns, 0);
    rows.never = STACK;
    mp_rows_json(json, "changes", &rows);
}

void mp_advise_best_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise,
                         size_t most)
{
    const struct table table = {model, advise};
    const struct mp_rows rows = rows_of(&table, best_columns, most);
    mp_elements_json(json, &rows);
}

void mp_advise_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_advise *advise,
                    const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    const struct table table = {model, advise};
    const struct mp_rows rows = rows_of(&table, mp_change_columns, view->limit);
    bool reserved = advise->has_allocator;
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.advise/1");
    mp_json_text(json, "track", mp_track_id(model, advise->track, id));
    mp_json_number(json, "peak_bytes", advise->peak);
    mp_json_known(json, "reserved_peak_bytes", reserved ? reserved_peak(advise) : MP_BYTES_UNKNOWN);
    mp_json_known(json, "least_reserved_bytes", has_bound(advise) ? advise->tuning.bound : MP_BYTES_UNKNOWN);
    mp_json_known(json, "replays", reserved ? advise->tuning.replays : MP_BYTES_UNKNOWN);
    mp_json_number(json, "change_count", advise->changes.count);
    mp_json_number(json, "unheld_bytes", advise->unheld);
    mp_json_object(json, "most_held");
    mp_json_text(json, "path", advise->most.path);
    mp_json_known(json, "bytes", advise->most.path ? advise->most.bytes : MP_BYTES_UNKNOWN);
    mp_json_end_object(json);
    mp_rows_json(json, "changes", &rows);
    mp_object_json(json, "fit",
                   &MP_ROWS(fit_members, &advise->fit, advise->fit.capacity > 0, .unknown = reserved ? 0 : RESERVED));
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void put_answer(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise)
{
    char id[MP_TRACK_ID_MAX];
    mp_say(text, "`%s` allocated at the peak of %s", mp_bytes(advise->peak), mp_track_id(model, advise->track, id));
    if (advise->has_allocator) mp_say(text, ", %s reserved", mp_bytes(reserved_peak(advise)));
    if (advise->has_allocator && reserved_peak(advise) != advise->reserved)
        mp_say(text, " (%s replayed)", mp_bytes(advise->reserved));
    mp_say(text, "%s",
           advise->changes.count && advise->tried ? "; what lowers it, estimated by a replay and measured in a run:"
           : advise->changes.count                ? "; what would lower it (proved by a replay unless marked ~):"
           : advise->unheld                       ? ""
           : advise->replayed                     ? "; none of the tried changes would lower it"
                                                  : "; the recording has no allocations that could be replayed");
    if (advise->unheld)
        mp_say(text,
               "; unknown: no look saw what holds `%s` of it; snapshot --holders looks more often, and plan at every "
               "peak",
               mp_bytes(advise->unheld));
    mp_say(text, advise->changes.count ? "\n\n" : "\n");
}

static void put_most(struct mp_text *text, const struct mp_advise *advise)
{
    if (!advise->most.path) return;
    if (advise->changes.count) mp_say(text, "\n");
    mp_say(text, "`%s` of the peak is held by `%s`: is all of it still needed, or is a smaller form enough?\n",
           mp_bytes(advise->most.bytes), advise->most.path);
}

/* "1", "1 and 3", "1, 2 and 3" */
static void put_numbers(struct mp_text *text, const struct mp_advise_fit *fit)
{
    for (size_t i = 0; i < fit->changes.count; i++)
        mp_say(text, "%s%zu", !i ? "" : i + 1 == fit->changes.count ? " and " : ", ", fit->changes.at[i] + 1);
}

static void put_fit(struct mp_text *text, const struct mp_advise *advise)
{
    const struct mp_advise_fit *fit = &advise->fit;
    if (!fit->capacity) return;
    uint64_t need = (advise->has_allocator ? fit->reserved : fit->peak) + fit->outside;
    mp_heading(text, "%s: ", mp_bytes(fit->capacity));
    if (fit->fits_now) {
        mp_say(text, "it fits without a change\n");
        return;
    }
    mp_say(text, "%s",
           fit->fits            ? "with "
           : fit->changes.count ? "it does not fit, not even with "
                                : "it does not fit");
    put_numbers(text, fit);
    bool only_forward = false; /* was recorded */
    for (size_t i = 0; i < fit->changes.count; i++) {
        const struct mp_change *change = &advise->changes.at[fit->changes.at[i]];
        only_forward |= change->pattern == MP_CHANGE_CHECKPOINTING && change->before_backward;
    }
    if (fit->fits && only_forward)
        mp_say(text, " forward fits; backward and the optimizer were not recorded\n");
    else if (fit->fits)
        mp_say(text, " it fits, with %s to spare\n", mp_bytes(need < fit->capacity ? fit->capacity - need : 0));
    else
        mp_say(text, "; memprof size finds the batch that does\n");
}

static void put_evidence(struct mp_text *text, const struct mp_advise *advise)
{
    const struct mp_tuning *tuning = &advise->tuning;
    if (!advise->has_allocator) return;
    mp_say(text, "\nreplayed %s settings", mp_count(tuning->replays));
    if (has_bound(advise))
        mp_say(text, "; no setting reserves less than the %s that were requested at one time", mp_bytes(tuning->bound));
    mp_say(text, "\n");
    if (tuning->base_bytes)
        mp_say(text, "the %s from before the recording were placed anew, close together\n",
               mp_bytes(tuning->base_bytes));
    if (!tuning->known)
        mp_say(text, "not all that was asked for is known, or the record replays otherwise than it was: estimates\n");
}

void mp_advise_best_text(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise,
                         size_t most, unsigned first)
{
    const struct table table = {model, advise};
    const struct mp_rows rows = rows_of(&table, best_columns, most);
    struct mp_value value = {0}, saves = {0};
    if (text->document && rows.count) {
        struct mp_text all = *text; /* --columns does not apply to this table */
        all.columns = NULL;
        mp_rows_text(&all, &rows);
        return;
    }
    for (size_t i = 0; i < rows.count; i++) {
        if (!mp_change_saving(&advise->changes.at[i])) { /* the out-of-memory tells of it */
            first--;
            continue;
        }
        mp_buffer_clear(&value.made);
        mp_buffer_clear(&saves.made);
        get_text(&value, &table, &advise->changes.at[i]);
        get_best(&saves, &table, &advise->changes.at[i]);
        mp_say(text, "  %zu. %.*s      saves %.*s\n", i + first, (int)value.made.size, (const char *)value.made.data,
               (int)saves.made.size, (const char *)saves.made.data);
    }
    mp_buffer_free(&value.made);
    mp_buffer_free(&saves.made);
}

void mp_advise_text(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise,
                    const struct mp_view *view)
{
    const struct table table = {model, advise};
    const struct mp_rows rows = rows_of(&table, mp_change_columns, view->limit);
    put_answer(text, model, advise);
    mp_rows_text(text, &rows);
    mp_say_more(text, advise->changes.count - rows.count, view->limit);
    if (advise->saved_nothing)
        mp_say(text, "\n%s saved nothing when tried, and %s left out\n", mp_counted(advise->saved_nothing, "change"),
               advise->saved_nothing == 1 ? "is" : "are");
    put_most(text, advise);
    put_fit(text, advise);
    put_evidence(text, advise);
    mp_coverage_end(text, model);
}

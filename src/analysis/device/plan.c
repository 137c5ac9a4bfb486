#include "analysis/device/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/setting.h"
#include "base/step_rule.h"
#include "model/stack.h"

#define READ_BACK "plan: read back "
/* The share for plans of older versions, which did not record it. */
#define SELECTED_BEFORE 0.0
#define TORCH           "plan: torch "
#define CUDNN           "plan: cudnn"
#define WORKSPACES      "plan: workspaces" /* src/softgpu/math */
#define RECURRENT       "plan: recurrent"
#define HIDDEN          "plan: hidden"
#define DRIVER          "plan: driver "
#define NOT_IMITATED    "plan: not imitated " /* src/softgpu/stub.h */
#define WAITED          "plan: waited: "      /* src/softgpu/nccl/exchange.c */
#define JAX             "plan: jax "
#define XLA             "plan: xla "
#define BFC             "plan: bfc "

const char *mp_plan_use_name(enum mp_plan_use use)
{
    static const char *const names[] = {"value", "way", "size"};
    return names[use];
}

const char *mp_plan_use_text(enum mp_plan_use use)
{
    static const char *const texts[] = {"a value", "decides a condition", "decides how much there is"};
    return texts[use];
}

const char *mp_plan_origin_name(enum mp_plan_origin origin)
{
    static const char *const names[] = {"made up", "spread", "received"};
    return names[origin];
}

const char *mp_plan_origin_text(enum mp_plan_origin origin)
{
    static const char *const texts[] = {"", " (choices spread evenly)",
                                        " (of another rank; taken to be this rank's own)"};
    return texts[origin];
}

const char *mp_plan_values_text(const struct mp_plan *plan, char *room, size_t bytes)
{
    size_t made_up = 0;
    for (size_t i = 0; i < plan->read_backs.count; i++)
        made_up += plan->read_backs.at[i].origin == MP_PLAN_MADE_UP;
    snprintf(room, bytes, "%s%s", made_up ? plan->values : "",
             made_up == plan->read_backs.count ? ""
             : made_up                         ? " or guessed"
                                               : "guessed");
    return room;
}

/* How PyTorch's functions use a value that they read. The innermost function counts. */
static const struct {
    const char *part;
    enum mp_plan_use use;
} uses[] = {
    {"is_nonzero", MP_PLAN_WAY},     {"nonzero", MP_PLAN_SIZE},           {"unique", MP_PLAN_SIZE},
    {"masked_select", MP_PLAN_SIZE}, {"masked_fill", MP_PLAN_SIZE},       {"index_put_with_mask", MP_PLAN_SIZE},
    {"bincount", MP_PLAN_SIZE},      {"repeat_interleave", MP_PLAN_SIZE}, {"equal", MP_PLAN_WAY},
    {"allclose", MP_PLAN_WAY},       {"THPVariable_bool", MP_PLAN_WAY},
};

/* A parameter may be a std::unique_ptr, as of save_on_cpu()'s hooks. */
static enum mp_plan_use use_by_name(const char *function)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        for (const char *at = function; (at = strstr(at, uses[i].part));) {
            at += strlen(uses[i].part);
            if (strncmp(at, "_ptr", strlen("_ptr"))) return uses[i].use;
        }
    return MP_PLAN_VALUE;
}

static enum mp_plan_use use_of(const struct mp_model *model, uint32_t stack)
{
    enum mp_plan_use found = MP_PLAN_VALUE;
    for (uint32_t at = stack; at; at = model->stacks.at[at].parent) {
        uint32_t frame = model->stacks.at[at].frame;
        if (frame >= model->frames.count) continue;
        const struct mp_model_frame *of = &model->frames.at[frame];
        if (of->raw.language != MP_NATIVE) continue;
        for (uint32_t i = 0; i < of->line_count; i++) {
            enum mp_plan_use use = use_by_name(mp_model_text(model, model->lines.at[of->first_line + i].function));
            if (use > found) found = use;
        }
    }
    return found;
}

/* The site of a read-back: its innermost line of the user's own Python, else its innermost line of Python. Stacks with
 * the same site count together. */
static uint32_t place_of(const struct mp_model *model, uint32_t stack)
{
    uint32_t any = MP_NONE;
    for (uint32_t at = stack; at; at = model->stacks.at[at].parent) {
        uint32_t frame = model->stacks.at[at].frame;
        if (frame >= model->frames.count || model->frames.at[frame].raw.language != MP_PYTHON) continue;
        const struct mp_model_frame *of = &model->frames.at[frame];
        if (any == MP_NONE) any = frame;
        if (of->line_count && mp_stack_is_user_file(mp_model_text(model, model->lines.at[of->first_line].file)))
            return frame;
    }
    return any;
}

/* `text`: bytes, and the origin unless the value was made up. */
static void add_read_back(struct mp_plan *plan, const struct mp_model *model, uint32_t stack, const char *text)
{
    uint64_t bytes = strtoull(text, NULL, 10);
    enum mp_plan_origin origin = MP_PLAN_MADE_UP;
    for (int at = MP_PLAN_SPREAD; at < MP_PLAN_ORIGINS; at++)
        if (strstr(text, mp_plan_origin_name((enum mp_plan_origin)at))) origin = (enum mp_plan_origin)at;
    uint32_t place = place_of(model, stack);
    plan->read_back_count++;
    mp_vec_each (struct mp_plan_read_back, one, &plan->read_backs) {
        if (one->place != place || (place == MP_NONE && one->stack != stack)) continue;
        one->count++;
        one->bytes += bytes;
        enum mp_plan_use use = stack == one->stack ? one->use : use_of(model, stack);
        if (use > one->use) one->use = use;
        if (origin > one->origin) one->origin = origin;
        return;
    }
    struct mp_plan_read_back one = {stack, place, 1, bytes, use_of(model, stack), origin};
    mp_vec_add(&plan->read_backs, one);
}

MP_ORDER(by_weight, struct mp_plan_read_back, MP_FALLING(use) ?: MP_FALLING(count))

bool mp_plan_made(const struct mp_model *model)
{
    char text[8];
    mp_setting(text, sizeof text, model->start.configuration, "plan");
    return *text;
}

static void read_settings(struct mp_plan *plan, const struct mp_model *model)
{
    char text[256];
    uint64_t context = 0;
    mp_setting(text, sizeof text, model->start.configuration, "plan");
    plan->planned =
        sscanf(text, "%63[^|]|%" SCNu64 "|%" SCNu64 "|%15[^|]|%u|%u|%u|%lf", plan->device, &plan->total_bytes, &context,
               plan->values, &plan->devices, &plan->rank, &plan->world, &plan->selected) >= 7;
    struct mp_plan_estimate one = {"CUDA context", "the device's profile: see memprof plan --help", context};
    if (plan->planned && context) mp_vec_add(&plan->estimated, one);
}

/* Bytes that the driver took for loaded code, by its last report. The device with most bytes counts. */
static void read_share(struct mp_plan *plan, const char *text)
{
    static const struct {
        const char *part, *name, *source;
    } known[] = {
        {"kernels", "kernels' code", "the code that was loaded, from the program's files"},
        {"local memory", "local memory of kernels", "the kernel with the largest stack, on all threads"},
        {"graphs", "executables of graphs", "their kernels, graph_node each: the device's profile"},
        {"cuBLAS", "cuBLAS", "the device's profile"},
        {"NCCL", "NCCL", "the device's profile, for each communicator that carried anything"},
    };
    unsigned device;
    int name = 0;
    uint64_t bytes;
    if (sscanf(text, "%u %" SCNu64 " %n", &device, &bytes, &name) != 2 || !name) return;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        struct mp_plan_estimate *found = NULL;
        if (strcmp(text + name, known[k].part)) continue;
        for (size_t i = 0; i < plan->estimated.count && !found; i++)
            if (plan->estimated.at[i].name == known[k].name) found = &plan->estimated.at[i];
        if (found && bytes > found->bytes) found->bytes = bytes;
        struct mp_plan_estimate one = {known[k].name, known[k].source, bytes};
        if (!found) mp_vec_add(&plan->estimated, one);
    }
}

const char *mp_plan_framework(const struct mp_plan *plan, char *room, size_t bytes)
{
    const char *version = *plan->torch ? plan->torch : "unknown";
    *room = '\0';
    if (*plan->xla.version)
        snprintf(room, bytes, "JAX %s, ", plan->xla.version);
    else if (plan->has_torch)
        snprintf(room, bytes, "PyTorch %s, ", version);
    return room;
}

static void read_xla(struct mp_plan_xla *xla, const char *text)
{
    if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %63s", &xla->peak, &xla->arguments, &xla->output,
               &xla->temporaries, xla->program) != 5)
        xla->ran_out = true; /* "out of memory" */
}

void mp_plan_find(const struct mp_model *model, struct mp_plan *plan)
{
    *plan = (struct mp_plan){.selected = SELECTED_BEFORE};
    read_settings(plan, model);
    for (size_t i = 0; i < model->tracks.count; i++)
        plan->has_torch |= model->tracks.at[i].layer == MP_LAYER_TORCH;
    for (size_t i = 0; plan->planned && i < model->noted.count; i++) {
        uint32_t event = model->noted.at[i];
        plan->stepped |= model->events.type[event] == MP_EVENT_STEP;
        if (model->events.type[event] != MP_EVENT_MARK) continue;
        const struct mp_model_note *note = &model->notes.at[model->events.subject[event]];
        const char *name = mp_model_text(model, note->name);
        if (!strncmp(name, READ_BACK, strlen(READ_BACK))) {
            add_read_back(plan, model, note->stack, name + strlen(READ_BACK));
        } else if (!strncmp(name, TORCH, strlen(TORCH))) {
            snprintf(plan->torch, sizeof plan->torch, "%s", name + strlen(TORCH));
            plan->has_torch = true;
        } else if (!strncmp(name, DRIVER, strlen(DRIVER))) {
            read_share(plan, name + strlen(DRIVER));
        } else if (!strncmp(name, NOT_IMITATED, strlen(NOT_IMITATED))) {
            struct mp_plan_missing one = {name + strlen(NOT_IMITATED), note->stack};
            mp_vec_add(&plan->missing, one);
        } else if (!strncmp(name, WAITED, strlen(WAITED))) {
            plan->waited = (struct mp_plan_missing){name + strlen(WAITED), note->stack};
        } else if (!strncmp(name, JAX, strlen(JAX))) {
            snprintf(plan->xla.version, sizeof plan->xla.version, "%s", name + strlen(JAX));
        } else if (!strncmp(name, XLA, strlen(XLA))) {
            read_xla(&plan->xla, name + strlen(XLA));
        } else if (!strncmp(name, BFC, strlen(BFC))) {
            sscanf(name + strlen(BFC), "%" SCNu64 " %" SCNu64, &plan->xla.held, &plan->xla.limit);
        } else if (!strcmp(name, HIDDEN)) {
            plan->hidden = true;
        } else if (!strcmp(name, CUDNN)) {
            struct mp_plan_estimate one = {"cuDNN's workspaces",
                                           "not known: only cuDNN knows which algorithms it would choose; often its "
                                           "workspaces fit into cached blocks",
                                           MP_BYTES_UNKNOWN};
            mp_vec_add(&plan->estimated, one);
        } else if (!strcmp(name, WORKSPACES)) {
            struct mp_plan_estimate one = {"workspaces of cuFFT, cuSOLVER and cuSPARSE",
                                           "each counts as large as its operand, in PyTorch's allocated bytes",
                                           MP_BYTES_UNKNOWN};
            mp_vec_add(&plan->estimated, one);
        } else if (!strcmp(name, RECURRENT)) {
            struct mp_plan_estimate one = {"cuDNN's recurrent layers",
                                           "not known: planned with PyTorch's own kernels, which take another amount",
                                           MP_BYTES_UNKNOWN};
            mp_vec_add(&plan->estimated, one);
        }
    }
    for (size_t i = 0; i < plan->estimated.count; i++)
        if (plan->estimated.at[i].bytes != MP_BYTES_UNKNOWN) plan->estimated_bytes += plan->estimated.at[i].bytes;
    if (plan->read_backs.count > 1)
        qsort(plan->read_backs.at, plan->read_backs.count, sizeof *plan->read_backs.at, by_weight);
}

/* True if `version` begins with a major and minor version of the list, or is empty. */
static bool is_tried(const char *version, const char *list)
{
    unsigned major, minor, tried_major, tried_minor;
    if (!*version) return true;
    if (sscanf(version, "%u.%u", &major, &minor) != 2) return false;
    for (const char *at = list; (at = strpbrk(at, "0123456789")); at += strspn(at, "0123456789."))
        if (sscanf(at, "%u.%u", &tried_major, &tried_minor) == 2 && tried_major == major && tried_minor == minor)
            return true;
    return false;
}

bool mp_plan_untried(const struct mp_plan *plan, struct mp_buffer *out)
{
    const char *cuda = strstr(plan->torch, " cuda ");
    const struct {
        const char *name, *version, *tried;
    } parts[] = {{"PyTorch", plan->torch, MP_PLAN_TORCH},
                 {"CUDA", cuda ? cuda + strlen(" cuda ") : "", MP_PLAN_CUDA},
                 {"JAX", plan->xla.version, MP_PLAN_JAX}};
    size_t before = out->size;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!is_tried(parts[i].version, parts[i].tried))
            mp_buffer_printf(out, "%s%s %.*s (only with %s)", out->size > before ? " and " : "", parts[i].name,
                             (int)strcspn(parts[i].version, " "), parts[i].version, parts[i].tried);
    return out->size > before;
}

bool mp_plan_kernels_known(const struct mp_plan *plan)
{
    if (is_tried(plan->torch, MP_PLAN_TORCH)) return true;
    for (size_t i = 0; i < plan->read_backs.count; i++)
        if (plan->read_backs.at[i].use != MP_PLAN_VALUE) return false;
    return true;
}

void mp_plan_free(struct mp_plan *plan)
{
    mp_vec_free(&plan->read_backs);
    mp_vec_free(&plan->estimated);
    mp_vec_free(&plan->missing);
}

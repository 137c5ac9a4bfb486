#include "output/report/plan.h"

#include "analysis/device/plan.h"
#include "output/report/columns.h"
#include "output/report/view.h"

#define HEAD_PLACES 3

#define READ_BACK(member) MP_MEMBER(struct mp_plan_read_back, member)
#define ESTIMATE(member)  MP_MEMBER(struct mp_plan_estimate, member)

static const struct mp_column read_back_columns[] = {
    {NULL, "count", MP_COUNT, READ_BACK(count)},
    {NULL, "bytes", MP_BYTES, READ_BACK(bytes)},
    {NULL, "use", MP_WORD, READ_BACK(use), .word = mp_plan_use_name},
    {NULL, "origin", MP_WORD, READ_BACK(origin), .word = mp_plan_origin_name},
    {NULL, "stack", MP_SITE, READ_BACK(stack)},
    {NULL},
};

static const struct mp_column estimate_columns[] = {
    {NULL, "name", MP_NAME, ESTIMATE(name)},
    {NULL, "bytes", MP_BYTES, ESTIMATE(bytes)},
    {NULL, "source", MP_NAME, ESTIMATE(source)},
    {NULL},
};

static const struct mp_column missing_columns[] = {
    {NULL, "function", MP_NAME, MP_MEMBER(struct mp_plan_missing, name)},
    {NULL, "stack", MP_SITE, MP_MEMBER(struct mp_plan_missing, stack)},
    {NULL},
};

void mp_plan_json(struct mp_json *json, const struct mp_model *model)
{
    struct mp_plan plan;
    mp_plan_find(model, &plan);
    if (plan.planned) {
        mp_json_object(json, "plan");
        mp_json_text(json, "device", plan.device);
        mp_json_number(json, "total_bytes", plan.total_bytes);
        mp_json_number(json, "devices", plan.devices);
        mp_json_text(json, "torch", *plan.torch ? plan.torch : NULL);
        if (*plan.xla.version) {
            const struct mp_plan_xla *xla = &plan.xla;
            mp_json_object(json, "xla");
            mp_json_text(json, "jax", xla->version);
            mp_json_text(json, "program", xla->program);
            mp_json_number(json, "peak_bytes", xla->peak);
            mp_json_number(json, "argument_bytes", xla->arguments);
            mp_json_number(json, "output_bytes", xla->output);
            mp_json_number(json, "temporary_bytes", xla->temporaries);
            mp_json_number(json, "held_bytes", xla->held);
            mp_json_number(json, "limit_bytes", xla->limit);
            mp_json_end_object(json);
        }
        mp_json_text(json, "values", plan.values);
        mp_json_share(json, "selected", (uint64_t)(1e6 * plan.selected + 0.5), 1000000);
        mp_json_bool(json, "kernels_known", mp_plan_kernels_known(&plan));
        if (plan.world > 1) {
            mp_json_number(json, "rank", plan.rank);
            mp_json_number(json, "world_size", plan.world);
        }
        mp_rows_json(json, "read_backs",
                     &MP_ROWS(read_back_columns, plan.read_backs.at, plan.read_backs.count, .model = model));
        mp_rows_json(json, "estimated", &MP_ROWS(estimate_columns, plan.estimated.at, plan.estimated.count));
        mp_rows_json(json, "not_imitated",
                     &MP_ROWS(missing_columns, plan.missing.at, plan.missing.count, .model = model));
        mp_json_end_object(json);
    }
    mp_plan_free(&plan);
}

bool mp_plan_sentence(struct mp_buffer *out, const struct mp_model *model)
{
    struct mp_plan plan;
    mp_plan_find(model, &plan);
    bool planned = plan.planned;
    char values[64];
    if (planned) {
        mp_buffer_printf(out, "planned on %s without a GPU: nothing was computed", plan.device);
        if (plan.estimated_bytes)
            mp_buffer_printf(out, "; in addition, context and libraries take %s (estimated)",
                             mp_bytes(plan.estimated_bytes));
        if (plan.read_back_count)
            mp_buffer_printf(out, "; values were read from the device at %s, %s in all, and were %s",
                             mp_counted(plan.read_backs.count, "place"), mp_counted(plan.read_back_count, "time"),
                             mp_plan_values_text(&plan, values, sizeof values));
    }
    mp_plan_free(&plan);
    return planned;
}

static void put_line(struct mp_buffer *out, const struct mp_model *model, uint32_t stack)
{
    struct mp_stack_lines lines = {0};
    mp_stack_resolve(model, stack, &lines);
    const struct mp_stack_line *line = mp_stack_headline(&lines);
    if (line)
        mp_headline_text(out, line);
    else
        mp_buffer_append_text(out, "(no stack)");
    mp_stack_lines_free(&lines);
}

static void put_place(struct mp_buffer *out, const struct mp_model *model, const struct mp_plan_read_back *one)
{
    put_line(out, model, one->stack);
    mp_buffer_printf(out, "  %s: %s%s", mp_counted(one->count, "time"), mp_plan_use_text(one->use),
                     mp_plan_origin_text(one->origin));
}

bool mp_plan_head_text(struct mp_text *text, const struct mp_model *model)
{
    struct mp_plan plan;
    mp_plan_find(model, &plan);
    size_t count = plan.read_backs.count;
    char values[64];
    if (plan.planned) {
        mp_say(text, "\nPLANNED  on %s, %s, without a GPU: nothing was computed\n", plan.device,
               mp_bytes(plan.total_bytes));
        if (count)
            mp_say(text, "  depends on values read from the device at %s, which were %s\n", mp_counted(count, "place"),
                   mp_plan_values_text(&plan, values, sizeof values));
        else
            mp_say(text, "  depends on no value read from the device\n");
    }
    for (size_t i = 0; plan.planned && i < count && i < HEAD_PLACES; i++) {
        mp_say(text, "    ");
        put_place(text->out, model, &plan.read_backs.at[i]);
        mp_say(text, "\n");
    }
    if (plan.planned && count > HEAD_PLACES)
        mp_say(text, "    and %zu more: memprof info lists them\n", count - HEAD_PLACES);
    bool planned = plan.planned;
    mp_plan_free(&plan);
    return planned;
}

void mp_plan_text(struct mp_text *text, const struct mp_model *model)
{
    struct mp_plan plan;
    mp_plan_find(model, &plan);
    if (plan.planned) {
        char framework[160];
        mp_say(text, "\nplanned on %s, %s; %svalues read back are %s\n", plan.device, mp_bytes(plan.total_bytes),
               mp_plan_framework(&plan, framework, sizeof framework), plan.values);
        for (size_t i = 0; i < plan.estimated.count; i++)
            mp_say(text, "  estimated %s  %s (%s)\n",
                   plan.estimated.at[i].bytes == MP_BYTES_UNKNOWN ? "?" : mp_bytes(plan.estimated.at[i].bytes),
                   plan.estimated.at[i].name, plan.estimated.at[i].source);
        bool sizes = false;
        for (size_t i = 0; i < plan.read_backs.count; i++) {
            mp_say(text, "  read back ");
            put_place(text->out, model, &plan.read_backs.at[i]);
            mp_say(text, "\n");
            sizes |= plan.read_backs.at[i].use == MP_PLAN_SIZE;
        }
        for (size_t i = 0; i < plan.missing.count; i++) {
            mp_say(text, "  not imitated, memory unknown: %s  ", plan.missing.at[i].name);
            put_line(text->out, model, plan.missing.at[i].stack);
            mp_say(text, "\n");
        }
        if (sizes)
            mp_say(text, "  conditions selected %g %% of the elements, a guess: --selected says how many\n",
                   100 * plan.selected);
        if (!mp_plan_kernels_known(&plan))
            mp_say(text, "  conditions are known for PyTorch " MP_PLAN_TORCH
                         ": with this version some may be false and select nothing\n");
    }
    mp_plan_free(&plan);
}

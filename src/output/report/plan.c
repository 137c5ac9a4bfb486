#include "analysis/device/plan.h"

#include <string.h>

#include "base/units.h"
#include "output/report/reports.h"

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
        mp_json_text(json, "values", plan.values);
        mp_json_share(json, "selected", (uint64_t)(1e6 * plan.selected + 0.5), 1000000);
        mp_json_bool(json, "kernels_known", mp_plan_kernels_known(&plan));
        if (plan.world > 1) {
            mp_json_number(json, "rank", plan.rank);
            mp_json_number(json, "world_size", plan.world);
        }
        mp_json_array(json, "read_backs");
        for (size_t i = 0; i < plan.read_backs.count; i++) {
            const struct mp_plan_read_back *one = &plan.read_backs.at[i];
            mp_json_object(json, NULL);
            mp_json_number(json, "count", one->count);
            mp_json_number(json, "bytes", one->bytes);
            mp_json_text(json, "use", mp_plan_use_name(one->use));
            mp_stack_json(json, model, one->stack);
            mp_json_end_object(json);
        }
        mp_json_end_array(json);
        mp_json_array(json, "estimated");
        for (size_t i = 0; i < plan.estimated.count; i++) {
            const struct mp_plan_estimate *one = &plan.estimated.at[i];
            mp_json_object(json, NULL);
            mp_json_text(json, "name", one->name);
            mp_json_known(json, "bytes", one->bytes);
            mp_json_text(json, "source", one->source);
            mp_json_end_object(json);
        }
        mp_json_end_array(json);
        mp_json_end_object(json);
    }
    mp_plan_free(&plan);
}

bool mp_plan_sentence(struct mp_buffer *out, const struct mp_model *model)
{
    struct mp_plan plan;
    char bytes[MP_UNIT_TEXT], count[MP_UNIT_TEXT];
    mp_plan_find(model, &plan);
    bool planned = plan.planned;
    if (planned) {
        mp_buffer_printf(out, "planned on %s without a GPU: nothing was computed", plan.device);
        if (plan.estimated_bytes)
            mp_buffer_printf(out, "; beside what is recorded, context and libraries take %s (estimated)",
                             mp_format_bytes(bytes, plan.estimated_bytes));
        if (plan.read_back_count)
            mp_buffer_printf(out, "; values were read from the device at %zu %s, %s %s in all, and were %s",
                             plan.read_backs.count, plan.read_backs.count == 1 ? "place" : "places",
                             mp_format_count(count, plan.read_back_count), plan.read_back_count == 1 ? "time" : "times",
                             plan.values);
    }
    mp_plan_free(&plan);
    return planned;
}

static void put_place(struct mp_buffer *out, const struct mp_model *model, const struct mp_plan_read_back *one)
{
    struct mp_stack_lines lines = {0};
    char count[MP_UNIT_TEXT];
    mp_stack_resolve(model, one->stack, &lines);
    const struct mp_stack_line *line = mp_stack_headline(&lines);
    if (line)
        mp_headline_text(out, line);
    else
        mp_buffer_append_text(out, "(no stack)");
    mp_buffer_printf(out, "  %s %s: %s", mp_format_count(count, one->count), one->count == 1 ? "time" : "times",
                     mp_plan_use_text(one->use));
    mp_stack_lines_free(&lines);
}

void mp_plan_text(struct mp_text *text, const struct mp_model *model)
{
    struct mp_plan plan;
    char bytes[MP_UNIT_TEXT];
    mp_plan_find(model, &plan);
    if (plan.planned) {
        mp_buffer_printf(text->out, "\nplanned on %s, %s; PyTorch %s; values read back are %s\n", plan.device,
                         mp_format_bytes(bytes, plan.total_bytes), *plan.torch ? plan.torch : "unknown", plan.values);
        for (size_t i = 0; i < plan.estimated.count; i++)
            mp_buffer_printf(text->out, "  beside it %s  %s (%s)\n",
                             plan.estimated.at[i].bytes == MP_BYTES_UNKNOWN
                                 ? "?"
                                 : mp_format_bytes(bytes, plan.estimated.at[i].bytes),
                             plan.estimated.at[i].name, plan.estimated.at[i].source);
        bool sizes = false;
        for (size_t i = 0; i < plan.read_backs.count; i++) {
            mp_buffer_append_text(text->out, "  read back ");
            put_place(text->out, model, &plan.read_backs.at[i]);
            mp_buffer_append_text(text->out, "\n");
            sizes |= plan.read_backs.at[i].use == MP_PLAN_SIZE;
        }
        if (sizes)
            mp_buffer_printf(text->out,
                             "  conditions selected %g %% of the elements, a guess: --selected says how many\n",
                             100 * plan.selected);
        if (!mp_plan_kernels_known(&plan))
            mp_buffer_append_text(text->out,
                                  "  conditions follow the kernels of PyTorch 2.6: with another version some "
                                  "may come out false and select nothing\n");
    }
    mp_plan_free(&plan);
}

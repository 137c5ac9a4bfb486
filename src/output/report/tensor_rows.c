#include "output/report/tensor_rows.h"

#include "analysis/categories/phases.h"
#include "analysis/sites/site_tensors.h"
#include "base/clock.h"
#include "output/report/columns.h"

#define AT_MOMENT     1                    /* bit of columns */
#define IDLE_SHOWN_NS (100 * MP_NS_PER_MS) /* shorter times say little */

static const char *group_text(const struct mp_sites *sites, uint32_t id)
{
    return id == MP_NONE ? NULL : mp_intern_get(&sites->groups, id, NULL);
}

#define TENSOR(member) MP_MEMBER(struct mp_site_tensor, member)

MP_GETTER(get_dtype, struct mp_site_tensor, it, value->text = group_text(of, it->dtype))
MP_GETTER(get_shape, struct mp_site_tensor, it, value->text = group_text(of, it->shape))

static const struct mp_column tensor_columns[] = {
    {NULL, "dtype", MP_NAME, .get = get_dtype},
    {NULL, "shape", MP_NAME, .get = get_shape},
    {NULL, "operator", MP_STRING_OR_NONE, TENSOR(operator)},
    {NULL, "phase", MP_WORD, TENSOR(phase), .word = mp_phase_name},
    {NULL, "saved_for", MP_STRING_OR_NONE, TENSOR(saved)},
    {NULL, "bytes", MP_BYTES, TENSOR(bytes)},
    {NULL, "blocks", MP_COUNT, TENSOR(blocks)},
    {NULL, "idle_ns", MP_DURATION, TENSOR(idle_ns), .only = AT_MOMENT},
    {NULL, "read_again_ns", MP_DURATION, TENSOR(again_ns), .only = AT_MOMENT},
    {NULL, "until_ns", MP_DURATION, TENSOR(until_ns), .only = AT_MOMENT},
    {NULL, "never_read_again_bytes", MP_BYTES, TENSOR(never_bytes), .only = AT_MOMENT},
    {NULL},
};

/* The largest share first. `never`: bits of columns that do not apply. */
static void put_array(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_sites *sites,
                      const struct mp_site *site, unsigned never)
{
    if (!site->tensor_count) return;
    mp_rows_json(json, key,
                 &MP_ROWS(tensor_columns, sites->tensors.at + site->first_tensor, site->tensor_count, .of = sites,
                          .model = model, .flat = true, .never = never));
}

void mp_site_tensors_json(struct mp_json *json, const char *key, const struct mp_model *model,
                          const struct mp_sites *sites, const struct mp_site *site)
{
    put_array(json, key, model, sites, site, 0);
}

void mp_stack_tensors_json(struct mp_json *json, const char *key, const struct mp_model *model, uint16_t track,
                           uint32_t stack)
{
    struct mp_sites sites;
    mp_stack_tensors_find(model, track, stack, &sites);
    put_array(json, key, model, &sites, sites.at, AT_MOMENT);
    mp_sites_free(&sites);
}

/* When a tensor is used, seen from the moment: "; not read for 1.2 s, never again". */
static void put_idle(struct mp_buffer *out, const struct mp_site_tensor *tensor)
{
    if (tensor->idle_ns >= IDLE_SHOWN_NS) mp_buffer_printf(out, "; not read for %s", mp_time(tensor->idle_ns));
    if (tensor->never_blocks == tensor->blocks)
        mp_buffer_printf(out, "%s never again", tensor->idle_ns >= IDLE_SHOWN_NS ? "," : "; read");
    else if (tensor->idle_ns >= IDLE_SHOWN_NS && tensor->again_ns != MP_BYTES_UNKNOWN)
        mp_buffer_printf(out, ", again after %s", mp_time(tensor->again_ns));
    if (tensor->never_blocks && tensor->never_blocks < tensor->blocks)
        mp_buffer_printf(out, "; %s never read again", mp_bytes(tensor->never_bytes));
}

/* Adds the row "float32 [8, 128..256] of addmm; saved for ReluBackward0; not read for 1.2 s, again after 0.3 s". */
static void put_row(struct mp_table *table, unsigned columns, const struct mp_model *model,
                    const struct mp_sites *sites, const struct mp_site *site, bool at_moment)
{
    if (!site->tensor_count) return;
    const struct mp_site_tensor *most = &sites->tensors.at[site->first_tensor];
    const char *name = mp_model_text(model, most->operator);
    struct mp_buffer out = {0};
    if (most->dtype != MP_NONE)
        mp_buffer_printf(&out, "%s %s", group_text(sites, most->dtype), group_text(sites, most->shape));
    if (*name) mp_buffer_printf(&out, "%s%s", out.size ? " of " : "room of ", name);
    if (most->blocks < site->blocks) mp_buffer_printf(&out, ", %s of its blocks", mp_count(most->blocks));
    if (most->saved) mp_buffer_printf(&out, "; saved for %s", mp_model_text(model, most->saved));
    if (at_moment) put_idle(&out, most);
    mp_table_skip(table, columns);
    mp_table_wide(table, MP_DIM, "%.*s", (int)out.size, (const char *)out.data);
    mp_table_end_row(table);
    mp_buffer_free(&out);
}

void mp_site_tensor_row(struct mp_table *table, unsigned columns, const struct mp_model *model,
                        const struct mp_sites *sites, const struct mp_site *site)
{
    put_row(table, columns, model, sites, site, true);
}

void mp_stack_tensor_row(struct mp_table *table, unsigned columns, const struct mp_model *model, uint16_t track,
                         uint32_t stack)
{
    struct mp_sites sites;
    mp_stack_tensors_find(model, track, stack, &sites);
    put_row(table, columns, model, &sites, sites.at, false);
    mp_sites_free(&sites);
}

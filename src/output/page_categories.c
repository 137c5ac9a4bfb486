#include "output/page_categories.h"

#include <stdlib.h>

/* After how many events a block is looked at. */
static uint32_t moment_of(const struct mp_model *model, uint32_t block)
{
    uint32_t birth = model->blocks.alloc_event[block], death = model->blocks.free_event[block];
    uint32_t peak = model->sums.at[model->blocks.track[block]].peak_event;
    uint32_t moment = peak == MP_NONE ? 0 : peak + 1;
    bool born = birth == MP_NONE || birth < moment, freed = death != MP_NONE && death < moment;
    if (born && !freed) return moment;
    return death == MP_NONE ? (uint32_t)model->events.count : death;
}

enum mp_status mp_page_categories_find(const struct mp_model *model, const struct mp_rules *rules,
                                       struct mp_page_categories *categories, struct mp_error *error)
{
    *categories = (struct mp_page_categories){.of_block = calloc(model->blocks.count + 1, sizeof(uint16_t))};
    if (!categories->of_block) return mp_fail(error, MP_NO_MEMORY, "not enough memory for the page's categories");
    enum mp_status status = mp_categories_make(model, rules, &categories->categories, error);
    if (status) return status;
    bool any = false;
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        categories->of_block[i] = (uint16_t)mp_category_of(categories->categories, i, moment_of(model, i));
        any |= categories->of_block[i];
    }
    if (any) return MP_OK;
    mp_categories_free(categories->categories);
    categories->categories = NULL;
    return MP_OK;
}

void mp_page_categories_json(struct mp_json *json, const struct mp_page_categories *categories)
{
    unsigned count = categories->categories ? mp_categories_count(categories->categories) : 0;
    mp_json_array(json, "categories");
    for (unsigned i = 1; i < count; i++)
        mp_json_text(json, NULL, mp_category_name(categories->categories, i));
    mp_json_end_array(json);
}

void mp_page_categories_free(struct mp_page_categories *categories)
{
    if (categories->categories) mp_categories_free(categories->categories);
    free(categories->of_block);
}

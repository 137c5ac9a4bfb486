#include "output/page/page_advice.h"

#include "base/varint.h"
#include "output/report/advise.h"

void mp_page_advice_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise)
{
    if (!advise) {
        mp_json_null(json, "advice");
        return;
    }
    mp_json_object(json, "advice");
    mp_json_number(json, "track", advise->track);
    mp_json_number(json, "peak_bytes", advise->peak);
    mp_json_known(json, "reserved_peak_bytes", advise->has_allocator ? advise->reserved : MP_BYTES_UNKNOWN);
    mp_json_bool(json, "settings_tried", advise->tuning.replays > 1);
    mp_advise_changes_json(json, model, advise);
    mp_json_end_object(json);
}

/* Counts a track's events before an event of the model. A resize counts as two, as on the page. */
struct counter {
    const struct mp_model *model;
    uint16_t track;
    uint32_t event, count;
};

static uint32_t count_before(struct counter *c, uint32_t event)
{
    const struct mp_model_events *events = &c->model->events;
    for (; c->event < event && c->event < events->count; c->event++) {
        uint8_t type = events->type[c->event];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE && type != MP_EVENT_RESIZE) continue;
        if (c->model->blocks.track[events->subject[c->event]] == c->track) c->count += type == MP_EVENT_RESIZE ? 2 : 1;
    }
    return c->count;
}

static void add_difference(struct mp_buffer *to, uint64_t *last, uint64_t now)
{
    mp_varint_append(to, mp_zigzag((int64_t)(now - *last)));
    *last = now;
}

enum mp_status mp_page_advice_add(const struct mp_model *model, const struct mp_advise *advise,
                                  struct mp_page_columns *columns, struct mp_error *error)
{
    struct mp_buffer points = {0}, event = {0}, allocated = {0}, reserved = {0};
    uint64_t count = 0;
    if (!advise) return MP_OK;
    for (size_t i = 0; i < advise->changes.count; i++) {
        const struct mp_curve *curve = &advise->changes.at[i].curve;
        struct counter counter = {.model = model, .track = advise->track};
        uint64_t last_event = 0, last_allocated = 0, last_reserved = 0;
        mp_varint_append(&points, curve->count);
        count += curve->count;
        for (size_t k = 0; k < curve->count; k++) {
            uint64_t before = count_before(&counter, curve->at[k].event);
            mp_varint_append(&event, before - last_event);
            last_event = before;
            add_difference(&allocated, &last_allocated, curve->at[k].allocated);
            if (advise->has_allocator) add_difference(&reserved, &last_reserved, curve->at[k].reserved);
        }
    }
    const struct mp_page_row rows[] = {{"points", &points, advise->changes.count},
                                       {"event", &event, count},
                                       {"allocated", &allocated, count},
                                       {"reserved", &reserved, advise->has_allocator ? count : 0}};
    enum mp_status status = mp_page_columns_add(columns, "advice", rows, sizeof rows / sizeof *rows, error);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        mp_buffer_free(rows[i].raw);
    return status;
}

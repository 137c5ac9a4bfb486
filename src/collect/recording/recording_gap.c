#include "collect/recording/recording_parts.h"

#include <stdlib.h>

#include "base/order.h"

/* The most steps kept between two windows. The oldest steps are forgotten first. So a window that never opens costs
 * only bounded memory. */
#define UNKEPT_STEPS_MAX (1u << 20)

enum mp_status mp_recording_note_step(struct mp_recording *recording, const struct mp_event *event,
                                      struct mp_error *error)
{
    if (!recording->writer) return MP_OK; /* the file begins with its first window */
    if (recording->unkept_steps.count == UNKEPT_STEPS_MAX) recording->unkept_steps.count = 0;
    return mp_vec_push(&recording->unkept_steps, *event) ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory");
}

struct gap {
    MP_VEC(struct mp_event) events;
};

/* Orders by time. At equal times ends come first, since their addresses may be reused at once. */
MP_ORDER(by_time, struct mp_event,
         MP_RISING(time_ns) ?: MP_COMPARE(b->type == MP_EVENT_FREE, a->type == MP_EVENT_FREE) ?: MP_RISING(block))

static bool add_block(struct gap *gap, const struct mp_base_block *block, unsigned type, uint32_t thread)
{
    struct mp_event event = {.time_ns = block->birth_ns,
                             .address = block->address,
                             .bytes = block->bytes,
                             .block = block->block,
                             .stack = type == MP_EVENT_ALLOC ? block->stack : 0,
                             .name = type == MP_EVENT_ALLOC ? block->module : 0,
                             .thread = thread,
                             .track = block->track,
                             .type = (uint8_t)type,
                             .kind = block->kind};
    return mp_vec_push(&gap->events, event);
}

/* Writes a step that is a named region as a region of no length. */
static bool add_step(struct gap *gap, const struct mp_event *step)
{
    struct mp_event end = *step;
    end.type = MP_EVENT_REGION_END;
    end.name = 0;
    return mp_vec_push(&gap->events, *step) && (step->type != MP_EVENT_REGION_BEGIN || mp_vec_push(&gap->events, end));
}

static bool collect(struct mp_recording *recording, uint64_t first_new, uint32_t thread, struct gap *gap)
{
    const struct mp_ledger *ledger = &recording->state.ledger;
    bool done = true;
    for (size_t i = 0; done && i < ledger->freed_unseen.count; i++)
        done = add_block(gap, &ledger->freed_unseen.at[i], MP_EVENT_FREE, thread);
    for (size_t i = 0; done && recording->writer && i < ledger->blocks.count; i++) {
        const struct mp_base_block *block = &ledger->blocks.at[i];
        if (block->track != MP_LEDGER_SLOT_FREE && block->block >= first_new)
            done = add_block(gap, block, MP_EVENT_ALLOC, thread);
    }
    for (size_t i = 0; done && i < recording->unkept_steps.count; i++)
        done = add_step(gap, &recording->unkept_steps.at[i]);
    return done;
}

enum mp_status mp_recording_write_gap(struct mp_recording *recording, uint32_t thread, struct mp_error *error)
{
    struct gap gap = {0};
    uint64_t first_new = recording->state.ledger.next_block;
    enum mp_status status = mp_ledger_resume(&recording->state.ledger, error);
    recording->window_open = true;
    if (!status && !collect(recording, first_new, thread, &gap))
        status = mp_fail(error, MP_NO_MEMORY, "out of memory for what was not kept");
    if (gap.events.count) qsort(gap.events.at, gap.events.count, sizeof *gap.events.at, by_time);
    for (size_t i = 0; !status && i < gap.events.count; i++) {
        if (!mp_vec_push(&recording->pending, gap.events.at[i]))
            status = mp_fail(error, MP_NO_MEMORY, "out of memory for events");
        recording->events++;
        recording->events_since_base++;
        if (!status && recording->pending.count == MP_CHUNK_EVENTS)
            status = mp_recording_write(recording, false, error);
    }
    recording->state.ledger.freed_unseen.count = recording->unkept_steps.count = 0;
    mp_vec_free(&gap.events);
    return status;
}

enum mp_status mp_recording_write_meanwhile(struct mp_recording *recording, struct mp_error *error)
{
    bool ended = recording->how_text[0] || recording->schedule_state.position.over;
    if (recording->window_open || !recording->writer || ended || !recording->unkept_steps.count) return MP_OK;
    enum mp_status status = mp_recording_write_gap(recording, 0, error);
    recording->window_open = false;
    recording->state.ledger.paused = true;
    return status;
}

#include "analysis/torch_player.h"

#include <inttypes.h>
#include <stdlib.h>

#define OTHER_STREAM (UINT64_MAX - 1)    /* stands for those that use a block; it is never said to be done */
#define TOTAL        ((uint64_t)1 << 40) /* of a device that is not known */

static const char *name_of(unsigned action)
{
    static const char *const names[MP_TORCH_ACTIONS] = {
        "alloc",        "free_requested", "free_completed", "segment_alloc",
        "segment_free", "segment_map",    "segment_unmap",  "oom"};
    return names[action];
}

static const struct mp_torch_step *next_of_script(const struct mp_torch_player *p)
{
    return p->script < p->script_end ? &p->history->steps.at[p->script] : NULL;
}

static bool give_segment(void *context, uint64_t bytes, uint64_t *address)
{
    const struct mp_torch_player *p = context;
    const struct mp_torch_step *next = next_of_script(p);
    if (!next || next->action != MP_TORCH_SEGMENT_ALLOC || next->bytes != bytes) return false;
    *address = next->address;
    return true;
}

static bool give_room(void *context, uint64_t bytes, uint64_t page, uint64_t *address)
{
    const struct mp_torch_player *p = context;
    const struct mp_torch_step *next = next_of_script(p);
    (void)bytes, (void)page;
    if (!next || next->action != MP_TORCH_SEGMENT_MAP) return false;
    *address = next->address;
    return true;
}

static bool give_pages(void *context, uint64_t address, uint64_t bytes)
{
    const struct mp_torch_player *p = context;
    const struct mp_torch_step *next = next_of_script(p);
    return next && next->action == MP_TORCH_SEGMENT_MAP && next->address == address && next->bytes == bytes;
}

static void meet_segment_event(struct mp_torch_player *p, const struct mp_torch_event *event)
{
    const struct mp_torch_step *next = next_of_script(p);
    p->replay->segment_events++;
    if (next && next->action == event->action && next->address == event->address && next->bytes == event->bytes) {
        p->script++;
        return;
    }
    if (next)
        mp_torch_differ(
            p,
            "%s of %" PRIu64 " bytes at 0x%" PRIx64 " in the replay, %s of %" PRIu64 " at 0x%" PRIx64 " in the record",
            name_of(event->action), event->bytes, event->address, name_of(next->action), next->bytes, next->address);
    else
        mp_torch_differ(p, "%s of %" PRIu64 " bytes at 0x%" PRIx64 " in the replay, none in the record",
                        name_of(event->action), event->bytes, event->address);
}

/* The ids of blocks are used again: what is freed has none any more. */
static void on_event(void *context, const struct mp_torch_event *event)
{
    struct mp_torch_player *p = context;
    if (event->action == MP_TORCH_FREE_COMPLETED) {
        if (event->block < p->owners.count && p->owners.at[event->block] != MP_NONE)
            p->ids[p->owners.at[event->block]] = MP_TORCH_NO_BLOCK;
    } else if (p->recorded && event->action >= MP_TORCH_SEGMENT_ALLOC && event->action <= MP_TORCH_SEGMENT_UNMAP) {
        meet_segment_event(p, event);
    }
}

/* What the record did with segments and no request explains: the program emptied the cache. */
static void empty_cache(struct mp_torch_player *p)
{
    if (!mp_vec_push(&p->noted->emptied, p->step)) p->failed = true;
    mp_torch_check(p, mp_torch_empty_cache(p->allocator));
}

static bool gives_back(const struct mp_torch_step *step)
{
    return step && (step->action == MP_TORCH_SEGMENT_FREE || step->action == MP_TORCH_SEGMENT_UNMAP);
}

static void play_alloc(struct mp_torch_player *p, const struct mp_torch_step *step)
{
    uint32_t id;
    if (p->recorded && gives_back(next_of_script(p)) &&
        mp_torch_would_fit(p->allocator, step->bytes, step->stream, step->pool))
        empty_cache(p);
    enum mp_torch_result result = mp_torch_malloc(p->allocator, step->bytes, step->stream, step->pool, &id);
    if (!mp_torch_check(p, result)) return;
    bool found = result == MP_TORCH_DONE, was_oom = step->action == MP_TORCH_OUT_OF_MEMORY;
    if (!found) mp_torch_count_oom(p);
    if (p->recorded) {
        uint64_t address = mp_torch_block_address(p->allocator, id);
        p->replay->allocs += !was_oom;
        if (found && was_oom)
            mp_torch_differ(p, "%" PRIu64 " bytes at 0x%" PRIx64 " in the replay, out of memory in the record",
                            step->bytes, address);
        else if (!found && !was_oom)
            mp_torch_differ(p, "out of memory in the replay, %" PRIu64 " bytes at 0x%" PRIx64 " in the record",
                            step->bytes, step->address);
        else if (found && id != MP_TORCH_NO_BLOCK && address != step->address)
            mp_torch_differ(p, "%" PRIu64 " bytes at 0x%" PRIx64 " in the replay, at 0x%" PRIx64 " in the record",
                            step->bytes, address, step->address);
    }
    if (found && was_oom)
        mp_torch_check(p, mp_torch_free(p->allocator, id));
    else if (found && !mp_torch_own(p, step->block, id))
        p->failed = true;
}

static void play_free(struct mp_torch_player *p, const struct mp_torch_step *step)
{
    uint32_t id = step->block == MP_NONE ? MP_TORCH_NO_BLOCK : p->ids[step->block];
    if (id == MP_TORCH_NO_BLOCK) return;
    if (step->action == MP_TORCH_FREE_REQUESTED)
        mp_torch_check(p, mp_torch_record_stream(p->allocator, id, OTHER_STREAM));
    else
        mp_torch_check(p, mp_torch_complete(p->allocator, id)); /* where it was requested before */
    if (p->ids[step->block] == id) mp_torch_check(p, mp_torch_free(p->allocator, id));
}

/* Steps about segments that the record has and the replay had no reason for. */
static void end_script(struct mp_torch_player *p)
{
    const struct mp_torch_step *next = next_of_script(p);
    if (gives_back(next)) empty_cache(p);
    if ((next = next_of_script(p)))
        mp_torch_differ(p, "%s of %" PRIu64 " bytes at 0x%" PRIx64 " in the record, not in the replay",
                        name_of(next->action), next->bytes, next->address);
    p->script = p->script_end;
}

static bool is_about_segments(const struct mp_torch_step *step)
{
    return step->action >= MP_TORCH_SEGMENT_ALLOC && step->action <= MP_TORCH_SEGMENT_UNMAP;
}

static void play(struct mp_torch_player *p, uint32_t until)
{
    const struct mp_torch_history *history = p->history;
    size_t end = until < history->steps.count ? until : history->steps.count, emptied = 0;
    for (p->step = 0; p->step < end && !p->failed; p->step++) {
        const struct mp_torch_step *step = &history->steps.at[p->step];
        if (is_about_segments(step)) {
            p->script_end = p->step + 1;
            continue;
        }
        for (; !p->recorded && emptied < history->emptied.count && history->emptied.at[emptied] <= p->step; emptied++)
            mp_torch_check(p, mp_torch_empty_cache(p->allocator));
        if (step->action == MP_TORCH_ALLOC || step->action == MP_TORCH_OUT_OF_MEMORY) play_alloc(p, step);
        if (p->recorded) end_script(p);
        if (step->action == MP_TORCH_FREE_COMPLETED || step->action == MP_TORCH_FREE_REQUESTED) play_free(p, step);
        p->script = p->script_end = p->step + 1;
    }
    if (p->recorded && !p->failed && p->script < p->script_end) end_script(p);
}

static bool start(struct mp_torch_player *p, const struct mp_torch_settings *settings, uint64_t capacity,
                  uint64_t total)
{
    static const struct mp_torch_hooks none;
    struct mp_torch_hooks hooks = none;
    hooks.context = p;
    hooks.event = on_event;
    if (p->recorded) {
        hooks.allocate = give_segment;
        hooks.reserve = give_room;
        hooks.map = give_pages;
    }
    *p->replay = (struct mp_torch_replay){.first_oom = MP_NONE};
    p->allocator = mp_torch_allocator_new(settings, capacity, total, &hooks);
    p->ids = malloc((p->model->blocks.count + 1) * sizeof *p->ids);
    for (size_t i = 0; p->ids && i < p->model->blocks.count; i++)
        p->ids[i] = MP_TORCH_NO_BLOCK;
    return p->allocator && p->ids;
}

static enum mp_status finish(struct mp_torch_player *p, bool failed, struct mp_error *error)
{
    if (p->allocator) {
        p->replay->reserved_peak = mp_torch_stats(p->allocator)->peak_reserved;
        p->replay->allocated_peak = mp_torch_stats(p->allocator)->peak_allocated;
    }
    mp_torch_allocator_free(p->allocator);
    mp_vec_free(&p->owners);
    free(p->ids);
    return failed ? mp_fail(error, MP_NO_MEMORY, "not enough memory to replay the allocator") : MP_OK;
}

static void list(struct mp_torch_player *p, struct mp_torch_moment *moment)
{
    if (!mp_torch_list(p->allocator, &moment->listing)) p->failed = true;
    for (size_t i = 0; i < moment->listing.blocks.count && !p->failed; i++) {
        const struct mp_torch_block *block = &moment->listing.blocks.at[i];
        bool owned = block->state != MP_TORCH_FREE && block->id < p->owners.count;
        if (!mp_vec_push(&moment->owners, owned ? p->owners.at[block->id] : (uint32_t)MP_NONE)) p->failed = true;
    }
}

enum mp_status mp_torch_replay_recorded(const struct mp_model *model, struct mp_torch_history *history, uint32_t until,
                                        struct mp_torch_moment *moment, struct mp_torch_replay *replay,
                                        struct mp_error *error)
{
    struct mp_torch_player p = {
        .model = model, .history = history, .noted = history, .replay = replay, .recorded = true};
    struct mp_torch_moment own_moment = {0};
    history->emptied.count = 0;
    if (!start(&p, &history->settings, MP_TORCH_UNLIMITED, TOTAL)) return finish(&p, true, error);
    mp_torch_begin_recorded(&p);
    if (!p.failed) play(&p, until);
    if (!p.failed) list(&p, moment ? moment : &own_moment);
    if (!p.failed && until >= history->steps.count)
        mp_torch_compare_end(&p, moment ? &moment->listing : &own_moment.listing);
    mp_torch_moment_free(&own_moment);
    return finish(&p, p.failed, error);
}

enum mp_status mp_torch_replay_with(const struct mp_model *model, const struct mp_torch_history *history,
                                    const struct mp_torch_settings *settings, uint64_t capacity, uint64_t total,
                                    uint32_t until, struct mp_torch_replay *replay, struct mp_error *error)
{
    struct mp_torch_player p = {.model = model, .history = history, .replay = replay};
    if (!start(&p, settings, capacity, total)) return finish(&p, true, error);
    mp_torch_begin_anew(&p);
    if (!p.failed) play(&p, until);
    return finish(&p, p.failed, error);
}

void mp_torch_moment_free(struct mp_torch_moment *moment)
{
    mp_torch_listing_free(&moment->listing);
    mp_vec_free(&moment->owners);
}

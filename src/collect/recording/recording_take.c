#include "collect/recording/recording_parts.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sampling.h"

#define EVENTS_OF_A_RECORD 4 /* at most: a step, a missed free, the reserved total, the event itself */

bool mp_recording_remember_live(struct mp_recording *recording)
{
    recording->pending_live.count = 0;
    for (size_t i = 0; i < recording->state.ledger.tracks.count; i++)
        if (!mp_vec_push(&recording->pending_live, recording->state.ledger.tracks.at[i].bytes)) return false;
    return true;
}

static enum mp_status keep(struct mp_recording *recording, const struct mp_event *event, struct mp_error *error)
{
    if (!recording->window_open) return MP_OK;
    if (!mp_vec_push(&recording->pending, *event)) return mp_fail(error, MP_NO_MEMORY, "out of memory for events");
    recording->events++;
    recording->events_since_base++;
    return MP_OK;
}

static void answer(struct mp_recording *recording, const struct mp_record *record)
{
    struct mp_spool_answer *answer = &recording->spool.header->answer;
    const struct mp_ledger_track *found = NULL;
    for (size_t i = 0; i < recording->state.ledger.tracks.count; i++) {
        const struct mp_ledger_track *track = &recording->state.ledger.tracks.at[i];
        if (record->track == MP_RECORD_ALL_TRACKS ? !found || track->peak_bytes > found->peak_bytes
                                                  : record->track == i)
            found = track;
    }
    atomic_store(&answer->live_bytes, found ? found->bytes : 0);
    atomic_store(&answer->peak_bytes, found ? found->peak_since_reset_bytes : 0);
    atomic_store(&answer->live_blocks, found ? found->blocks : 0);
    atomic_store(&answer->found, found != NULL);
    atomic_store(&answer->answered, (uint32_t)record->bytes);
    syscall(SYS_futex, &answer->answered, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void reset_peaks(struct mp_recording *recording, uint16_t track)
{
    for (size_t i = 0; i < recording->state.ledger.tracks.count; i++)
        if (track == MP_RECORD_ALL_TRACKS || track == i)
            recording->state.ledger.tracks.at[i].peak_since_reset_bytes = recording->state.ledger.tracks.at[i].bytes;
}

static enum mp_status take_reserved(struct mp_recording *recording, const struct mp_event *cause, uint64_t reserved,
                                    struct mp_error *error)
{
    struct mp_ledger_track *track = mp_ledger_track(&recording->state.ledger, cause->track);
    if (!track || reserved == MP_RECORD_TOTAL_UNKNOWN || track->reserved_bytes == reserved) return MP_OK;
    struct mp_event event = {.time_ns = cause->time_ns,
                             .bytes = reserved,
                             .thread = cause->thread,
                             .track = cause->track,
                             .type = MP_EVENT_RESERVED};
    enum mp_status status = mp_state_take(&recording->state, &event, NULL, NULL, error);
    return status ? status : keep(recording, &event, error);
}

/* The sampling mean in bytes of a track whose blocks are a sample; 0: the track has all blocks. */
static uint32_t sample_of(const struct mp_recording *recording, uint16_t track)
{
    struct mp_spool_header *spool = recording->spool.header;
    const struct mp_wire_track *tracks = mp_spool_entries(spool, MP_TABLE_TRACKS);
    /* A damaged spool may contain any number. */
    bool there = track < mp_spool_table_count(spool, MP_TABLE_TRACKS);
    if (!there || tracks[track].layer == MP_LAYER_DRIVER) return 0;
    return tracks[track].layer == MP_LAYER_MALLOC ? recording->config.host_bytes : recording->config.sample_bytes;
}

static enum mp_status take_block(struct mp_recording *recording, const struct mp_record *record, struct mp_event *event,
                                 struct mp_error *error)
{
    struct mp_ledger *ledger = &recording->state.ledger;
    bool known = true, is_alloc = record->type == MP_EVENT_ALLOC;
    uint32_t sampled = sample_of(recording, event->track);
    if (is_alloc && sampled && event->bytes != MP_BYTES_UNKNOWN)
        event->bytes = mp_sampling_estimate(event->bytes, sampled);
    if (!is_alloc && record->flags & MP_RECORD_IF_KNOWN && !mp_ledger_at(ledger, event->track, event->address))
        return MP_OK;
    struct mp_event missed = {.type = MP_EVENT_NONE};
    enum mp_status status = mp_state_take(&recording->state, event, &missed, &known, error);
    if (!status && (is_alloc ? missed.type != MP_EVENT_NONE : known)) mp_lives_end(&recording->lives, ledger);
    if (!status && missed.type) {
        uint64_t own = recording->events;
        status = keep(recording, &missed, error);
        recording->events = own;
    }
    if (!status) status = take_reserved(recording, event, record->total_reserved, error);
    if (!status) status = keep(recording, event, error);
    if (!status && is_alloc) status = mp_recording_take_birth(recording, record, event, error);
    if (!status) status = mp_recording_follow_history(recording, event, error);
    if (!status && !sampled) {
        bool known_bytes = event->bytes != MP_BYTES_UNKNOWN && record->total_allocated != MP_RECORD_TOTAL_UNKNOWN;
        mp_ledger_check_total(ledger, event->track, is_alloc ? (int64_t)event->bytes : -(int64_t)event->bytes,
                              known_bytes ? record->total_allocated : MP_BYTES_UNKNOWN);
    }
    return status;
}

/* Writes the allocators' reserved totals, which may have changed while the window was closed. */
static enum mp_status write_reserved(struct mp_recording *recording, const struct mp_event *at, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    for (size_t i = 0; i < recording->state.ledger.tracks.count && !status; i++) {
        struct mp_event event = {.time_ns = at->time_ns,
                                 .bytes = recording->state.ledger.tracks.at[i].reserved_bytes,
                                 .thread = at->thread,
                                 .track = (uint16_t)i,
                                 .type = MP_EVENT_RESERVED};
        if (event.bytes != MP_BYTES_UNKNOWN) status = keep(recording, &event, error);
    }
    return status;
}

/* Counts the current record as not taken. Otherwise chunks written from here on would count it as taken, and a kill
 * would lose it. */
static struct mp_schedule_position step_back(struct mp_recording *recording, uint32_t ring)
{
    struct mp_schedule_position after = recording->schedule_state.position;
    recording->schedule_state.position = recording->position_before;
    --recording->drain.next[ring];
    return after;
}

static void step_on(struct mp_recording *recording, uint32_t ring, struct mp_schedule_position after)
{
    ++recording->drain.next[ring];
    recording->schedule_state.position = after;
}

/* Opens the window: writes the frees of blocks that ended while it was closed, then a base of live blocks, then the
 * start event. */
static enum mp_status open_window(struct mp_recording *recording, uint32_t ring, const struct mp_event *event,
                                  struct mp_error *error)
{
    struct mp_schedule_position after = step_back(recording, ring);
    if (!recording->writer) recording->steps_unseen = recording->position_before.steps;
    enum mp_status status = mp_recording_write_gap(recording, event->thread, error);
    if (!status) status = mp_recording_write(recording, true, error);
    step_on(recording, ring, after);
    if (!status && !mp_recording_remember_live(recording))
        status = mp_fail(error, MP_NO_MEMORY, "out of memory for events");
    if (!status) status = keep(recording, event, error);
    return status ? status : write_reserved(recording, event, error);
}

/* Opens or closes the window at `event`. `whole`: the current record still belongs to the window that closes. */
static enum mp_status take_window(struct mp_recording *recording, uint32_t ring, const struct mp_event *event,
                                  bool whole, struct mp_error *error)
{
    bool opens = event->type == MP_EVENT_START;
    if (opens == recording->window_open) return MP_OK;
    recording->state.window = *event;
    if (opens) return open_window(recording, ring, event, error);
    enum mp_status status = keep(recording, event, error);
    struct mp_schedule_position after = recording->schedule_state.position;
    if (!whole) after = step_back(recording, ring);
    if (!status) status = mp_recording_write(recording, false, error);
    if (!whole) step_on(recording, ring, after);
    if (!status && !mp_recording_remember_live(recording))
        status = mp_fail(error, MP_NO_MEMORY, "out of memory for events");
    recording->window_open = false;
    recording->state.ledger.paused = true;
    return status;
}

static enum mp_status take_step(struct mp_recording *recording, const struct mp_event *event, bool *begins,
                                struct mp_error *error)
{
    enum mp_status status = mp_state_boundary(&recording->state, event, begins, error);
    if (status || !*begins) return status;
    bool by_optimizer = recording->state.steps.kind == MP_STEP_OF_OPTIMIZER;
    enum mp_lives_source source = by_optimizer ? MP_LIVES_OPTIMIZER : MP_LIVES_MARKED;
    mp_lives_step(&recording->lives, &recording->state.ledger, source, event->time_ns);
    return MP_OK;
}

uint64_t mp_recording_public_step(const struct mp_recording *recording, uint64_t step)
{
    bool unended = recording->state.steps.kind == MP_STEP_OF_OPTIMIZER && step == recording->state.ledger.steps;
    return unended ? step - 1 : step;
}

static enum mp_status request_snapshot(struct mp_recording *recording, struct mp_snapshot_request request,
                                       struct mp_error *error)
{
    return mp_vec_push(&recording->requests, request) ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory");
}

/* Stores a text for the file's end. A later text of the same kind replaces it. */
static enum mp_status take_aside(struct mp_recording *recording, const struct mp_event *event, struct mp_error *error)
{
    const struct mp_aside aside = {event->name, event->kind};
    if (!aside.text) return MP_OK; /* the recorder had no room for the text: keep the earlier one */
    for (size_t i = 0; i < recording->asides.count; i++)
        if (recording->asides.at[i].kind == aside.kind) {
            recording->asides.at[i] = aside;
            return MP_OK;
        }
    bool kept = aside.kind < MP_ASIDE_KINDS && mp_vec_push(&recording->asides, aside);
    return kept || aside.kind >= MP_ASIDE_KINDS ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory for settings");
}

/* The rank in the process group is known for the file's name only if no event came before: else the name would depend
 * on when the collector looks. */
static void take_rank(struct mp_recording *recording, const struct mp_event *event)
{
    struct mp_member *now = &recording->spool.header->member, member = mp_member_copy(now);
    const char *mark = mp_intern_get(&recording->tables.strings, event->name, NULL);
    if (recording->group.known || !mp_member_take_mark(&member, mark)) return;
    recording->group = member;
    if (!recording->pending.count && !recording->writer) *now = member;
}

static enum mp_status take_event(struct mp_recording *recording, uint32_t ring, const struct mp_record *record,
                                 struct mp_event *event, struct mp_error *error)
{
    enum mp_status status;
    switch (record->type) {
    case MP_EVENT_ALLOC:
    case MP_EVENT_FREE:
        return take_block(recording, record, event, error);
    case MP_EVENT_OOM:
        status = take_reserved(recording, event, record->total_reserved, error);
        return status ? status : keep(recording, event, error);
    case MP_EVENT_RESERVED:
        return take_reserved(recording, event, record->bytes, error);
    case MP_EVENT_STEP:
    case MP_EVENT_REGION_BEGIN:
    case MP_EVENT_REGION_END:
        return keep(recording, event, error);
    case MP_EVENT_MARK:
        take_rank(recording, event);
        return keep(recording, event, error);
    case MP_EVENT_START:
    case MP_EVENT_STOP:
        return take_window(recording, ring, event, true, error);
    case MP_RECORD_STATS:
        answer(recording, record);
        return MP_OK;
    case MP_RECORD_SNAPSHOT:
        return request_snapshot(recording,
                                (struct mp_snapshot_request){.number = (uint32_t)record->bytes,
                                                             .path = event->name,
                                                             .file = (int)record->address,
                                                             .reason = (int)record->moment_ns},
                                error);
    case MP_RECORD_LABEL:
        return mp_recording_take_label(recording, event, error);
    case MP_RECORD_HOLDER:
        return mp_recording_take_holder(recording, record, event, error);
    case MP_RECORD_OPERATOR:
        return mp_recording_take_operator(recording, ring, record, event, error);
    case MP_RECORD_TENSORS:
        return mp_recording_take_tensors(recording, ring, record, error);
    case MP_RECORD_TORCH:
        return mp_recording_take_history(recording, record, error);
    case MP_RECORD_ASIDE:
        return take_aside(recording, event, error);
    case MP_RECORD_RESET_PEAK:
        reset_peaks(recording, record->track);
        return MP_OK;
    default:
        return MP_OK; /* the record comes from a newer recorder */
    }
}

static enum mp_status ask_schedule(struct mp_recording *recording, uint32_t ring, const struct mp_record *record,
                                   const struct mp_event *event, enum mp_schedule_wish *wish, bool *is_step,
                                   struct mp_error *error)
{
    enum mp_status status = MP_OK;
    *wish = MP_SCHEDULE_NONE;
    *is_step = false;
    if (mp_state_is_boundary(event->type)) status = take_step(recording, event, is_step, error);
    recording->position_before = recording->schedule_state.position;
    recording->schedule_state.position.steps = recording->state.ledger.steps;
    if (status || !recording->schedule || event->type >= MP_EVENT_TYPES) return status;
    const char *name = mp_intern_get(&recording->tables.strings, event->name, NULL);
    /* A range on a lane may end on any thread, so it belongs to no ring. */
    if (record->flags & MP_RECORD_LANE) ring = MP_SPOOL_RINGS_MAX;
    *wish = mp_schedule_next(recording->schedule, &recording->schedule_state, ring, event, name, *is_step);
    return MP_OK;
}

static enum mp_status follow_schedule(struct mp_recording *recording, uint32_t ring, enum mp_schedule_wish wish,
                                      const struct mp_event *at, struct mp_error *error)
{
    struct mp_event window = {.time_ns = at->time_ns,
                              .thread = at->thread,
                              .type = wish == MP_SCHEDULE_OPEN ? MP_EVENT_START : MP_EVENT_STOP};
    return take_window(recording, ring, &window, wish == MP_SCHEDULE_CLOSE_AFTER, error);
}

static enum mp_status pass(struct mp_recording *recording, uint32_t ring, const struct mp_record *record,
                           struct mp_event *event, struct mp_error *error)
{
    bool is_step;
    enum mp_schedule_wish wish;
    enum mp_status status = ask_schedule(recording, ring, record, event, &wish, &is_step, error);
    if (!status && (wish == MP_SCHEDULE_OPEN || wish == MP_SCHEDULE_CLOSE))
        status = follow_schedule(recording, ring, wish, event, error);
    if (!status && is_step && !recording->window_open) status = mp_recording_note_step(recording, event, error);
    if (!status) status = take_event(recording, ring, record, event, error);
    if (!status) status = mp_recording_follow_oom(recording, event, error);
    if (!status && wish == MP_SCHEDULE_CLOSE_AFTER) status = follow_schedule(recording, ring, wish, event, error);
    return status;
}

static enum mp_status take_record(struct mp_recording *recording, uint32_t ring, const struct mp_record *record,
                                  struct mp_error *error)
{
    struct mp_spool_header *spool = recording->spool.header;
    /* The live bytes before the file's next event are remembered only while the window is open. */
    if (!recording->pending.count && recording->window_open && !mp_recording_remember_live(recording))
        return mp_fail(error, MP_NO_MEMORY, "out of memory for events");
#define TAKE(field, type) .field = record->field,
#define LEAVE(field, type)
    struct mp_event event = {.time_ns = mp_recording_time(recording, record->time_ns),
                             .stack = record->stack,
                             .type = record->type,
                             MP_FACT_FIELDS(TAKE, LEAVE)};
#undef TAKE
#undef LEAVE
    if (event.track == MP_RECORD_ALL_TRACKS) event.track = 0;
    if (event.time_ns < recording->state.time_ns) event.time_ns = recording->state.time_ns;
    recording->state.time_ns = event.time_ns;
    enum mp_status status = record->flags & MP_RECORD_LANE
                                ? mp_tables_lane(&recording->tables, record->bytes, &event.thread, error)
                                : mp_tables_thread(&recording->tables, spool, ring, &event.thread, error);
    if (!status && record->name) {
        event.name = mp_tables_spool_string(&recording->tables, record->name);
        if (!event.name) {
            status = mp_recording_read_tables(recording, error);
            event.name = mp_tables_spool_string(&recording->tables, record->name);
        }
    }
    return status ? status : pass(recording, ring, record, &event, error);
}

/* False for a record with a missing track or stack, or an unknown type. A write out of bounds in the program, or a bad
 * disk, may have damaged the spool. The caller drops and counts such a record. */
static bool is_sound(const struct mp_spool_header *spool, const struct mp_record *record)
{
    const struct mp_spool_table *nodes = &spool->tables[MP_TABLE_NODES], *tracks = &spool->tables[MP_TABLE_TRACKS];
    bool is_event = record->type < MP_EVENT_TYPES;
    bool of_track = record->type == MP_EVENT_ALLOC || record->type == MP_EVENT_FREE ||
                    record->type == MP_EVENT_RESERVED || record->type == MP_EVENT_OOM;
    if (record->flags & MP_RECORD_LANE && record->bytes > MP_LANES_MAX) return false;
    if (is_event && record->stack >= atomic_load_explicit(&nodes->count, memory_order_acquire)) return false;
    return !of_track || record->track < atomic_load_explicit(&tracks->count, memory_order_acquire);
}

bool mp_recording_take(void *context, uint32_t ring, const struct mp_record *record)
{
    struct mp_recording *recording = context;
    struct mp_spool_header *spool = recording->spool.header;
    struct mp_error error;
    if (!is_sound(spool, record)) {
        atomic_fetch_add(&spool->unsound, 1);
        return true;
    }
    enum mp_status status = take_record(recording, ring, record, &error);
    if (!status && (recording->pending.count + EVENTS_OF_A_RECORD > MP_CHUNK_EVENTS ||
                    recording->operators.uses.count >= MP_CHUNK_EVENTS))
        status = mp_recording_write(recording, false, &error);
    return mp_recording_check(recording, status, &error);
}

#include "collect/recording/recording_take.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sampling.h"
#include "collect/recording/recorded.h"
#include "collect/recording/recording_history.h"
#include "collect/recording/recording_write.h"
#include "collect/recording/usual_roles.h"

static enum mp_status recording_take_birth(struct mp_recording *recording, const struct mp_record *record,
                                           const struct mp_event *event, struct mp_error *error);
static bool recording_logs_operators(const struct mp_recording *recording);

/* An address may lie in blocks of several tracks: in an allocator's block, and in a driver's block around it. The
 * program means the block with the highest rank. */
static unsigned rank_of(struct mp_recording *recording, uint16_t track)
{
    static const unsigned ranks[MP_LAYERS] = {[MP_LAYER_DRIVER] = 1, [MP_LAYER_APP] = 2, [MP_LAYER_TORCH] = 3};
    const struct mp_wire_track *tracks = mp_spool_entries(recording->spool.header, MP_TABLE_TRACKS);
    return tracks[track].layer < MP_LAYERS ? ranks[tracks[track].layer] : 0;
}

/* True if the address is beyond the block's real size. In a sample, `bytes` of a block is scaled up to the bytes that
 * it represents. */
static bool is_beyond(struct mp_recording *recording, const struct mp_base_block *block, uint64_t address)
{
    const struct mp_wire_track *tracks = mp_spool_entries(recording->spool.header, MP_TABLE_TRACKS);
    return tracks[block->track].layer != MP_LAYER_DRIVER &&
           (double)(address - block->address) >= mp_sampling_size(block->bytes, recording->config.sample_bytes);
}

/* True if a tensor that a look found cannot lie in the track's blocks themselves: PyTorch's allocator has blocks on the
 * device. A tensor that was freed since the look lies in none of these, and the driver's segment around it is not
 * meant. */
static bool is_divided(struct mp_recording *recording, uint16_t track)
{
    const struct mp_wire_track *tracks = mp_spool_entries(recording->spool.header, MP_TABLE_TRACKS);
    if (tracks[track].layer != MP_LAYER_DRIVER || tracks[track].device_type == MP_DEVICE_CPU) return false;
    for (uint16_t other = 0; other < recording->state.ledger.tracks.count; other++)
        if (tracks[other].layer == MP_LAYER_TORCH && tracks[other].device_type == tracks[track].device_type &&
            tracks[other].device_index == tracks[track].device_index)
            return true;
    return false;
}

/* The block that begins at the address, as most tensors' blocks do; else the block that contains it. `looked`: a look
 * found the address some time ago. */
static struct mp_base_block *block_at(struct mp_recording *recording, uint64_t address, bool looked)
{
    const struct mp_ledger *ledger = &recording->state.ledger;
    struct mp_base_block *best = NULL;
    unsigned best_rank = 0;
    for (uint16_t track = 0; track < ledger->tracks.count; track++) {
        struct mp_base_block *block = mp_ledger_at(ledger, track, address);
        unsigned rank = block && !(looked && is_divided(recording, track)) ? rank_of(recording, track) : 0;
        if (rank > best_rank) best = block, best_rank = rank;
    }
    if (best) return best;
    mp_vec_each (struct mp_base_block, block, &ledger->blocks) {
        if (block->track == MP_LEDGER_SLOT_FREE || address - block->address >= block->bytes ||
            block->bytes == MP_BYTES_UNKNOWN ||
            (recording->config.sample_bytes && is_beyond(recording, block, address)))
            continue;
        unsigned rank = rank_of(recording, block->track);
        if (rank > best_rank && !(looked && is_divided(recording, block->track))) best = block, best_rank = rank;
    }
    return best;
}

/* Finds the file's string id of a spool's text; 0 if unknown. */
static enum mp_status file_of(struct mp_recording *recording, uint32_t id, uint32_t *file, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    *file = id ? mp_tables_spool_string(&recording->tables, id) : 0;
    if (id && !*file) {
        status = mp_recording_read_tables(recording, error);
        *file = mp_tables_spool_string(&recording->tables, id);
    }
    return status;
}

/* Takes a holder of a live block, or the end of a look for holders. */
static enum mp_status recording_take_holder(struct mp_recording *recording, const struct mp_record *record,
                                            const struct mp_event *event, struct mp_error *error)
{
    if (!recording->window.is_open) return MP_OK;
    struct mp_base_block *block = event->address ? block_at(recording, event->address, true) : NULL;
    if ((event->address && !block) || event->kind >= MP_HOLDER_KINDS) return MP_OK;
    if (!event->address && event->kind) { /* a number of the shim's census */
        struct mp_sample sample = {.time_ns = event->time_ns, .counter = event->name, .value = record->bytes};
        return mp_vec_push(&recording->samples, sample) ? MP_OK
                                                        : mp_fail(error, MP_NO_MEMORY, "out of memory for samples");
    }
    struct mp_block_holder holder = {.time_ns = event->time_ns,
                                     .block = block ? block->block : MP_HOLDER_LOOK,
                                     .kind = event->kind,
                                     .certain = record->moment_ns == 1,
                                     .path = event->name,
                                     .line = (uint32_t)record->bytes};
    enum mp_status status = file_of(recording, record->stack, &holder.file, error);
    if (!status && !mp_vec_push(&recording->holders, holder))
        status = mp_fail(error, MP_NO_MEMORY, "out of memory for holders");
    return status;
}

/* Takes the program's label of the live block that contains event->address: a role (event->kind), and event->name. */
static enum mp_status recording_take_label(struct mp_recording *recording, const struct mp_event *event,
                                           struct mp_error *error)
{
    struct mp_base_block *block = block_at(recording, event->address, false);
    if (!block || (block->role == event->kind && block->label == event->name)) return MP_OK;
    if (!block->role && !mp_usual_roles_add(&recording->usual_roles, block, event->kind))
        return mp_fail(error, MP_NO_MEMORY, "out of memory for labels");
    block->role = event->kind;
    block->label = event->name;
    if (!recording->window.is_open)
        return MP_OK; /* the base that will be written when the window opens has the label */
    struct mp_label label = {
        .time_ns = event->time_ns, .block = block->block, .role = event->kind, .name = event->name};
    return mp_vec_push(&recording->labels, label) ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory for labels");
}

/* The log of operators: joins the recorder's tensors with live blocks. A composite operator ends after the operators
 * that it calls. Its tensors that these have used add nothing, so most of its rows are left out. */

/* The live block of one of PyTorch's allocators that begins at the address. */
static const struct mp_base_block *block_holding(struct mp_recording *recording, uint64_t address)
{
    const struct mp_ledger *ledger = &recording->state.ledger;
    const struct mp_wire_track *tracks = mp_spool_entries(recording->spool.header, MP_TABLE_TRACKS);
    const struct mp_base_block *block = NULL;
    for (uint16_t track = 0; track < ledger->tracks.count && !block; track++)
        if (tracks[track].layer == MP_LAYER_TORCH) block = mp_ledger_at(ledger, track, address);
    return block;
}

static enum mp_status string_of(struct mp_recording *recording, uint32_t id, uint32_t *string, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    *string = id ? mp_tables_spool_string(&recording->tables, id) : 0;
    if (!id || *string) return MP_OK;
    status = mp_recording_read_tables(recording, error);
    *string = mp_tables_spool_string(&recording->tables, id);
    return status;
}

static enum mp_status add_use(struct mp_recording *recording, const struct mp_block_use *use, struct mp_error *error)
{
    struct mp_operator_log *log = &recording->operators;
    uint64_t *last = mp_map_insert(&log->last, use->block + 1, NULL);
    if (!last || !mp_vec_push(&log->uses, *use)) return mp_fail(error, MP_NO_MEMORY, "out of memory for operators");
    *last = log->uses.count;
    return MP_OK;
}

/* True if an earlier row says the same: a row of the same operator, of an operator within it, or of the allocation. */
static bool is_known(struct mp_operator_log *log, const struct mp_block_use *use, uint64_t begun_ns)
{
    const uint64_t *last = mp_map_find(&log->last, use->block + 1);
    struct mp_block_use *row = last ? &log->uses.at[*last - 1] : NULL;
    if (!row || row->time_ns < begun_ns) return false;
    if (!row->shape && row->how == MP_USE_MADE && use->how & MP_USE_OUTPUT) {
        row->shape = use->shape;
        row->how |= use->how;
        return true;
    }
    if (use->how & MP_USE_OUTPUT && row->shape != use->shape) return false;
    if (*last > log->first) row->how |= use->how;
    return !(use->how & ~row->how);
}

/* The log of operators. recording_take_birth(): a block was allocated while an operator ran. The next two take an
 * operator of a ring, and then its tensors. recording_logs_operators(): false if the user did not ask for the log, or
 * for these steps. */
static enum mp_status recording_take_birth(struct mp_recording *recording, const struct mp_record *record,
                                           const struct mp_event *event, struct mp_error *error)
{
    struct mp_block_use use = {
        .time_ns = event->time_ns, .block = event->block, .module = event->name, .how = MP_USE_MADE};
    if (!record->moment_ns || !recording_logs_operators(recording)) return MP_OK;
    enum mp_status status = string_of(recording, (uint32_t)record->moment_ns, &use.operator, error);
    if (!status) status = string_of(recording, (uint32_t)(record->moment_ns >> 32), &use.node, error);
    return status ? status : add_use(recording, &use, error);
}

static enum mp_status recording_take_operator(struct mp_recording *recording, uint32_t ring,
                                              const struct mp_record *record, const struct mp_event *event,
                                              struct mp_error *error)
{
    struct mp_operator_now *now = &recording->operators.now[ring];
    *now = (struct mp_operator_now){.use = {.time_ns = event->time_ns, .operator= event->name },
                                            .begun_ns = mp_recording_time(recording, record->moment_ns),
                                            .number = record->kind};
    recording->operators.first = recording->operators.uses.count;
    enum mp_status status = string_of(recording, record->stack, &now->use.node, error);
    return status ? status : string_of(recording, (uint32_t)record->address, &now->use.module, error);
}

static enum mp_status recording_take_tensors(struct mp_recording *recording, uint32_t ring,
                                             const struct mp_record *record, struct mp_error *error)
{
    struct mp_operator_log *log = &recording->operators;
    const struct mp_operator_now *now = &log->now[ring];
    const uint64_t addresses[MP_TENSORS_A_RECORD] = {record->address, record->bytes, record->total_allocated,
                                                     record->total_reserved};
    const uint32_t shapes[MP_TENSORS_A_RECORD] = {record->name, record->stack, (uint32_t)record->moment_ns,
                                                  (uint32_t)(record->moment_ns >> 32)};
    if (now->number != record->kind || !recording_logs_operators(recording)) return MP_OK;
    for (unsigned i = 0; i < MP_TENSORS_A_RECORD && addresses[i]; i++) {
        struct mp_block_use use = now->use;
        const struct mp_base_block *block = block_holding(recording, addresses[i]);
        use.how = record->track >> 4 * i & 15;
        if (!block || !use.how) continue;
        use.block = block->block;
        if (use.how & MP_USE_OUTPUT && block->birth_ns >= now->begun_ns) use.how |= MP_USE_MADE;
        enum mp_status status = string_of(recording, shapes[i], &use.shape, error);
        if (!status && !is_known(log, &use, now->begun_ns)) status = add_use(recording, &use, error);
        if (status) return status;
    }
    return MP_OK;
}

static bool recording_logs_operators(const struct mp_recording *recording)
{
    const struct mp_record_config *config = &recording->config;
    uint64_t step = mp_recording_public_step(recording, recording->state.ledger.steps);
    return recording->window.is_open && config->operators &&
           (!config->operators_to || (step >= config->operators_from && step <= config->operators_to));
}

/*
 * Finds out when memory ran out, and whether that is worth a snapshot. A refusal by the driver does not count if
 * PyTorch survives it: its caching allocator releases free segments and asks again. If PyTorch may have asked, the
 * thread's next event decides, however late it comes. If PyTorch then gets memory on that device, there is no snapshot.
 * If PyTorch reports out-of-memory, there is one. Any other event means that another library had asked, and there is a
 * snapshot, too. Other refusals get a snapshot at once.
 */

#define OOMS_LOOKED_AT 3
#define OOM_APART_NS   (10 * MP_NS_PER_SECOND)

static enum mp_status ask_for_look(struct mp_recording *recording, uint64_t time_ns, struct mp_error *error)
{
    struct mp_snapshot_request request = {.at_oom = true, .oom_ns = time_ns};
    recording->ooms.passed_over = false;
    return mp_vec_push(&recording->ooms.requests, request) ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory");
}

/* A program that searches for a batch size runs out of memory often. Only the first few times get a file, and the last
 * time if the program did not end well. */
static enum mp_status look_at(struct mp_recording *recording, uint64_t time_ns, struct mp_error *error)
{
    /* A refusal that was undecided for long may come here after later ones. */
    uint64_t last = recording->ooms.last_ns, apart = time_ns > last ? time_ns - last : last - time_ns;
    bool soon = recording->ooms.looked_at && apart < OOM_APART_NS;
    recording->ooms.passed_over_ns = time_ns;
    recording->ooms.passed_over = soon || recording->ooms.looked_at == OOMS_LOOKED_AT;
    if (recording->ooms.passed_over) return MP_OK;
    recording->ooms.looked_at++;
    if (time_ns > last) recording->ooms.last_ns = time_ns;
    return ask_for_look(recording, time_ns, error);
}

/* The track numbered `track`; NULL if there is none. */
static const struct mp_wire_track *track_of(const struct mp_recording *recording, uint16_t track)
{
    struct mp_spool_header *spool = recording->spool.header;
    const struct mp_wire_track *tracks = mp_spool_entries(spool, MP_TABLE_TRACKS);
    /* A damaged spool may contain any number. */
    bool there = track < mp_spool_table_count(spool, MP_TABLE_TRACKS);
    return there ? &tracks[track] : NULL;
}

/* True if a track of the spool is of that layer. */
static bool has_layer(const struct mp_recording *recording, uint16_t track, enum mp_layer layer)
{
    const struct mp_wire_track *facts = track_of(recording, track);
    return facts && facts->layer == layer;
}

/* True if PyTorch's caching allocator has memory on the track's device. */
static bool has_allocator_above(const struct mp_recording *recording, uint16_t track)
{
    const struct mp_wire_track *facts = track_of(recording, track), *other;
    for (size_t i = 0; facts && i < recording->state.ledger.tracks.count; i++)
        if ((other = track_of(recording, (uint16_t)i)) && other->layer == MP_LAYER_TORCH &&
            other->device_type == facts->device_type && other->device_index == facts->device_index &&
            recording->state.ledger.tracks.at[i].reserved_bytes != MP_BYTES_UNKNOWN)
            return true;
    return false;
}

/* True if PyTorch's allocator may have asked for its very first segment. It never asks on the track of a pool. */
static bool may_be_first(const struct mp_recording *recording, uint16_t track)
{
    const struct mp_wire_track *facts = track_of(recording, track);
    return recording->config.torch && facts && facts->device_type == MP_DEVICE_CUDA && !facts->name &&
           atomic_load(&recording->spool.header->seen.has_cuda_allocator);
}

static struct mp_refusal *refusal_of(struct mp_recording *recording, uint32_t thread)
{
    for (size_t i = 0; i < recording->ooms.refusals.count; i++)
        if (recording->ooms.refusals.at[i].thread == thread) return &recording->ooms.refusals.at[i];
    return NULL;
}

static void forget_refusal(struct mp_recording *recording, struct mp_refusal *refusal)
{
    *refusal = recording->ooms.refusals.at[--recording->ooms.refusals.count];
}

/* True if the track is of layer `layer` on the device that refused. */
static bool is_on_refusing_device(const struct mp_recording *recording, const struct mp_refusal *refusal,
                                  uint16_t track, enum mp_layer layer)
{
    const struct mp_wire_track *facts = track_of(recording, track), *refused = track_of(recording, refusal->track);
    return facts && refused && facts->layer == layer && facts->device_type == refused->device_type &&
           facts->device_index == refused->device_index;
}

static enum mp_status decide(struct mp_recording *recording, struct mp_refusal *refusal, bool answered,
                             struct mp_error *error)
{
    uint64_t time_ns = refusal->time_ns;
    forget_refusal(recording, refusal);
    return answered ? MP_OK : look_at(recording, time_ns, error);
}

static enum mp_status take_oom(struct mp_recording *recording, const struct mp_event *event, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    struct mp_refusal *before = refusal_of(recording, event->thread);
    bool undecided = has_layer(recording, event->track, MP_LAYER_DRIVER) &&
                     (has_allocator_above(recording, event->track) || may_be_first(recording, event->track));
    if (undecided && before && is_on_refusing_device(recording, before, event->track, MP_LAYER_DRIVER)) return MP_OK;
    if (before)
        status =
            decide(recording, before, is_on_refusing_device(recording, before, event->track, MP_LAYER_TORCH), error);
    if (status) return status;
    if (!undecided) return look_at(recording, event->time_ns, error);
    const struct mp_refusal refusal = {.thread = event->thread, .track = event->track, .time_ns = event->time_ns};
    return mp_vec_push(&recording->ooms.refusals, refusal) ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory");
}

/* True for an event that PyTorch may cause between a refusal and its report. In this time PyTorch frees memory and asks
 * again, for expandable segments in pieces. */
static bool may_be_retry(const struct mp_recording *recording, const struct mp_refusal *refusal,
                         const struct mp_event *event)
{
    return event->type == MP_EVENT_FREE || event->type == MP_EVENT_RESERVED ||
           (event->type == MP_EVENT_ALLOC && is_on_refusing_device(recording, refusal, event->track, MP_LAYER_DRIVER));
}

enum mp_status mp_recording_follow_oom(struct mp_recording *recording, const struct mp_event *event,
                                       struct mp_error *error)
{
    if (event->type == MP_EVENT_OOM) return take_oom(recording, event, error);
    struct mp_refusal *refusal = recording->ooms.refusals.count ? refusal_of(recording, event->thread) : NULL;
    if (!refusal || event->type >= MP_EVENT_TYPES || may_be_retry(recording, refusal, event)) return MP_OK;
    bool gets =
        event->type == MP_EVENT_ALLOC && is_on_refusing_device(recording, refusal, event->track, MP_LAYER_TORCH);
    return decide(recording, refusal, gets, error);
}

enum mp_status mp_recording_look_at_last_ooms(struct mp_recording *recording, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    while (recording->ooms.refusals.count && !status)
        status = look_at(recording, recording->ooms.refusals.at[--recording->ooms.refusals.count].time_ns, error);
    bool ended_well = recording->how.known && !recording->how.by_signal && !recording->how.status;
    if (!status && recording->ooms.passed_over && !ended_well)
        status = ask_for_look(recording, recording->ooms.passed_over_ns, error);
    return status;
}

#define EVENTS_OF_A_RECORD 4 /* at most: a step, a missed free, the reserved total, the event itself */

static enum mp_status keep(struct mp_recording *recording, const struct mp_event *event, struct mp_error *error)
{
    if (!recording->window.is_open) return MP_OK;
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
    if (!status && is_alloc) status = recording_take_birth(recording, record, event, error);
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
    struct mp_schedule_position after = recording->window.state.position;
    recording->window.state.position = recording->window.position_before;
    --recording->drain.next[ring];
    return after;
}

static void step_on(struct mp_recording *recording, uint32_t ring, struct mp_schedule_position after)
{
    ++recording->drain.next[ring];
    recording->window.state.position = after;
}

/* Opens the window: writes the frees of blocks that ended while it was closed, then a base of live blocks, then the
 * start event. */
static enum mp_status open_window(struct mp_recording *recording, uint32_t ring, const struct mp_event *event,
                                  struct mp_error *error)
{
    struct mp_schedule_position after = step_back(recording, ring);
    if (!recording->file.writer) recording->window.steps_unseen = recording->window.position_before.steps;
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
    if (opens == recording->window.is_open) return MP_OK;
    recording->state.window = *event;
    if (opens) return open_window(recording, ring, event, error);
    enum mp_status status = keep(recording, event, error);
    struct mp_schedule_position after = recording->window.state.position;
    if (!whole) after = step_back(recording, ring);
    if (!status) status = mp_recording_write(recording, false, error);
    if (!whole) step_on(recording, ring, after);
    if (!status && !mp_recording_remember_live(recording))
        status = mp_fail(error, MP_NO_MEMORY, "out of memory for events");
    recording->window.is_open = false;
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

static enum mp_status request_snapshot(struct mp_recording *recording, struct mp_snapshot_request request,
                                       struct mp_error *error)
{
    return mp_vec_push(&recording->ooms.requests, request) ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory");
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
    if (!recording->pending.count && !recording->file.writer) *now = member;
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
        return recording_take_label(recording, event, error);
    case MP_RECORD_HOLDER:
        return recording_take_holder(recording, record, event, error);
    case MP_RECORD_OPERATOR:
        return recording_take_operator(recording, ring, record, event, error);
    case MP_RECORD_TENSORS:
        return recording_take_tensors(recording, ring, record, error);
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
    recording->window.position_before = recording->window.state.position;
    recording->window.state.position.steps = recording->state.ledger.steps;
    if (status || !recording->window.schedule || event->type >= MP_EVENT_TYPES) return status;
    const char *name = mp_intern_get(&recording->tables.strings, event->name, NULL);
    /* A range on a lane may end on any thread, so it belongs to no ring. */
    if (record->flags & MP_RECORD_LANE) ring = MP_SPOOL_RINGS_MAX;
    *wish = mp_schedule_next(recording->window.schedule, &recording->window.state, ring, event, name, *is_step);
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
    if (!status && is_step && !recording->window.is_open) status = mp_recording_note_step(recording, event, error);
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
    if (!recording->pending.count && recording->window.is_open && !mp_recording_remember_live(recording))
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

#include "base/sampling.h"
#include "collect/recording/recording_parts.h"

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

enum mp_status mp_recording_take_holder(struct mp_recording *recording, const struct mp_record *record,
                                        const struct mp_event *event, struct mp_error *error)
{
    if (!recording->window_open) return MP_OK;
    struct mp_base_block *block = event->address ? block_at(recording, event->address, true) : NULL;
    if ((event->address && !block) || event->kind >= MP_HOLDER_KINDS) return MP_OK;
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

enum mp_status mp_recording_take_label(struct mp_recording *recording, const struct mp_event *event,
                                       struct mp_error *error)
{
    struct mp_base_block *block = block_at(recording, event->address, false);
    if (!block || (block->role == event->kind && block->label == event->name)) return MP_OK;
    if (!block->role && !mp_usual_roles_add(&recording->usual_roles, block, event->kind))
        return mp_fail(error, MP_NO_MEMORY, "out of memory for labels");
    block->role = event->kind;
    block->label = event->name;
    if (!recording->window_open) return MP_OK; /* the base that will be written when the window opens has the label */
    struct mp_label label = {
        .time_ns = event->time_ns, .block = block->block, .role = event->kind, .name = event->name};
    return mp_vec_push(&recording->labels, label) ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory for labels");
}

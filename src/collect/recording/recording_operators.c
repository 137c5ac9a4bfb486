/* The log of operators: joins the recorder's tensors with live blocks. A composite operator ends after the operators
 * that it calls. Its tensors that these have used add nothing, so most of its rows are left out. */
#include "collect/recording/recording_parts.h"

/* The live block of one of PyTorch's allocators that begins at the address. */
static const struct mp_base_block *block_at(struct mp_recording *recording, uint64_t address)
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

enum mp_status mp_recording_take_birth(struct mp_recording *recording, const struct mp_record *record,
                                       const struct mp_event *event, struct mp_error *error)
{
    struct mp_block_use use = {.time_ns = event->time_ns, .block = event->block, .how = MP_USE_MADE};
    if (!record->moment_ns || !mp_recording_logs_operators(recording)) return MP_OK;
    enum mp_status status = string_of(recording, (uint32_t)record->moment_ns, &use.operator, error);
    if (!status) status = string_of(recording, (uint32_t)(record->moment_ns >> 32), &use.node, error);
    return status ? status : add_use(recording, &use, error);
}

enum mp_status mp_recording_take_operator(struct mp_recording *recording, uint32_t ring, const struct mp_record *record,
                                          const struct mp_event *event, struct mp_error *error)
{
    struct mp_operator_now *now = &recording->operators.now[ring];
    *now = (struct mp_operator_now){.use = {.time_ns = event->time_ns, .operator= event->name },
                                            .begun_ns = mp_recording_time(recording, record->moment_ns),
                                            .number = record->kind};
    recording->operators.first = recording->operators.uses.count;
    return string_of(recording, record->stack, &now->use.node, error);
}

enum mp_status mp_recording_take_tensors(struct mp_recording *recording, uint32_t ring, const struct mp_record *record,
                                         struct mp_error *error)
{
    struct mp_operator_log *log = &recording->operators;
    const struct mp_operator_now *now = &log->now[ring];
    const uint64_t addresses[MP_TENSORS_A_RECORD] = {record->address, record->bytes, record->total_allocated,
                                                     record->total_reserved};
    const uint32_t shapes[MP_TENSORS_A_RECORD] = {record->name, record->stack, (uint32_t)record->moment_ns,
                                                  (uint32_t)(record->moment_ns >> 32)};
    if (now->number != record->kind || !mp_recording_logs_operators(recording)) return MP_OK;
    for (unsigned i = 0; i < MP_TENSORS_A_RECORD && addresses[i]; i++) {
        struct mp_block_use use = now->use;
        const struct mp_base_block *block = block_at(recording, addresses[i]);
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

bool mp_recording_logs_operators(const struct mp_recording *recording)
{
    const struct mp_record_config *config = &recording->config;
    uint64_t step = mp_recording_public_step(recording, recording->state.ledger.steps);
    return recording->window_open && config->operators &&
           (!config->operators_to || (step >= config->operators_from && step <= config->operators_to));
}

/*
 * Makes a model out of a recording's chunks, in their order. The chunks come from the reader, a test or an importer. A
 * chunk may only have ids that are in the tables added before it. A chunk that breaks this rule is refused
 * (MP_DAMAGED), either whole or from the offending entry on. The builder stays usable. Sums are exact while events
 * arrive: no second pass.
 *
 * A base chunk lists exactly the blocks that are live at its moment. Some of them may be new. If the chunk comes before
 * all events, they belong to the model's base. Otherwise they were born in a gap (lost chunks, or a window that was not
 * recorded) and get an alloc event there. Blocks that seem live but are not listed were freed in the gap.
 *
 * One thread at a time.
 */
#pragma once

#include "base/error.h"
#include "format/reader.h"
#include "model/model.h"

struct mp_builder;

/* Copies *start. */
void mp_builder_new(const struct mp_recording_start *start, struct mp_builder **builder);
/* Adds a chunk, and copies what the model needs from it. Ignores kinds that a model does not hold. */
enum mp_status mp_builder_add(struct mp_builder *builder, const struct mp_chunk *chunk, struct mp_error *error);
/* Returns the model, which the caller frees, and frees the builder. Copies *damage. */
void mp_builder_finish(struct mp_builder *builder, const struct mp_damage *damage, uint64_t file_bytes,
                       struct mp_model **model);
void mp_builder_free(struct mp_builder *builder);

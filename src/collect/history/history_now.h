/* PyTorch's segments and blocks at one moment, against those that are recorded. One thread at a time. */
#pragma once

#include "base/error.h"
#include "collect/history/history.h"
#include "model/state/ledger.h"

/* The memory that the allocators hold now: the segments of the last reading with the live blocks. A track is left out
 * unless it had no events since the reading, or its segments add up to the allocator's present total and contain all
 * live blocks. The caller frees *held, which starts empty. */
enum mp_status mp_history_now(const struct mp_history *history, const struct mp_ledger *ledger,
                              struct mp_history_held *held, struct mp_error *error);
void mp_history_held_free(struct mp_history_held *held);

/*
 * A snapshot's annotations as steps and regions. PyTorch keeps one list of starts and ends for all threads and does not
 * say whose each is; spans that do not nest are laid on different lanes, each of which does. One thread at a time.
 */
#ifndef MP_EXCHANGE_PYTORCH_REGIONS_H
#define MP_EXCHANGE_PYTORCH_REGIONS_H

#include "exchange/pytorch_records.h"

struct mp_pytorch_mark {
    int64_t time_us;
    uint32_t name; /* text id */
    uint32_t lane;
    uint32_t order; /* on its lane */
    uint8_t type;   /* enum mp_event_type: step, region begin, region end */
};

struct mp_pytorch_marks {
    struct mp_pytorch_mark *at; /* in order of time */
    size_t count, room;
    uint32_t lanes; /* at least 1 */
};

/* What ended before start_us is left out, what was open then begins there. False where memory is short. */
bool mp_pytorch_marks_make(struct mp_pytorch_records *records, int64_t start_us, struct mp_pytorch_marks *marks);
void mp_pytorch_marks_free(struct mp_pytorch_marks *marks);

#endif

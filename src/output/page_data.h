/*
 * A model as the columns that the page reads; viz/src/data/ is their other end, and viz/FORMAT.md says what each holds.
 */
#ifndef MP_OUTPUT_PAGE_DATA_H
#define MP_OUTPUT_PAGE_DATA_H

#include "analysis/leaks.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/vec.h"
#include "model/model.h"
#include "output/page_pack.h"

struct mp_page_column {
    char name[24];
    uint64_t count; /* entries, which is not bytes */
    struct mp_packed packed;
};

/* What a track's columns hold. */
struct mp_page_track {
    uint64_t events;        /* of blocks; a resize counts two */
    uint64_t blocks;        /* a block that is resized counts once for each of its sizes */
    uint64_t base_blocks;   /* the first ones */
    uint64_t growth_events; /* that had happened when the leaks' `held` was taken */
};

struct mp_page_data {
    uint64_t time_unit_ns;
    unsigned address_shift;
    struct mp_leaks leaks;
    MP_VEC(uint32_t) leak_sites;         /* by finding: its site in the page */
    MP_VEC(struct mp_page_track) tracks; /* one per track of the model */
    MP_VEC(struct mp_page_column) columns;
};

enum mp_status mp_page_data_make(const struct mp_model *model, struct mp_page_data *data, struct mp_error *error);
void mp_page_data_free(struct mp_page_data *data);

#endif

/*
 * A model as the columns that the page reads; viz/src/data/ is their other end, and viz/FORMAT.md says what each holds.
 */
#ifndef MP_OUTPUT_PAGE_DATA_H
#define MP_OUTPUT_PAGE_DATA_H

#include "analysis/leaks.h"
#include "base/error.h"
#include "base/vec.h"
#include "model/model.h"
#include "output/page.h"
#include "output/page_categories.h"
#include "output/page_columns.h"
#include "output/page_lanes.h"
#include "output/page_track.h"

struct mp_page_data {
    uint64_t time_unit_ns;
    unsigned address_shift;
    uint64_t from_ns, to_ns; /* what it shows of the recording */
    const char *step_source; /* as mp_steps_source() */
    uint32_t steps_before;   /* of the program, before the recording's first event */
    struct mp_page_lanes lanes;
    struct mp_page_categories categories;
    struct mp_leaks leaks;               /* of that part */
    MP_VEC(uint32_t) leak_sites;         /* by finding: its site in the page */
    MP_VEC(struct mp_page_track) tracks; /* one per track of the model */
    struct mp_page_columns columns;
};

/* The whole recording, or the part and the blocks that `cut` names (NULL: all); `rules` as in struct mp_page_options.
 * MP_LIMIT where it has too many events for a browser. */
enum mp_status mp_page_data_make(const struct mp_model *model, const struct mp_page_cut *cut,
                                 const struct mp_rules *rules, struct mp_page_data *data, struct mp_error *error);
void mp_page_data_free(struct mp_page_data *data);

#endif

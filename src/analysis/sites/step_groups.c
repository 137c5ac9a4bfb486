#include "analysis/sites/step_groups.h"
#include "analysis/sites/steps.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/sites/level.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"

/* One pass over the events with a level for each group. At each step's peak, the levels are saved. */
struct sweep {
    const struct mp_model *model;
    const struct mp_step_report *report;
    struct mp_groups naming;
    struct mp_step_groups *groups;
    uint32_t *column_of; /* by block: its column + 1, 0: not known yet */
    struct mp_map columns;
    MP_VEC(uint64_t) levels; /* by column */
    MP_VEC(uint64_t) rows;   /* saved levels, one row after the other */
    MP_VEC(size_t) row_ends; /* ends of the rows; later rows have more columns */
};

/* The column of a block. */
static uint32_t column_of(struct sweep *sweep, uint32_t block)
{
    if (sweep->column_of[block]) return sweep->column_of[block] - 1;
    uint32_t name = mp_groups_of_block(&sweep->naming, block, sweep->model->blocks.bytes[block]);
    bool fresh;
    uint64_t *at = mp_map_at(&sweep->columns, (uint64_t)name + 1, &fresh);
    if (fresh) {
        struct mp_step_group group = {.name = name, .column = sweep->levels.count};
        *at = sweep->levels.count;
        mp_vec_add(&sweep->levels, 0);
        mp_vec_add(&sweep->groups->groups, group);
    }
    sweep->column_of[block] = (uint32_t)*at + 1;
    return (uint32_t)*at;
}

static void write_row(struct sweep *sweep)
{
    mp_vec_room_for(&sweep->rows, sweep->levels.count);
    for (size_t i = 0; i < sweep->levels.count; i++)
        sweep->rows.at[sweep->rows.count++] = sweep->levels.at[i];
    mp_vec_add(&sweep->row_ends, sweep->rows.count);
}

/* Writes the rows of steps whose peak is after `moment` events. */
static void write_due(struct sweep *sweep, uint32_t moment)
{
    while (sweep->row_ends.count < sweep->report->steps.count &&
           sweep->report->steps.at[sweep->row_ends.count].peak_moment <= moment)
        write_row(sweep);
}

static void add_bytes(struct sweep *sweep, uint32_t block, uint64_t change)
{
    uint32_t column = column_of(sweep, block);
    sweep->levels.at[column] += change;
}

static void run(struct sweep *sweep)
{
    const struct mp_model *model = sweep->model;
    uint16_t track = sweep->report->track;
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (model->blocks.alloc_event[block] == MP_NONE && model->blocks.track[block] == track)
            add_bytes(sweep, block, mp_known(model->blocks.bytes[block]));
    for (uint32_t event = 0; event < model->events.count; event++) {
        struct mp_level level = {0};
        write_due(sweep, event);
        if (mp_level_apply(&level, model, track, event)) add_bytes(sweep, model->events.subject[event], level.bytes);
    }
    write_due(sweep, (uint32_t)model->events.count);
}

MP_ORDER(by_most, struct mp_step_group, MP_FALLING(most) ?: MP_RISING(column))

/* Brings all rows to one width, and the groups into order. */
static void finish(struct sweep *sweep)
{
    struct mp_step_groups *groups = sweep->groups;
    size_t begin = 0, kept = 0;
    groups->columns = sweep->levels.count;
    groups->bytes = mp_alloc_zeroed(sweep->row_ends.count * groups->columns + 1, sizeof *groups->bytes);
    for (size_t row = 0; row < sweep->row_ends.count; row++) {
        for (size_t column = 0; column < sweep->row_ends.at[row] - begin; column++) {
            uint64_t bytes = sweep->rows.at[begin + column];
            groups->bytes[row * groups->columns + column] = bytes;
            if (bytes > groups->groups.at[column].most) groups->groups.at[column].most = bytes;
        }
        begin = sweep->row_ends.at[row];
    }
    for (size_t i = 0; i < groups->groups.count; i++)
        if (groups->groups.at[i].most) groups->groups.at[kept++] = groups->groups.at[i];
    groups->groups.count = kept;
    if (kept) qsort(groups->groups.at, kept, sizeof *groups->groups.at, by_most);
}

void mp_step_groups_find(const struct mp_model *model, const struct mp_step_report *report,
                         const struct mp_grouping *grouping, struct mp_step_groups *groups)
{
    *groups = (struct mp_step_groups){.bytes = NULL};
    struct sweep sweep = {.model = model, .report = report, .groups = groups};
    sweep.column_of = mp_alloc_zeroed(model->blocks.count + 1, sizeof *sweep.column_of);
    mp_groups_open(model, grouping, (uint32_t)model->events.count, &groups->names, &sweep.naming);
    run(&sweep);
    finish(&sweep);
    mp_groups_close(&sweep.naming);
    free(sweep.column_of);
    mp_map_free(&sweep.columns);
    mp_vec_free(&sweep.levels);
    mp_vec_free(&sweep.rows);
    mp_vec_free(&sweep.row_ends);
}

void mp_step_groups_free(struct mp_step_groups *groups)
{
    mp_intern_free(&groups->names);
    mp_vec_free(&groups->groups);
    free(groups->bytes);
    groups->bytes = NULL;
}

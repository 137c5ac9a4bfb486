#include "analysis/job/job_state.h"

#include <stdlib.h>

#include "analysis/sites/level.h"
#include "base/memory.h"
#include "model/track.h"

/* The smallest unit with which `first` to `last` give few enough points. */
static unsigned shift_for(uint64_t first, uint64_t last)
{
    unsigned shift = 0;
    while (shift < 63 && last > first && (last >> shift) - (first >> shift) >= MP_JOB_POINTS)
        shift++;
    return shift;
}

struct curve {
    struct mp_level level;
    uint64_t at, most;
    uint32_t track; /* text in the job */
};

struct clock {
    struct mp_job *job;
    uint32_t process;
    uint64_t start_ns;
    unsigned shift;
};

/* Adds the finished point. A level that does not change adds none. */
static void put_point(const struct clock *clock, const struct curve *curve)
{
    struct mp_job_point point = {.at = curve->at,
                                 .most = curve->most,
                                 .last = curve->level.bytes,
                                 .process = clock->process,
                                 .track = curve->track,
                                 .shift = (uint8_t)clock->shift,
                                 .curve = MP_JOB_BY_TIME};
    mp_vec_add(&clock->job->rows.points, point);
}

static void follow(const struct clock *clock, const struct mp_model *model, struct curve *curve, uint16_t track,
                   uint32_t event)
{
    uint64_t at = mp_job_time_after(clock->start_ns, model->events.time_ns[event]) >> clock->shift;
    struct mp_level next = curve->level;
    if (!mp_level_apply(&next, model, track, event)) return;
    if (at > curve->at) {
        put_point(clock, curve);
        curve->at = at;
        curve->most = curve->level.bytes;
    }
    curve->level = next;
    if (next.bytes > curve->most) curve->most = next.bytes;
}

void mp_job_curves_by_time(struct mp_job *job, uint32_t process, const struct mp_model *model,
                           const unsigned char *wanted)
{
    size_t tracks = model->tracks.count;
    struct clock clock = {.job = job, .process = process, .start_ns = model->start.realtime_ns};
    struct curve *curves = mp_alloc_zeroed(tracks + 1, sizeof *curves);
    char id[MP_TRACK_ID_MAX];
    clock.shift = shift_for(clock.start_ns, mp_job_time_after(clock.start_ns, model->duration_ns));
    for (size_t i = 0; i < tracks; i++) {
        if (!wanted[i]) continue;
        curves[i].level = mp_level_start(model, (uint16_t)i);
        curves[i].at = clock.start_ns >> clock.shift;
        curves[i].most = curves[i].level.bytes;
        curves[i].track = mp_job_text(job, mp_track_id(model, (uint16_t)i, id));
    }
    for (uint32_t event = 0; event < model->events.count; event++) {
        uint16_t track = model->events.track[event];
        if (track < tracks && wanted[track]) follow(&clock, model, &curves[track], track, event);
    }
    for (size_t i = 0; i < tracks; i++)
        if (wanted[i]) put_point(&clock, &curves[i]);
    free(curves);
}

void mp_job_curve_by_step(struct mp_job *job, uint32_t process, uint32_t track, const struct mp_step_report *steps)
{
    size_t count = steps->steps.count;
    if (!count) return;
    unsigned shift = shift_for(steps->steps.at[0].number, steps->steps.at[count - 1].number);
    struct mp_job_point point = {.process = process, .track = track, .shift = (uint8_t)shift, .curve = MP_JOB_BY_STEP};
    for (size_t i = 0; i < count; i++) {
        const struct mp_step_row *row = &steps->steps.at[i];
        if (i && row->number >> shift != point.at) {
            mp_vec_add(&job->rows.points, point);
            point.most = 0;
        }
        point.at = row->number >> shift;
        if (row->peak_bytes > point.most) point.most = row->peak_bytes;
        point.last = row->end_bytes;
    }
    mp_vec_add(&job->rows.points, point);
}

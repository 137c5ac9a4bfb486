#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "jobs/devices.h"

/* A track of memory, with its device. */
struct placed {
    uint32_t host, uuid, device, process, track; /* uuid: 0 if only the device's name and host are known */
};

static int by_device(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;
    if (a->uuid != b->uuid) return a->uuid < b->uuid ? -1 : 1;
    if (!a->uuid && a->host != b->host) return a->host < b->host ? -1 : 1;
    if (!a->uuid && a->device != b->device) return a->device < b->device ? -1 : 1;
    if (a->process != b->process) return a->process < b->process ? -1 : 1;
    return a->track < b->track ? -1 : a->track > b->track;
}

static bool same_device(const struct placed *a, const struct placed *b)
{
    return a->uuid == b->uuid && (a->uuid || (a->host == b->host && a->device == b->device));
}

/* Bit N: each process has a track of layer N on the device. The program's own named pools do not count, as they may lie
 * inside of other memory. */
static unsigned layers_of_all(const struct mp_model *model, const struct placed *placed, size_t count,
                              uint32_t *processes)
{
    unsigned all = ~0u, own = 0;
    *processes = 0;
    for (size_t i = 0; i < count; i++) {
        own |= 1u << (model->job.tracks.at[placed[i].track].layer & 7);
        if (i + 1 < count && placed[i + 1].process == placed[i].process) continue;
        all &= own;
        own = 0;
        ++*processes;
    }
    return all;
}

MP_ORDER(by_time, struct mp_job_point, MP_RISING(at) ?: MP_RISING(process) ?: MP_RISING(track))

/* The points of a track. Rows are in order of process and track, for curves and times alike. */
static size_t points_of(const struct mp_model *model, const struct mp_job_track *track)
{
    const struct mp_job_point *points = model->job.points.at;
    return MP_COUNT_BEFORE(model->job.points.count, i,
                           points[i].process < track->process ||
                               (points[i].process == track->process && points[i].track < track->id));
}

/* One of several curves that are followed together. In each unit of time, its highest level counts. */
struct followed {
    uint64_t level, counts; /* `level`: at the end of the last point; `counts`: the curve's part of the sum */
    uint64_t unit;          /* unit of its last point */
};

#define ENDS UINT8_MAX /* value of a shift that means: the process has ended */

struct stack {
    const struct mp_model *model;
    const struct placed *placed;
    size_t count;
    uint8_t layer;
    unsigned shift;
    MP_VEC(struct mp_job_point) points;
};

/* Collects the points of all curves, in order of time. False: there is no curve. */
static bool gather(struct stack *stack)
{
    const struct mp_model *model = stack->model;
    for (size_t i = 0; i < stack->count; i++) {
        const struct mp_job_track *track = &model->job.tracks.at[stack->placed[i].track];
        if (track->layer != stack->layer) continue;
        for (size_t k = points_of(model, track); k < model->job.points.count; k++) {
            struct mp_job_point point = model->job.points.at[k];
            if (point.process != track->process || point.track != track->id) break;
            if (point.curve != MP_JOB_BY_TIME) continue;
            point.track = (uint32_t)i; /* from here on, `track` is the index of the curve */
            if (point.shift > stack->shift) stack->shift = point.shift;
            mp_vec_add(&stack->points, point);
        }
    }
    if (!stack->points.count) return false;
    for (size_t i = 0; i < stack->points.count; i++)
        stack->points.at[i].at >>= stack->shift - stack->points.at[i].shift;
    for (size_t i = 0; i < stack->count; i++) {
        const struct mp_job_process *process = &model->job.processes.at[stack->placed[i].process];
        uint64_t end = mp_job_time_after(process->start_unix_ns, process->duration_ns) >> stack->shift;
        struct mp_job_point over = {.at = mp_job_time_after(end, 1), .track = (uint32_t)i, .shift = ENDS};
        mp_vec_add(&stack->points, over);
    }
    qsort(stack->points.at, stack->points.count, sizeof *stack->points.at, by_time);
    return true;
}

static void set(struct followed *own, uint64_t bytes, uint64_t *total)
{
    *total += bytes - own->counts;
    own->counts = bytes;
}

static void take_point(struct followed *own, const struct mp_job_point *point, uint64_t *total)
{
    bool first = own->unit != point->at;
    uint64_t highest = first ? own->level : own->counts;
    own->unit = point->at;
    own->level = point->last;
    set(own, point->shift == ENDS ? 0 : point->most > highest ? point->most : highest, total);
}

static void follow(const struct stack *stack, struct mp_job_device *device)
{
    struct followed *followed = mp_alloc_zeroed(stack->count + 1, sizeof *followed);
    uint64_t total = 0;
    for (size_t i = 0; i < stack->count; i++)
        followed[i].unit = UINT64_MAX;
    for (size_t first = 0, end; first < stack->points.count; first = end) {
        const struct mp_job_point *points = stack->points.at;
        for (end = first; end < stack->points.count && points[end].at == points[first].at; end++)
            take_point(&followed[points[end].track], &points[end], &total);
        if (total > device->most) {
            device->most = total;
            device->at_unix_ns = points[first].at << stack->shift;
        }
        for (size_t i = first; i < end; i++)
            set(&followed[points[i].track], followed[points[i].track].level, &total);
    }
    free(followed);
}

static void add_device(struct mp_job_devices *devices, const struct mp_model *model, const struct placed *placed,
                       size_t count)
{
    uint32_t processes;
    unsigned layers = layers_of_all(model, placed, count, &processes);
    if (processes < 2 || !layers) return;
    struct stack stack = {.model = model, .placed = placed, .count = count};
    while (!(layers >> stack.layer & 1))
        stack.layer++;
    struct mp_job_device device = {.host = placed->host,
                                   .device = placed->device,
                                   .uuid = placed->uuid,
                                   .layer = stack.layer,
                                   .processes = processes,
                                   .total_bytes = MP_BYTES_UNKNOWN};
    for (size_t i = 0; i < count; i++) {
        const struct mp_job_track *track = &model->job.tracks.at[placed[i].track];
        if (track->layer == stack.layer) device.separate += track->peak_bytes;
        if (track->device_bytes != MP_BYTES_UNKNOWN) device.total_bytes = track->device_bytes;
    }
    if (!gather(&stack)) return;
    device.unit_ns = (uint64_t)1 << stack.shift;
    follow(&stack, &device);
    mp_vec_free(&stack.points);
    mp_vec_add(devices, device);
}

MP_ORDER(by_fullness, struct mp_job_device, MP_FALLING(most) ?: MP_RISING(host) ?: MP_RISING(device))

void mp_job_devices_find(const struct mp_model *model, struct mp_job_devices *devices)
{
    const struct mp_model_job *job = &model->job;
    MP_VEC(struct placed) placed = {0};
    for (uint32_t i = 0; i < job->tracks.count; i++) {
        const struct mp_job_track *track = &job->tracks.at[i];
        struct placed at = {job->processes.at[track->process].host, track->uuid, track->device, track->process, i};
        if (track->memory && (track->events || track->peak_bytes)) mp_vec_add(&placed, at);
    }
    if (placed.count) qsort(placed.at, placed.count, sizeof *placed.at, by_device);
    for (size_t first = 0, end; first < placed.count; first = end) {
        for (end = first + 1; end < placed.count && same_device(&placed.at[first], &placed.at[end]);)
            end++;
        add_device(devices, model, placed.at + first, end - first);
    }
    if (devices->count) qsort(devices->at, devices->count, sizeof *devices->at, by_fullness);
    mp_vec_free(&placed);
}

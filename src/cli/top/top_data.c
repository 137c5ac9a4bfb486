#include "cli/top/top_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <yajl/yajl_tree.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/words.h"
#include "format/recording.h"

/* ---- values ----------------------------------------------------------------------------------------------------- */

static yajl_val member(yajl_val object, const char *key)
{
    const char *path[] = {key, NULL};
    return object ? yajl_tree_get(object, path, yajl_t_any) : NULL;
}

static uint64_t number(yajl_val object, const char *key, uint64_t otherwise)
{
    yajl_val value = member(object, key);
    return YAJL_IS_NUMBER(value) ? strtoull(YAJL_GET_NUMBER(value), NULL, 10) : otherwise;
}

static char *text(yajl_val object, const char *key)
{
    yajl_val value = member(object, key);
    if (YAJL_IS_STRING(value)) return mp_text_copy(YAJL_GET_STRING(value));
    return YAJL_IS_NUMBER(value) ? mp_text_copy(YAJL_GET_NUMBER(value)) : NULL;
}

static bool is_true(yajl_val object, const char *key)
{
    return YAJL_IS_TRUE(member(object, key));
}

static size_t count_of(yajl_val array)
{
    return YAJL_IS_ARRAY(array) ? YAJL_GET_ARRAY(array)->len : 0;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool is_interpreter(const char *program)
{
    return !strncmp(last_part(program), "python", strlen("python"));
}

/* The name by which a user knows a program: for Python, the script or module; else the program. */
static char *title_of(yajl_val command)
{
    size_t count = count_of(command), at = 0;
    const char *words[64];
    size_t used = 0;
    for (; at < count && used < sizeof words / sizeof *words; at++)
        if (YAJL_IS_STRING(YAJL_GET_ARRAY(command)->values[at]))
            words[used++] = YAJL_GET_STRING(YAJL_GET_ARRAY(command)->values[at]);
    if (!used) return NULL;
    if (!is_interpreter(words[0])) return mp_text_copy(last_part(words[0]));
    for (size_t i = 1; i < used; i++) {
        if (!strcmp(words[i], "-m") && i + 1 < used) return mp_text_copy(words[i + 1]);
        if (!strcmp(words[i], "-c")) return mp_text_copy("python -c");
        if ((!strcmp(words[i], "-W") || !strcmp(words[i], "-X")) && i + 1 < used)
            i++;
        else if (*words[i] != '-')
            return mp_text_copy(last_part(words[i]));
    }
    return mp_text_copy(last_part(words[0]));
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

static struct mp_top_device *device_at(struct mp_top_process *process, uint8_t type, int index, const char *track)
{
    for (size_t i = 0; i < process->devices.count; i++)
        if (process->devices.at[i].type == type && process->devices.at[i].index == index)
            return &process->devices.at[i];
    struct mp_top_device fresh = {.type = type,
                                  .index = index,
                                  .reserved = MP_BYTES_UNKNOWN,
                                  .used = MP_BYTES_UNKNOWN,
                                  .total = MP_BYTES_UNKNOWN,
                                  .process = MP_BYTES_UNKNOWN};
    snprintf(fresh.label, sizeof fresh.label, "%.*s", (int)strcspn(track, "/"), track);
    mp_vec_add(&process->devices, fresh);
    return &process->devices.at[process->devices.count - 1];
}

struct track {
    char *id;
    uint8_t type, layer;
    int index;
    bool memory;
    uint64_t bytes, blocks, peak, reserved;
};

struct tracks {
    MP_VEC(struct track) at;
};

/* The order in which a device's tracks are chosen. PyTorch's memory is part of the driver's, and the program's pools
 * are part of either. PyTorch's track is chosen if it is used. */
static int preference(const struct track *track)
{
    return track->layer == MP_LAYER_TORCH ? 2 : track->layer == MP_LAYER_APP ? 1 : 0;
}

static int best_preference(const struct tracks *tracks, const struct track *of)
{
    int best = -1;
    mp_vec_each (const struct track, track, &tracks->at) {
        bool same = track->memory && track->type == of->type && track->index == of->index;
        if (same && (track->peak || track->blocks) && preference(track) > best) best = preference(track);
    }
    return best;
}

static void add_to_device(struct mp_top_process *process, const struct tracks *tracks, const struct track *track)
{
    if (!track->memory || (!track->peak && !track->blocks)) return;
    struct mp_top_device *device = device_at(process, track->type, track->index, track->id);
    int best = best_preference(tracks, track);
    if (preference(track) == best) {
        device->allocated += track->bytes;
        device->peak += track->peak;
        if (track->reserved != MP_BYTES_UNKNOWN) device->reserved = track->reserved;
    }
    if (track->layer == MP_LAYER_DRIVER && preference(track) < best && device->reserved == MP_BYTES_UNKNOWN)
        device->reserved = track->bytes;
}

MP_ORDER(gpus_first, struct mp_top_device,
         MP_COMPARE(a->type == MP_DEVICE_CPU, b->type == MP_DEVICE_CPU) ?: MP_RISING(type) ?: MP_RISING(index))

static void read_devices(yajl_val object, const struct tracks *tracks, struct mp_top_process *process)
{
    yajl_val list = member(object, "devices");
    struct sysinfo machine;
    for (size_t i = 0; i < tracks->at.count; i++)
        add_to_device(process, tracks, &tracks->at.at[i]);
    mp_vec_each (struct mp_top_device, device, &process->devices) {
        if (device->type == MP_DEVICE_CPU) {
            device->process = process->resident;
            if (!sysinfo(&machine)) device->total = (uint64_t)machine.totalram * machine.mem_unit;
        }
        for (size_t k = 0; k < count_of(list) && device->type == MP_DEVICE_CUDA; k++) {
            yajl_val facts = YAJL_GET_ARRAY(list)->values[k];
            if (number(facts, "index", UINT64_MAX) != (uint64_t)device->index) continue;
            device->total = number(facts, "total_bytes", MP_BYTES_UNKNOWN);
            device->used = number(facts, "used_bytes", MP_BYTES_UNKNOWN);
            device->process = number(facts, "process_bytes", MP_BYTES_UNKNOWN);
        }
    }
    if (process->devices.count)
        qsort(process->devices.at, process->devices.count, sizeof *process->devices.at, gpus_first);
}

static void read_tracks(yajl_val object, struct tracks *tracks)
{
    yajl_val list = member(object, "tracks");
    for (size_t i = 0; i < count_of(list); i++) {
        yajl_val track = YAJL_GET_ARRAY(list)->values[i], index = member(track, "device_index");
        struct track fresh = {.id = text(track, "id"),
                              .type = (uint8_t)number(track, "device_type", 0),
                              .layer = (uint8_t)number(track, "layer", 0),
                              .index = YAJL_IS_NUMBER(index) ? atoi(YAJL_GET_NUMBER(index)) : -1,
                              .memory = is_true(track, "memory"),
                              .bytes = number(track, "bytes", 0),
                              .blocks = number(track, "blocks", 0),
                              .peak = number(track, "peak_bytes", 0),
                              .reserved = number(track, "reserved_bytes", MP_BYTES_UNKNOWN)};
        if (!fresh.id) fresh.id = mp_text_copy("?");
        mp_vec_add(&tracks->at, fresh);
    }
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

static void read_process(yajl_val object, struct mp_top_process *process)
{
    yajl_val rate = member(object, "steps_per_second"), command = member(object, "command");
    process->pid = (pid_t)number(object, "pid", 0);
    process->recording = number(object, "recording", 0);
    process->title = title_of(command);
    process->rank = text(object, "rank");
    process->role = text(object, "role");
    process->failed = text(object, "failed");
    process->helper = is_true(object, "helper");
    process->paused = is_true(object, "paused");
    process->steps = number(object, "steps", MP_BYTES_UNKNOWN);
    process->rate = YAJL_IS_NUMBER(rate) ? strtod(YAJL_GET_NUMBER(rate), NULL) : -1;
    process->resident = number(object, "resident_bytes", MP_BYTES_UNKNOWN);
    if (!process->title) process->title = mp_text_make("process %d", (int)process->pid);
    struct tracks tracks = {0};
    read_tracks(object, &tracks);
    read_devices(object, &tracks, process);
    for (size_t i = 0; i < tracks.at.count; i++)
        free(tracks.at.at[i].id);
    mp_vec_free(&tracks.at);
}

enum mp_status mp_top_overview_read(const char *overview, uint32_t session, struct mp_top_processes *processes,
                                    struct mp_error *error)
{
    char why[128] = "";
    yajl_val all = yajl_tree_parse(overview, why, sizeof why), list = member(all, "processes");
    bool good = YAJL_IS_ARRAY(list);
    for (size_t i = 0; i < count_of(list); i++) {
        struct mp_top_process process = {.session = session,
                                         .memprof = (pid_t)number(all, "memprof", 0),
                                         .command_pid = (pid_t)number(all, "command_pid", 0)};
        read_process(YAJL_GET_ARRAY(list)->values[i], &process);
        mp_vec_add(processes, process);
    }
    yajl_tree_free(all);
    return good ? MP_OK
                : mp_fail(error, MP_DAMAGED, "the memprof that records gave an answer that this one cannot read");
}

static char *copy_or_null(const char *from)
{
    return from ? mp_text_copy(from) : NULL;
}

void mp_top_processes_copy(const struct mp_top_processes *from, struct mp_top_processes *to)
{
    *to = (struct mp_top_processes){0};
    mp_vec_each (const struct mp_top_process, old, from) {
        struct mp_top_process copy = *old;
        copy.title = copy_or_null(old->title);
        copy.rank = copy_or_null(old->rank);
        copy.role = copy_or_null(old->role);
        copy.failed = copy_or_null(old->failed);
        memset(&copy.devices, 0, sizeof copy.devices);
        memset(&copy.growths, 0, sizeof copy.growths);
        mp_vec_add_all(&copy.growths, old->growths.at, old->growths.count);
        mp_vec_add_all(&copy.devices, old->devices.at, old->devices.count);
        mp_vec_add(to, copy);
    }
}

void mp_top_process_free(struct mp_top_process *process)
{
    free(process->title);
    free(process->rank);
    free(process->role);
    free(process->failed);
    mp_vec_free(&process->devices);
    mp_vec_free(&process->growths);
}

void mp_top_processes_free(struct mp_top_processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        mp_top_process_free(&processes->at[i]);
    mp_vec_free(processes);
}

const struct mp_top_growth *mp_top_growth_of(const struct mp_top_process *process, const char *label)
{
    for (size_t i = 0; i < process->growths.count; i++)
        if (!strcmp(process->growths.at[i].label, label)) return &process->growths.at[i];
    return NULL;
}

uint64_t mp_top_weight(const struct mp_top_process *process)
{
    uint64_t most = 0, most_of_cpu = 0;
    mp_vec_each (const struct mp_top_device, device, &process->devices) {
        uint64_t *to = device->type == MP_DEVICE_CPU ? &most_of_cpu : &most;
        if (device->allocated > *to) *to = device->allocated;
    }
    return most ? most + (UINT64_C(1) << 62) : most_of_cpu;
}

static int by_rank(const void *left, const void *right)
{
    const struct mp_top_process *a = left, *b = right;
    if (!a->rank != !b->rank) return a->rank ? -1 : 1;
    long long of_a = a->rank ? atoll(a->rank) : 0, of_b = b->rank ? atoll(b->rank) : 0;
    if (of_a != of_b) return of_a < of_b ? -1 : 1;
    if (a->helper != b->helper) return a->helper ? 1 : -1;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

void mp_top_processes_sort(struct mp_top_processes *processes)
{
    if (processes->count) qsort(processes->at, processes->count, sizeof *processes->at, by_rank);
}

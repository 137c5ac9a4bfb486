#include "collect/recording/recording_devices.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The value of a variable in the process's initial environment; NULL: not set. Later changes by the process are not
 * visible here. */
static char *started_with(uint32_t pid, const char *name)
{
    char path[64], *text = NULL, *found = NULL;
    size_t size = 0, room = 0;
    snprintf(path, sizeof path, "/proc/%u/environ", (unsigned)pid);
    FILE *file = fopen(path, "re");
    while (file && !found && getdelim(&text, &room, '\0', file) > 0) {
        size = strlen(name);
        if (!strncmp(text, name, size) && text[size] == '=') found = strdup(text + size + 1);
    }
    if (file) fclose(file);
    free(text);
    return found;
}

/* Bytes that a process uses; MP_BYTES_UNKNOWN if the driver does not report them. */
static uint64_t used_by(const struct mp_gpu_use *use, uint32_t pid, bool *named)
{
    for (unsigned i = 0; i < use->process_count; i++) {
        if (use->processes[i].pid != pid) continue;
        *named = true;
        return use->processes[i].bytes;
    }
    return MP_BYTES_UNKNOWN;
}

static uint64_t sum_of(const struct mp_gpu_use *use)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < use->process_count; i++)
        sum += use->processes[i].bytes;
    return use->sum_known ? sum : MP_BYTES_UNKNOWN;
}

static void put_sample(struct mp_recording *recording, unsigned ordinal, const char *counter, uint64_t time_ns,
                       uint64_t value)
{
    char name[64];
    if (value == MP_BYTES_UNKNOWN) return;
    snprintf(name, sizeof name, "cuda:%u/%s", ordinal, counter);
    uint32_t id = mp_intern_text(&recording->tables.strings, name);
    struct mp_sample sample = {.time_ns = time_ns, .counter = id, .value = value};
    if (id != MP_INTERN_FAILED) (void)mp_vec_push(&recording->samples, sample);
}

/* True if the process still has memory. A zombie has none. */
static bool is_alive(uint32_t pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%u/stat", (unsigned)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    const char *name_end = length > 0 ? strrchr(text, ')') : NULL;
    return name_end && name_end[1] && name_end[2] != 'Z' && name_end[2] != 'X';
}

/* ---- which devices ---- */

void mp_device_samples_begin(struct mp_recording *recording, struct mp_device_watch *watch)
{
    struct mp_device_samples *samples = &recording->devices;
    samples->watch = watch;
    if (!watch) return;
    samples->visible = started_with(recording->pid, "CUDA_VISIBLE_DEVICES");
    samples->order = started_with(recording->pid, "CUDA_DEVICE_ORDER");
}

/* The GPU with the UUID that the program's own driver reported; -1 if the recorder has no UUID. NVML adds "GPU-" or
 * "MIG-" in front. */
static int gpu_by_uuid(const struct mp_gpus *gpus, const struct mp_spool_header *spool, unsigned ordinal)
{
    char uuid[MP_UUID_TEXT];
    mp_tables_device_uuid(spool, (int)ordinal, uuid);
    const char *number = strchr(uuid, '-');
    for (size_t i = 0; number && i < gpus->count; i++) {
        const char *other = strchr(gpus->at[i].uuid, '-');
        if (other && !strcasecmp(other, number)) return (int)i;
    }
    return -1;
}

static void begin_device(struct mp_recording *recording, unsigned ordinal, struct mp_device_seen *device,
                         const struct mp_gpus *gpus)
{
    struct mp_device_samples *samples = &recording->devices;
    struct mp_device_reading first;
    device->begun = true;
    device->used_bytes = device->process_bytes = MP_BYTES_UNKNOWN;
    device->gpu = gpu_by_uuid(gpus, recording->spool.header, ordinal);
    if (device->gpu < 0) device->gpu = mp_gpu_of_ordinal(gpus, samples->visible, samples->order, (int)ordinal);
    if (device->gpu < 0) return;
    const struct mp_gpu *gpu = &gpus->at[device->gpu];
    struct mp_error ignored; /* if memory is short, facts are left out */
    if (!device->described)
        (void)mp_tables_device_facts(&recording->tables, MP_DEVICE_CUDA, (int)ordinal, gpu->uuid, gpu->name,
                                     gpu->total_bytes, &ignored);
    device->described = true;
    if (!mp_device_watch_first(samples->watch, (unsigned)device->gpu, &first)) return;
    uint64_t sum = sum_of(&first.use), used = first.use.used_bytes;
    put_sample(recording, ordinal, "before", 0, used);
    if (sum <= used) put_sample(recording, ordinal, "system", 0, used - sum);
}

static void look_for_devices(struct mp_recording *recording)
{
    struct mp_device_samples *samples = &recording->devices;
    struct mp_spool_header *spool = recording->spool.header;
    const struct mp_wire_track *tracks = mp_spool_entries(spool, MP_TABLE_TRACKS);
    uint64_t count = mp_spool_table_count(spool, MP_TABLE_TRACKS);
    for (; samples->tracks_seen < count; samples->tracks_seen++) {
        const struct mp_wire_track *track = &tracks[samples->tracks_seen];
        if (track->device_type != MP_DEVICE_CUDA || track->device_index < 0 || track->device_index >= MP_DEVICES_SEEN)
            continue;
        samples->any = true;
        samples->devices[track->device_index].used = true;
        mp_device_watch_ask(samples->watch, true);
    }
}

/* ---- readings ---- */

/* Takes every reading, even if it equals the one before. It shows that nothing changed until then, and takes only a
 * dozen bytes. */
static void take_reading(struct mp_recording *recording, unsigned ordinal, const struct mp_device_reading *reading)
{
    struct mp_device_seen *device = &recording->devices.devices[ordinal];
    const struct mp_gpu_use *use = &reading->use;
    uint64_t time_ns = mp_recording_time(recording, reading->begun_ns + (reading->ended_ns - reading->begun_ns) / 2);
    uint64_t ours = used_by(use, recording->pid, &device->named), sum = sum_of(use);
    /* The process has ended meanwhile, so the reading says nothing about it. */
    if (ours == MP_BYTES_UNKNOWN && !is_alive(recording->pid)) return;
    uint64_t others = ours == MP_BYTES_UNKNOWN || sum == MP_BYTES_UNKNOWN ? MP_BYTES_UNKNOWN : sum - ours;
    device->has_process |= ours != MP_BYTES_UNKNOWN;
    device->has_total = true;
    device->used_bytes = use->used_bytes;
    device->process_bytes = ours;
    put_sample(recording, ordinal, "device", time_ns, use->used_bytes);
    put_sample(recording, ordinal, "process", time_ns, ours);
    put_sample(recording, ordinal, "others", time_ns, others);
}

void mp_device_samples_round(struct mp_recording *recording)
{
    struct mp_device_samples *samples = &recording->devices;
    struct mp_device_reading reading;
    if (!samples->watch) return;
    look_for_devices(recording);
    /* A new context or module takes memory outside of blocks, so read now. */
    uint32_t changed = atomic_load_explicit(&recording->spool.header->devices_changed, memory_order_relaxed);
    if (samples->any && changed != samples->changed) mp_device_watch_ask(samples->watch, true);
    samples->changed = changed;
    const struct mp_gpus *gpus = samples->any ? mp_device_watch_gpus(samples->watch) : NULL;
    if (!gpus) return;
    for (unsigned i = 0; i < MP_DEVICES_SEEN; i++)
        if (samples->devices[i].used && !samples->devices[i].begun)
            begin_device(recording, i, &samples->devices[i], gpus);
    while (mp_device_watch_next(samples->watch, &samples->cursor, &reading))
        for (unsigned i = 0; i < MP_DEVICES_SEEN; i++)
            if (samples->devices[i].begun && samples->devices[i].gpu == (int)reading.gpu)
                take_reading(recording, i, &reading);
}

void mp_device_samples_notes(struct mp_recording *recording)
{
    const struct mp_device_samples *samples = &recording->devices;
    char text[320], trouble[200];
    mp_device_watch_trouble(samples->watch, trouble, sizeof trouble);
    if (!samples->any) return;
    if (*trouble) {
        snprintf(text, sizeof text, "device totals are not known: %s", trouble);
        mp_recording_note(recording, text);
    }
    for (unsigned i = 0; i < MP_DEVICES_SEEN; i++) {
        const struct mp_device_seen *device = &samples->devices[i];
        if (!device->begun) continue;
        if (device->gpu < 0)
            snprintf(text, sizeof text,
                     "which GPU cuda:%u was is not known from CUDA_VISIBLE_DEVICES and the order of the bus; its "
                     "total is not known (CUDA_DEVICE_ORDER=PCI_BUS_ID makes the order known)",
                     i);
        else if (!device->has_total || device->has_process)
            continue;
        else if (device->named)
            snprintf(text, sizeof text,
                     "what each process uses of cuda:%u is not known: NVML lists processes without numbers", i);
        else
            snprintf(text, sizeof text,
                     "what this process and others each use of cuda:%u is not known: NVML names no process %u (in a "
                     "container processes have other numbers)",
                     i, (unsigned)recording->pid);
        mp_recording_note(recording, text);
    }
}

void mp_device_samples_free(struct mp_device_samples *samples)
{
    free(samples->visible);
    free(samples->order);
}

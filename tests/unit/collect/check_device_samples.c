/* A recording's samples of its devices, against readings that a stand-in of the watch gives. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/recording/recording.h"
#include "collect/recording/recording_devices.h"
#include "model/load.h"
#include "model/model.h"
#include "unit/collect/traffic.h"
#include "unit/suite.h"

#define MIB    (UINT64_C(1) << 20)
#define OTHERS 4711 /* another process */

/* ---- the watch --------------------------------------------------------------------------------------------------- */

struct mp_device_watch {
    struct mp_gpus gpus;
    const char *trouble;
    struct mp_device_reading first[3];
    bool has_first[3];
    struct mp_device_reading readings[100];
    uint64_t count;
    unsigned asked, at_once;
};

const struct mp_gpus *mp_device_watch_gpus(struct mp_device_watch *watch)
{
    return watch && watch->gpus.count ? &watch->gpus : NULL;
}

void mp_device_watch_trouble(struct mp_device_watch *watch, char *text, size_t room)
{
    snprintf(text, room, "%s", watch && watch->trouble ? watch->trouble : "");
}

void mp_device_watch_ask(struct mp_device_watch *watch, bool at_once)
{
    watch->asked++;
    watch->at_once += at_once;
}

bool mp_device_watch_first(struct mp_device_watch *watch, unsigned gpu, struct mp_device_reading *reading)
{
    if (!watch->has_first[gpu]) return false;
    *reading = watch->first[gpu];
    return true;
}

bool mp_device_watch_next(struct mp_device_watch *watch, uint64_t *cursor, struct mp_device_reading *reading)
{
    if (*cursor >= watch->count) return false;
    *reading = watch->readings[(*cursor)++];
    return true;
}

pid_t mp_device_watch_fork(struct mp_device_watch *watch)
{
    (void)watch;
    return fork();
}

/* Functions of the watch that only the collector calls. */
struct mp_device_watch *mp_device_watch_open(void)
{
    return NULL;
}

void mp_device_watch_close(struct mp_device_watch *watch)
{
    (void)watch;
}

static struct mp_gpu gpus[3] = {{.uuid = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", .name = "A", .total_bytes = 8},
                                {.uuid = "GPU-ffffffff-0000-0000-0000-000000000001", .name = "A", .physical = 1},
                                {.uuid = "GPU-ffffffff-0000-0000-0000-000000000002", .name = "A", .physical = 2}};

/* A reading of a device: `used` bytes in all, `ours` by this process, `others` by another one; MP_BYTES_UNKNOWN:
 * unknown. */
static struct mp_gpu_use use_of(uint32_t pid, uint64_t used, uint64_t ours, uint64_t others)
{
    struct mp_gpu_use use = {.used_bytes = used, .sum_known = true};
    use.processes[use.process_count++] = (struct mp_gpu_process){OTHERS, others};
    if (ours) use.processes[use.process_count++] = (struct mp_gpu_process){pid, ours};
    for (unsigned i = 0; i < use.process_count; i++)
        use.sum_known &= use.processes[i].bytes != MP_BYTES_UNKNOWN;
    return use;
}

/* ---- a recording ---------------------------------------------------------------------------------------------------
 */

static char path[64];

static struct mp_recording *begin(struct mp_device_watch *watch, uint32_t pid)
{
    snprintf(path, sizeof path, "/tmp/memprof-devices-%u.mp", (unsigned)getpid());
    traffic_spool_id = (uint64_t)getpid() << 16 | 78;
    struct mp_recording *recording = traffic_record(NULL, path, NULL, "/tmp");
    recording->pid = pid;
    *watch = (struct mp_device_watch){.gpus = {gpus, 3, 3}};
    mp_device_samples_begin(recording, watch);
    return recording;
}

static void read_at(struct mp_device_watch *watch, unsigned gpu, uint64_t ms, struct mp_gpu_use use)
{
    uint64_t middle = TRAFFIC_START_NS + ms * 1000000;
    watch->readings[watch->count++] =
        (struct mp_device_reading){.begun_ns = middle - 100, .ended_ns = middle + 101, .gpu = gpu, .use = use};
}

static struct mp_model *finish(struct mp_recording *recording)
{
    struct mp_recording_summary summary;
    struct mp_model *model;
    struct mp_error error;
    struct mp_spool_header *spool = recording->spool.header;
    uint64_t head = atomic_load(&spool->rings[0].head);
    *mp_ring_record(spool, 0, head) = (struct mp_record){
        .type = MP_EVENT_MARK, .time_ns = TRAFFIC_START_NS, .total_allocated = MP_RECORD_TOTAL_UNKNOWN};
    atomic_store(&spool->rings[0].head, head + 1);
    mp_recording_end(recording, (struct mp_exit){.known = true}, "over");
    mp_recording_finish(recording, &summary);
    ck_assert_msg(!summary.failed, "%s", summary.failure.text);
    bool has_totals = false;
    for (unsigned i = 0; i < MP_DEVICES_SEEN; i++)
        has_totals |= recording->devices.devices[i].begun && recording->devices.devices[i].gpu >= 0;
    ck_assert_int_eq(summary.has_totals, has_totals);
    mp_recording_free(recording, true);
    free(summary.path);
    enum mp_status status = mp_model_load(path, &model, &error);
    ck_assert_msg(!status, "%s", status ? error.text : "");
    unlink(path);
    traffic_now_ns = 0;
    return model;
}

/* "counter ms MiB" of each sample except those of the process's own memory. */
static const char *samples_of(const struct mp_model *model)
{
    static char text[4096];
    *text = '\0';
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        const char *counter = mp_model_text(model, sample->counter);
        if (!strncmp(counter, "cpu/", 4)) continue;
        ck_assert_uint_eq(sample->value % MIB, 0);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %g %llu; ", counter,
                 (double)sample->time_ns / 1e6, (unsigned long long)(sample->value / MIB));
    }
    return text;
}

static const char *notes_of(const struct mp_model *model)
{
    static char text[4096];
    *text = '\0';
    for (size_t i = 0; i < model->coverage.note_count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s; ",
                 mp_model_text(model, model->coverage.notes[i]));
    return text;
}

static void see_tracks(struct mp_recording *recording, const struct mp_wire_track *tracks, uint64_t count)
{
    struct mp_spool_header *spool = recording->spool.header;
    struct mp_wire_track *to = mp_spool_entries(spool, MP_TABLE_TRACKS);
    memcpy(to + TRAFFIC_TRACKS, tracks, count * sizeof *tracks);
    atomic_store(&spool->tables[MP_TABLE_TRACKS].count, TRAFFIC_TRACKS + count);
}

START_TEST(readings_are_samples)
{
    struct mp_device_watch watch;
    uint32_t own = (uint32_t)getpid();
    struct mp_recording *recording = begin(&watch, own);
    static const struct mp_wire_track more[] = {
        {.device_type = MP_DEVICE_CUDA, .device_index = 2, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_EXACT},
        {.device_type = MP_DEVICE_CUDA,
         .device_index = MP_DEVICES_SEEN,
         .layer = MP_LAYER_TORCH,
         .size_basis = MP_BASIS_EXACT},
        {.device_type = MP_DEVICE_CUDA, .device_index = -1, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_EXACT}};
    watch.first[0] = (struct mp_device_reading){.use = use_of(own, 500 * MIB, 0, 300 * MIB)};
    watch.first[2] = (struct mp_device_reading){.gpu = 2, .use = use_of(own, 70 * MIB, 0, MP_BYTES_UNKNOWN)};
    watch.has_first[0] = watch.has_first[2] = true;
    read_at(&watch, 0, 10, use_of(own, 900 * MIB, 400 * MIB, 300 * MIB));
    read_at(&watch, 1, 20, use_of(own, 1 * MIB, 0, 1 * MIB)); /* a device that the program does not use */
    ck_assert(mp_recording_round(recording, false));
    ck_assert_uint_eq(watch.asked, 2); /* one question for each of the two tracks on the device */
    ck_assert_uint_eq(watch.at_once, 2);
    atomic_store(&recording->spool.header->devices_changed, 1);
    see_tracks(recording, more, 3);
    read_at(&watch, 2, 30, use_of(own, 80 * MIB, 8 * MIB, MP_BYTES_UNKNOWN));
    read_at(&watch, 0, 40, use_of(own, 900 * MIB, 400 * MIB, 300 * MIB)); /* the same is reported again */
    ck_assert(mp_recording_round(recording, false));
    ck_assert_uint_eq(watch.asked, 4);
    read_at(&watch, 2, 50, use_of(own, 81 * MIB, MP_BYTES_UNKNOWN, 5 * MIB));
    read_at(&watch, 0, 60, use_of(own, 901 * MIB, 0, 300 * MIB));
    struct mp_model *model = finish(recording);
    ck_assert_uint_eq(watch.asked, 4);
    ck_assert_str_eq(samples_of(model), "cuda:0/before 0 500; cuda:0/system 0 200; "
                                        "cuda:0/device 10 900; cuda:0/process 10 400; cuda:0/others 10 300; "
                                        "cuda:2/before 0 70; "
                                        "cuda:2/device 30 80; cuda:2/process 30 8; "
                                        "cuda:0/device 40 900; cuda:0/process 40 400; cuda:0/others 40 300; "
                                        "cuda:2/device 50 81; "
                                        "cuda:0/device 60 901; ");
    ck_assert_str_eq(notes_of(model), "");
    /* Devices are found by number if the program's driver gave no UUID. Facts are a single entry, after the one without
     * them. */
    const char *names[8], *uuids[8];
    size_t described = 0;
    for (size_t i = 0; i < model->devices.count; i++) {
        if (!*mp_model_text(model, model->devices.at[i].uuid)) continue;
        names[described] = mp_model_text(model, model->devices.at[i].name);
        uuids[described++] = mp_model_text(model, model->devices.at[i].uuid);
    }
    ck_assert_uint_eq(described, 2);
    ck_assert_str_eq(names[0], "cuda:0");
    ck_assert_str_eq(uuids[0], gpus[0].uuid);
    ck_assert_str_eq(names[1], "cuda:2");
    ck_assert_str_eq(uuids[1], gpus[2].uuid);
    mp_model_free(model);
}

START_TEST(the_programs_own_driver_says_which_device_it_is)
{
    struct mp_device_watch watch;
    uint32_t own = (uint32_t)getpid();
    struct mp_recording *recording = begin(&watch, own);
    struct mp_spool_device *device = &recording->spool.header->devices[0];
    device->uuid[0] = device->uuid[1] = device->uuid[2] = device->uuid[3] = 0xff;
    device->uuid[15] = 2;
    atomic_store(&device->known, 1);
    read_at(&watch, 0, 10, use_of(own, 1 * MIB, 1 * MIB, 0));
    read_at(&watch, 2, 20, use_of(own, 2 * MIB, 1 * MIB, 1 * MIB));
    ck_assert(mp_recording_round(recording, false));
    struct mp_model *model = finish(recording);
    ck_assert_str_eq(samples_of(model), "cuda:0/device 20 2; cuda:0/process 20 1; cuda:0/others 20 1; ");
    mp_model_free(model);
}

/* NVML does not list ended processes. Their absence must not count as NVML being unable to list processes. */
START_TEST(what_has_ended_is_not_missed)
{
    for (int reaped = 0; reaped < 2; reaped++) {
        struct mp_device_watch watch;
        pid_t child = fork();
        if (!child) _exit(0);
        siginfo_t ended;
        ck_assert(!waitid(P_PID, (id_t)child, &ended, WEXITED | (reaped ? 0 : WNOWAIT)));
        struct mp_recording *recording = begin(&watch, (uint32_t)child);
        read_at(&watch, 0, 10, use_of((uint32_t)child, 3 * MIB, 1 * MIB, 2 * MIB));
        read_at(&watch, 0, 20, use_of((uint32_t)child, 2 * MIB, 0, 2 * MIB));
        ck_assert(mp_recording_round(recording, false));
        struct mp_model *model = finish(recording);
        ck_assert_str_eq(samples_of(model), "cuda:0/device 10 3; cuda:0/process 10 1; cuda:0/others 10 2; ");
        ck_assert_str_eq(notes_of(model), "");
        mp_model_free(model);
        if (!reaped) waitpid(child, NULL, 0);
    }
}

START_TEST(what_is_not_known_is_said)
{
    struct mp_device_watch watch;
    uint32_t own = (uint32_t)getpid();
    char wanted[400];
    /* NVML does not list this process. */
    struct mp_recording *recording = begin(&watch, own);
    read_at(&watch, 0, 10, use_of(own, 3 * MIB, 0, 2 * MIB));
    ck_assert(mp_recording_round(recording, false));
    struct mp_model *model = finish(recording);
    snprintf(wanted, sizeof wanted,
             "what this process and others each use of cuda:0 is not known: NVML names no process %u (in a container "
             "processes have other numbers); ",
             own);
    ck_assert_str_eq(notes_of(model), wanted);
    ck_assert_str_eq(samples_of(model), "cuda:0/device 10 3; ");
    mp_model_free(model);
    /* The process is listed without a size, there was no earlier reading, and others have more than the total. */
    recording = begin(&watch, own);
    watch.first[0] = (struct mp_device_reading){.use = use_of(own, 1 * MIB, 0, 2 * MIB)};
    watch.has_first[0] = true;
    read_at(&watch, 0, 10, use_of(own, 3 * MIB, MP_BYTES_UNKNOWN, 2 * MIB));
    ck_assert(mp_recording_round(recording, false));
    model = finish(recording);
    ck_assert_str_eq(notes_of(model),
                     "what each process uses of cuda:0 is not known: NVML lists processes without numbers; ");
    ck_assert_str_eq(samples_of(model), "cuda:0/before 0 1; cuda:0/device 10 3; ");
    mp_model_free(model);
    /* The device is unknown. */
    recording = begin(&watch, own);
    recording->devices.visible = strdup("GPU-ffffffff");
    read_at(&watch, 0, 10, use_of(own, 3 * MIB, 0, 2 * MIB));
    ck_assert(mp_recording_round(recording, false));
    model = finish(recording);
    ck_assert_str_eq(notes_of(model),
                     "which GPU cuda:0 was is not known from CUDA_VISIBLE_DEVICES and the order of the bus; its "
                     "total is not known (CUDA_DEVICE_ORDER=PCI_BUS_ID makes the order known); ");
    ck_assert_str_eq(samples_of(model), "");
    mp_model_free(model);
    /* Nothing at all. */
    recording = begin(&watch, own);
    watch.gpus.count = 0;
    watch.trouble = "it is broken";
    ck_assert(mp_recording_round(recording, false));
    model = finish(recording);
    ck_assert_str_eq(notes_of(model), "device totals are not known: it is broken; ");
    mp_model_free(model);
    /* Programs on the CPU get no such samples. */
    recording = begin(&watch, own);
    watch.trouble = "it is broken";
    atomic_store(&recording->spool.header->tables[MP_TABLE_TRACKS].count, 0);
    ck_assert(mp_recording_round(recording, false));
    ck_assert_uint_eq(watch.asked, 0);
    model = finish(recording);
    ck_assert_str_eq(notes_of(model), "");
    mp_model_free(model);
}

/* CUDA reads variables when the process begins; those that the process sets afterwards do not count. */
START_TEST(what_the_process_was_started_with)
{
    static const char *const variables[] = {"XCUDA_VISIBLE_DEVICES=no", "CUDA_VISIBLE_DEVICES=2,0",
                                            "CUDA_DEVICE_ORDER=", NULL};
    int ready[2];
    char byte;
    ck_assert(!pipe(ready));
    pid_t child = fork();
    if (!child) {
        dup2(ready[1], STDOUT_FILENO);
        execle("/bin/sh", "sh", "-c", "export CUDA_VISIBLE_DEVICES=1; echo; read x <&-; sleep 100", (char *)NULL,
               variables);
        _exit(1);
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    struct mp_device_watch watch;
    struct mp_recording *recording = begin(&watch, (uint32_t)child);
    ck_assert_str_eq(recording->devices.visible, "2,0");
    ck_assert_str_eq(recording->devices.order, "");
    read_at(&watch, 2, 10, use_of((uint32_t)child, 3 * MIB, 1 * MIB, 2 * MIB));
    ck_assert(mp_recording_round(recording, false));
    struct mp_model *model = finish(recording);
    ck_assert_str_eq(samples_of(model), "cuda:0/device 10 3; cuda:0/process 10 1; cuda:0/others 10 2; ");
    mp_model_free(model);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
}

MP_SUITE("device_samples", readings_are_samples, the_programs_own_driver_says_which_device_it_is,
         what_has_ended_is_not_missed, what_is_not_known_is_said, what_the_process_was_started_with)

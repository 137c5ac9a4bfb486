#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collect/recover/recover.h"
#include "model/load.h"
#include "model/model.h"
#include "model/track.h"
#include "unit/suite.h"

#define BLOCKS 150000 /* more blocks than two chunks of a base */
#define BYTES  512

static char folder[] = "/tmp/memprof-recover-XXXXXX", path[64];
static pid_t maker; /* the process that made the folder: each test is a child, and also runs destructors */

static void must(enum mp_status status, const struct mp_error *error)
{
    ck_assert_msg(!status, "%s", error->text);
}

/* Makes a recording that begins with BLOCKS live blocks, `past_events` after the program's start. The last two are
 * freed. With `cut` the end is missing. */
static void make_recording(bool cut, uint64_t past_events)
{
    const struct mp_recording_start start = {.realtime_ns = 1, .host = "", .configuration = "", .spool = ""};
    const struct mp_string strings[] = {{"", 0}, {"cpu", 3}};
    const struct mp_device device = {.name = 1, .total_bytes = MP_BYTES_UNKNOWN};
    const struct mp_track track = {.layer = MP_LAYER_APP};
    const struct mp_thread_info thread = {.tid = 1};
    struct mp_base_block *base = calloc(BLOCKS, sizeof *base);
    struct mp_event events[2];
    struct mp_writer *writer;
    struct mp_error error;
    for (size_t i = 0; i < BLOCKS; i++)
        base[i] = (struct mp_base_block){.block = i, .address = (i + 1) << 12, .bytes = BYTES};
    for (size_t i = 0; i < 2; i++)
        events[i] = (struct mp_event){.type = MP_EVENT_FREE,
                                      .time_ns = i,
                                      .block = BLOCKS - 1 - i,
                                      .bytes = BYTES,
                                      .address = (uint64_t)(BLOCKS - i) << 12};
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(mp_writer_open(fd, &start, &writer, &error), &error);
    must(mp_writer_strings(writer, strings, 2, &error), &error);
    must(mp_writer_devices(writer, &device, 1, &error), &error);
    must(mp_writer_tracks(writer, &track, 1, &error), &error);
    must(mp_writer_threads(writer, &thread, 1, &error), &error);
    const struct mp_past past = {.events = past_events};
    if (past_events) must(mp_writer_past(writer, &past, &error), &error);
    must(mp_writer_base(writer, 0, base, BLOCKS, &error), &error);
    must(mp_writer_events(writer, events, 2, NULL, 0, NULL, 0, &error), &error);
    if (cut)
        mp_writer_abandon(writer);
    else
        must(mp_writer_finish(writer, &error), &error);
    free(base);
}

static enum mp_status name_file(void *context, struct mp_recording *recording, char **name, int *fd,
                                struct mp_error *error)
{
    (void)recording;
    (void)error;
    *fd = memfd_create("recovered", MFD_CLOEXEC);
    *(int *)context = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    *name = strdup("recovered");
    return MP_OK;
}

static struct mp_model *recover(void)
{
    struct mp_recovery recovery;
    struct mp_model *model;
    struct mp_error error;
    char name[64];
    int fd = -1;
    must(mp_recover(path, name_file, &fd, &recovery, &error), &error);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    must(mp_model_load(name, &model, &error), &error);
    free(recovery.summary.path);
    close(fd);
    unlink(path);
    return model;
}

START_TEST(a_base_of_many_chunks_is_one_base)
{
    for (int cut = 0; cut < 2; cut++) {
        make_recording(cut, 0);
        struct mp_model *model = recover();
        ck_assert_uint_eq(model->sums.at[0].base_bytes, (uint64_t)BLOCKS * BYTES);
        ck_assert_uint_eq(model->sums.at[0].end_blocks, BLOCKS - 2);
        ck_assert_uint_eq(model->sums.at[0].frees, 2);
        ck_assert_int_eq(mp_model_incomplete(model), cut); /* a cut file without its spool stays incomplete */
        mp_model_free(model);
    }
}

START_TEST(a_bounded_recording_keeps_its_past)
{
    for (uint64_t past = 0; past < 2; past++) {
        make_recording(false, past);
        struct mp_model *model = recover();
        ck_assert_uint_eq(model->past.events, past);
        mp_model_free(model);
    }
}

/* Makes the spool of an ended process with only three tracks left. Returns its path. */
static char *make_spool(uint64_t number)
{
    struct mp_spool_header *facts = calloc(1, sizeof *facts);
    struct mp_spool_file spool;
    struct mp_error error;
    facts->magic = MP_SPOOL_MAGIC;
    facts->version = MP_SPOOL_VERSION;
    facts->header_bytes = sizeof *facts;
    facts->spool_id = number;
    must(mp_spool_file_create(facts, folder, &spool, &error), &error);
    struct mp_wire_track *tracks = mp_spool_entries(spool.header, MP_TABLE_TRACKS);
    tracks[0] = (struct mp_wire_track){.device_type = MP_DEVICE_CUDA, .layer = MP_LAYER_TORCH};
    tracks[1] = (struct mp_wire_track){.device_type = MP_DEVICE_CUDA, .device_index = 1};
    tracks[2] = (struct mp_wire_track){.device_type = MP_DEVICE_CPU, .device_index = -1, .layer = MP_LAYER_TORCH};
    atomic_store(&spool.header->tables[MP_TABLE_TRACKS].count, 3);
    char *made = strdup(spool.path);
    mp_spool_file_close(&spool, false);
    free(facts);
    return made;
}

/* File or spool may come from somebody else, so neither is trusted about the other. */
START_TEST(a_file_with_more_than_its_spool_is_refused)
{
    enum { TRACKS_MANY = 4000 };
    struct mp_track *tracks = calloc(TRACKS_MANY, sizeof *tracks);
    for (int of_frames = 0; of_frames < 2; of_frames++) {
        char *spool = make_spool(17);
        const struct mp_recording_start start = {
            .realtime_ns = 1, .host = "", .configuration = "", .spool = spool, .spool_id = 17};
        const struct mp_device device = {.total_bytes = MP_BYTES_UNKNOWN};
        const struct mp_frame frame = {.language = MP_PYTHON};
        struct mp_recovery recovery;
        struct mp_writer *writer;
        struct mp_error error;
        int made = -1;
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        must(mp_writer_open(fd, &start, &writer, &error), &error);
        must(mp_writer_devices(writer, &device, 1, &error), &error);
        if (of_frames)
            must(mp_writer_frames(writer, &frame, 1, &error), &error);
        else
            must(mp_writer_tracks(writer, tracks, TRACKS_MANY, &error), &error);
        mp_writer_abandon(writer);
        ck_assert_int_eq(mp_recover(path, name_file, &made, &recovery, &error), MP_DAMAGED);
        ck_assert_ptr_nonnull(strstr(error.text, "spool"));
        ck_assert_int_eq(access(spool, F_OK), 0);
        close(made);
        unlink(path);
        unlink(spool);
        free(spool);
    }
    free(tracks);
}

/* Only tracks tell which device an entry is for. Later facts of a device are in an entry without tracks. */
START_TEST(a_device_that_is_new_in_the_spool_is_itself)
{
    static const struct mp_string strings[] = {{"", 0}, {"cuda:0", 6}, {"GPU-1", 5}, {"cuda:1", 6}};
    static const struct mp_device devices[] = {{.name = 1}, {.name = 1, .uuid = 2}, {.name = 3}};
    static const char *const ids[] = {"cuda:0/torch", "cuda:1/driver", "cpu/torch"};
    static const struct mp_track tracks[] = {{.device = 0, .layer = MP_LAYER_TORCH}, {.device = 2}};
    for (size_t in_file = 1; in_file <= 2; in_file++) {
        char *spool = make_spool(19);
        const struct mp_recording_start start = {
            .realtime_ns = 1, .host = "", .configuration = "", .spool = spool, .spool_id = 19};
        struct mp_writer *writer;
        struct mp_error error;
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        must(mp_writer_open(fd, &start, &writer, &error), &error);
        must(mp_writer_strings(writer, strings, 4, &error), &error);
        must(mp_writer_devices(writer, devices, 3, &error), &error);
        must(mp_writer_tracks(writer, tracks, in_file, &error), &error);
        mp_writer_abandon(writer);
        struct mp_model *model = recover();
        char id[MP_ID_TEXT];
        ck_assert_uint_eq(model->tracks.count, 3);
        for (uint16_t i = 0; i < 3; i++)
            ck_assert_str_eq(mp_track_id(model, i, id), ids[i]);
        mp_model_free(model);
        free(spool);
    }
}

/* If a chunk of texts is damaged, its texts read as empty, so the file has a text twice. */
START_TEST(texts_that_a_file_has_twice_keep_their_numbers)
{
    static const struct mp_string strings[] = {{"", 0}, {"cpu", 3}, {"", 0}, {"cpu", 3}, {"main", 4}};
    char *spool = make_spool(18);
    const struct mp_recording_start start = {
        .realtime_ns = 1, .host = "", .configuration = "", .spool = spool, .spool_id = 18};
    const struct mp_device device = {.name = 1, .total_bytes = MP_BYTES_UNKNOWN};
    const struct mp_thread_info thread = {.tid = 1, .name = 4};
    struct mp_writer *writer;
    struct mp_error error;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(mp_writer_open(fd, &start, &writer, &error), &error);
    must(mp_writer_strings(writer, strings, 5, &error), &error);
    must(mp_writer_devices(writer, &device, 1, &error), &error);
    must(mp_writer_threads(writer, &thread, 1, &error), &error);
    mp_writer_abandon(writer);
    struct mp_model *model = recover();
    ck_assert_str_eq(mp_model_text(model, model->threads.at[0].name), "main");
    ck_assert_str_eq(mp_model_text(model, model->devices.at[0].name), "cpu");
    ck_assert_uint_eq(model->coverage.note_count, 1);
    ck_assert_str_eq(mp_model_text(model, model->coverage.notes[0]), "recovered from what a killed collector left");
    ck_assert(access(spool, F_OK));
    mp_model_free(model);
    free(spool);
}

static void make_folder(void) __attribute__((constructor));
static void make_folder(void)
{
    if (!mkdtemp(folder)) exit(1);
    maker = getpid();
    snprintf(path, sizeof path, "%s/run.mp", folder);
}

static void remove_folder(void) __attribute__((destructor));
static void remove_folder(void)
{
    if (getpid() == maker) rmdir(folder);
}

MP_SUITE("recover", a_base_of_many_chunks_is_one_base, a_bounded_recording_keeps_its_past,
         a_file_with_more_than_its_spool_is_refused, a_device_that_is_new_in_the_spool_is_itself,
         texts_that_a_file_has_twice_keep_their_numbers)

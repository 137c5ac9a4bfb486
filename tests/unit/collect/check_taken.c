/* Effects of records that are no events: refusals of memory, questions, notes. Also the timed work of a round. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/recording/recording_take.h"
#include "collect/recording/recording_write.h"
#include "model/load.h"
#include "model/model.h"
#include "unit/collect/traffic.h"
#include "unit/suite.h"

#define MS          UINT64_C(1000000)
#define HANDED_OVER 100000 /* ns after which a record is old enough to be taken */

enum { DRIVER, TORCH, APP, CPU_TORCH, NONE = TRAFFIC_TRACKS };

static char path[64];
static uint64_t ms; /* since the recording's beginning */

static struct mp_recording *begin(void)
{
    snprintf(path, sizeof path, "/tmp/memprof-taken-%u.mp", (unsigned)getpid());
    ms = 0;
    traffic_spool_id = (uint64_t)getpid() << 16 | 77;
    return traffic_record(NULL, path, NULL, "/tmp");
}

static struct mp_recording_summary end(struct mp_recording *recording, struct mp_exit how)
{
    struct mp_recording_summary summary;
    ck_assert_uint_eq(recording->spool.header->collector_left, 0);
    uint32_t drained = recording->spool.header->drained;
    mp_recording_end(recording, how, "over");
    ck_assert_uint_eq(recording->spool.header->collector_left, 1); /* its threads no longer wait for a reader */
    ck_assert_uint_gt(recording->spool.header->drained, drained);
    mp_recording_finish(recording, &summary);
    ck_assert_msg(!summary.failed, "%s", summary.failure.text);
    return summary;
}

static void leave(struct mp_recording *recording, struct mp_recording_summary *summary)
{
    free(summary->path);
    mp_recording_free(recording, true);
    unlink(path);
    traffic_now_ns = 0;
}

static void put(struct mp_recording *recording, uint32_t ring, struct mp_record record)
{
    struct mp_spool_header *spool = recording->spool.header;
    uint64_t head = atomic_load(&spool->rings[ring].head);
    record.time_ns = TRAFFIC_START_NS + ms * MS;
    if (record.type != MP_RECORD_TORCH && !record.total_allocated)
        record.total_allocated = record.total_reserved = MP_RECORD_TOTAL_UNKNOWN;
    *mp_ring_record(spool, ring, head) = record;
    atomic_store(&spool->rings[ring].head, head + 1);
    traffic_now_ns = record.time_ns + HANDED_OVER;
}

static void go_on(struct mp_recording *recording)
{
    ck_assert_msg(mp_recording_round(recording, false), "%s", recording->file.failure.text);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* A sequence of events, one word each: time in ms, thread, kind and track. */
enum what {
    OOM = MP_EVENT_OOM,
    ALLOC = MP_EVENT_ALLOC,
    FREE = MP_EVENT_FREE,
    HELD = MP_EVENT_RESERVED,
    MARK = MP_EVENT_MARK,
    STATS = MP_RECORD_STATS,
    ROUND = 200
};
struct happening {
    uint64_t ms;
    uint32_t thread;
    enum what what;
    uint16_t track;
};

static void play(struct mp_recording *recording, const struct happening *happening)
{
    ms = happening->ms;
    traffic_now_ns = TRAFFIC_START_NS + ms * MS + HANDED_OVER;
    if (happening->what != ROUND)
        put(recording, happening->thread,
            (struct mp_record){.type = (uint8_t)happening->what,
                               .track = happening->track,
                               .address = 0x10000 * (ms + 1),
                               .bytes = happening->what == FREE ? MP_BYTES_UNKNOWN : 4096});
    go_on(recording);
}

#define MOST 12
static const struct refused {
    const char *name;
    struct happening all[MOST + 1];
    uint64_t looks[MOST]; /* times of the expected snapshots in ms, in order */
    unsigned count;
    bool loaded;     /* the process has loaded PyTorch's allocator */
    bool badly;      /* how it ends */
    unsigned at_end; /* how many snapshots are requested only at the end */
} refused[] = {
    {.name = "PyTorch says so itself", .all = {{5, 0, OOM, TORCH}}, .looks = {5}, .count = 1},
    {.name = "the thread gets memory, of no allocator",
     .all = {{5, 0, OOM, DRIVER}, {6, 0, ALLOC, DRIVER}},
     .looks = {5},
     .count = 1},
    {.name = "it frees some, of no allocator",
     .all = {{5, 0, OOM, DRIVER}, {6, 0, FREE, DRIVER}},
     .looks = {5},
     .count = 1},
    {.name = "the allocator is another device's",
     .all = {{1, 0, HELD, CPU_TORCH}, {5, 0, OOM, DRIVER}, {6, 0, ALLOC, DRIVER}},
     .looks = {5},
     .count = 1},
    {.name = "the allocator gets memory after all",
     .all = {{1, 0, HELD, TORCH},
             {5, 0, OOM, DRIVER},
             {6, 0, FREE, DRIVER},
             {7, 0, ALLOC, DRIVER},
             {8, 0, ALLOC, TORCH},
             {9000, 0, MARK, 0}}},
    {.name = "another library does",
     .all = {{1, 0, HELD, TORCH}, {5, 0, OOM, DRIVER}, {6, 0, FREE, DRIVER}, {7, 0, ALLOC, DRIVER}, {8, 0, MARK, 0}},
     .looks = {5},
     .count = 1},
    {.name = "a CPU tensor is no answer",
     .all = {{1, 0, HELD, TORCH}, {5, 0, OOM, DRIVER}, {6, 0, ALLOC, CPU_TORCH}, {7, 0, ALLOC, TORCH}},
     .looks = {5},
     .count = 1},
    {.name = "nor is the program's own",
     .all = {{1, 0, HELD, TORCH}, {5, 0, OOM, DRIVER}, {6, 0, ALLOC, APP}, {7, 0, ALLOC, TORCH}},
     .looks = {5},
     .count = 1},
    {.name = "nor a lack of another device's",
     .all = {{1, 0, HELD, TORCH}, {5, 0, OOM, DRIVER}, {6, 0, OOM, CPU_TORCH}, {7, 0, ALLOC, TORCH}},
     .looks = {5, 6},
     .count = 2,
     .badly = true,
     .at_end = 1},
    {.name = "the allocator does not",
     .all = {{1, 0, HELD, TORCH}, {5, 0, OOM, DRIVER}, {6, 0, FREE, DRIVER}, {7, 0, OOM, TORCH}, {9000, 0, ROUND, 0}},
     .looks = {7},
     .count = 1},
    {.name = "the thread does something else",
     .all = {{1, 0, HELD, TORCH}, {5, 0, OOM, DRIVER}, {6, 0, MARK, 0}, {7, 0, ALLOC, DRIVER}},
     .looks = {5},
     .count = 1},
    {.name = "what another thread does says nothing",
     .all = {{1, 0, HELD, TORCH}, {5, 0, OOM, DRIVER}, {6, 1, MARK, 0}, {7, 1, OOM, TORCH}, {8, 0, ALLOC, TORCH}},
     .looks = {7},
     .count = 1},
    {.name = "totals and questions are nothing that it does",
     .all =
         {{1, 0, HELD, TORCH}, {5, 0, OOM, DRIVER}, {6, 0, HELD, TORCH}, {7, 0, STATS, DRIVER}, {8, 0, ALLOC, TORCH}}},
    {.name = "twice is once",
     .all = {{5, 0, OOM, DRIVER}, {6, 0, OOM, DRIVER}, {7, 0, MARK, 0}, {8, 0, MARK, 0}},
     .looks = {5},
     .count = 1},
    {.name = "one that is decided after a later one's is near that",
     .all = {{1, 0, HELD, TORCH}, {5, 0, OOM, DRIVER}, {6, 1, OOM, TORCH}, {7, 0, MARK, 0}},
     .looks = {6},
     .count = 1},
    {.name = "two threads",
     .all = {{5, 0, OOM, DRIVER}, {6, 1, OOM, DRIVER}, {7, 0, MARK, 0}, {12000, 1, MARK, 0}},
     .looks = {5},
     .count = 1},
    {.name = "not the allocator's, then a CPU tensor",
     .loaded = true,
     .all = {{5, 0, OOM, DRIVER}, {6, 0, ALLOC, CPU_TORCH}, {7, 0, MARK, 0}},
     .looks = {5},
     .count = 1},
    {.name = "not the allocator's, then the program's own",
     .loaded = true,
     .all = {{5, 0, OOM, DRIVER}, {6, 0, ALLOC, APP}, {7, 0, MARK, 0}},
     .looks = {5},
     .count = 1},
    {.name = "no allocator is there: at once", .all = {{5, 0, OOM, DRIVER}}, .looks = {5}, .count = 1},
    {.name = "the allocator's first: its word is waited for",
     .loaded = true,
     .all = {{5, 0, OOM, DRIVER}, {90000, 0, ROUND, 0}, {90001, 0, OOM, TORCH}},
     .looks = {90001},
     .count = 1},
    {.name = "the allocator's first, in pieces",
     .loaded = true,
     .all = {{5, 0, ALLOC, DRIVER},
             {6, 0, OOM, DRIVER},
             {7, 0, FREE, DRIVER},
             {8, 0, ALLOC, DRIVER},
             {9, 0, OOM, DRIVER},
             {10, 0, FREE, DRIVER},
             {11, 0, OOM, TORCH}},
     .looks = {11},
     .count = 1},
    {.name = "the allocator's first, survived",
     .loaded = true,
     .all = {{5, 0, OOM, DRIVER}, {6, 0, ALLOC, DRIVER}, {7, 0, ALLOC, TORCH}, {8, 0, MARK, 0}}},
    {.name = "not the allocator's first, where one is loaded",
     .loaded = true,
     .all = {{5, 0, OOM, DRIVER}, {6, 0, ALLOC, DRIVER}, {7, 0, MARK, 0}},
     .looks = {5},
     .count = 1},
    {.name = "not the allocator's first, and nothing more",
     .loaded = true,
     .all = {{5, 0, OOM, DRIVER}, {90000, 0, ROUND, 0}},
     .looks = {5},
     .count = 1,
     .at_end = 1},
    {.name = "the allocator is waited for",
     .all = {{1, 0, HELD, TORCH}, {5, 0, OOM, DRIVER}, {20000, 0, ROUND, 0}},
     .looks = {5},
     .count = 1,
     .at_end = 1},
    {.name = "within ten seconds of one: not at a good end",
     .all = {{5, 0, OOM, TORCH}, {10004, 0, OOM, TORCH}},
     .looks = {5},
     .count = 1},
    {.name = "within ten seconds of one: at a bad end",
     .all = {{5, 0, OOM, TORCH}, {10004, 0, OOM, TORCH}},
     .looks = {5, 10004},
     .count = 2,
     .badly = true,
     .at_end = 1},
    {.name = "ten seconds after one",
     .all = {{5, 0, OOM, TORCH}, {10005, 0, OOM, TORCH}},
     .looks = {5, 10005},
     .count = 2,
     .badly = true},
    {.name = "three, and the last",
     .all = {{1, 0, OOM, TORCH},
             {20000, 0, OOM, TORCH},
             {40000, 0, OOM, TORCH},
             {60000, 0, OOM, TORCH},
             {80000, 0, OOM, TORCH}},
     .looks = {1, 20000, 40000, 80000},
     .count = 4,
     .badly = true,
     .at_end = 1},
    {.name = "three",
     .all = {{1, 0, OOM, TORCH}, {20000, 0, OOM, TORCH}, {40000, 0, OOM, TORCH}, {60000, 0, OOM, TORCH}},
     .looks = {1, 20000, 40000},
     .count = 3},
};

static void check_refused(const struct refused *test)
{
    struct mp_recording *recording = begin();
    atomic_store(&recording->spool.header->seen.has_cuda_allocator, test->loaded);
    for (const struct happening *at = test->all; at->ms; at++)
        play(recording, at);
    size_t asked = recording->ooms.requests.count;
    struct mp_recording_summary summary =
        end(recording, (struct mp_exit){.known = true, .by_signal = test->badly, .status = test->badly ? 9 : 0});
    ck_assert_msg(recording->ooms.requests.count == test->count, "%s: %zu looks", test->name,
                  recording->ooms.requests.count);
    ck_assert_msg(asked + test->at_end == test->count, "%s: %zu looks before the end", test->name, asked);
    for (unsigned i = 0; i < test->count; i++) {
        const struct mp_snapshot_request *request = &recording->ooms.requests.at[i];
        ck_assert(request->at_oom && !request->number && !request->path);
        ck_assert_msg(request->oom_ns == test->looks[i] * MS, "%s: at %llu", test->name,
                      (unsigned long long)request->oom_ns);
    }
    leave(recording, &summary);
}

START_TEST(a_refusal_is_looked_at_where_it_is_not_survived)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_refused(&refused[i]);
}

/* A damaged spool may name any track; the layer of a missing track is not read. */
START_TEST(a_refusal_on_no_track_is_nobodys)
{
    struct mp_recording *recording = begin();
    struct mp_error error;
    atomic_store(&recording->spool.header->seen.has_cuda_allocator, 1);
    for (uint16_t track = 0; track < 3 * NONE; track++) {
        struct mp_event oom = {.type = MP_EVENT_OOM, .time_ns = track * 20000 * MS, .track = track, .thread = track};
        recording->ooms.looked_at = 0;
        size_t before = recording->ooms.requests.count, refusals = recording->ooms.refusals.count;
        ck_assert(!mp_recording_follow_oom(recording, &oom, &error));
        ck_assert_uint_eq(recording->ooms.requests.count - before, track != DRIVER);
        ck_assert_uint_eq(recording->ooms.refusals.count - refusals, track == DRIVER);
    }
    struct mp_recording_summary summary = end(recording, (struct mp_exit){.known = true});
    leave(recording, &summary);
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static void check_answer(struct mp_recording *recording, uint16_t track, bool found, uint64_t live, uint64_t peak,
                         uint64_t blocks)
{
    static uint32_t number;
    put(recording, 0, (struct mp_record){.type = MP_RECORD_STATS, .track = track, .bytes = ++number});
    go_on(recording);
    const struct mp_spool_answer *answer = &recording->spool.header->answer;
    ck_assert_uint_eq(answer->answered, number);
    ck_assert_uint_eq(answer->found, found);
    ck_assert_uint_eq(answer->live_bytes, live);
    ck_assert_uint_eq(answer->peak_bytes, peak);
    ck_assert_uint_eq(answer->live_blocks, blocks);
}

static void alloc(struct mp_recording *recording, uint16_t track, uint64_t address, uint64_t bytes)
{
    put(recording, 0, (struct mp_record){.type = ALLOC, .track = track, .address = address, .bytes = bytes});
}

START_TEST(questions_are_answered)
{
    struct mp_recording *recording = begin();
    check_answer(recording, MP_RECORD_ALL_TRACKS, false, 0, 0, 0);
    check_answer(recording, TORCH, false, 0, 0, 0);
    for (uint64_t i = 0; i < 3; i++)
        alloc(recording, TORCH, 0x1000 + i * 0x1000, 1000);
    alloc(recording, APP, 0x9000, 3000);
    check_answer(recording, TORCH, true, 3000, 3000, 3);
    check_answer(recording, APP, true, 3000, 3000, 1);
    check_answer(recording, NONE + 1, false, 0, 0, 0);
    check_answer(recording, MP_RECORD_ALL_TRACKS, true, 3000, 3000, 3); /* the first one of the highest */
    put(recording, 0, (struct mp_record){.type = FREE, .track = TORCH, .address = 0x1000, .bytes = MP_BYTES_UNKNOWN});
    check_answer(recording, TORCH, true, 2000, 3000, 2);
    put(recording, 0, (struct mp_record){.type = FREE, .track = APP, .address = 0x9000, .bytes = MP_BYTES_UNKNOWN});
    put(recording, 0, (struct mp_record){.type = MP_RECORD_RESET_PEAK, .track = TORCH});
    check_answer(recording, TORCH, true, 2000, 2000, 2);
    check_answer(recording, APP, true, 0, 3000, 0);
    put(recording, 0, (struct mp_record){.type = MP_RECORD_RESET_PEAK, .track = MP_RECORD_ALL_TRACKS});
    check_answer(recording, APP, true, 0, 0, 0);
    alloc(recording, APP, 0x9000, 5000);
    check_answer(recording, MP_RECORD_ALL_TRACKS, true, 5000, 5000, 1);
    struct mp_recording_summary summary = end(recording, (struct mp_exit){.known = true});
    leave(recording, &summary);
}

/* ---- notes of the file
 * ----------------------------------------------------------------------------------------------- */

static struct mp_model *load(void)
{
    struct mp_model *model;
    struct mp_error error;
    enum mp_status status = mp_model_load(path, &model, &error);
    ck_assert_msg(!status, "%s", status ? error.text : "");
    return model;
}

START_TEST(each_note_is_told_once)
{
    struct mp_recording *recording = begin();
    struct mp_spool_header *spool = recording->spool.header;
    char longest[MP_SPOOL_NOTE_TEXT + 1];
    memset(longest, 'n', MP_SPOOL_NOTE_TEXT);
    longest[MP_SPOOL_NOTE_TEXT] = '\0';
    strcpy(spool->notes[0], "first");
    memcpy(spool->notes[1], longest, MP_SPOOL_NOTE_TEXT); /* no NUL */
    strcpy(spool->notes[2], "first");
    for (unsigned i = 3; i < MP_SPOOL_NOTES; i++)
        snprintf(spool->notes[i], MP_SPOOL_NOTE_TEXT, "note %u", i);
    alloc(recording, TORCH, 0x1000, 1000);
    atomic_store(&spool->note_count, 2);
    go_on(recording);
    ck_assert_uint_eq(recording->notes.count, 2);
    mp_recording_note(recording, "own");
    mp_recording_note(recording, "own");
    atomic_store(&spool->note_count, MP_SPOOL_NOTES + 7); /* a damaged one */
    go_on(recording);
    struct mp_recording_summary summary = end(recording, (struct mp_exit){.known = true});
    struct mp_model *model = load();
    ck_assert_uint_eq(model->coverage.note_count, MP_SPOOL_NOTES);
    ck_assert_str_eq(mp_model_text(model, model->coverage.notes[0]), "first");
    ck_assert_str_eq(mp_model_text(model, model->coverage.notes[1]), longest);
    ck_assert_str_eq(mp_model_text(model, model->coverage.notes[2]), "own");
    for (unsigned i = 3; i < MP_SPOOL_NOTES; i++)
        ck_assert_str_eq(mp_model_text(model, model->coverage.notes[i]), spool->notes[i]);
    mp_model_free(model);
    leave(recording, &summary);
}

/* Resident and shared bytes of a process, as its statm says. */
static void read_statm(pid_t pid, uint64_t *resident, uint64_t *shared)
{
    char name[64];
    unsigned long pages[2];
    snprintf(name, sizeof name, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(name, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*u %lu %lu", &pages[0], &pages[1]), 2);
    fclose(file);
    *resident = pages[0] * (uint64_t)sysconf(_SC_PAGESIZE);
    *shared = pages[1] * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Starts a program that stops itself, so that its memory stays constant. It allocates more when it is continued. */
static pid_t start_program(void)
{
    pid_t program = fork();
    if (!program) {
        raise(SIGSTOP);
        for (int round = 0; round < 2; round++) {
            size_t bytes = 32 << 20;
            char *more = malloc(bytes);
            for (size_t i = 0; i < bytes; i += 1024)
                ((volatile char *)more)[i] = 1;
            raise(SIGSTOP);
        }
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(program, &status, WUNTRACED), program);
    return program;
}

/* Lets the program allocate more, and reads its memory. */
static void take_more(pid_t program, uint64_t *resident, uint64_t *shared)
{
    int status;
    kill(program, SIGCONT);
    ck_assert_int_eq(waitpid(program, &status, WUNTRACED), program);
    read_statm(program, resident, shared);
    ck_assert_uint_gt(resident[0], resident[-1]);
}

static void look_until(struct mp_recording *recording, uint64_t until_ms)
{
    for (; ms < until_ms; ms += 10) {
        traffic_now_ns = TRAFFIC_START_NS + ms * MS + HANDED_OVER;
        go_on(recording);
    }
}

static void expect_sample(const struct mp_model *model, size_t at, const char *counter, uint64_t at_ms, uint64_t value)
{
    ck_assert_uint_lt(at, model->samples.count);
    ck_assert_str_eq(mp_model_text(model, model->samples.at[at].counter), counter);
    ck_assert_uint_eq(model->samples.at[at].time_ns, at_ms * MS + HANDED_OVER);
    ck_assert_uint_eq(model->samples.at[at].value, value);
}

START_TEST(the_programs_memory_is_sampled_where_it_changes)
{
    uint64_t resident[3], shared[3];
    pid_t program = start_program();
    struct mp_recording *recording = begin();
    recording->pid = (uint32_t)program;
    alloc(recording, TORCH, 0x1000, 1000);
    go_on(recording); /* there is no file yet: nothing is sampled */
    ck_assert_uint_eq(recording->samples.count, 0);
    ms = 100;
    look_until(recording, 110);
    read_statm(program, &resident[0], &shared[0]);
    take_more(program, &resident[1], &shared[1]);
    look_until(recording, 400); /* seen 10 ms after the first look, and written once */
    ms = 6000;
    look_until(recording, 6010);
    take_more(program, &resident[2], &shared[2]);
    look_until(recording, 6200); /* after 5 s every 50 ms */
    struct mp_recording_summary summary = end(recording, (struct mp_exit){.known = true});
    kill(program, SIGKILL);
    waitpid(program, NULL, 0);
    struct mp_model *model = load();
    static const uint64_t seen_at_ms[] = {100, 110, 6050};
    size_t next = 0;
    for (size_t i = 0; i < 3; i++) {
        expect_sample(model, next++, "cpu/resident", seen_at_ms[i], resident[i]);
        if (!i || shared[i] != shared[i - 1]) expect_sample(model, next++, "cpu/shared", seen_at_ms[i], shared[i]);
    }
    ck_assert_uint_eq(model->samples.count, next);
    mp_model_free(model);
    leave(recording, &summary);
}

START_TEST(the_file_is_written_at_first_and_every_two_seconds)
{
    struct mp_recording *recording = begin();
    static const struct {
        uint64_t ms;
        unsigned allocs;
        size_t pending;
    } rounds[] = {{10, 0, 0},   {20, 1, 0},   {30, 1, 1},   {2019, 1, 2}, {2020, 0, 0},
                  {2030, 1, 1}, {2040, 1, 2}, {4019, 0, 2}, {4020, 0, 0}, {9000, 1, 0}};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        ms = rounds[i].ms;
        traffic_now_ns = TRAFFIC_START_NS + ms * MS + HANDED_OVER;
        for (unsigned k = 0; k < rounds[i].allocs; k++)
            alloc(recording, TORCH, 0x1000 * (i + 1), 1000);
        atomic_store(&recording->spool.header->rung, 1);
        go_on(recording);
        ck_assert_uint_eq(recording->spool.header->rung, 0);
        ck_assert_msg(recording->pending.count == rounds[i].pending, "at %llu ms %zu are pending",
                      (unsigned long long)ms, recording->pending.count);
    }
    /* A label alone also makes a write due. */
    ms = 20000;
    put(recording, 0, (struct mp_record){.type = MP_RECORD_LABEL, .address = 0x3000, .kind = 1});
    go_on(recording);
    ck_assert_uint_eq(recording->labels.count, 0);
    struct mp_recording_summary summary = end(recording, (struct mp_exit){.known = true});
    leave(recording, &summary);
}

/* A waiting program learns that nobody reads any more, also if the recording is given up. */
START_TEST(a_recording_that_is_given_up_says_so)
{
    struct mp_recording *recording = begin();
    struct mp_spool_file again;
    struct mp_error error;
    char *spool = strdup(recording->spool.path);
    uint32_t drained = recording->spool.header->drained;
    mp_recording_free(recording, false);
    ck_assert(!mp_spool_file_open(spool, &again, &error));
    ck_assert_uint_eq(again.header->collector_left, 1);
    ck_assert_uint_eq(again.header->drained, drained + 1);
    ck_assert(!mp_spool_attended(again.header));
    mp_spool_file_close(&again, true);
    /* the same if its file cannot be written */
    recording = begin();
    alloc(recording, TORCH, 0x1000, 1000);
    static char nowhere[] = "/no/such/folder/file.mp";
    recording->file.name_context = nowhere;
    ck_assert(!mp_recording_round(recording, false));
    ck_assert_int_eq(recording->file.failed, MP_IO);
    ck_assert_uint_eq(recording->spool.header->collector_left, 0); /* the program counts on */
    ck_assert(!mp_spool_attended(recording->spool.header));
    ck_assert_str_eq(recording->spool.header->written.why, recording->file.failure.text);
    struct mp_error other = {.text = "later"};
    ck_assert(!mp_recording_check(recording, MP_NO_MEMORY, &other));
    ck_assert_int_eq(recording->file.failed, MP_IO); /* the first counts */
    ck_assert_ptr_nonnull(strstr(recording->file.failure.text, "/no/such/folder/file.mp"));
    ck_assert(!mp_recording_round(recording, false));
    mp_recording_free(recording, true);
    free(spool);
    traffic_now_ns = 0;
}

MP_SUITE("taken", a_recording_that_is_given_up_says_so, a_refusal_is_looked_at_where_it_is_not_survived,
         a_refusal_on_no_track_is_nobodys, questions_are_answered, each_note_is_told_once,
         the_programs_memory_is_sampled_where_it_changes, the_file_is_written_at_first_and_every_two_seconds)

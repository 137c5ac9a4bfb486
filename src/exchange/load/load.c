#include "exchange/load/load.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exchange/common/input.h"
#include "exchange/kineto/kineto.h"
#include "exchange/nsys/nsys.h"
#include "exchange/pytorch/pickle.h"
#include "exchange/pytorch/pytorch_snapshot.h"
#include "exchange/rmm/rmm.h"
#include "format/reader.h"
#include "format/start.h"
#include "model/load.h"

/* A recording is already compressed: gzip makes it hardly smaller. */
#define UNWRAPPED_TIMES 16
#define UNWRAPPED_MORE  (32u << 20)

/* A recording is read at random positions, so a compressed one is first unwrapped into memory. */
static enum mp_status load_wrapped(struct mp_input *input, struct mp_model **model, struct mp_error *error)
{
    char name[64];
    int fd = memfd_create("recording", MFD_CLOEXEC);
    if (fd < 0) return mp_fail_errno(error, "cannot unwrap %s", input->path);
    input->most = UNWRAPPED_TIMES * input->file_bytes + UNWRAPPED_MORE;
    enum mp_status status = mp_input_fill(input, 1, error);
    while (!status && input->at < input->end) {
        ssize_t put = write(fd, input->at, (size_t)(input->end - input->at));
        if (put < 0 && errno != EINTR) {
            status = mp_fail_errno(error, "cannot unwrap %s", input->path);
        } else {
            input->at += put > 0 ? put : 0;
            status = mp_input_fill(input, 1, error);
        }
    }
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (!status) status = mp_model_load(name, model, error);
    close(fd);
    if (!status) (*model)->file.bytes = input->file_bytes;
    return status;
}

static bool starts_with(const struct mp_input *input, const void *start, size_t length)
{
    return (size_t)(input->end - input->at) >= length && !memcmp(input->at, start, length);
}

/* Files that users confuse with recordings. Each begins with `start`. If `within` begins with a dot, the file's name
 * ends with it; otherwise the file's first bytes contain it. `within` NULL: `start` suffices. */
static const struct {
    const char *start, *within, *says;
} others[] = {
    {"", ".nsys-rep", "a report of Nsight Systems: nsys export --type sqlite makes the database that memprof reads"},
    {"", ".qdrep", "a report of Nsight Systems: nsys export --type sqlite makes the database that memprof reads"},
    {"", ".ncu-rep", "a report of Nsight Compute, which has kernels and no allocations"},
    {"", ".safetensors", "weights in the format safetensors, not a recording"},
    {"", ".py", "a Python program: memprof snapshot -- python3 PROGRAM records it"},
    {"{", "speedscope.app/file-format-schema", "a profile of speedscope, which memprof only writes"},
    {"<!DOCTYPE html", NULL, "a web page: open it in a browser, or name the recording that it was made of"},
    {"PERFILE2", NULL, "a recording of perf: perf report reads it"},
    {"desc:", "\ncmd:", "output of Valgrind's massif: ms_print reads it"},
    {"", "brain.Event:", "an event file of TensorBoard: memprof reads PyTorch's trace, *.pt.trace.json"},
    {"version https://git-lfs", NULL, "a pointer of Git LFS, not the file itself: fetch that with git lfs pull"},
    {"[", "RMM LOG BEGIN", "RMM's debug log: memprof reads the CSV log of its logging_resource_adaptor"},
    {"[", "] [A][Stream", "RMM's debug log: memprof reads the CSV log of its logging_resource_adaptor"},
    {"\373)\003", NULL, "a profile of cProfile, which measures time: pstats reads it"},
    {"\373\251\003", NULL, "a profile of cProfile, which measures time: pstats reads it"},
    {"\200", "\214\vtracemalloc\224\214\bSnapshot", "a dump of tracemalloc: tracemalloc.Snapshot.load() reads it"},
    {"[",
     "\"ph\":", "a trace without memory: export_chrome_trace() of torch.profiler.profile(profile_memory=True) has it"},
    {"memray", NULL, "a recording of memray: memray reports read it"},
    {"heap profile:", NULL, "a heap profile of gperftools: pprof reads it"},
    {"heap_v2/", NULL, "a heap profile of jemalloc: jeprof reads it"},
    {"PK\003\004", NULL,
     "a zip archive, as torch.save() writes: memprof reads what "
     "torch.cuda.memory._dump_snapshot() writes"},
    {"\177ELF", NULL, "a program or library, not a recording"},
};

#define SEARCHED 4096 /* bytes */

static enum mp_status refuse_other(const struct mp_input *input, struct mp_error *error)
{
    size_t there = (size_t)(input->end - input->at), searched = there < SEARCHED ? there : SEARCHED;
    bool known = mp_start_begins(input->at, there);
    for (size_t i = 0; i < sizeof others / sizeof *others && !known; i++) {
        const char *within = others[i].within;
        size_t length = within ? strlen(within) : 0, name = strlen(input->path);
        bool fits = !within || (*within == '.' ? name > length && !strcmp(input->path + name - length, within)
                                               : memmem(input->at, searched, within, length) != NULL);
        if (fits && starts_with(input, others[i].start, strlen(others[i].start)))
            return mp_fail(error, MP_NOT_A_RECORDING, "%s is %s", input->path, others[i].says);
    }
    return MP_OK;
}

static bool is_blank(unsigned char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* JSON begins with a brace or bracket, maybe after a byte order mark. */
static bool looks_like_json(struct mp_input *input)
{
    if (starts_with(input, "\xef\xbb\xbf", 3)) input->at += 3;
    const unsigned char *at = input->at;
    while (at < input->end && is_blank(*at))
        at++;
    return at < input->end && (*at == '{' || *at == '[');
}

/* True if the first key is one of a snapshot's. */
static bool first_key_is_snapshot(const struct mp_input *input)
{
    static const char *const keys[] = {
        "segments", "device_traces", "allocator_settings", "external_annotations", "host_segments", "host_traces",
        "device",   "address",       "total_size",         "allocated_size",       "active_size",   "blocks"};
    const unsigned char *at = memchr(input->at, '"', (size_t)(input->end - input->at));
    const unsigned char *end = at ? memchr(at + 1, '"', (size_t)(input->end - at - 1)) : NULL;
    for (size_t i = 0; end && i < sizeof keys / sizeof *keys; i++)
        if ((size_t)(end - at - 1) == strlen(keys[i]) && !memcmp(at + 1, keys[i], strlen(keys[i]))) return true;
    return false;
}

static enum mp_status load_json(struct mp_input *input, struct mp_model **model, struct mp_error *error)
{
    if (first_key_is_snapshot(input)) return mp_pytorch_load_json(input, model, error);
    if (mp_kineto_looks_like(input->at, (size_t)(input->end - input->at)))
        return mp_kineto_load(input->path, model, error);
    return mp_fail(error, MP_NOT_A_RECORDING, "%s is JSON, but neither PyTorch's snapshot nor its profiler's trace",
                   input->path);
}

static enum mp_status load_database(struct mp_input *input, struct mp_model **model, struct mp_error *error)
{
    if (!input->wrapped) return mp_nsys_load(input->path, model, error);
    return mp_fail(error, MP_NOT_A_RECORDING, "%s is a compressed database: run gunzip on it first", input->path);
}

static enum mp_status load_input(struct mp_input *input, struct mp_model **model, struct mp_error *error)
{
    enum mp_status status = mp_input_fill(input, MP_INPUT_WINDOW, error);
    if (!status) status = refuse_other(input, error);
    if (status) return status;
    if (looks_like_json(input)) return load_json(input, model, error);
    if (mp_pickle_begins(input->at, (size_t)(input->end - input->at)))
        return mp_pytorch_load_pickle(input, model, error);
    if (mp_rmm_looks_like(input->at, (size_t)(input->end - input->at))) return mp_rmm_load(input, model, error);
    if (mp_sqlite_begins(input->at, (size_t)(input->end - input->at))) return load_database(input, model, error);
    if (input->wrapped && mp_start_begins(input->at, (size_t)(input->end - input->at)))
        return load_wrapped(input, model, error);
    if (input->wrapped && starts_with(input, "\n", 1)) /* tag of pprof's first field, sample_type */
        return mp_fail(error, MP_NOT_A_RECORDING, "%s seems to be a profile of pprof, which memprof only writes",
                       input->path);
    return mp_model_load(input->path, model, error);
}

enum mp_status mp_exchange_load_any(const char *path, struct mp_model **model, struct mp_error *error)
{
    struct stat facts;
    if (stat(path, &facts) || !S_ISREG(facts.st_mode) || !facts.st_size) return mp_model_load(path, model, error);
    struct mp_input input;
    enum mp_status status = mp_input_open(path, &input, error);
    if (status) return status;
    status = load_input(&input, model, error);
    mp_input_close(&input);
    return status;
}

enum mp_status mp_exchange_load(const char *path, struct mp_model **model, struct mp_error *error)
{
    struct stat facts;
    enum mp_status status = mp_exchange_load_any(path, model, error);
    if (status || !mp_model_is_job(*model)) return status;
    const struct mp_model_job *job = &(*model)->job;
    const char *first = job->processes.count ? mp_model_text(*model, job->processes.at[0].path) : "";
    bool is_there = *first && !stat(first, &facts); /* jobs may be moved, and read in other folders */
    status = mp_fail(error, MP_UNSUPPORTED, "%s is a job of %zu recordings: name one of %s%s", path,
                     job->processes.count, is_there ? "them, as " : "its recordings", is_there ? first : "");
    mp_model_free(*model);
    *model = NULL;
    return status;
}

bool mp_exchange_is_job(const char *path)
{
    struct stat facts;
    struct mp_reader *reader;
    struct mp_error error;
    if (stat(path, &facts) || !S_ISREG(facts.st_mode) || mp_reader_open(path, &reader, &error)) return false;
    bool is_job = mp_start_is_job(mp_reader_start(reader));
    mp_reader_close(reader);
    return is_job;
}

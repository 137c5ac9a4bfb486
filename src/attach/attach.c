#include "attach/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/attach_driver.h"
#include "attach/attach_libunwind.h"
#include "attach/attach_perf.h"
#include "attach/attach_tables.h"
#include "attach/attach_unwind.h"
#include "attach/stop.h"
#include "base/clock.h"
#include "collect/session/collector.h"
#include "collect/session/command_line.h"
#include "collect/session/new_recording.h"
#include "collect/session/process_end.h"
#include "collect/session/session.h"

struct mp_attach_session {
    struct mp_collector_options options;
    struct mp_collector collector; /* serves one process, which it did not start */
};

/* Listens. If this fails, questions get no answer, and the recording goes on. The caller keeps `recording` and `pidfd`,
 * which must outlive the session. */
static void attach_session_open(struct mp_attach_session *session, struct mp_recording *recording, int pidfd,
                                const char *output)
{
    struct mp_collected process = {.recording = recording, .pidfd = pidfd, .pid = recording->pid};
    struct mp_error unused;
    session->options = (struct mp_collector_options){.output = output};
    session->collector = (struct mp_collector){.options = &session->options,
                                               .listener = -1,
                                               .locked = -1,
                                               .snapshots = {.calls = &session->options.snapshot_calls}};
    mp_naming_host(session->collector.host, sizeof session->collector.host);
    if (mp_vec_push(&session->collector.processes, process) && mp_collector_listen(&session->collector, &unused))
        mp_collector_listen_no_more(&session->collector);
}

static void reap(struct mp_attach_session *session, bool wait)
{
    uint64_t recording;
    uint32_t number;
    bool written;
    while (mp_snapshots_reap(&session->collector.snapshots, wait, &recording, &number, &written)) {
    }
}

/* Answers the questions that have arrived. Waits for nobody. */
static void attach_session_serve(struct mp_attach_session *session)
{
    if (session->collector.listener >= 0) mp_collector_accept(&session->collector);
    reap(session, false);
}

/* Waits for files that are being written, and removes everything of the session. Does nothing if zero-initialised. */
static void attach_session_close(struct mp_attach_session *session)
{
    if (!session->collector.options) return;
    mp_collector_listen_no_more(&session->collector);
    reap(session, true);
    mp_snapshots_free(&session->collector.snapshots);
    mp_vec_free(&session->collector.processes);
    session->collector.options = NULL;
}

#define ROUND_MS     10
#define LATE_NS      (50 * MP_NS_PER_MS)  /* an event reaches the ring within this time */
#define LOOK_NS      (100 * MP_NS_PER_MS) /* how often memprof looks for an exec and for children */
#define CHILD_RING   (4u << 20)           /* bytes: children may be many; their memprof empties it each 10 ms */
#define LIST_NS      (250 * MP_NS_PER_MS) /* how often it looks for libraries: the list of PyTorch's takes 3 ms */
#define RETURNS_MOST 16
#define FILES_WANTED                                                                                                   \
    65536 /* a descriptor for each mapped library, and for each probe; as many as most limits allow                    \
           */
#define MEASURE_NS   MP_NS_PER_SECOND
#define TRAP_NS      2000 /* cost of a probe's trap, which its program does not see; an upper bound for x86-64 */
#define SAMPLE_LEAST (16 << 10)
#define NATIVE_ONLY                                                                                                    \
    "the kernel refuses BPF here: attach sees PyTorch's blocks with native stacks, no Python frames and no calls of "  \
    "the driver"
#define RING_IDLE_NS MP_NS_PER_SECOND /* after this time without events, a ring may serve another thread */

extern const unsigned char mp_attach_object[], mp_attach_object_end[];

/* A function to probe; its address is the offset in the file. */
struct found {
    struct mp_attach_module *module;
    uint64_t address, bytes;
    unsigned cookie;
};

struct attached {
    const struct mp_attach_options *options;
    struct mp_attach_target target;
    struct mp_attach_interpreter python;
    struct mp_attach_tables tables;
    struct mp_recording *recording;
    struct bpf_object *object;
    struct ring_buffer *ring;
    struct mp_attach_session session;
    struct mp_attach_perf *perf; /* used if the kernel refuses the BPF program; else NULL */
    MP_VEC(struct found) found;
    size_t looked_at; /* modules that functions were sought in */
    MP_VEC(struct bpf_link *) links;
    struct bpf_link *counters[2]; /* of children, and of programs in this one's place; NULL: not counted */
    char lacks[1024];             /* functions that the process's libraries lack */
    struct bpf_link *cpu_alloc;   /* link of the probe on alloc_cpu; NULL: not attached, or detached */
    uint64_t cpu_alloc_cookie;
    unsigned probes;
    uint32_t sources;
    struct mp_map cpu_blocks;    /* from alloc_cpu: address to 1 */
    struct mp_map mapped_blocks; /* other reported CPU storage, such as mapped files: address to 1 */
    struct mp_attach_driver driver;
    struct mp_map children; /* recorded children: pid to 1 */
    struct mp_map threads;  /* tid to ring + 1 */
    uint64_t used_ns[MP_SPOOL_RINGS_MAX];
    uint64_t ring_dropped;
    uint64_t misplaced;         /* events recorded under another thread */
    bool missed;                /* something that the program did since then was not watched */
    uint64_t forked;            /* number of processes that are not recorded */
    uint64_t recorded;          /* children */
    uint64_t from_ns, until_ns; /* only events in this time count, because probes come and go one by one */
    bool device_seen, driver_seen;
    bool measures;         /* true before the recording: events are only counted */
    uint64_t sizes[64];    /* during measuring: number of blocks by the logarithm of their size */
    uint64_t sample_bytes; /* 0: every block is recorded */
    char sample_note[192];
};

/* ---- the recording ---------------------------------------------------------------------------------------------- */

static enum mp_status create_file(void *context, struct mp_recording *recording, char **path, int *fd,
                                  struct mp_error *error)
{
    const struct attached *a = context;
    enum mp_new_file_way way = !a->options->force   ? MP_NEW_FILE_FRESH
                               : a->options->chosen ? MP_NEW_FILE_CHOSEN
                                                    : MP_NEW_FILE_FORCE;
    enum mp_status status = mp_new_recording_file(recording, a->options->output, way, fd, error);
    if (status) return status;
    *path = strdup(a->options->output);
    return *path ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory for a file name");
}

static enum mp_status open_recording(struct attached *a, struct mp_error *error)
{
    const struct mp_attach_options *options = a->options;
    struct mp_record_config config = options->record;
    config.sample_bytes = (uint32_t)a->sample_bytes;
    const struct mp_new_recording begun = {.pid = options->pid,
                                           .output = options->output,
                                           .config = &config,
                                           .symbols = options->symbols,
                                           .keep_command = options->keep_command,
                                           .name = create_file,
                                           .context = a};
    a->recording = mp_new_recording(&begun, error);
    if (!a->recording) return error->status;
    a->from_ns = a->recording->spool.header->monotonic_ns;
    a->tables = (struct mp_attach_tables){.target = &a->target,
                                          .python = &a->python,
                                          .spool = &a->recording->spool,
                                          .depth = options->record.depth,
                                          .libunwind = options->record.libunwind,
                                          .native = options->record.native_stacks,
                                          .python_frames = options->record.python_stacks && !a->perf};
    atomic_store(&a->recording->spool.header->sources, a->sources);
    return MP_OK;
}

/* The thread's ring. If no ring is idle, the thread shares the first ring, and its events count as those of that ring's
 * thread. */
static uint32_t ring_of(struct attached *a, const struct mp_attach_event *event)
{
    struct mp_spool_header *spool = a->recording->spool.header;
    uint64_t *known = mp_map_at(&a->threads, event->tid, NULL);
    uint32_t ring = (uint32_t)*known;
    if (ring && spool->rings[ring - 1].tid == event->tid) return ring - 1;
    ring = atomic_load(&spool->rings_used);
    if (ring >= atomic_load(&spool->rings_committed)) (void)mp_spool_file_grow(&a->recording->spool);
    if (ring >= atomic_load(&spool->rings_committed)) {
        for (ring = 1; ring < atomic_load(&spool->rings_used); ring++)
            if (event->time_ns > a->used_ns[ring] + RING_IDLE_NS &&
                a->recording->drain.next[ring] == atomic_load(&spool->rings[ring].head))
                break;
        if (ring == atomic_load(&spool->rings_used)) {
            a->misplaced++;
            return 0;
        }
    }
    spool->rings[ring].tid = event->tid;
    memcpy(spool->rings[ring].name, event->name, sizeof spool->rings[ring].name);
    if (a->perf) mp_process_name(event->tid, spool->rings[ring].name);
    atomic_store(&spool->rings[ring].state, MP_RING_OWNED);
    if (ring >= atomic_load(&spool->rings_used)) atomic_store(&spool->rings_used, ring + 1);
    *known = ring + 1;
    return ring;
}

static void put(struct attached *a, const struct mp_attach_event *event, const struct mp_record *record)
{
    struct mp_spool_header *spool = a->recording->spool.header;
    uint32_t ring = ring_of(a, event);
    uint64_t head = atomic_load(&spool->rings[ring].head);
    a->used_ns[ring] = event->time_ns;
    if (head - atomic_load(&spool->rings[ring].tail) >= MP_RING_RECORDS) mp_recording_round(a->recording, false);
    if (head - atomic_load(&spool->rings[ring].tail) >= MP_RING_RECORDS) {
        atomic_fetch_add(&spool->rings[ring].dropped, 1);
        return;
    }
    *mp_ring_record(spool, ring, head) = *record;
    atomic_store(&spool->rings[ring].head, head + 1);
}

static uint16_t track_of(struct attached *a, const struct mp_attach_fact *fact)
{
    struct mp_wire_track track = {.device_index = fact->device.type == MP_DEVICE_CPU ? -1 : fact->device.index,
                                  .device_type = (uint8_t)fact->device.type,
                                  .layer = fact->of_driver ? MP_LAYER_DRIVER : MP_LAYER_TORCH,
                                  .size_basis = fact->of_driver ? MP_BASIS_EXACT : MP_BASIS_BLOCK,
                                  .name = mp_attach_text(&a->tables, fact->pool)};
    return mp_attach_track(&a->tables, &track);
}

/* alloc_cpu reports the blocks of PyTorch's CPU allocator. While a profiler runs, the allocator reports these blocks
 * again; its reports of other blocks concern mapped storage. False: the fact makes no event. */
static bool sort_out_cpu(struct attached *a, const struct mp_attach_event *event, const struct mp_attach_fact *fact)
{
    enum mp_attach_action action = mp_attach_probes[event->probe].action;
    /* In the kernel, a report does not show that the sample has already decided about the block at alloc_cpu. */
    if (a->sample_bytes && !mp_map_find(&a->cpu_blocks, fact->address) && action != MP_ATTACH_CPU_ALLOC) return false;
    bool is_alloc = fact->type == MP_EVENT_ALLOC;
    if (is_alloc && a->device_seen)
        return false; /* drops also a profiler's reports, and events that were on their
                       * way */
    if (action == MP_ATTACH_CPU_ALLOC) {
        *mp_map_at(&a->cpu_blocks, fact->address, NULL) = 1;
        return true;
    }
    if (action == MP_ATTACH_CPU_FREE) {
        if (mp_map_remove(&a->cpu_blocks, fact->address, NULL)) return true;
        return !a->device_seen; /* the block is older than the recording: it counts only before that */
    }
    if (mp_map_find(&a->cpu_blocks, fact->address)) return false;
    if (!is_alloc) return mp_map_remove(&a->mapped_blocks, fact->address, NULL);
    *mp_map_at(&a->mapped_blocks, fact->address, NULL) = 1;
    return true;
}

/* Once another device is used, CPU tensors are dropped, as in a program that was started under memprof. */
static void see_device(struct attached *a)
{
    if (a->device_seen || a->options->record.cpu_throughout) return;
    a->device_seen = true;
    for (size_t i = 0; i < a->links.count; i++)
        if (a->links.at[i] == a->cpu_alloc) a->links.at[i] = NULL;
    bpf_link__destroy(a->cpu_alloc);
    a->cpu_alloc = NULL;
    if (a->perf) mp_attach_perf_stop(a->perf, a->cpu_alloc_cookie);
    if (a->cpu_blocks.count)
        mp_recording_note(a->recording, "CPU tensors were recorded until the first block of another device");
}

static void book(void *context, const struct mp_attach_event *event, struct mp_attach_fact *fact)
{
    struct attached *a = context;
    uint16_t track = track_of(a, fact);
    bool is_cpu = fact->device.type == MP_DEVICE_CPU && !fact->of_driver;
    if (track == UINT16_MAX || (is_cpu && fact->type != MP_EVENT_OOM && !sort_out_cpu(a, event, fact))) return;
    a->driver_seen |= fact->of_driver;
    if (!is_cpu && !fact->of_driver) see_device(a);
    const struct mp_attach_frame *frames = (const struct mp_attach_frame *)(event + 1);
    bool with_stack = event->stack_bytes || event->python_count;
    struct mp_record record = {
        .time_ns = event->time_ns,
        .address = fact->address,
        .bytes = fact->bytes,
        .total_allocated = fact->allocated,
        .total_reserved = fact->reserved,
        .stack = with_stack ? mp_attach_node(&a->tables, event, frames, frames + event->python_count) : 0,
        .track = track,
        .type = (uint8_t)fact->type,
        .kind = (uint8_t)fact->kind};
    put(a, event, &record);
}

static int take(void *context, void *data, size_t size)
{
    struct attached *a = context;
    const struct mp_attach_event *event = data;
    if (size < sizeof *event || event->probe >= mp_attach_probe_count ||
        size < sizeof *event + event->python_count * sizeof(struct mp_attach_frame) + event->stack_bytes ||
        event->time_ns < a->from_ns || event->time_ns > a->until_ns)
        return 0;
    bool of_driver = mp_attach_probes[event->probe].action == MP_ATTACH_DRIVER;
    struct mp_attach_fact fact = mp_attach_fact_of(event);
    if (a->measures) {
        bool counts = fact.type == MP_EVENT_ALLOC && fact.bytes;
        if (counts) a->sizes[63 - __builtin_clzll(fact.bytes)]++;
    } else if (of_driver) {
        mp_attach_driver_take(&a->driver, event, book, a);
    } else if (fact.type != MP_EVENT_NONE) {
        book(a, event, &fact);
    }
    return 0;
}

/* ---- the kernel's side ------------------------------------------------------------------------------------------ */

static enum mp_status refuse(struct mp_error *error, int number)
{
    if ((number == EPERM || number == EACCES) && !geteuid())
        return mp_fail(error, MP_UNSUPPORTED,
                       "the kernel refused memprof's probes: root lacks CAP_SYS_ADMIN here (a container, seccomp or "
                       "lockdown); run memprof attach outside of the container");
    if (number == EPERM || number == EACCES)
        return mp_fail(error, MP_UNSUPPORTED,
                       "the kernel does not let this user attach: use sudo; before Linux 6.16 it is enough to give "
                       "memprof the rights: sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_sys_resource+ep "
                       "$(command -v memprof)");
    if (number == EMFILE || number == ENFILE)
        return mp_fail(error, MP_UNSUPPORTED,
                       "memprof may open too few files for its probes: raise the limit (ulimit -n)");
    if (number == E2BIG)
        return mp_fail(error, MP_UNSUPPORTED,
                       "without BPF, which the kernel refuses here, each thread needs probes on each processor: this "
                       "program has too many threads");
    return mp_fail(
        error, MP_UNSUPPORTED,
        "the kernel refused memprof's probes (%s): attach needs Linux 5.17 or later with uprobes, BPF and BTF",
        strerror(number));
}

static bool set_up(const struct attached *a)
{
    struct mp_attach_settings settings = {.pid = a->options->pid,
                                          .free_stacks = a->options->record.free_stacks,
                                          .measures = a->measures,
                                          .sample_bytes = a->sample_bytes,
                                          .ids_device = a->target.ids_device,
                                          .ids_inode = a->target.ids_inode};
    uint32_t zero = 0;
    if (a->python.layout) settings.python = a->python.settings;
    struct bpf_map *map = bpf_object__find_map_by_name(a->object, "settings");
    return !bpf_map_update_elem(bpf_map__fd(map), &zero, &settings, BPF_ANY);
}

static enum mp_status load_program(struct attached *a, struct mp_error *error)
{
    libbpf_set_print(NULL);
    a->object = bpf_object__open_mem(mp_attach_object, (size_t)(mp_attach_object_end - mp_attach_object), NULL);
    if (!a->object) return refuse(error, errno);
    struct bpf_map *scratches = bpf_object__find_map_by_name(a->object, "scratches");
    int cpus = libbpf_num_possible_cpus();
    bpf_map__set_max_entries(scratches, MP_ATTACH_SCRATCHES * (uint32_t)(cpus > 0 ? cpus : 1));
    if (a->options->is_child) bpf_map__set_max_entries(bpf_object__find_map_by_name(a->object, "ring"), CHILD_RING);
    if (!a->options->overhead_most) bpf_map__set_max_entries(bpf_object__find_map_by_name(a->object, "kept"), 1);
    int failed = bpf_object__load(a->object);
    if (failed) return refuse(error, -failed);
    if (a->options->record.python_stacks) (void)mp_attach_find_python(&a->target, &a->python);
    a->measures = a->options->overhead_most > 0;
    if (!set_up(a)) return refuse(error, errno);
    a->ring = ring_buffer__new(bpf_object__find_map_fd_by_name(a->object, "ring"), take, a, NULL);
    return a->ring ? MP_OK : refuse(error, errno);
}

/* Loads the BPF program. If the kernel refuses it, plain probes see native stacks of PyTorch's blocks: of all or of
 * none. */
static enum mp_status load(struct attached *a, struct mp_error *error)
{
    if (access("/sys/bus/event_source/devices/uprobe/type", R_OK))
        return mp_fail(error, MP_UNSUPPORTED, "attach needs uprobes, which this kernel lacks (CONFIG_UPROBE_EVENTS)");
    enum mp_status status = load_program(a, error);
    if (status && !a->options->overhead_most) a->perf = mp_attach_perf_open(a->options->pid);
    return a->perf ? MP_OK : status;
}

static enum mp_status attach_at(struct attached *a, const struct mp_attach_module *module, const char *program,
                                uint64_t address, uint64_t cookie, struct mp_error *error)
{
    uint64_t offset;
    LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = !strcmp(program, "mp_returned"), .bpf_cookie = cookie);
    if (!mp_attach_file_offset(module, address, &offset)) return MP_OK;
    char file[64]; /* the open file: another file may have its name by now */
    snprintf(file, sizeof file, "/proc/self/fd/%d", module->fd);
    int failed = a->perf ? mp_attach_perf_probe(a->perf, module->fd, offset, cookie) : 0;
    a->probes += !failed;
    if (failed) return refuse(error, failed);
    if (a->perf) return MP_OK;
    struct bpf_link *link = bpf_program__attach_uprobe_opts(bpf_object__find_program_by_name(a->object, program),
                                                            (pid_t)a->target.thread, file, offset, &opts);
    if (!link) return refuse(error, errno);
    mp_vec_add(&a->links, link);
    return MP_OK;
}

/* Probes a function at its first instruction, and at its return if that is needed. */
static enum mp_status attach_one(struct attached *a, const struct found *found, struct mp_error *error)
{
    const struct mp_attach_probe *probe = &mp_attach_probes[found->cookie & MP_ATTACH_PROBE_MASK];
    struct mp_attach_module *module = found->module;
    uint64_t at[RETURNS_MOST] = {found->address};
    if (probe->action == MP_ATTACH_CPU_ALLOC && a->device_seen) return MP_OK;
    enum mp_status status = attach_at(a, module, "mp_enter", found->address, found->cookie, error);
    if (probe->action == MP_ATTACH_CPU_ALLOC && !status) {
        a->cpu_alloc_cookie = found->cookie;
        if (!a->perf) a->cpu_alloc = a->links.at[a->links.count - 1];
    }
    if (found->cookie & MP_ATTACH_RETURNS) {
        size_t count = mp_attach_returns(module, found->address, found->bytes, at, RETURNS_MOST);
        for (size_t i = 0; i < count + !count && !status; i++)
            status = attach_at(a, module, count ? "mp_leave" : "mp_returned", at[i], found->cookie, error);
    }
    a->sources |= probe->action == MP_ATTACH_DRIVER ? MP_SOURCE_HOOKS : MP_SOURCE_TORCH;
    return status;
}

static bool is_found(const struct attached *a, const char *name)
{
    for (size_t i = 0; i < a->found.count; i++)
        if (!strcmp(mp_attach_probes[a->found.at[i].cookie & MP_ATTACH_PROBE_MASK].name, name)) return true;
    return false;
}

/* Plain probes do not see the results of calls, so they would see only frees of the driver's memory. */
static bool can_probe(const struct attached *a, unsigned number, unsigned *cookie)
{
    return mp_attach_probe_cookie(number, cookie) && !(a->perf && mp_attach_probes[number].action == MP_ATTACH_DRIVER);
}

/* A library may be mapped twice (dlmopen), or again: its probes are in the file, and see both. */
static bool is_probed(const struct attached *a, const struct mp_attach_module *module, unsigned cookie)
{
    struct stat one, other;
    for (size_t i = 0; i < a->found.count; i++)
        if (a->found.at[i].cookie == cookie && !fstat(module->fd, &one) && !fstat(a->found.at[i].module->fd, &other) &&
            one.st_dev == other.st_dev && one.st_ino == other.st_ino)
            return true;
    return false;
}

/* A library may be loaded from a file of memory, which has a name by courtesy. */
static bool is_library(const struct mp_attach_module *module, const char *name)
{
    const char *own = strrchr(module->path, '/') + 1;
    return !strncmp(own + (strncmp(own, "memfd:", 6) ? 0 : 6), name, strlen(name));
}

/* Finds the functions in modules that are new. */
static void find_new(struct attached *a, bool *has_torch, bool *has_cuda)
{
    unsigned cookie;
    size_t before = a->looked_at;
    a->looked_at = a->target.modules.count;
    for (unsigned i = 0; i < mp_attach_probe_count; i++) {
        const struct mp_attach_probe *probe = &mp_attach_probes[i];
        for (size_t k = before; can_probe(a, i, &cookie) && k < a->looked_at; k++) {
            struct mp_attach_module *module = a->target.modules.at[k];
            struct found found = {.module = module, .cookie = cookie};
            if (module->gone || !is_library(module, probe->library)) continue;
            *(probe->action == MP_ATTACH_DRIVER ? has_cuda : has_torch) = true;
            if (mp_attach_symbol(module, probe->symbol, &found.address, &found.bytes) && !is_probed(a, module, cookie))
                mp_vec_add(&a->found, found);
        }
    }
}

/* Finds the functions that the process has, and names the ones that its libraries lack. */
static enum mp_status find_all(struct attached *a, struct mp_error *error)
{
    bool has_torch = false, has_cuda = false;
    unsigned cookie;
    find_new(a, &has_torch, &has_cuda);
    for (unsigned i = 0; i < mp_attach_probe_count; i++) {
        const struct mp_attach_probe *probe = &mp_attach_probes[i];
        size_t used = strlen(a->lacks);
        bool is_next = i && !strcmp(probe->name, probe[-1].name);
        if ((probe->action == MP_ATTACH_DRIVER ? has_cuda : has_torch) && can_probe(a, i, &cookie) && !is_next &&
            !is_found(a, probe->name))
            snprintf(a->lacks + used, sizeof a->lacks - used, "%s%s", used ? ", " : "", probe->name);
    }
    if (a->found.count) return MP_OK;
    if (a->target.short_of_files) return refuse(error, EMFILE);
    if (a->options->child && !has_torch && !has_cuda) return MP_OK; /* its children are waited for */
    if (has_torch || has_cuda)
        return mp_fail(error, MP_UNSUPPORTED,
                       "process %" PRIu32
                       " has PyTorch or CUDA, but its libraries have none of the functions that attach knows",
                       a->options->pid);
    if (a->perf)
        return mp_fail(
            error, MP_UNSUPPORTED,
            "process %" PRIu32
            " has no PyTorch (libc10.so), and without BPF, which the kernel refuses here, attach sees blocks "
            "of PyTorch alone",
            a->options->pid);
    return mp_fail(error, MP_UNSUPPORTED,
                   "process %" PRIu32
                   " has loaded neither PyTorch (libc10.so) nor CUDA's driver (libcuda.so): there is "
                   "nothing to attach to",
                   a->options->pid);
}

/* Sets a probe for every function found, from that number on. Probes for frees come first: a block whose free is missed
 * would look like a leak. */
static enum mp_status attach_from(struct attached *a, size_t first, struct mp_error *error)
{
    for (int with_stack = 0; with_stack < 2; with_stack++)
        for (size_t i = first; i < a->found.count; i++) {
            bool later = a->found.at[i].cookie & MP_ATTACH_STACK;
            enum mp_status status = later == with_stack ? attach_one(a, &a->found.at[i], error) : MP_OK;
            if (status) return status;
        }
    return MP_OK;
}

/* Fails if the process has no function to probe. */
static enum mp_status attach_all(struct attached *a, struct mp_error *error)
{
    static const char *const counters[] = {"mp_fork", "mp_exec"};
    enum mp_status status;
    do { /* again where the thread has ended on which the probes hang */
        for (size_t i = 0; i < a->links.count; i++)
            bpf_link__destroy(a->links.at[i]);
        a->links.count = a->probes = 0;
        status = attach_from(a, 0, error);
    } while (status && !a->perf && mp_attach_target_moved(&a->target));
    /* If this fails, children are not counted, and another program in this process's place is not noticed. */
    for (size_t i = 0; i < 2 && !a->perf && !status; i++)
        a->counters[i] = bpf_program__attach(bpf_object__find_program_by_name(a->object, counters[i]));
    return status;
}

static void detach(struct attached *a)
{
    for (size_t i = 0; i < a->links.count; i++)
        if (a->links.at[i]) bpf_link__destroy(a->links.at[i]);
    mp_vec_free(&a->links);
    for (size_t i = 0; i < 2; i++) {
        if (a->counters[i]) bpf_link__destroy(a->counters[i]);
        a->counters[i] = NULL;
    }
    mp_vec_free(&a->found);
    mp_attach_perf_close(a->perf);
    a->perf = NULL;
}

/* ---- the bound on the cost -------------------------------------------------------------------------------------- */

static bool read_counts(const struct attached *a, struct mp_attach_counts *counts)
{
    uint32_t zero = 0;
    return !bpf_map_lookup_elem(bpf_object__find_map_fd_by_name(a->object, "counts"), &zero, counts);
}

static bool ends_within(const struct attached *a, int ms)
{
    struct pollfd ended = {.fd = a->target.pidfd, .events = POLLIN};
    return poll(&ended, 1, ms) > 0;
}

/* The number of measured blocks in a sample with that mean. */
static double kept_of(const struct attached *a, double mean)
{
    double kept = 0;
    for (unsigned i = 0; i < 64; i++)
        kept += (double)a->sizes[i] * -expm1(-1.5 * ldexp(1, (int)i) / mean);
    return kept;
}

/* Measures for a moment what events cost the program. If they cost more than allowed, memprof takes a sample whose mean
 * is a power of two. Traps of dropped events cost the program's time all the same. If the traps alone exceed the bound,
 * the sample may cost a tenth of their time. */
static bool bound_cost(struct attached *a)
{
    struct mp_attach_counts counts;
    uint64_t begun = mp_clock_monotonic_ns(), passed;
    while ((passed = mp_clock_monotonic_ns() - begun) < MEASURE_NS && !ends_within(a, ROUND_MS))
        (void)ring_buffer__consume(a->ring);
    (void)ring_buffer__consume(a->ring);
    if (!read_counts(a, &counts)) return false;
    a->ring_dropped = counts.dropped + counts.unpaired;
    double most = a->options->overhead_most * (double)passed, traps = (double)counts.events * TRAP_NS;
    double all = traps + (double)counts.spent_ns,
           each = (double)counts.spent_ns / (double)(counts.events + !counts.events);
    double left = most - traps > traps / 10 ? most - traps : traps / 10;
    a->measures = false;
    if (all > most) {
        a->sample_bytes = SAMPLE_LEAST;
        while (a->sample_bytes < MP_ATTACH_SAMPLE_MOST && 2 * each * kept_of(a, (double)a->sample_bytes) > left)
            a->sample_bytes *= 2;
        snprintf(a->sample_note, sizeof a->sample_note,
                 "a sample was taken: each of %.0f events/s would have held the program up for %.2g %% of the time, "
                 "of which %.2g %% remain in any case",
                 (double)counts.events * 1e9 / (double)passed, all / (double)passed * 100,
                 traps / (double)passed * 100);
    }
    return set_up(a);
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static void count_losses(struct attached *a)
{
    struct mp_attach_counts counts = {.dropped = a->perf ? mp_attach_perf_dropped(a->perf) : 0};
    if (!a->perf && !read_counts(a, &counts)) return;
    uint64_t dropped = counts.dropped + counts.unpaired;
    a->forked = counts.forked;
    atomic_fetch_add(&a->recording->spool.header->rings[0].dropped, dropped - a->ring_dropped);
    a->ring_dropped = dropped;
}

static void serve(struct attached *a)
{
    struct mp_spool_header *spool = a->recording->spool.header;
    uint64_t now = mp_clock_monotonic_ns();
    bool is_last = a->until_ns != UINT64_MAX;
    if (a->perf)
        mp_attach_perf_consume(a->perf, is_last ? UINT64_MAX : now - ROUND_MS * MP_NS_PER_MS, take, a);
    else
        (void)ring_buffer__consume(a->ring);
    /* Older events cannot come any more. */
    atomic_store(&spool->rings[0].open_since, now - LATE_NS);
    count_losses(a);
    mp_recording_round(a->recording, false);
}

static void say_noted(struct attached *a, const char *sentence)
{
    a->missed = true;
    a->options->say(a->options->context, sentence);
    mp_recording_note(a->recording, sentence);
}

/* Probes libraries that the process has loaded meanwhile. */
static void watch_new(struct attached *a)
{
    bool has_torch = false, has_cuda = false;
    size_t before = a->found.count;
    struct mp_error error;
    char text[192];
    if (!mp_attach_target_look(&a->target)) return;
    find_new(a, &has_torch, &has_cuda);
    if (a->found.count == before) return;
    enum mp_status status = attach_from(a, before, &error);
    atomic_store(&a->recording->spool.header->sources, a->sources);
    snprintf(text, sizeof text,
             status ? "the program loaded %s while memprof was attached, and the kernel refused its probes"
                    : "the program loaded %s while memprof was attached: its first calls, of some 0.3 s, were not seen",
             has_cuda && has_torch ? "PyTorch and CUDA's driver"
             : has_cuda            ? "CUDA's driver"
                                   : "a library of PyTorch");
    say_noted(a, text);
}

/* Probes hang on the memory of one thread, and are dead once it has ended. */
static void follow_thread(struct attached *a)
{
    struct mp_error error;
    size_t former = a->links.count;
    enum mp_status status = MP_OK;
    bool moved = false;
    while (mp_attach_target_moved(&a->target) && !a->perf) {
        moved = true;
        if (!(status = attach_from(a, 0, &error))) break;
        if (mp_attach_target_over(&a->target)) return; /* threads of a program that ends */
    }
    if (!moved) return;
    say_noted(
        a, status ? "the thread that the probes hung on has ended, and the kernel refused new ones"
                  : "the thread that the probes hung on has ended: some 0.1 s were not seen until new ones were set");
    for (size_t i = 0; i < former; i++) {
        bpf_link__destroy(a->links.at[i]);
        serve(a); /* each takes some 0.1 s */
    }
    a->links.count -= former;
    memmove(a->links.at, a->links.at + former, a->links.count * sizeof *a->links.at);
}

static bool is_replaced(const struct attached *a)
{
    struct mp_attach_counts counts;
    return a->perf ? mp_attach_perf_replaced(a->perf) : read_counts(a, &counts) && counts.replaced;
}

static const char *run(struct attached *a, const struct mp_stop *stop, struct mp_exit *how, char *text, size_t room)
{
    uint64_t begun = mp_clock_monotonic_ns(), looked = begun, listed = begun;
    *how = (struct mp_exit){.known = false};
    for (;;) {
        struct pollfd set[2] = {{.fd = a->target.pidfd, .events = POLLIN}, {.fd = stop->fd, .events = POLLIN}};
        poll(set, 2, ROUND_MS);
        serve(a);
        attach_session_serve(&a->session);
        uint64_t now = mp_clock_monotonic_ns();
        if (set[0].revents) {
            int wait_status;
            snprintf(text, room, "ended");
            if (mp_process_end(a->target.pidfd, a->options->pid, &wait_status))
                *how = mp_process_end_describe(wait_status, text, room);
            return text;
        }
        if (set[1].revents || (a->options->for_ns && now - begun >= a->options->for_ns) || a->recording->file.failed)
            return MP_STILL_RUNNING " when memprof detached";
        if (now - looked < LOOK_NS) continue;
        looked = now;
        for (uint32_t child; a->options->child && (child = mp_attach_target_child(&a->target, &a->children));)
            a->recorded += a->options->child(a->options->context, child);
        follow_thread(a);
        if (now - listed >= LIST_NS) {
            listed = now;
            watch_new(a);
        }
        if (!is_replaced(a)) continue;
        a->options->say(a->options->context, "the program put another one in its place (exec), which is not recorded: "
                                             "memprof attach with the same PID records that");
        return "replaced by exec";
    }
}

static void note_end(struct attached *a)
{
    if (a->driver_seen) {
        mp_recording_note(a->recording,
                          "attach does not see which device the driver's calls are for: but for physical memory they "
                          "count as those of the first");
        mp_recording_note(a->recording, "attach does not see " MP_ATTACH_UNSEEN);
    }
    if (*a->lacks) {
        char note[sizeof a->lacks + 64];
        snprintf(note, sizeof note, "the program's libraries lack functions to attach to: %s", a->lacks);
        mp_recording_note(a->recording, note);
    }
    if (a->misplaced) {
        char note[128];
        snprintf(note, sizeof note,
                 "%" PRIu64 " events count under another thread: there were too many threads at once", a->misplaced);
        mp_recording_note(a->recording, note);
    }
    if (a->forked > a->recorded) {
        char note[192];
        snprintf(note, sizeof note,
                 "the program began %" PRIu64 " other processes meanwhile, of which %" PRIu64
                 " were recorded (--children): memprof attach records each by its "
                 "PID",
                 a->forked, a->recorded);
        mp_recording_note(a->recording, note);
    }
    if (*a->sample_note) mp_recording_note(a->recording, a->sample_note);
    if (mp_mapped_file_shrunk())
        mp_recording_note(a->recording, "the program cut files that it had mapped: their functions may lack names");
    if (a->target.short_of_files)
        mp_recording_note(a->recording, "memprof could not open each library of the program (ulimit -n): some were not "
                                        "watched, and their functions lack names");
    if (a->perf) mp_recording_note(a->recording, NATIVE_ONLY);
    if (a->perf && mp_attach_perf_late(a->perf)) {
        char note[128];
        snprintf(note, sizeof note, "the program began %" PRIu64 " threads, whose first 20 ms were not seen",
                 mp_attach_perf_late(a->perf));
        a->missed = true;
        mp_recording_note(a->recording, note);
    }
    if (*a->python.note) mp_recording_note(a->recording, a->python.note);
}

static enum mp_status record(struct attached *a, struct mp_stop *stop, struct mp_collector_result *result,
                             struct mp_error *error)
{
    uint64_t begun = mp_clock_monotonic_ns();
    enum mp_status status = mp_attach_target_open(a->options->pid, &a->target, error);
    if (!status) status = load(a, error);
    if (!status) status = find_all(a, error);
    if (!status && *a->lacks) {
        char said[sizeof a->lacks + 128];
        snprintf(said, sizeof said,
                 "libraries of the program lack functions to attach to, whose blocks are not seen: %s", a->lacks);
        a->options->say(a->options->context, said);
    }
    if (!status) status = attach_all(a, error);
    if (!status && a->perf) a->options->say(a->options->context, NATIVE_ONLY);
    if (!status && a->measures && !bound_cost(a)) status = refuse(error, errno);
    if (!status) status = open_recording(a, error);
    if (status && ends_within(a, 0))
        return mp_fail(error, MP_NOT_FOUND, "process %" PRIu32 " ended before it was attached to", a->options->pid);
    if (status) return status;
    a->options->attached(a->options->context, a->probes, mp_clock_monotonic_ns() - begun);
    struct mp_exit how;
    char text[96];
    attach_session_open(&a->session, a->recording, a->target.pidfd, a->options->output);
    const char *end = run(a, stop, &how, text, sizeof text);
    mp_stop_hear(stop);
    attach_session_close(&a->session);
    a->until_ns = mp_clock_monotonic_ns();
    serve(a);
    note_end(a);
    mp_recording_end(a->recording, how, end); /* detaching takes the kernel some 0.1 s a probe */
    detach(a);
    struct mp_recording_summary summary;
    mp_recording_finish(a->recording, &summary);
    summary.missed |= a->missed || a->target.short_of_files;
    if (summary.path || summary.failed) mp_vec_add(&result->recordings, summary);
    return MP_OK;
}

/* Root may raise its hard limit, too. */
static void allow_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= FILES_WANTED) return;
    struct rlimit more = {FILES_WANTED, files.rlim_max > FILES_WANTED ? files.rlim_max : FILES_WANTED};
    if (!setrlimit(RLIMIT_NOFILE, &more)) return;
    more = (struct rlimit){files.rlim_max, files.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &more);
}

enum mp_status mp_attach_run(const struct mp_attach_options *options, struct mp_collector_result *result,
                             struct mp_error *error)
{
    struct attached *a = calloc(1, sizeof *a);
    struct mp_stop stop;
    if (!a) return mp_fail(error, MP_NO_MEMORY, "out of memory");
    if (options->record.libunwind && !mp_attach_has_libunwind()) {
        free(a);
        return mp_fail(
            error, MP_UNSUPPORTED,
            "this memprof was built without libunwind: install libunwind-dev, or leave out --unwind libunwind");
    }
    a->options = options;
    a->until_ns = UINT64_MAX;
    a->target.pidfd = -1;
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes then gives a write error, which memprof reports */
    allow_files();
    mp_mapped_file_guard();
    enum mp_status status =
        mp_stop_begin(&stop) ? record(a, &stop, result, error) : mp_fail_errno(error, "cannot watch signals");
    detach(a);
    if (a->ring) ring_buffer__free(a->ring);
    if (a->object) bpf_object__close(a->object);
    mp_recording_free(a->recording, true);
    mp_attach_tables_free(&a->tables);
    mp_attach_target_close(&a->target);
    mp_map_free(&a->cpu_blocks);
    mp_map_free(&a->mapped_blocks);
    mp_attach_driver_free(&a->driver);
    mp_map_free(&a->threads);
    mp_map_free(&a->children);
    mp_stop_end(&stop);
    free(a);
    return status;
}

#include "attach/attach_perf.h"

#include <asm/perf_regs.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"
#include "base/order.h"
#include "base/vec.h"

#define TYPE_FILE   "/sys/bus/event_source/devices/uprobe/type"
#define RING_MOST   (4u << 20) /* most bytes of a CPU's ring, a power of two; less if the user may lock less memory */
#define RING_LEAST  (128u << 10)
#define PROBES_MOST 4096  /* the kernel takes some 0.1 s to end each, one after the other */
#define FUNCTIONS   4     /* that PyTorch has */
#define STACK_BYTES 16384 /* the kernel always writes this many bytes, even for a short stack */
#define BIT(name)   (UINT64_C(1) << PERF_REG_X86_##name)
#define REGISTERS                                                                                                      \
    (BIT(BX) | BIT(CX) | BIT(DX) | BIT(SI) | BIT(DI) | BIT(BP) | BIT(SP) | BIT(R8) | BIT(R9) | BIT(R12) | BIT(R13) |   \
     BIT(R14) | BIT(R15))
_Static_assert(STACK_BYTES <= MP_ATTACH_STACK_MOST, "readers expect no longer stack");

struct cpu {
    int number, fd; /* event that never happens; the ring belongs to it */
    struct perf_event_mmap_page *ring;
    size_t bytes; /* size of the ring's data */
};

struct probe {
    int fd;
    uint32_t tid;
    uint64_t cookie;
};

/* Where a probe is set. */
struct place {
    int file;
    uint64_t offset, cookie;
};

/* An event that waits for earlier ones from another CPU. */
struct waiting {
    struct mp_attach_event *event;
    size_t bytes;
};

struct mp_attach_perf {
    uint32_t pid, type;
    MP_VEC(struct cpu) cpus; /* those that run */
    MP_VEC(struct probe) probes;
    MP_VEC(struct place) places;
    struct mp_map owned; /* by thread and cookie (key_of): 1 if that thread has this probe */
    MP_VEC(struct waiting) waiting;
    struct mp_map cookies;  /* by the kernel's number of the event */
    MP_VEC(uint32_t) begun; /* threads that began, and were not looked at yet */
    uint64_t late;          /* threads that began since the probes were set */
    uint64_t dropped;
    uint64_t replaced_ns; /* by another program; 0: not yet */
};

static int open_event(struct perf_event_attr *attr, pid_t thread, int cpu)
{
    attr->size = sizeof *attr;
    return (int)syscall(SYS_perf_event_open, attr, thread, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool open_cpu(struct mp_attach_perf *perf, int number)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_DUMMY,
                                   .use_clockid = 1,
                                   .clockid = CLOCK_MONOTONIC,
                                   .comm = 1,
                                   .task = 1,
                                   .comm_exec = 1,
                                   .sample_type = PERF_SAMPLE_TIME,
                                   .sample_id_all = 1};
    struct cpu cpu = {.number = number, .fd = open_event(&attr, -1, number), .ring = MAP_FAILED, .bytes = RING_MOST};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (cpu.fd < 0) return errno == ENODEV || errno == ENXIO; /* the CPU is off */
    while (cpu.ring == MAP_FAILED && cpu.bytes >= RING_LEAST) {
        cpu.ring = mmap(NULL, page + cpu.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, cpu.fd, 0);
        if (cpu.ring == MAP_FAILED) cpu.bytes /= 2;
    }
    if (cpu.ring == MAP_FAILED) {
        int number_of_error = errno;
        close(cpu.fd);
        errno = number_of_error;
        return false;
    }
    mp_vec_add(&perf->cpus, cpu);
    return true;
}

struct mp_attach_perf *mp_attach_perf_open(uint32_t pid)
{
    struct mp_attach_perf *perf = calloc(1, sizeof *perf);
    FILE *type = fopen(TYPE_FILE, "re");
    bool done = perf && type && fscanf(type, "%" SCNu32, &perf->type) == 1;
    if (type) fclose(type);
    if (perf) perf->pid = pid;
    for (int i = 0; done && i < sysconf(_SC_NPROCESSORS_CONF); i++)
        done = open_cpu(perf, i);
    if (done) return perf;
    int number = errno;
    mp_attach_perf_close(perf);
    errno = number;
    return NULL;
}

void mp_attach_perf_close(struct mp_attach_perf *perf)
{
    if (!perf) return;
    for (size_t i = 0; i < perf->probes.count; i++)
        close(perf->probes.at[i].fd);
    for (size_t i = 0; i < perf->cpus.count; i++) {
        munmap(perf->cpus.at[i].ring, (size_t)sysconf(_SC_PAGESIZE) + perf->cpus.at[i].bytes);
        close(perf->cpus.at[i].fd);
    }
    for (size_t i = 0; i < perf->waiting.count; i++)
        free(perf->waiting.at[i].event);
    mp_vec_free(&perf->probes);
    mp_vec_free(&perf->places);
    mp_map_free(&perf->owned);
    mp_vec_free(&perf->begun);
    mp_vec_free(&perf->cpus);
    mp_vec_free(&perf->waiting);
    mp_map_free(&perf->cookies);
    free(perf);
}

static uint64_t key_of(uint32_t tid, uint64_t cookie)
{
    return (uint64_t)tid << 8 | (cookie & MP_ATTACH_PROBE_MASK);
}

/* Sets a probe for one thread: without a thread, the kernel would set it in each process that maps the file. Threads
 * that this one starts do not inherit it: the kernel would read the file's name from the program's memory then, and
 * refuse the program its thread. 0, or an errno. */
static int open_probe(struct mp_attach_perf *perf, const struct place *place, uint32_t tid)
{
    char file[64];
    snprintf(file, sizeof file, "/proc/self/fd/%d", place->file);
    struct perf_event_attr attr = {.type = perf->type,
                                   .uprobe_path = (uint64_t)(uintptr_t)file,
                                   .probe_offset = place->offset,
                                   .sample_period = 1,
                                   .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                                  PERF_SAMPLE_REGS_USER,
                                   .sample_regs_user = REGISTERS,
                                   .use_clockid = 1,
                                   .clockid = CLOCK_MONOTONIC};
    if (place->cookie & MP_ATTACH_STACK) {
        attr.sample_type |= PERF_SAMPLE_STACK_USER;
        attr.sample_stack_user = STACK_BYTES;
    }
    for (size_t i = 0; i < perf->cpus.count; i++) {
        uint64_t id;
        struct probe probe = {open_event(&attr, (pid_t)tid, perf->cpus.at[i].number), tid, place->cookie};
        if (probe.fd < 0) return errno == ESRCH ? 0 : errno; /* the thread has ended */
        mp_vec_add(&perf->probes, probe);
        if (ioctl(probe.fd, PERF_EVENT_IOC_SET_OUTPUT, perf->cpus.at[i].fd) || ioctl(probe.fd, PERF_EVENT_IOC_ID, &id))
            return errno;
        *mp_map_at(&perf->cookies, id, NULL) = place->cookie;
    }
    return 0;
}

static int probe_thread(struct mp_attach_perf *perf, const struct place *place, uint32_t tid)
{
    uint64_t *owned = mp_map_at(&perf->owned, key_of(tid, place->cookie), NULL);
    if (*owned) return 0;
    *owned = 1;
    return perf->probes.count >= PROBES_MOST ? E2BIG : open_probe(perf, place, tid);
}

/* Sets a probe for the threads that have none yet. */
static int probe_threads(struct mp_attach_perf *perf, const struct place *place)
{
    char path[64];
    int failed = 0;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", perf->pid);
    DIR *threads = opendir(path);
    for (struct dirent *thread; threads && !failed && (thread = readdir(threads));) {
        uint32_t tid = (uint32_t)strtoul(thread->d_name, NULL, 10);
        if (tid) failed = probe_thread(perf, place, tid);
    }
    if (threads) closedir(threads);
    return failed;
}

static void forget_thread(struct mp_attach_perf *perf, uint32_t tid)
{
    size_t kept = 0;
    for (size_t i = 0; i < perf->places.count; i++)
        mp_map_remove(&perf->owned, key_of(tid, perf->places.at[i].cookie), NULL);
    for (size_t i = 0; i < perf->probes.count; i++) {
        if (perf->probes.at[i].tid == tid)
            close(perf->probes.at[i].fd);
        else
            perf->probes.at[kept++] = perf->probes.at[i];
    }
    perf->probes.count = kept;
}

int mp_attach_perf_probe(struct mp_attach_perf *perf, int file, uint64_t offset, uint64_t cookie)
{
    const struct place place = {file, offset, cookie};
    char path[64];
    struct stat threads;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", perf->pid); /* has a link for each thread, and two */
    if (!perf->places.count && !stat(path, &threads) &&
        (threads.st_nlink - 2) * perf->cpus.count * FUNCTIONS > PROBES_MOST)
        return E2BIG;
    mp_vec_add(&perf->places, place);
    return probe_threads(perf, &place);
}

uint64_t mp_attach_perf_late(const struct mp_attach_perf *perf)
{
    return perf->late;
}

void mp_attach_perf_stop(struct mp_attach_perf *perf, uint64_t cookie)
{
    size_t kept = 0;
    for (size_t i = 0; i < perf->probes.count; i++) {
        if (perf->probes.at[i].cookie == cookie)
            close(perf->probes.at[i].fd);
        else
            perf->probes.at[kept++] = perf->probes.at[i];
    }
    perf->probes.count = kept;
    for (size_t i = perf->places.count; i-- > 0;)
        if (perf->places.at[i].cookie == cookie) perf->places.at[i] = perf->places.at[--perf->places.count];
}

/* A sample as the kernel writes it (perf_event_open(2)), up to the parts of variable length. Registers come in the
 * order of their numbers. */
struct sample {
    struct perf_event_header header;
    uint64_t id;
    uint32_t pid, tid;
    uint64_t time, abi;
    uint64_t bx, cx, dx, si, di, bp, sp, r8, r9, r12, r13, r14, r15;
    uint64_t stack_bytes; /* only with a stack: its size, the stack, and how much of it is valid */
};

/* The event of a sample at a function's first instruction; NULL: the sample is of another process, or damaged. */
static struct mp_attach_event *event_of(const struct mp_attach_perf *perf, const struct sample *sample, size_t *bytes)
{
    size_t size = sample->header.size, fixed = offsetof(struct sample, stack_bytes);
    uint64_t *cookie = size >= fixed ? mp_map_find(&perf->cookies, sample->id) : NULL;
    if (!cookie || sample->pid != perf->pid || sample->abi != PERF_SAMPLE_REGS_ABI_64) return NULL;
    const char *stack = (const char *)(sample + 1);
    uint64_t copied = 0, back = 0;
    if (*cookie & MP_ATTACH_STACK && size >= sizeof *sample + sizeof copied && sample->stack_bytes &&
        sample->stack_bytes <= size - sizeof *sample - sizeof copied) {
        memcpy(&copied, stack + sample->stack_bytes, sizeof copied);
        if (copied > sample->stack_bytes) copied = 0;
    }
    if (copied >= sizeof back) memcpy(&back, stack, sizeof back);
    uint64_t given[] = {sample->di, sample->si, sample->dx, sample->cx, sample->r8, sample->r9};
    size_t kept = copied >= sizeof back ? copied - sizeof back : 0;
    struct mp_attach_event *event = calloc(1, sizeof *event + kept);
    if (!event) return NULL;
    *event = (struct mp_attach_event){.time_ns = sample->time,
                                      .tid = sample->tid,
                                      .probe = (uint32_t)*cookie & MP_ATTACH_PROBE_MASK,
                                      .ip = back,
                                      .sp = sample->sp + sizeof back,
                                      .bp = sample->bp,
                                      .bx = sample->bx,
                                      .r12 = sample->r12,
                                      .r13 = sample->r13,
                                      .r14 = sample->r14,
                                      .r15 = sample->r15,
                                      .stack_bytes = (uint32_t)kept,
                                      .stack_cut = copied == STACK_BYTES};
    memcpy(event->argument, given + !!(*cookie & MP_ATTACH_METHOD), sizeof event->argument);
    if (kept) memcpy(event + 1, stack + sizeof back, kept);
    *bytes = sizeof *event + kept;
    return event;
}

/* Empties a CPU's ring. Records may wrap around its end. */
static void read_ring(struct mp_attach_perf *perf, const struct cpu *cpu)
{
    struct perf_event_mmap_page *ring = cpu->ring;
    const char *data = (const char *)ring + sysconf(_SC_PAGESIZE);
    uint64_t head = atomic_load((_Atomic __u64 *)&ring->data_head), tail = ring->data_tail;
    while (tail < head) {
        union {
            struct perf_event_header header;
            struct sample sample;
            uint64_t words[(1 << 16) / sizeof(uint64_t)]; /* the kernel's sizes have 16 bits */
        } record;
        size_t at = tail & (cpu->bytes - 1);
        memcpy(&record.header, data + at, sizeof record.header); /* records are aligned to 8 bytes */
        size_t size = record.header.size, first = size < cpu->bytes - at ? size : cpu->bytes - at;
        memcpy(record.words, data + at, first);
        memcpy((char *)record.words + first, data, size - first);
        struct waiting next;
        if (record.header.type == PERF_RECORD_LOST)
            perf->dropped += record.words[2]; /* header, id, number */
        else if (record.header.type == PERF_RECORD_COMM && record.header.misc & PERF_RECORD_MISC_COMM_EXEC &&
                 (uint32_t)record.words[1] == perf->pid && !perf->replaced_ns)
            perf->replaced_ns = record.words[size / sizeof *record.words - 1];
        else if (record.header.type == PERF_RECORD_EXIT && (uint32_t)record.words[1] == perf->pid)
            forget_thread(perf, (uint32_t)record.words[2]);
        else if (record.header.type == PERF_RECORD_FORK && (uint32_t)record.words[1] == perf->pid)
            mp_vec_add(&perf->begun, (uint32_t)record.words[2]);
        else if (record.header.type == PERF_RECORD_SAMPLE && (next.event = event_of(perf, &record.sample, &next.bytes)))
            mp_vec_add(&perf->waiting, next);
        tail += size ? size : head - tail;
    }
    atomic_store((_Atomic __u64 *)&ring->data_tail, tail);
}

MP_ORDER(by_time, struct waiting, MP_COMPARE(a->event->time_ns, b->event->time_ns))

void mp_attach_perf_consume(struct mp_attach_perf *perf, uint64_t before_ns, mp_attach_take *take, void *context)
{
    size_t done = 0;
    for (size_t i = 0; i < perf->cpus.count; i++)
        read_ring(perf, &perf->cpus.at[i]);
    for (size_t i = 0; i < perf->begun.count; i++, perf->late++)
        for (size_t k = 0; k < perf->places.count; k++)
            (void)probe_thread(perf, &perf->places.at[k], perf->begun.at[i]);
    perf->begun.count = 0;
    if (!perf->waiting.count) return;
    qsort(perf->waiting.at, perf->waiting.count, sizeof *perf->waiting.at, by_time);
    for (; done < perf->waiting.count && perf->waiting.at[done].event->time_ns <= before_ns; done++) {
        if (!perf->replaced_ns || perf->waiting.at[done].event->time_ns < perf->replaced_ns)
            take(context, perf->waiting.at[done].event, perf->waiting.at[done].bytes);
        free(perf->waiting.at[done].event);
    }
    memmove(perf->waiting.at, perf->waiting.at + done, (perf->waiting.count - done) * sizeof *perf->waiting.at);
    perf->waiting.count -= done;
}

uint64_t mp_attach_perf_dropped(const struct mp_attach_perf *perf)
{
    return perf->dropped;
}

bool mp_attach_perf_replaced(const struct mp_attach_perf *perf)
{
    return perf->replaced_ns;
}

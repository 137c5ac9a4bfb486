#include "base/clock.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel.h"

#if defined(__aarch64__)
#    define CLOCK_SYMBOL "__kernel_clock_gettime"
#else
#    define CLOCK_SYMBOL "__vdso_clock_gettime"
#endif

typedef int read_clock(clockid_t clock, struct timespec *now);

static int by_system_call(clockid_t clock, struct timespec *now)
{
    return (int)mp_syscall(SYS_clock_gettime, clock, now);
}

/* The kernel maps a library into each process (man 7 vdso). This code reads the library's tables itself, since the
 * program may also replace dlsym(). */
static read_clock *find_in_kernel_library(void)
{
    const char *image = (const char *)getauxval(AT_SYSINFO_EHDR); /* NOLINT(performance-no-int-to-ptr) */
    if (!image) return NULL;
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)image;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(image + header->e_phoff);
    const ElfW(Dyn) *dynamic = NULL;
    uintptr_t bias = 0;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && !bias)
            bias = (uintptr_t)image + segments[i].p_offset - segments[i].p_vaddr;
        if (segments[i].p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)(image + segments[i].p_offset);
    }
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const uint32_t *hash = NULL, *gnu_hash = NULL;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *at = (const void *)(bias + dynamic->d_un.d_ptr); /* NOLINT(performance-no-int-to-ptr) */
        if (dynamic->d_tag == DT_SYMTAB) symbols = at;
        if (dynamic->d_tag == DT_STRTAB) names = at;
        if (dynamic->d_tag == DT_HASH) hash = at;
        if (dynamic->d_tag == DT_GNU_HASH) gnu_hash = at;
    }
    if (!symbols || !names || (!hash && !gnu_hash)) return NULL;
    uint32_t count = hash ? hash[1] : 0;
    if (!hash) { /* the last chain's end */
        const uint32_t *buckets = gnu_hash + 4 + gnu_hash[2] * (sizeof(ElfW(Addr)) / 4);
        for (uint32_t i = 0; i < gnu_hash[0]; i++)
            if (buckets[i] > count) count = buckets[i];
        const uint32_t *chain = buckets + gnu_hash[0] - gnu_hash[1];
        while (count && !(chain[count] & 1))
            count++;
        count++;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (symbols[i].st_shndx == SHN_UNDEF || strcmp(names + symbols[i].st_name, CLOCK_SYMBOL) != 0) continue;
        read_clock *found;
        void *at = (void *)(bias + symbols[i].st_value); /* NOLINT(performance-no-int-to-ptr) */
        memcpy(&found, &at, sizeof found);
        return found;
    }
    return NULL;
}

static read_clock *_Atomic known;

void mp_clock_spare_counter(void)
{
    atomic_store(&known, by_system_call);
}

static uint64_t ns_of(clockid_t clock)
{
    read_clock *read = atomic_load_explicit(&known, memory_order_relaxed);
    if (__builtin_expect(!read, 0)) {
        read = find_in_kernel_library();
        if (!read) read = by_system_call;
        atomic_store_explicit(&known, read, memory_order_relaxed);
    }
    struct timespec now;
    if (__builtin_expect(read(clock, &now) != 0, 0)) by_system_call(clock, &now);
    return (uint64_t)now.tv_sec * MP_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t mp_clock_monotonic_ns(void)
{
    return ns_of(CLOCK_MONOTONIC);
}

uint64_t mp_clock_realtime_ns(void)
{
    return ns_of(CLOCK_REALTIME);
}

static uint64_t computed_ns(clockid_t clock)
{
    struct timespec now = {0};
    (void)by_system_call(clock, &now);
    return (uint64_t)now.tv_sec * MP_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t mp_clock_thread_ns(void)
{
    return computed_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t mp_clock_process_ns(void)
{
    return computed_ns(CLOCK_PROCESS_CPUTIME_ID);
}

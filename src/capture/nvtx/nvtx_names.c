#include "capture/nvtx/nvtx_names.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "base/kernel.h"

/* Registered strings, one after the other in one mapping, of which only the used part is touched. `slots` is a hash
 * table of their offsets. */
#define TEXT_ROOM (UINT64_C(8) << 20)
#define SLOTS     16384
static _Atomic(char *) texts; /* the mapping */
static _Atomic uint64_t used;
static _Atomic uint32_t slots[SLOTS]; /* offset + 1 */

static struct domain {
    char name[64];
} domains[NVTX_DOMAINS]; /* domain N is at index N - 1 */
enum { DOMAIN_FREE, DOMAIN_BEING_MADE, DOMAIN_THERE };
static _Atomic int domain_states[NVTX_DOMAINS];

static char *map_texts(void)
{
    char *now = atomic_load_explicit(&texts, memory_order_acquire);
    if (now) return now;
    void *memory = mp_mmap(NULL, TEXT_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    if (atomic_compare_exchange_strong(&texts, &now, (char *)memory)) return memory;
    mp_munmap(memory, TEXT_ROOM);
    return now;
}

/* Copies a text with its NUL to `at` and returns the copy. NULL: there is no room. */
static const char *append_text(char *at, const char *text, size_t length)
{
    uint64_t from = atomic_fetch_add(&used, length + 1);
    if (from + length + 1 > TEXT_ROOM) return NULL;
    memcpy(at + from, text, length);
    return at + from;
}

const void *mp_nvtx_register(const char *text)
{
    char *memory = text ? map_texts() : NULL;
    if (!memory) return NULL;
    size_t length = strnlen(text, NVTX_NAME_ROOM - 1);
    const char *fresh = NULL;
    uint64_t at = mp_hash_bytes(text, length);
    for (unsigned tries = 0; tries < SLOTS; tries++, at++) {
        _Atomic uint32_t *slot = &slots[at % SLOTS];
        uint32_t seen = atomic_load_explicit(slot, memory_order_acquire);
        if (!seen) {
            if (!fresh) fresh = append_text(memory, text, length);
            if (!fresh || atomic_compare_exchange_strong(slot, &seen, (uint32_t)(fresh - memory) + 1)) return fresh;
        }
        const char *there = memory + seen - 1;
        if (!strncmp(there, text, length) && !there[length]) return there;
    }
    return NULL;
}

static bool is_registered(const char *text)
{
    const char *memory = atomic_load_explicit(&texts, memory_order_acquire);
    uint64_t end = atomic_load(&used);
    return memory && text >= memory && text < memory + (end < TEXT_ROOM ? end : TEXT_ROOM);
}

const void *mp_nvtx_domain(const char *name)
{
    if (!name) return NULL;
    for (unsigned i = 0; i < NVTX_DOMAINS; i++) {
        int free_state = DOMAIN_FREE;
        if (atomic_compare_exchange_strong(&domain_states[i], &free_state, DOMAIN_BEING_MADE)) {
            if (i + 1 < NVTX_DOMAINS) memcpy(domains[i].name, name, strnlen(name, sizeof domains[i].name - 1));
            atomic_store_explicit(&domain_states[i], DOMAIN_THERE, memory_order_release);
            return &domains[i];
        }
        /* Skips an entry that another thread is making now. At worst, a domain then has two entries. */
        if (atomic_load_explicit(&domain_states[i], memory_order_acquire) == DOMAIN_THERE &&
            !strncmp(domains[i].name, name, sizeof domains[i].name - 1))
            return &domains[i];
    }
    return &domains[NVTX_DOMAINS - 1];
}

unsigned mp_nvtx_domain_number(const void *domain)
{
    uintptr_t offset = (uintptr_t)domain - (uintptr_t)domains;
    if (!domain || offset >= sizeof domains || offset % sizeof *domains) return 0;
    return (unsigned)(offset / sizeof *domains) + 1;
}

/* Converts a wide text. wchar_t holds code points here; other values become '?'. */
static void narrow(char *to, size_t room, const wchar_t *text)
{
    size_t length = 0;
    for (; *text && length + 4 < room; text++) {
        uint32_t point = (uint32_t)*text;
        if (point >= 0x110000 || (point >= 0xd800 && point < 0xe000)) point = '?';
        if (point < 0x80) {
            to[length++] = (char)point;
            continue;
        }
        int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
        static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
        to[length++] = (char)(first[more] | point >> 6 * more);
        while (more--)
            to[length++] = (char)(0x80 | (point >> 6 * more & 0x3f));
    }
    to[length] = '\0';
}

const void *mp_nvtx_register_wide(const wchar_t *text)
{
    char name[NVTX_NAME_ROOM];
    if (!text) return NULL;
    narrow(name, sizeof name, text);
    return mp_nvtx_register(name);
}

const void *mp_nvtx_domain_wide(const wchar_t *text)
{
    char name[NVTX_NAME_ROOM];
    if (!text) return NULL;
    narrow(name, sizeof name, text);
    return mp_nvtx_domain(name);
}

static size_t put_text(char *to, size_t room, const char *text)
{
    size_t length = strnlen(text, room - 1);
    memcpy(to, text, length);
    to[length] = '\0';
    return length;
}

static void leave_out_counters(char *name)
{
    static const char *const suffixes[] = {", seq = ", ", op_id = "};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char *found = strstr(name, suffixes[i]);
        if (found) *found = '\0';
    }
}

void mp_nvtx_name(char to[NVTX_NAME_ROOM], unsigned domain, int32_t message_type, const void *message)
{
    size_t length = 0;
    if (domain && *domains[domain - 1].name) {
        length = put_text(to, NVTX_NAME_ROOM - 8, domains[domain - 1].name);
        to[length++] = ':';
    }
    char *rest = to + length;
    *rest = '\0';
    if (!message) return;
    if (message_type == NVTX_MESSAGE_ASCII || (message_type == NVTX_MESSAGE_REGISTERED && is_registered(message)))
        put_text(rest, NVTX_NAME_ROOM - length, message);
    else if (message_type == NVTX_MESSAGE_UNICODE)
        narrow(rest, NVTX_NAME_ROOM - length, message);
    leave_out_counters(rest);
}

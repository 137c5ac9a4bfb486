/*
 * The contents of device memory. Kernels do nothing, and device memory is address space only. A policy,
 * $SOFTGPU_VALUES, decides what a program reads back:
 *
 *     zeros (the default)
 *     ones      1 as an integer of 8 bytes, a float of 4 or 2, or a byte, by the size of the copy
 *     host      what was last copied there from the host, else zeros
 *
 * Under every policy, data that the host copied or set there comes back unchanged if it is read before any kernel runs:
 * libraries compare shapes between ranks this way. Values that the code in the program knows (softgpu_answer()) take
 * precedence.
 */
#include "softgpu/driver/values.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/device.h"
#include "softgpu/driver/driver.h"

#include <stdlib.h>
#include <string.h>

enum policy { ZEROS, ONES, HOST };

struct kept {
    struct kept *next; /* the next older entry */
    uint64_t address, bytes, epoch;
    enum softgpu_source source;
    unsigned char data[];
};

#define MOST_KEPT_ONCE   ((uint64_t)64 << 10) /* most bytes of one copy that are kept until a kernel runs */
#define MOST_KEPT_HOST   ((uint64_t)16 << 20) /* most bytes of one copy that the policy "host" keeps */
#define MOST_KEPT_IN_ALL ((uint64_t)512 << 20)

static struct kept *newest;
static uint64_t kept_bytes, epoch;

static __thread uint64_t launches; /* kernels that this thread has launched */

static enum policy policy(void)
{
    static int known = -1;
    if (known >= 0) return (enum policy)known;
    const char *text = getenv("SOFTGPU_VALUES");
    known = text && !strcmp(text, "ones") ? ONES : text && !strcmp(text, "host") ? HOST : ZEROS;
    return (enum policy)known;
}

void soft_values_changed(void)
{
    epoch++;
    launches++;
}

static __thread struct {
    uint64_t launch; /* number of the kernel after which the value is read */
    uint64_t address;
    unsigned widths;
    uint64_t value;
} expected;

EXPORTED void softgpu_expect(uint64_t address, unsigned widths, uint64_t value)
{
    expected.address = address;
    expected.launch = launches;
    expected.widths = widths;
    expected.value = value;
}

static __thread struct {
    const void *data;
    uint64_t bytes;
    enum softgpu_source source;
} answer;

EXPORTED void softgpu_answer(const void *data, size_t bytes, enum softgpu_source source)
{
    answer.data = data;
    answer.bytes = bytes;
    answer.source = source;
}

/* Drops kept data that overlaps the range. Unless the policy is "host", also drops data that a kernel may have
 * changed. */
static void forget(uint64_t address, uint64_t bytes)
{
    for (struct kept **at = &newest; *at;) {
        struct kept *kept = *at;
        bool stale = policy() != HOST && kept->epoch != epoch;
        if (!stale && (kept->address >= address + bytes || address >= kept->address + kept->bytes)) {
            at = &kept->next;
            continue;
        }
        *at = kept->next;
        kept_bytes -= kept->bytes;
        free(kept);
    }
}

EXPORTED void softgpu_received(uint64_t address, uint64_t bytes, bool like_own)
{
    pthread_mutex_lock(&soft_lock);
    if (!like_own) forget(address, bytes);
    for (struct kept *kept = newest; kept; kept = kept->next)
        if (kept->address < address + bytes && address < kept->address + kept->bytes) kept->source = SOFTGPU_RECEIVED;
    pthread_mutex_unlock(&soft_lock);
}

static void keep(uint64_t address, const void *data, uint64_t bytes, enum softgpu_source source)
{
    forget(address, bytes);
    if (bytes > (policy() == HOST ? MOST_KEPT_HOST : MOST_KEPT_ONCE) || kept_bytes + bytes > MOST_KEPT_IN_ALL) return;
    struct kept *kept = malloc(sizeof *kept + bytes);
    if (!kept) return;
    *kept = (struct kept){.next = newest, .address = address, .bytes = bytes, .epoch = epoch, .source = source};
    memcpy(kept->data, data, bytes);
    newest = kept;
    kept_bytes += bytes;
}

/* Finds kept data that covers the whole range. NULL: there is none. */
static const struct kept *find_kept(uint64_t address, uint64_t bytes)
{
    for (const struct kept *kept = newest; kept; kept = kept->next)
        if (address >= kept->address && address + bytes <= kept->address + kept->bytes &&
            (policy() == HOST || kept->epoch == epoch))
            return kept;
    return NULL;
}

EXPORTED int softgpu_known(uint64_t address, void *to, uint64_t bytes)
{
    int source = SOFTGPU_KNOWN;
    pthread_mutex_lock(&soft_lock);
    for (uint64_t at = 0, part; at < bytes; at += part) { /* peers may have sent it in parts */
        const struct kept *kept = find_kept(address + at, 1);
        if (!kept || kept->epoch != epoch) {
            source = -1;
            break;
        }
        uint64_t from = address + at - kept->address;
        part = kept->bytes - from < bytes - at ? kept->bytes - from : bytes - at;
        memcpy((unsigned char *)to + at, kept->data + from, part);
        if ((int)kept->source > source) source = (int)kept->source;
    }
    pthread_mutex_unlock(&soft_lock);
    return source;
}

EXPORTED void softgpu_put(uint64_t address, const void *data, uint64_t bytes, int source)
{
    pthread_mutex_lock(&soft_lock);
    if (source < 0)
        forget(address, bytes);
    else
        keep(address, data, bytes, (enum softgpu_source)source);
    pthread_mutex_unlock(&soft_lock);
}

static void fill_ones(unsigned char *to, uint64_t bytes)
{
    static const float one = 1;
    static const uint64_t integer = 1;
    static const unsigned char brain[2] = {0x80, 0x3f}; /* bfloat16 */
    if (bytes % 8 == 0)
        for (uint64_t i = 0; i < bytes; i += 8)
            memcpy(to + i, &integer, 8);
    else if (bytes % 4 == 0)
        for (uint64_t i = 0; i < bytes; i += 4)
            memcpy(to + i, &one, 4);
    else if (bytes % 2 == 0)
        for (uint64_t i = 0; i < bytes; i += 2)
            memcpy(to + i, brain, 2);
    else
        memset(to, 1, bytes);
}

static void make_up(unsigned char *to, uint64_t from, uint64_t bytes)
{
    bool is_number = bytes <= 16 && !(bytes & (bytes - 1)) && (expected.widths & bytes);
    bool known = is_number && expected.launch == launches && (!expected.address || expected.address == from);
    if (policy() == ONES)
        fill_ones(to, bytes);
    else
        memset(to, 0, bytes);
    if (policy() != ONES && known) memcpy(to, &expected.value, bytes < 8 ? bytes : 8);
}

CUresult soft_copy(uint64_t to, uint64_t from, uint64_t bytes)
{
    if (!bytes) return CUDA_SUCCESS;
    bool to_device = soft_is_device_address(to), from_device = soft_is_device_address(from);
    const struct kept *kept = from_device ? find_kept(from, bytes) : NULL;
    const void *data = kept ? kept->data + (from - kept->address) : (const void *)(uintptr_t)from;
    enum softgpu_source source = !kept ? SOFTGPU_KNOWN : kept->epoch == epoch ? kept->source : SOFTGPU_MADE_UP;
    if (to_device && from_device) {
        if (kept)
            keep(to, data, bytes, source);
        else
            forget(to, bytes);
    } else if (to_device) {
        keep(to, data, bytes, source);
    } else if (!from_device) {
        memmove((void *)(uintptr_t)to, data, bytes);
    } else if (bytes <= answer.bytes) {
        uint64_t whole = 0;
        memcpy((void *)(uintptr_t)to, answer.data, bytes);
        memcpy(&whole, answer.data, answer.bytes == sizeof whole ? sizeof whole : 0);
        /* repeat_interleave() up to 2.9 first reads a truth, then the count that is the answer: 256 is true, too. */
        if (bytes == 1 && answer.bytes == sizeof whole) *(unsigned char *)(uintptr_t)to = whole != 0;
        soft_read_back(bytes, answer.source);
    } else if (kept) {
        memcpy((void *)(uintptr_t)to, data, bytes);
        soft_read_back(bytes, source);
    } else {
        soft_read_back(bytes, SOFTGPU_MADE_UP);
        make_up((unsigned char *)(uintptr_t)to, from, bytes);
    }
    return CUDA_SUCCESS;
}

CUresult soft_set(uint64_t to, unsigned value, unsigned width, uint64_t count)
{
    uint64_t bytes = count * width;
    if (!soft_is_device_address(to)) {
        for (uint64_t i = 0; i < bytes; i += width)
            memcpy((unsigned char *)(uintptr_t)to + i, &value, width);
        return CUDA_SUCCESS;
    }
    forget(to, bytes);
    unsigned char *data = bytes && bytes <= MOST_KEPT_ONCE ? malloc(bytes) : NULL;
    for (uint64_t i = 0; data && i < bytes; i += width)
        memcpy(data + i, &value, width);
    if (data) keep(to, data, bytes, SOFTGPU_KNOWN);
    free(data);
    return CUDA_SUCCESS;
}

/* The stand-in driver's ledger: the live blocks, found by address, their digests, and the ledger's file. */
#include "softgpu/driver/ledger.h"
#include "softgpu/driver/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum space { MEMORY, HOST, HANDLE, NODE, PHYSICAL, RANGE, MAPPING, VARIABLE };

#define CLASS_SPACE(class, space) space,
#define CLASS_NAME(class, space)  #class,
static const uint8_t spaces[] = {SOFT_CLASSES(CLASS_SPACE)};
static const char *const names[] = {SOFT_CLASSES(CLASS_NAME)};

static struct soft_block **buckets;
static size_t bucket_count, block_count;
static struct softgpu_digest digests[SOFT_CLASS_COUNT];
static FILE *file;
static pid_t file_owner;

EXPORTED const char *softgpu_class_name(enum soft_class class)
{
    return names[class];
}

static size_t bucket_of(unsigned space, uint64_t address, size_t count)
{
    return (size_t)((address * 0x9e3779b97f4a7c15 + space) >> 20) & (count - 1);
}

static void grow(void)
{
    size_t count = bucket_count ? 2 * bucket_count : 1024;
    struct soft_block **larger = calloc(count, sizeof *larger);
    if (!larger) abort();
    for (size_t i = 0; i < bucket_count; i++) {
        for (struct soft_block *block = buckets[i], *next; block; block = next) {
            next = block->next;
            struct soft_block **bucket = &larger[bucket_of(spaces[block->class], block->address, count)];
            block->next = *bucket;
            *bucket = block;
        }
    }
    free(buckets);
    buckets = larger;
    bucket_count = count;
}

static void write_entry(char sign, enum soft_class class, int device, uint64_t address, uint64_t bytes)
{
    if (file && getpid() == file_owner)
        fprintf(file, "%c %s %d %" PRIu64 " %" PRIu64 "\n", sign, names[class], device, address, bytes);
}

static void count(const struct soft_block *block, uint64_t sign)
{
    struct softgpu_digest *digest = &digests[block->class];
    digest->blocks += sign;
    digest->bytes += sign * block->bytes;
    digest->sum += sign * softgpu_digest_of(block->address, block->bytes);
}

struct soft_block *soft_add(enum soft_class class, int device, uint64_t address, uint64_t bytes, CUcontext context)
{
    if (block_count >= bucket_count) grow();
    struct soft_block *block = calloc(1, sizeof *block);
    if (!block) abort();
    *block =
        (struct soft_block){.class = class, .device = device, .address = address, .bytes = bytes, .context = context};
    struct soft_block **bucket = &buckets[bucket_of(spaces[class], address, bucket_count)];
    block->next = *bucket;
    *bucket = block;
    block_count++;
    count(block, 1);
    write_entry('+', class, device, address, bytes);
    return block;
}

static struct soft_block *find_in(unsigned space, uint64_t address)
{
    if (!bucket_count) return NULL;
    struct soft_block *block = buckets[bucket_of(space, address, bucket_count)];
    while (block && (block->address != address || spaces[block->class] != space))
        block = block->next;
    return block;
}

struct soft_block *soft_find_like(enum soft_class like, uint64_t address)
{
    return find_in(spaces[like], address);
}

struct soft_block *soft_find(enum soft_class class, uint64_t address)
{
    struct soft_block *block = find_in(spaces[class], address);
    return block && block->class == class ? block : NULL;
}

void soft_remove(struct soft_block *block)
{
    struct soft_block **at = &buckets[bucket_of(spaces[block->class], block->address, bucket_count)];
    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
    block_count--;
    count(block, (uint64_t)-1);
    write_entry('-', block->class, block->device, block->address, block->bytes);
    free(block->more);
    free(block);
}

void soft_refused(enum soft_class class, int device, uint64_t bytes)
{
    write_entry('!', class, device, 0, bytes);
}

void soft_pool_holds(enum soft_class class, int device, uint64_t address, uint64_t bytes)
{
    write_entry('=', class, device, address, bytes);
}

void soft_each(void (*visit)(struct soft_block *block, void *context), void *context)
{
    for (size_t i = 0; i < bucket_count; i++) {
        for (struct soft_block *block = buckets[i], *next; block; block = next) {
            next = block->next;
            visit(block, context);
        }
    }
}

EXPORTED void softgpu_live(struct softgpu_digest *of)
{
    pthread_mutex_lock(&soft_lock);
    memcpy(of, digests, sizeof digests);
    pthread_mutex_unlock(&soft_lock);
}

EXPORTED void softgpu_flush(void)
{
    pthread_mutex_lock(&soft_lock);
    if (file && getpid() == file_owner) fflush(file);
    pthread_mutex_unlock(&soft_lock);
}

void soft_open_ledger(void)
{
    const char *path = getenv("SOFTGPU_LEDGER");
    if (!path || !*path) return;
    file = fopen(path, "ae");
    file_owner = getpid();
    if (file) atexit(softgpu_flush);
}

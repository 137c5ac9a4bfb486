/*
 * Random operations from many threads, and the driver's own count of what is live at random moments:
 *
 *     random_operations WAY THREADS OPERATIONS MOMENTS SEED
 *
 * OPERATIONS in all. At a moment every thread stands still; the program marks "moment N" in the recording (memprof.h)
 * and prints a line for each class that has anything: N CLASS BLOCKS BYTES SUM (softgpu.h). A thread frees its own
 * blocks and, through slots that all share, those of others, so that addresses wander between threads.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "memprof.h"
#include "softgpu/programs/driver_api.h"

#define SLOTS      1024
#define MIB        ((size_t)1 << 20)
#define LONGEST    32 /* threads */
#define SMALL_HOST 4096

enum what { NOTHING, LINEAR, PITCHED, MANAGED, PINNED, ARRAY, POOL, PHYSICAL, MAPPED, STREAM };

struct held {
    enum what what;
    CUdeviceptr address;
    void *pointer;
    CUmemGenericAllocationHandle handle;
};

static struct held shared[SLOTS];
static pthread_mutex_t slot_locks[SLOTS];
static pthread_barrier_t barrier;
static CUcontext context;
static CUmemoryPool pool;
static unsigned long operations, moments, threads;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void take_memory(struct held *to, uint64_t dice, uint64_t random)
{
    size_t bytes = 1 + random % (random & 1 << 20 ? 1000 : 300000), pitch;
    if (dice < 40) {
        to->what = LINEAR;
        CHECK(driver.cuMemAlloc_v2(&to->address, bytes));
    } else if (dice < 45) {
        to->what = PITCHED;
        CHECK(driver.cuMemAllocPitch_v2(&to->address, &pitch, 1 + random % 1000, 1 + random % 30, 4));
    } else if (dice < 50) {
        to->what = MANAGED;
        CHECK(driver.cuMemAllocManaged(&to->address, 1 + random % SMALL_HOST, 1));
    } else if (dice < 55) {
        to->what = PINNED;
        CHECK(driver.cuMemHostAlloc(&to->pointer, 1 + random % SMALL_HOST, 0));
    } else if (dice < 58) {
        to->what = ARRAY;
        CUDA_ARRAY_DESCRIPTOR descriptor = {1 + random % 500, random % 50, CU_AD_FORMAT_FLOAT, 1 + random % 4};
        CHECK(driver.cuArrayCreate_v2((CUarray *)&to->pointer, &descriptor));
    } else if (dice < 98) {
        to->what = POOL;
        if (random & 1 << 21)
            CHECK(driver.cuMemAllocAsync(&to->address, bytes, NULL));
        else
            CHECK(driver.cuMemAllocFromPoolAsync_ptsz(&to->address, bytes, pool, NULL));
    } else {
        to->what = STREAM;
        CHECK(driver.cuStreamCreate((CUstream *)&to->pointer, 0));
    }
}

/* Physical memory, alone or mapped at once and released while it is mapped. */
static void take_virtual(struct held *to, uint64_t random)
{
    CUmemAllocationProp prop = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CHECK(driver.cuMemCreate(&to->handle, 2 * MIB, &prop, 0));
    to->what = PHYSICAL;
    if (random & 1) return;
    to->what = MAPPED;
    CHECK(driver.cuMemAddressReserve(&to->address, 4 * MIB, 0, 0, 0));
    CHECK(driver.cuMemMap(to->address, 2 * MIB, 0, to->handle, 0));
    CHECK(driver.cuMemRelease(to->handle));
}

static void give_back(struct held *held, uint64_t random)
{
    switch (held->what) {
    case NOTHING:
        break;
    case LINEAR:
    case PITCHED:
    case MANAGED:
        CHECK(driver.cuMemFree_v2(held->address));
        break;
    case PINNED:
        CHECK(driver.cuMemFreeHost(held->pointer));
        break;
    case ARRAY:
        CHECK(driver.cuArrayDestroy(held->pointer));
        break;
    case POOL:
        if (random & 1)
            CHECK(driver.cuMemFreeAsync(held->address, NULL));
        else
            CHECK(driver.cuMemFree_v2(held->address));
        break;
    case PHYSICAL:
        CHECK(driver.cuMemRelease(held->handle));
        break;
    case MAPPED:
        CHECK(driver.cuMemUnmap(held->address, 2 * MIB));
        CHECK(driver.cuMemAddressFree(held->address, 4 * MIB));
        break;
    case STREAM:
        CHECK(driver.cuStreamDestroy_v2(held->pointer));
        break;
    }
    held->what = NOTHING;
}

/* One operation empties a full slot, or fills an empty one. Mostly it is a slot of all threads, so one thread may free
 * another's block while that one frees its own. */
static void operate(struct held *own, uint64_t *state)
{
    uint64_t random = next_random(state), dice = random >> 32;
    size_t slot = (random >> 8) % SLOTS;
    bool mine = dice % 4 == 0;
    struct held *held = mine ? &own[slot % 64] : &shared[slot];
    if (!mine) pthread_mutex_lock(&slot_locks[slot]);
    if (held->what)
        give_back(held, random);
    else if (dice % 1000 < 3)
        take_virtual(held, random);
    else
        take_memory(held, dice / 4 % 100, random);
    if (!mine) pthread_mutex_unlock(&slot_locks[slot]);
}

/* Until the collector has taken all that was recorded, on a machine as busy as may be: this test is not about what is
 * dropped where it cannot keep up. */
static void wait_for_collector(void)
{
    struct memprof_stats stats;
    for (int tries = 0; tries < 600 && memprof_active() && memprof_stats(NULL, &stats); tries++)
        usleep(1000);
}

static void tell_moment(unsigned long moment)
{
    struct softgpu_digest live[SOFT_CLASS_COUNT];
    char name[32];
    snprintf(name, sizeof name, "moment %lu", moment);
    memprof_mark(name);
    wait_for_collector();
    driver.live(live);
    for (int class = 0; class < SOFT_CLASS_COUNT; class ++)
        if (live[class].blocks)
            printf("%lu %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", moment, driver.class_name(class), live[class].blocks,
                   live[class].bytes, live[class].sum);
}

static void *work(void *number)
{
    uint64_t state = 0x9e3779b97f4a7c15 * (1 + (uint64_t)(uintptr_t)number);
    struct held own[64] = {{NOTHING, 0, NULL, 0}};
    unsigned long share = operations / threads / (moments ? moments : 1);
    CHECK(driver.cuCtxSetCurrent(context));
    for (unsigned long moment = 0; moment < (moments ? moments : 1); moment++) {
        /* Moments lie at random: a part of the share more or less. The last half of each pair makes up for the first.
         */
        static unsigned long extra;
        if ((uintptr_t)number % threads == 0 && share > 1)
            extra = moment % 2 ? extra : next_random(&state) % (share / 2 + 1);
        pthread_barrier_wait(&barrier);
        unsigned long count = moment % 2 ? share - extra : share + extra;
        for (unsigned long i = 0; i < count; i++)
            operate(own, &state);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD && moments) tell_moment(moment);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 6) return 2;
    threads = strtoul(argv[2], NULL, 10);
    operations = strtoul(argv[3], NULL, 10);
    moments = strtoul(argv[4], NULL, 10);
    uintptr_t seed = strtoul(argv[5], NULL, 10);
    if (!threads || threads > LONGEST) return 2;
    driver_open(argv[1]);
    CUmemPoolProps props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CHECK(driver.cuInit(0));
    CHECK(driver.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(driver.cuCtxSetCurrent(context));
    CHECK(driver.cuMemPoolCreate(&pool, &props));
    for (size_t i = 0; i < SLOTS; i++)
        pthread_mutex_init(&slot_locks[i], NULL);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    pthread_t ids[LONGEST];
    for (uintptr_t i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, (void *)(seed * threads + i))) return 5;
    for (uintptr_t i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return 0;
}

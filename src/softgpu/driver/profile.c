/*
 * The devices' properties: $SOFTGPU_PROFILE, "name=NVIDIA A100-SXM4-40GB;cc=80;sms=108;...". Missing values are those
 * of a device with compute capability 8.6 and 80 multiprocessors.
 */
#include "softgpu/driver/profile.h"
#include "softgpu/driver/code.h"
#include "softgpu/driver/driver.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_ROOM = 256 };

static struct {
    char name[NAME_ROOM];
    int kernels, local_threads, graph_node, cublas, nccl, multicast;
    int cc, sms, blocks, threads_per_sm, shared_per_block, shared_per_sm, l2, clock, memory_clock, bus_width;
} profile = {.name = "Stand-in GPU",
             .cc = 86,
             .sms = 80,
             .l2 = 6 << 20,
             .clock = 1700000,
             .memory_clock = 9500000,
             .bus_width = 384};

static const struct {
    const char *key;
    int *value;
} keys[] = {{"kernels", &profile.kernels},
            {"local_threads", &profile.local_threads},
            {"graph_node", &profile.graph_node},
            {"cublas", &profile.cublas},
            {"nccl", &profile.nccl},
            {"multicast", &profile.multicast},
            {"cc", &profile.cc},
            {"sms", &profile.sms},
            {"threads_per_sm", &profile.threads_per_sm},
            {"shared_per_block", &profile.shared_per_block},
            {"shared_per_sm", &profile.shared_per_sm},
            {"l2", &profile.l2},
            {"clock", &profile.clock},
            {"memory_clock", &profile.memory_clock},
            {"bus_width", &profile.bus_width}};

/* From the CUDA programming guide's table of technical specifications. PyTorch derives the size of scratch memory for
 * reductions from the threads per multiprocessor. `blocks`: most blocks of a multiprocessor. */
static const struct {
    int cc, threads_per_sm, shared_per_block, shared_per_sm, blocks;
} capabilities[] = {
    {70, 2048, 98304, 98304, 32},    {75, 1024, 65536, 65536, 16},    {80, 2048, 166912, 167936, 32},
    {86, 1536, 101376, 102400, 16},  {87, 1536, 166912, 167936, 16},  {89, 1536, 101376, 102400, 24},
    {90, 2048, 232448, 233472, 32},  {100, 2048, 232448, 233472, 32}, {103, 2048, 232448, 233472, 32},
    {110, 1536, 232448, 233472, 24}, {120, 1536, 101376, 102400, 24}, {121, 1536, 101376, 102400, 24},
};

static void read_key(const char *text, size_t length)
{
    const char *equals = memchr(text, '=', length);
    if (!equals) return;
    size_t key = (size_t)(equals - text), value = length - key - 1;
    if (key == 4 && !memcmp(text, "name", 4) && value < NAME_ROOM) {
        memcpy(profile.name, equals + 1, value);
        profile.name[value] = 0;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strlen(keys[i].key) == key && !memcmp(keys[i].key, text, key)) *keys[i].value = atoi(equals + 1);
}

void soft_read_profile(void)
{
    for (const char *at = getenv("SOFTGPU_PROFILE"); at && *at;) {
        size_t length = strcspn(at, ";");
        read_key(at, length);
        at += length + (at[length] == ';');
    }
    size_t nearest = 0;
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++)
        if (capabilities[i].cc <= profile.cc) nearest = i;
    if (!profile.threads_per_sm) profile.threads_per_sm = capabilities[nearest].threads_per_sm;
    profile.blocks = capabilities[nearest].blocks;
    if (!profile.local_threads) profile.local_threads = profile.threads_per_sm;
    if (!profile.shared_per_block) profile.shared_per_block = capabilities[nearest].shared_per_block;
    if (!profile.shared_per_sm) profile.shared_per_sm = capabilities[nearest].shared_per_sm;
}

const char *soft_profile_name(void)
{
    return profile.name;
}

int soft_capability(void)
{
    return profile.cc;
}

uint64_t soft_profile_share(enum soft_profile_share which)
{
    const int shares[] = {profile.kernels,    profile.local_threads * profile.sms,
                          profile.graph_node, profile.cublas,
                          profile.nccl,       profile.multicast};
    return (uint64_t)shares[which];
}

int soft_occupancy(const struct soft_code *code, int threads, uint64_t shared)
{
    enum { REGISTERS = 65536, UNIT = 256, RESERVED = 1024 };
    int warps = (threads + 31) / 32, most = profile.blocks;
    if (threads <= 0 || threads > (int)code->threads) return 0;
    int by_threads = profile.threads_per_sm / 32 / warps;
    int by_registers = REGISTERS / (int)((code->registers * 32 + UNIT - 1) / UNIT * UNIT) / warps;
    uint64_t used = code->shared + shared + (profile.cc >= 80 ? RESERVED : 0);
    int by_shared = used ? (int)((uint64_t)profile.shared_per_sm / used) : most;
    if (by_threads < most) most = by_threads;
    if (by_registers < most) most = by_registers;
    return by_shared < most ? by_shared : most;
}

/* Attributes that are not in the table have the value 1: a program that asks for a feature gets it. */
int soft_attribute(int attribute, int physical)
{
    const struct {
        int attribute, value;
    } known[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
        {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, profile.clock},
        {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, profile.sms},
        {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
        {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, physical + 1},
        {CU_DEVICE_ATTRIBUTE_TCC_DRIVER, 0},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, profile.memory_clock},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, profile.bus_width},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, profile.l2},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, profile.threads_per_sm},
        {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, profile.cc / 10},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, profile.cc % 10},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, profile.shared_per_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, profile.shared_per_block},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, profile.blocks},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0},
        {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, profile.multicast > 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].attribute == attribute) return known[i].value;
    return 1;
}

/*
 * Internals of the stand-in driver. Every function of the driver API is an ENTRY; the functions declared here compute
 * its answer, under one lock. The code is written to be exact, not fast.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "softgpu/driver_calls.h"
#include "softgpu/softgpu.h"
#include "softgpu/state.h"
#include "softgpu/tool.h"

#define SOFT_GRANULE ((uint64_t)2 << 20) /* physical memory and pools are multiples of it */
#define SOFT_HOST    (-1)
#define SOFT_BLOCK_THREADS 1024 /* most threads of a block */

struct soft_code;

/* ---- the ledger (ledger.c) ---- */

struct soft_block {
    struct soft_block *next; /* in the same hash bucket */
    enum soft_class class;
    int device; /* ordinal; -1: host memory */
    uint64_t address, bytes;
    CUcontext context; /* the context with which it ends; NULL: none */
    void *more;        /* data of the class, allocated by malloc(), freed with the block */
};

struct soft_block *soft_add(enum soft_class class, int device, uint64_t address, uint64_t bytes, CUcontext context);
struct soft_block *soft_find(enum soft_class class, uint64_t address);
/* A block at that address, of any class with the same address space as `like`. */
struct soft_block *soft_find_like(enum soft_class like, uint64_t address);
void soft_remove(struct soft_block *block);
void soft_refused(enum soft_class class, int device, uint64_t bytes);
void soft_pool_holds(enum soft_class class, int device, uint64_t address, uint64_t bytes);
/* Calls `visit` for each block; `visit` may remove that block. */
void soft_each(void (*visit)(struct soft_block *block, void *context), void *context);
void soft_open_ledger(void);

/* ---- the machine (device.c) ---- */

struct soft_device {
    int physical; /* ordinal without CUDA_VISIBLE_DEVICES */
    uint64_t total, used;
    CUcontext primary;
    unsigned retained;
    CUmemoryPool default_pool, current_pool;
    uint64_t graph_used, graph_used_high, graph_reserved, graph_reserved_high;
};

extern pthread_mutex_t soft_lock;
extern struct soft_device soft_devices[SOFT_DEVICES];
extern int soft_device_count;

bool soft_has_device(CUdevice device);
/* Takes `bytes` of a device's physical memory. False: the device is full, or the test makes the call fail. The ledger
 * then gets a refusal of `asked` bytes. */
bool soft_take(enum soft_class class, int device, uint64_t bytes, uint64_t asked);
void soft_give(int device, uint64_t bytes);
/* Return addresses of the devices' range. The second function's addresses are below 4 GiB, for the calls of CUDA 2. */
uint64_t soft_new_address(uint64_t bytes);
uint64_t soft_new_low_address(uint64_t bytes);
void soft_free_address(uint64_t address, uint64_t bytes);
bool soft_is_device_address(uint64_t address);
static inline uint64_t soft_round(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

/* ---- the devices' properties (profile.c) ---- */

void soft_read_profile(void);
const char *soft_profile_name(void);
/* How many blocks of so many threads run at once on a multiprocessor; each has that kernel's needs, and `shared` bytes of
 * dynamic shared memory. */
int soft_occupancy(const struct soft_code *code, int threads, uint64_t shared);
int soft_attribute(int attribute, int physical);
int soft_capability(void); /* 90 means 9.0 */
/* Numbers of the profile; 0: not modelled. Most are bytes that the driver and the libraries take. The first is a
 * switch, the second a number of threads that have local memory. The last is the granularity of memory that multicast
 * objects share; 0: the device has none. */
enum soft_profile_share {
    SOFT_PROFILE_KERNELS,
    SOFT_PROFILE_LOCAL_THREADS,
    SOFT_PROFILE_GRAPH_NODE,
    SOFT_PROFILE_CUBLAS,
    SOFT_PROFILE_NCCL,
    SOFT_PROFILE_MULTICAST
};
uint64_t soft_profile_share(enum soft_profile_share which);

/* ---- memory that the driver takes for itself (share.c) ---- */

enum soft_share {
    SOFT_SHARE_KERNELS,
    SOFT_SHARE_LOCAL,
    SOFT_SHARE_GRAPHS,
    SOFT_SHARE_CUBLAS,
    SOFT_SHARE_NCCL,
    SOFT_SHARES
};
const char *soft_share_name(enum soft_share share);
uint64_t soft_share_reserved(int device, enum soft_share share);
bool soft_share_take(int device, enum soft_share share, uint64_t bytes);
void soft_share_give(int device, enum soft_share share, uint64_t bytes);
/* Called when the device's primary context has ended, and the driver's share with it. */
void soft_share_end(int device);
/* Loads a kernel unless it is loaded. False: there is no memory. */
bool soft_share_launch(const void *function);
/* Called when a share grew: the recording gets a mark when the running call ends. */
void soft_share_changed(int device, enum soft_share share);

/* ---- the contents of device memory (values.c) ---- */

/* Called when any kernel ran on the stream, of the program or of a library: it is a node of a captured graph, and
 * device memory may no longer have what the program copied there (kernel.c). */
void soft_kernel_ran(CUstream stream);
/* The same without the stream. */
void soft_values_changed(void);
/* Called when the running call returned bytes to the program that no kernel computed. The recorder gets a mark after
 * the lock is released. */
void soft_read_back(uint64_t bytes, enum softgpu_source source);

/* ---- contexts and streams (context.c, stream.c) ---- */

struct CUctx_st {
    uint32_t uid;
    int device;
    bool alive, primary;
};

/* The thread's current context, if it is live; else NULL. */
CUcontext soft_current(void);
/* Removes a block whose context or module ends, and frees its memory as its class requires. */
void soft_destroy(struct soft_block *block);
bool soft_is_stream(CUstream stream);
/* The graph into which the stream captures; NULL: the stream does not capture. */
CUgraph soft_capturing(CUstream stream);
uint32_t soft_stream_id(CUstream stream);
void soft_pools_idle(void); /* at a synchronisation: pools release memory above their thresholds */

/* ---- graphs (graph.c) ---- */
CUresult soft_capture_alloc(CUgraph graph, int device, CUdeviceptr *address, size_t bytes);
CUresult soft_capture_free(CUgraph graph, CUdeviceptr address);
struct soft_nodes {
    CUgraphNode *nodes; /* owned */
    size_t count;
};
/* Adds a node of that type for an operation on the stream, if the stream is capturing (stream.c). */
void soft_capture(CUstream stream, int type);
/* Makes a node without memory in the graph. */
CUgraphNode soft_new_step(CUgraph graph, int type, const CUgraphNode *dependencies, size_t count);
CUgraph soft_new_graph(void);
bool soft_is_graph(CUgraph graph);
/* Called when the program itself frees a block that a launch of a graph allocated. */
void soft_free_graph_block(struct soft_block *block);

/* ---- arrays (array.c), physical memory (vmm.c), pools (pool.c), modules (module.c) ---- */
/* The physical memory that is mapped at an address; NULL: none. */
struct soft_block *soft_mapping_at(uint64_t address);
uint64_t soft_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels);
void soft_free_array(struct soft_block *block);
void soft_free_pool_block(struct soft_block *block, CUstream stream);
void soft_free_module(struct soft_block *block);
/* The code of a module that the program loaded itself. False: the handle is no module. */
bool soft_module_code(const void *handle, struct soft_code *code);
void soft_free_external(struct soft_block *block);

/* ---- the tools' callbacks (call.c) ---- */

void soft_enter(struct soft_call *call, uint32_t cbid, const char *name, const void *params);
void soft_exit(struct soft_call *call);
/* True if the driver may be used; otherwise call->result says why not. */
bool soft_ready(struct soft_call *call);
/* True if the test makes the running call find no memory. */
bool soft_refusing(void);
void soft_report_memory(struct soft_block *block, unsigned operation, unsigned kind, CUstream stream, const char *name);
void soft_report_memory_event(struct soft_memory_event *event);
void soft_report_pool_event(struct soft_pool_event *event);
void soft_report_context(unsigned cbid, CUcontext context);
enum { SOFT_MEMORY_ALLOCATION = 1, SOFT_MEMORY_RELEASE = 2 };
/* CUpti_ActivityMemoryKind */
enum {
    SOFT_MEMORY_PINNED = 2,
    SOFT_MEMORY_DEVICE = 3,
    SOFT_MEMORY_ARRAY = 4,
    SOFT_MEMORY_MANAGED = 5,
    SOFT_MEMORY_STATIC = 6,
    SOFT_MEMORY_MANAGED_STATIC = 7
};

void soft_inject(void);

/* ---- entries ---- */

#define EXPORTED __attribute__((visibility("default")))

#define PAIR_TYPE(type, name)                              type name
#define PAIR_NAME(type, name)                              name
#define PAIR_FIELD(type, name)                             type name;
#define MAP_1(m, sep, a)                                   m a
#define MAP_2(m, sep, a, ...)                              m a sep() MAP_1(m, sep, __VA_ARGS__)
#define MAP_3(m, sep, a, ...)                              m a sep() MAP_2(m, sep, __VA_ARGS__)
#define MAP_4(m, sep, a, ...)                              m a sep() MAP_3(m, sep, __VA_ARGS__)
#define MAP_5(m, sep, a, ...)                              m a sep() MAP_4(m, sep, __VA_ARGS__)
#define MAP_6(m, sep, a, ...)                              m a sep() MAP_5(m, sep, __VA_ARGS__)
#define MAP_7(m, sep, a, ...)                              m a sep() MAP_6(m, sep, __VA_ARGS__)
#define MAP_8(m, sep, a, ...)                              m a sep() MAP_7(m, sep, __VA_ARGS__)
#define MAP_PICK(_1, _2, _3, _4, _5, _6, _7, _8, map, ...) map
#define MAP(m, sep, ...)                                                                                               \
    MAP_PICK(__VA_ARGS__, MAP_8, MAP_7, MAP_6, MAP_5, MAP_4, MAP_3, MAP_2, MAP_1, )(m, sep, __VA_ARGS__)
#define SEP_COMMA() ,
#define SEP_NONE()

enum {
#define NUMBER_OF(name, version, mode, symbol, cbid, signature) SOFT_CBID_##symbol = cbid,
    DRIVER_CALLS(NUMBER_OF)
#undef NUMBER_OF
};

/* ENTRY(symbol, answer, (type, name)...): a function of the driver API. `answer`, an expression, runs under the
 * lock. */
#define ENTRY(symbol, answer, ...)                                                                                     \
    EXPORTED CUresult symbol(MAP(PAIR_TYPE, SEP_COMMA, __VA_ARGS__))                                                   \
    {                                                                                                                  \
        struct {                                                                                                       \
            MAP(PAIR_FIELD, SEP_NONE, __VA_ARGS__)                                                                     \
        } params = {MAP(PAIR_NAME, SEP_COMMA, __VA_ARGS__)};                                                           \
        struct soft_call call;                                                                                         \
        soft_enter(&call, SOFT_CBID_##symbol, #symbol, &params);                                                       \
        pthread_mutex_lock(&soft_lock);                                                                                \
        if (soft_ready(&call)) call.result = (answer);                                                                 \
        pthread_mutex_unlock(&soft_lock);                                                                              \
        soft_exit(&call);                                                                                              \
        return call.result;                                                                                            \
    }

/* Both forms of a function that has default streams: the plain form and the form for per-thread default streams. */
#define ENTRY_BOTH(symbol, answer, ...)                                                                                \
    ENTRY(symbol, answer, __VA_ARGS__)                                                                                 \
    ENTRY(symbol##_ptsz, answer, __VA_ARGS__)

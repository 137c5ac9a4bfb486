/*
 * The project's vocabulary as enumerations: events, layers, kinds, languages and so on. The numbers are stored in
 * snapshot files and in the spool, so they never change; new ones are added at the end. Never allocates; may be called
 * in the program.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mp_event_type {
    MP_EVENT_NONE = 0,
    MP_EVENT_ALLOC = 1,
    MP_EVENT_FREE = 2,
    MP_EVENT_RESIZE = 3,       /* the block keeps its identity, `bytes` is the new size */
    MP_EVENT_OOM = 4,          /* `bytes`: the size requested */
    MP_EVENT_STEP = 5,         /* a step begins, and the previous one ends */
    MP_EVENT_REGION_BEGIN = 6, /* the region `name` begins */
    MP_EVENT_REGION_END = 7,
    MP_EVENT_MARK = 8,     /* named `name` */
    MP_EVENT_RESERVED = 9, /* the allocator of the track now holds `bytes` from the layer below */
    MP_EVENT_START = 10,   /* recording was switched on: from here on events are kept */
    MP_EVENT_STOP = 11,
    MP_EVENT_TYPES
};

enum mp_layer { MP_LAYER_DRIVER = 0, MP_LAYER_TORCH = 1, MP_LAYER_APP = 2, MP_LAYER_MALLOC = 3, MP_LAYERS };

enum mp_kind {
    MP_KIND_DEVICE = 0,
    MP_KIND_PINNED = 1,
    MP_KIND_MANAGED = 2,
    MP_KIND_ARRAY = 3,
    MP_KIND_POOL = 4,
    MP_KIND_VMM = 5,
    MP_KIND_GRAPH = 6,
    MP_KIND_HOST = 7,
    MP_KIND_HANDLE = 8,
    MP_KINDS
};

/* MP_BACKWARD is no call, but a border in a stack ("backward of"). The frames inside it are those that autograd ran;
 * the frames outside it are the path that made the node in forward. */
enum mp_language { MP_NATIVE = 0, MP_PYTHON = 1, MP_BACKWARD = 2, MP_LANGUAGES };

/* Roles that a program gives a block: PyTorch's words for a tensor's part in training. */
enum mp_role {
    MP_ROLE_NONE = 0,
    MP_ROLE_PARAMETER = 1,
    MP_ROLE_GRADIENT = 2,
    MP_ROLE_OPTIMIZER_STATE = 3,
    MP_ROLE_BUFFER = 4,
    MP_ROLE_INPUT = 5,
    MP_ROLE_KV_CACHE = 6, /* keys and values that a server caches for its tokens */
    MP_ROLES
};

/* The kind of the object that holds a block, as the shim's look found it. It is the last growing container on the path,
 * else the object on the path that is not plain. python/libmemprof_torch/holders_names.py has the same order. */
enum mp_holder_kind {
    MP_HOLDER_NONE = 0,
    MP_HOLDER_LIST = 1,
    MP_HOLDER_DICT = 2,
    MP_HOLDER_ATTRIBUTE = 3,
    MP_HOLDER_CLOSURE = 4,
    MP_HOLDER_LOCAL = 5,
    MP_HOLDER_DEFAULT = 6,
    MP_HOLDER_HOOK = 7,
    MP_HOLDER_CACHE = 8,
    MP_HOLDER_TRACEBACK = 9,
    MP_HOLDER_GRAPH = 10,
    MP_HOLDER_THREAD = 11,
    MP_HOLDER_NATIVE = 12,
    MP_HOLDER_UNKNOWN = 13,
    MP_HOLDER_KINDS
};

/* The origin of a text about a block: the program, or PyTorch's allocator; `kind` of "metadata" in JSON. */
enum mp_metadata_kind {
    MP_METADATA_NONE = 0,
    MP_METADATA_USER = 1,       /* set before the block was allocated (torch.cuda.memory._set_memory_metadata) */
    MP_METADATA_ANNOTATION = 2, /* added to the block later (_annotate_memory) */
    MP_METADATA_INTERNAL = 3,   /* the allocator's text for a block that it made for itself */
    MP_METADATA_KINDS
};

/* The meaning of the bytes of a track's blocks; `size_basis` in JSON. */
enum mp_size_basis { MP_BASIS_REQUESTED = 0, MP_BASIS_BLOCK = 1, MP_BASIS_EXACT = 2 };

/* Actions of a caching allocator, as in PyTorch's own trace. */
enum mp_torch_action {
    MP_TORCH_ALLOC = 0,
    MP_TORCH_FREE_REQUESTED = 1, /* other streams still use the block */
    MP_TORCH_FREE_COMPLETED = 2,
    MP_TORCH_SEGMENT_ALLOC = 3,
    MP_TORCH_SEGMENT_FREE = 4,
    MP_TORCH_SEGMENT_MAP = 5, /* pages of an expandable segment */
    MP_TORCH_SEGMENT_UNMAP = 6,
    MP_TORCH_OUT_OF_MEMORY = 7,
    MP_TORCH_SNAPSHOT = 8,
    MP_TORCH_OTHER = 9, /* a remark; nothing happened to memory */
    MP_TORCH_ACTIONS
};

/* Facts about a row of another program's file, as bits. Older recordings also have other bits, without a meaning
 * now. */
enum mp_row_flag {
    MP_ROW_POOL = 1 << 6,      /* of a call: the file names its pool */
    MP_ROW_OVERLAPS = 1 << 14, /* of a segment, in older recordings: it overlaps an earlier one, so readers ignore it */
};

/* Kinds of facts that a recording has in addition to its events. Older recordings have 0 to 2, which readers pass
 * over. */
enum mp_aside_kind {
    MP_ASIDE_SETTINGS = 3, /* the settings of PyTorch's allocator, as key=value,...; the last one counts */
    MP_ASIDE_KINDS
};

/* How an operator of PyTorch used a block: bits. */
enum mp_use_how {
    MP_USE_READ = 1,
    MP_USE_WRITTEN = 2,
    MP_USE_OUTPUT = 4, /* a result lies in the block */
    MP_USE_VIEW = 8,   /* the result is a view of an argument */
    MP_USE_MADE = 16,  /* the operator allocated the block */
};

/* The state of a part of a segment. */
enum mp_torch_state {
    MP_TORCH_FREE = 0,
    MP_TORCH_ALLOCATED = 1,
    MP_TORCH_PENDING = 2,  /* freed, but a stream may still use it */
    MP_TORCH_UNMAPPED = 3, /* address space of an expandable segment without memory */
    MP_TORCH_STATES
};

/* The prefix of the marks that the PyTorch shim makes when the program calls the allocator
 * (analysis/allocator/torch_history.h). */
#define MP_TORCH_MARK "torch: "

/* c10::DeviceType, only the values that memprof uses (c10/core/DeviceType.h). */
enum mp_device_type { MP_DEVICE_CPU = 0, MP_DEVICE_CUDA = 1 };

/* The end of the note about a worker that copied pages. The note begins with a size. */
#define MP_COPIED_NOTE                                                                                                 \
    " of its parent's pages copied, as reading Python objects writes to them; keep such data in arrays"
/* A note of a recording: it may lack some calls of the function of --step-at. Readers then count the steps of the other
 * kinds, if these are more. */
#define MP_STEPS_IN_DOUBT                                                                                              \
    "not all calls of the function of --step-at could be told apart: steps are counted without it where those are "    \
    "more"
/* The name of the step event that the end of an optimizer's step in PyTorch makes. All other step events begin a
 * step. */
#define MP_TORCH_STEP "torch.optim"
/* Prefixes of names that PyTorch's profiler gives to regions: of steps, and of an optimizer's steps. */
#define MP_PROFILER_STEP      "ProfilerStep#"
#define MP_PROFILER_OPTIMIZER "Optimizer.step#"

#define MP_NONE          UINT32_MAX /* no event, no block, no step */
#define MP_BYTES_UNKNOWN UINT64_MAX
/* For sums: unknown bytes count as none. */
static inline uint64_t mp_known(uint64_t bytes)
{
    return bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
}

#define MP_DEVICES_MAX 1024 /* more than any machine has; files with more are refused */

/* The words themselves ("alloc", "torch", "device", ...); "?" for an unknown number. */
const char *mp_event_type_name(unsigned type);
const char *mp_layer_name(unsigned layer);
const char *mp_kind_name(unsigned kind);
const char *mp_size_basis_name(unsigned basis);
const char *mp_language_name(unsigned language);
const char *mp_holder_kind_name(unsigned kind);   /* "list", ...; "none" */
const char *mp_metadata_kind_name(unsigned kind); /* "user", ...; "none" */
const char *mp_role_name(unsigned role);          /* "none", "parameter", "optimizer_state", ... */
/* The part of a device's id before its ordinal: "cpu", "cuda", "xpu", ...; "device" for an unknown number of c10's. */
const char *mp_device_type_name(unsigned type);

/* Write a device's id ("cpu", "cuda:0") and a track's ("cuda:0/torch"; an application's pool: "cpu/app/scratch"), cut
 * to `room`. `index` -1: the only device of its type. */
#define MP_ID_TEXT 320
void mp_format_device_id(char *to, size_t room, unsigned type, int index);
void mp_format_track_id(char *to, size_t room, unsigned device_type, int device_index, unsigned layer, const char *pool,
                        size_t pool_length);

/* The contents of a driver's track. The table in words.c has a row for each, by the last part of the track's id ("" for
 * "cuda:0/driver"). Some tracks hold no memory. They show memory of other tracks from another side ("mapped") or memory
 * of other processes ("imported"). Others show no memory ("addresses") or memory that may not be resident
 * ("managed"). */
enum mp_driver_part {
    MP_DRIVER_NOTHING,  /* nothing, or only memory that other tracks hold, too */
    MP_DRIVER_BLOCKS,   /* physical memory, block by block */
    MP_DRIVER_POOLED,   /* blocks in memory that the reserved total counts */
    MP_DRIVER_CONTEXTS, /* handles of objects that take memory of their own */
    MP_DRIVER_MODULES,
    MP_DRIVER_HANDLES,
};
struct mp_driver_track {
    const char *name;
    enum mp_driver_part part;
    bool addresses; /* its bytes are address space, behind which another track may have memory */
    bool backs;     /* its blocks give memory to addresses */
};
/* The row of a driver's track. An unknown name gives a row of MP_DRIVER_NOTHING. */
const struct mp_driver_track *mp_driver_track(const char *name);

/* mp_track_holds_memory(): true if a track holds memory of its device, so that its bytes may be compared with those of
 * other tracks. mp_track_is_of_addresses(): true if its bytes are address space. */
bool mp_track_holds_memory(unsigned layer, const char *name);
bool mp_track_is_of_addresses(unsigned layer, const char *name);

/* Signals as people write them, without "SIG"; NULL for a number without a name of its own (a real-time signal). glibc
 * has sigabbrev_np() only since 2.32. */
const char *mp_signal_name(unsigned number);

/*
 * The part of NVTX v3's binary interface that the recorder uses. Numbers and layouts are those of nvToolsExt.h,
 * nvToolsExtMem.h and nvtxDetail/nvtxTypes.h; the build does not need these headers. The test program
 * tests/e2e/programs/nvtx.c compares both if the real headers are installed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* ---- the core ---- */

enum { NVTX_TABLE_CALLBACKS = 1 };
enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5 };

enum nvtx_core {
    NVTX_MARK_EX = 1,
    NVTX_MARK_A = 2,
    NVTX_MARK_W = 3,
    NVTX_RANGE_START_EX = 4,
    NVTX_RANGE_START_A = 5,
    NVTX_RANGE_START_W = 6,
    NVTX_RANGE_END = 7,
    NVTX_RANGE_PUSH_EX = 8,
    NVTX_RANGE_PUSH_A = 9,
    NVTX_RANGE_PUSH_W = 10,
    NVTX_RANGE_POP = 11,
};

enum nvtx_core2 {
    NVTX_DOMAIN_MARK_EX = 1,
    NVTX_DOMAIN_RANGE_START_EX = 2,
    NVTX_DOMAIN_RANGE_END = 3,
    NVTX_DOMAIN_RANGE_PUSH_EX = 4,
    NVTX_DOMAIN_RANGE_POP = 5,
    NVTX_DOMAIN_REGISTER_STRING_A = 10,
    NVTX_DOMAIN_REGISTER_STRING_W = 11,
    NVTX_DOMAIN_CREATE_A = 12,
    NVTX_DOMAIN_CREATE_W = 13,
};

typedef void nvtx_function(void);

/* The interface that a program's copy of NVTX passes to the tool. A slot of a function table is the address of the
 * function pointer to set. */
typedef const void *nvtx_get_table(uint32_t table);
struct nvtx_callbacks {
    size_t bytes;
    int (*module_functions)(uint32_t module, nvtx_function ****functions, unsigned *count);
};

enum { NVTX_MESSAGE_ASCII = 1, NVTX_MESSAGE_UNICODE = 2, NVTX_MESSAGE_REGISTERED = 3 };

struct nvtx_attributes {
    uint16_t version, bytes; /* version and size of this structure with which the program was compiled */
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message; /* const char *, const wchar_t *, or a registered handle */
};

#define NVTX_NO_TRACKING (-2) /* the result of push and pop if no tool counts levels */

/* ---- the memory extension ---- */

enum { NVTX_EXTENSION_MEMORY = 1, NVTX_MEMORY_COMPATIBLE = 0x0102, NVTX_MEMORY_SEGMENT = 1 };

struct nvtx_segment {
    size_t id, slot_count;
    intptr_t *slots;
};

struct nvtx_extension {
    uint16_t nvtx_version, bytes, module, compatible;
    size_t segment_count;
    struct nvtx_segment *segments;
    void *export_function;
    const void *more;
};

enum nvtx_memory_slot {
    NVTX_HEAP_REGISTER = 0,
    NVTX_HEAP_UNREGISTER = 1,
    NVTX_HEAP_RESET = 2,
    NVTX_REGIONS_REGISTER = 3,
    NVTX_REGIONS_RESIZE = 4,
    NVTX_REGIONS_UNREGISTER = 5,
};

enum { NVTX_MEMORY_VIRTUAL_ADDRESS = 1 };

struct nvtx_memory_range {
    size_t bytes;
    const void *address;
};

struct nvtx_heap {
    uint16_t compatible, bytes;
    uint32_t reserved;
    uint32_t usage, type;
    size_t description_bytes;
    const void *description; /* struct nvtx_memory_range for virtual addresses */
    uint32_t category, message_type;
    const void *message;
};

struct nvtx_regions_register {
    uint16_t compatible, bytes;
    uint32_t type;
    void *heap;
    size_t count, element_bytes;
    const void *elements; /* struct nvtx_memory_range */
    void **handles;       /* the tool fills the handles in; may be NULL */
};

struct nvtx_regions_resize {
    uint16_t compatible, bytes;
    uint32_t type;
    size_t count, element_bytes;
    const void *elements; /* struct nvtx_memory_range */
};

struct nvtx_regions_unregister {
    uint16_t compatible, bytes;
    uint32_t reference_type;
    size_t count, element_bytes;
    const void *elements; /* addresses or handles */
};

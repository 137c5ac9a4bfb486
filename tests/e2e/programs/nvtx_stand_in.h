/*
 * The part of NVTX v3's headers that the test needs: functions that load the tool at first use and go through pointers
 * that the tool sets. For machines without NVIDIA's headers. Every source that includes this file has its own copy,
 * like libraries built with the real headers.
 */
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

typedef uint64_t nvtxRangeId_t;
typedef const void *nvtxDomainHandle_t, *nvtxStringHandle_t;
typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType, reserved0;
    uint64_t payload;
    int32_t messageType;
    union {
        const char *ascii;
        const wchar_t *unicode;
        nvtxStringHandle_t registered;
    } message;
} nvtxEventAttributes_t;
enum { NVTX_VERSION = 3, NVTX_MESSAGE_TYPE_ASCII = 1, NVTX_MESSAGE_TYPE_UNICODE, NVTX_MESSAGE_TYPE_REGISTERED };
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))

typedef void (*stand_in_function)(void);
static stand_in_function stand_in_core[16], stand_in_core2[16];
static stand_in_function *stand_in_core_slots[16], *stand_in_core2_slots[16];

static int stand_in_functions(uint32_t module, stand_in_function ***table, unsigned *count)
{
    *count = 16;
    *table = module == 1 ? stand_in_core_slots : module == 5 ? stand_in_core2_slots : NULL;
    return *table != NULL;
}

static const void *stand_in_table(uint32_t number)
{
    static const struct {
        size_t size;
        int (*functions)(uint32_t, stand_in_function ***, unsigned *);
    } callbacks = {sizeof callbacks, stand_in_functions};
    return number == 1 ? &callbacks : NULL;
}

static void stand_in_load(void)
{
    for (int i = 1; i < 16; i++) {
        stand_in_core_slots[i] = &stand_in_core[i];
        stand_in_core2_slots[i] = &stand_in_core2[i];
    }
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *tool = path ? dlopen(path, RTLD_LAZY) : NULL;
    int (*initialize)(const void *(*)(uint32_t)) = NULL;
    void *symbol = tool ? dlsym(tool, "InitializeInjectionNvtx2") : NULL;
    memcpy(&initialize, &symbol, sizeof symbol);
    if (!initialize || !initialize(stand_in_table)) {
        memset(stand_in_core, 0, sizeof stand_in_core);
        memset(stand_in_core2, 0, sizeof stand_in_core2);
    }
}

/* Calls name(arguments) through a slot of a table; the result is `none` if no tool has set the slot. */
#define STAND_IN(result, none, name, table, slot, parameters, arguments)                                               \
    __attribute__((unused)) static result name parameters                                                              \
    {                                                                                                                  \
        static pthread_once_t once = PTHREAD_ONCE_INIT; /* loading again finds the same tool */                        \
        pthread_once(&once, stand_in_load);                                                                            \
        result(*function) parameters;                                                                                  \
        memcpy(&function, &stand_in_##table[slot], sizeof function);                                                   \
        if (!function) return none;                                                                                    \
        return function arguments;                                                                                     \
    }
#define ATTRIBUTES const nvtxEventAttributes_t *attributes
#define NOTHING
STAND_IN(void, NOTHING, nvtxMarkA, core, 2, (const char *text), (text))
STAND_IN(nvtxRangeId_t, 0, nvtxRangeStartA, core, 5, (const char *text), (text))
STAND_IN(nvtxRangeId_t, 0, nvtxRangeStartW, core, 6, (const wchar_t *text), (text))
STAND_IN(void, NOTHING, nvtxRangeEnd, core, 7, (nvtxRangeId_t id), (id))
STAND_IN(int, -2, nvtxRangePushEx, core, 8, (ATTRIBUTES), (attributes))
STAND_IN(int, -2, nvtxRangePushA, core, 9, (const char *text), (text))
STAND_IN(int, -2, nvtxRangePushW, core, 10, (const wchar_t *text), (text))
STAND_IN(int, -2, nvtxRangePop, core, 11, (void), ())
STAND_IN(void, NOTHING, nvtxDomainMarkEx, core2, 1, (nvtxDomainHandle_t d, ATTRIBUTES), (d, attributes))
STAND_IN(nvtxRangeId_t, 0, nvtxDomainRangeStartEx, core2, 2, (nvtxDomainHandle_t d, ATTRIBUTES), (d, attributes))
STAND_IN(void, NOTHING, nvtxDomainRangeEnd, core2, 3, (nvtxDomainHandle_t d, nvtxRangeId_t id), (d, id))
STAND_IN(int, -2, nvtxDomainRangePushEx, core2, 4, (nvtxDomainHandle_t d, ATTRIBUTES), (d, attributes))
STAND_IN(int, -2, nvtxDomainRangePop, core2, 5, (nvtxDomainHandle_t d), (d))
STAND_IN(nvtxStringHandle_t, NULL, nvtxDomainRegisterStringA, core2, 10, (nvtxDomainHandle_t d, const char *t), (d, t))
STAND_IN(nvtxDomainHandle_t, NULL, nvtxDomainCreateA, core2, 12, (const char *name), (name))
STAND_IN(nvtxDomainHandle_t, NULL, nvtxDomainCreateW, core2, 13, (const wchar_t *name), (name))

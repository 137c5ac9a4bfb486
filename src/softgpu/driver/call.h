/* A call of the driver's API, and its report to tools. Every function of the API is an ENTRY. Under soft_lock.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "softgpu/cuda_types.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/ledger.h"
#include "softgpu/driver_calls.h"
#include "softgpu/softgpu.h"
#include "softgpu/tool.h"

/* The recording gets this mark, with the present stack, when the outermost running call ends and the lock is released.
 * A later text of the same slot takes the place of the earlier one. */
enum { SOFT_MARKS = 8, SOFT_MARK_BYTES = 80 };
void soft_mark_later(unsigned slot, const char *text);

/* Called when the running call returned bytes to the program that no kernel computed. The recorder gets a mark after
 * the lock is released. */
void soft_read_back(uint64_t bytes, enum softgpu_source source);

/* ---- the tools' callbacks ---- */
void soft_enter(struct soft_call *call, uint32_t cbid, const char *name, const void *params);
void soft_exit(struct soft_call *call);

/* True if the driver may be used; otherwise call->result says why not. */
bool soft_ready(struct soft_call *call);

/* True if the test makes the running call find no memory. */
bool soft_refusing(void);
void soft_report_memory(struct soft_block *block, unsigned operation, unsigned kind, const char *name);
void soft_report_memory_event(struct soft_memory_event *event);
void soft_report_pool_event(struct soft_pool_event *event);
void soft_report_context(unsigned cbid, CUcontext context);
void soft_inject(void);

/* ---- entries ---- */

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

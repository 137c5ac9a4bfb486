/*
 * Asks the interpreter's main thread to call a function of the shim between two instructions. Any thread, in hooks too.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mp_asker {
    int (*_Atomic ask)(void *); /* the shim's function; NULL: none */
    void *_Atomic context;
    /* Generation of the session in which a call was requested, until the call comes; 0: none. A forked child may never
     * make the call that was requested in its parent. */
    _Atomic uint32_t asked;
};

void mp_asker_set(struct mp_asker *asker, int (*ask)(void *), void *context);
/* True if a call was requested in this session and has not come yet. */
bool mp_asker_is_asked(const struct mp_asker *asker);
/* Requests the call. False if one is already requested, or if it cannot be requested now; `may_call_python` as for
 * mp_python_call_soon(). */
bool mp_asker_call_soon(struct mp_asker *asker, bool may_call_python);

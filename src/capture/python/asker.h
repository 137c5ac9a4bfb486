/*
 * A function of the shim that the interpreter's main thread is asked to call between two instructions. Any thread, in
 * hooks too.
 */
#ifndef MP_CAPTURE_PYTHON_ASKER_H
#define MP_CAPTURE_PYTHON_ASKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mp_asker {
    int (*_Atomic ask)(void *); /* NULL: none */
    void *_Atomic context;
    /* The session's generation in which a call is on its way; 0: none is. A forked child may never answer the question
     * that its parent was asked. */
    _Atomic uint32_t asked;
};

void mp_asker_set(struct mp_asker *asker, int (*ask)(void *), void *context);
/* True if a call of this session is on its way. */
bool mp_asker_is_asked(const struct mp_asker *asker);
/* False: a call is on its way, or cannot be had now; `may_call_python` as for mp_python_call_soon(). */
bool mp_asker_call_soon(struct mp_asker *asker, bool may_call_python);

#endif

/* The functions of walk.h, done by libunwind, with the same contracts. libunwind takes locks, makes system calls and
 * may allocate. */
#pragma once

#include "capture/native/walk.h"

/* Called by the constructor. False: libunwind is not installed; the other functions then find nothing. */
bool mp_libunwind_start(void);
void mp_libunwind_forget(void);
struct mp_walked mp_libunwind_walk(uint64_t generation, void **addresses, int room);
int mp_libunwind_walk_frames(struct mp_native_frame *frames, int room);
bool mp_libunwind_function(uintptr_t address, uintptr_t *start, uintptr_t *end);

/*
 * What holds tensors, as the shim's looks find it (python/libmemprof_torch/holders.py): takes its rows, and says when
 * one is due. Rows come from the program's own threads, outside of hooks.
 */
#ifndef MP_CAPTURE_TORCH_HOLDERS_H
#define MP_CAPTURE_TORCH_HOLDERS_H

#include <stddef.h>
#include <stdint.h>

/* As the members `holder` and `holder_ask` of include/memprof.h. */
void mp_holders_record(const uint64_t *addresses, size_t count, int kind, int certain, const char *path,
                       const char *file, unsigned line);
int mp_holders_ask(int (*ask)(void *), void *context);

/* A step of the program's loop has begun, or ended: with --holders, after 8, 16, 32, ... of them a look is due. */
void mp_holders_step(void);

#endif

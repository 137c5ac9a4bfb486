/* Memory that may not be there: read through the kernel, which answers for an address that is not mapped. Never
 * allocates; any thread, in hooks. */
#ifndef MP_CAPTURE_READ_MEMORY_H
#define MP_CAPTURE_READ_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies memory; false: not all of it is there. */
bool mp_read_memory(void *to, uintptr_t from, size_t bytes);
/* True if that holds for memory which another thread unmaps meanwhile: false in a sandbox that refuses
 * process_vm_readv(), where pages are asked for before they are read. */
bool mp_read_is_safe(void);

#endif

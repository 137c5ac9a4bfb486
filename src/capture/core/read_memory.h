/* Reads memory that may not be mapped, through the kernel: it answers with an error instead of a fault. Never
 * allocates; any thread, in hooks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies memory. False: some of it is not mapped. */
bool mp_read_memory(void *to, uintptr_t from, size_t bytes);
/* True if mp_read_memory() is safe while another thread unmaps the memory. False in a sandbox that refuses
 * process_vm_readv(). There the recorder asks the kernel about a page before it reads it directly. */
bool mp_read_is_safe(void);

/*
 * The network's module at an address, as the PyTorch shim reported it: look-ups for hooks, without a lock and in our
 * own memory, which a forked child has too. A path becomes a string of the spool at its first event in each session.
 *
 * For an unnamed module the shim's function is called, by the interpreter's own means, on its main thread. Never
 * allocates.
 */
#ifndef MP_CAPTURE_MODULE_PATHS_H
#define MP_CAPTURE_MODULE_PATHS_H

#include <stdbool.h>
#include <stdint.h>

/* In a hook: the spool's string id of the module's path; 0: unknown (as yet), or no room. */
uint32_t mp_module_path_id(const void *module, bool may_call_python);

/* The same where the spool need not be touched; false: use mp_module_path_id(). */
bool mp_module_path_id_known(const void *module, uint32_t *path);

/* Outside of hooks, on any thread. `path` is copied; one longer than MP_MODULE_PATH is cut. NULL: the module has died,
 * and another one may get its address. */
#define MP_MODULE_PATH 512
void mp_module_name(const void *module, const char *path);

/* The function to run for unknown modules; NULL: none. It returns 0, or -1 with Python's exception set, which is then
 * raised in the program. */
void mp_module_ask(int (*ask)(void *), void *context);

#endif

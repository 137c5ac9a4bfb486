/*
 * The names of a network's modules by address, as the PyTorch shim reports them. Hooks look them up without a lock, in
 * memory that a forked child has, too. In each session, a path becomes a string of the spool at the first event that
 * needs it.
 *
 * If a module has no name yet, the interpreter is asked to call the shim's function on its main thread. Never
 * allocates.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Returns the spool's string id of the module's path. 0: not known (yet), or no room. In a hook. */
uint32_t mp_module_path_id(const void *module, bool may_call_python);

/* Gives the same id without touching the spool. False if that is not possible: use mp_module_path_id(). */
bool mp_module_path_id_known(const void *module, uint32_t *path);

/* Names the module at an address. Outside of hooks, on any thread. `path` is copied, and cut if it is longer than
 * MP_MODULE_PATH. `path` NULL: the module was destroyed, and another module may get its address. */
#define MP_MODULE_PATH 512
void mp_module_name(const void *module, const char *path);

/* Sets the function to call for unnamed modules; NULL: none. It returns 0, or -1 with a Python exception set, which is
 * then raised in the program. */
void mp_module_ask(int (*ask)(void *), void *context);

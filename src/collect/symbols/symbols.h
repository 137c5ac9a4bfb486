/*
 * Functions, files and lines of native frames. Each file is opened when its module is first seen and stays open, so
 * that a program may delete or replace it later. A file that was replaced before that gives no symbols, rather than
 * wrong ones. The network is never asked. One thread at a time.
 */
#pragma once

#include "base/error.h"
#include "base/file_id.h"
#include "collect/symbols/symbol_file.h"

#define MP_SYMBOL_MODULES_MAX (1u << 20) /* module ids are below this */

struct mp_symbols;

enum mp_status mp_symbols_open(struct mp_symbols **symbols, struct mp_error *error);

/*
 * Adds the module `module`, which is the file at root + path. `path` is as the program sees it; `root` is
 * /proc/PID/root, or NULL. `id` identifies the loaded file: by build-id if both sides have one, else by size, inode and
 * modification time. NULL trusts the path. A path that is not absolute ("[vdso]") is no file.
 *
 * An unusable file is no error: its addresses have no symbols, and mp_symbols_note() gives the reason. Adding an id
 * again replaces it.
 */
enum mp_status mp_symbols_add_module(struct mp_symbols *symbols, uint32_t module, const char *path,
                                     const struct mp_file_id *id, const char *root, struct mp_error *error);

/* Why the module has no symbols, as a sentence without a full stop; NULL if there is nothing to report. */
const char *mp_symbols_note(const struct mp_symbols *symbols, uint32_t module);

/*
 * The source-level frames of a return address, innermost (most inlined) first; `offset` is the address less the load
 * bias. The call before the return address is looked up. Returns the number of frames; 0 if nothing is known. *lines is
 * valid until the next call with `symbols`, its texts until mp_symbols_close().
 */
size_t mp_symbols_resolve(struct mp_symbols *symbols, uint32_t module, uint64_t offset,
                          const struct mp_symbol_line **lines);

void mp_symbols_close(struct mp_symbols *symbols);

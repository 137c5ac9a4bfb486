/*
 * The holders of a site's blocks, from the program's own looks (mp_model.holders): paths, most bytes first. A block of
 * PyTorch that lived at the last look without a path is held by native code. If the look did not see everything, the
 * holder is unknown. Pure.
 */
#pragma once

#include "base/vec.h"
#include "model/model.h"

/* The begin of a path from an exception that the program is handling now. */
#define MP_HOLDER_HANDLED "the exception being handled"

struct mp_holder {
    const char *path; /* owned by the model, static, or one of mp_holders.texts */
    uint32_t file, line;
    uint8_t kind; /* enum mp_holder_kind */
    bool certain;
    bool gradients; /* PyTorch labelled all of them as gradients */
    uint64_t blocks, bytes;
};

/* All blocks of one stack and track. */
struct mp_holders_site {
    uint32_t stack;
    uint16_t track;
    uint64_t blocks, bytes; /* those that lived at its last look */
    size_t first, count;    /* indices into mp_holders.holders */
    uint32_t look;          /* that look, as an index into mp_model.looks; MP_NONE or more than there are: unknown */
    const char *note;       /* what that look left out, if some blocks have no holder; NULL: nothing */
};

struct mp_holders {
    MP_VEC(struct mp_holders_site) sites; /* most bytes first */
    MP_VEC(struct mp_holder) holders;
    MP_VEC(char *) texts; /* texts of paths that stand for several paths */
    const char *note;     /* what the last look left out; NULL: nothing */
    bool looked;
};

/* `only_last`: only the program's last look counts. Otherwise, for each site, the look that explains most of its blocks
 * counts; if there are several, the last of them. */
void mp_holders_find(const struct mp_model *model, bool only_last, struct mp_holders *holders);
/* For the blocks of a track that live after `moment` events: by site, their holders at the last look that found one.
 * `blocks` and `bytes` of a site count its blocks without a holder, too. If another
 * look knows holders of more of a site's blocks, it counts. Sites without any known holder are left out, and cycles
 * that may have been in use at the moment. */
void mp_holders_find_at(const struct mp_model *model, uint16_t track, uint32_t moment, struct mp_holders *holders);
/* NULL: no block of the stack lived at a look. */
const struct mp_holders_site *mp_holders_of(const struct mp_holders *holders, uint16_t track, uint32_t stack);
/* True if the outermost growing container on the path has a bound. Sets the entries at the look and the bound. */
bool mp_holder_is_bounded(const struct mp_holder *holder, uint64_t *entries, uint64_t *most);
/* True if that bound was read from code, which may not always run. */
bool mp_holder_bound_is_code(const struct mp_holder *holder);
/* True if code that fills that container also drops entries, beyond a number that is not known. */
bool mp_holder_may_be_bounded(const struct mp_holder *holder);
/* How code behind the loop that fills that container uses its entries: it reads them, or only counts them or takes one.
 * Sets the line, unless it does neither. */
enum mp_holder_later { MP_HOLDER_NOT_LATER, MP_HOLDER_COUNTED_LATER, MP_HOLDER_READ_LATER };
enum mp_holder_later mp_holder_later(const struct mp_holder *holder, uint32_t *line);
/* The later uses of the variable at the begin of a path, as a look found them. Blocks of a variable that is not read
 * again may be freed sooner. `line`: the last line of its function that reads it; 0: unknown. */
enum mp_holder_use {
    MP_HOLDER_READ,
    MP_HOLDER_NOT_READ,
    MP_HOLDER_NOT_IN_BACKWARD /* backward neither reads nor saves
                               * it */
};
enum mp_holder_use mp_holder_use(const char *path, uint32_t *line);
/* The length of the variable's name with its function: "main().state" of "main().state['w'][*]". */
size_t mp_holder_variable(const char *path);
/* True if Python's collector would free the holder: a cycle that no name leads to. */
bool mp_holder_awaits_gc(const struct mp_holder *holder);
/* By stack, 1 if something shows that garbage which a look found was garbage at the moment, too: a look up to then
 * found some of the site's, or the site had freed a block. Objects that die where the program ends are not. The caller
 * frees the bytes. */
unsigned char *mp_holders_leave_garbage(const struct mp_model *model, uint16_t track, uint32_t moment);
/* True if the program has switched the collector off. */
bool mp_holder_gc_is_off(const struct mp_holder *holder);
/* True for such a cycle, and for a cycle through C++, which Python's collector does not see. */
bool mp_holder_is_cycle(const struct mp_holder *holder);
/* True if native code holds a graph: one cause for all blocks that the graph saved. */
bool mp_holder_is_native_graph(const char *path);
/* The length of the part of a path that all blocks of one cause share: up to the first growing container, else up to
 * the graph. */
size_t mp_holder_root(const char *path);
/* Advice about a holder, as a sentence without a full stop; NULL: the path shows nothing to do. */
const char *mp_holder_advice(const struct mp_holder *holder);
/* How to make a look see what `note` says was skipped, as a clause; NULL if no option helps. */
const char *mp_holders_remedy(const char *note);
void mp_holders_free(struct mp_holders *holders);

/*
 * The holders of a site's blocks, as the program's own looks found (mp_model.holders): paths, most bytes first. A block
 * of PyTorch that lived at the last look without a path is held by native code. Its holder is unknown if the look did
 * not see all. Pure.
 */
#ifndef MP_ANALYSIS_HOLDERS_H
#define MP_ANALYSIS_HOLDERS_H

#include "base/vec.h"
#include "model/model.h"

/* How the path of an exception begins that a handler of the program has now. */
#define MP_HOLDER_HANDLED "the exception being handled"

struct mp_holder {
    const char *path; /* owned by the model, static, or one of mp_holders.texts */
    uint32_t file, line;
    uint8_t kind; /* enum mp_holder_kind */
    bool certain;
    bool gradients; /* PyTorch said of all of them that they are */
    uint64_t blocks, bytes;
};

/* All blocks of one stack and track. */
struct mp_holders_site {
    uint32_t stack;
    uint16_t track;
    uint64_t blocks, bytes; /* that lived at its last look */
    size_t first, count;    /* in mp_holders.holders */
    const char *note;       /* what that look left out, where no holder was found of some blocks; NULL: nothing */
};

struct mp_holders {
    MP_VEC(struct mp_holders_site) sites; /* most bytes first */
    MP_VEC(struct mp_holder) holders;
    MP_VEC(char *) texts; /* of paths that stand for several */
    const char *note;     /* what the last look left out; NULL: nothing */
    bool looked;
};

/* `only_last`: what the program's last look found; else of each site the look that explains most of its blocks, the
 * last of several. */
void mp_holders_find(const struct mp_model *model, bool only_last, struct mp_holders *holders);
/* NULL where none of its blocks lived at a look. */
const struct mp_holders_site *mp_holders_of(const struct mp_holders *holders, uint16_t track, uint32_t stack);
/* True if each container on the path whose entries grow has a bound, with the entries at the look and the most of them.
 */
bool mp_holder_is_bounded(const struct mp_holder *holder, uint64_t *entries, uint64_t *most);
/* The further use of the variable that a path begins with, as the look found it. Blocks of a variable that is not read
 * again may be freed earlier. `line`: the line of its function from which on it is not read; 0 if unknown. */
enum mp_holder_use { MP_HOLDER_READ, MP_HOLDER_NOT_READ, MP_HOLDER_NOT_IN_BACKWARD /* neither read nor saved there */ };
enum mp_holder_use mp_holder_use(const char *path, uint32_t *line);
/* The length of the variable's name, with the function that it is of: "main().state" of "main().state['w'][*]". */
size_t mp_holder_variable(const char *path);
/* True if a cycle holds it that Python's collector would free, and no name leads to. */
bool mp_holder_awaits_gc(const struct mp_holder *holder);
/* True if it does, or a cycle holds it that leads through C++, which Python's collector does not see. */
bool mp_holder_is_cycle(const struct mp_holder *holder);
/* The length of the part of a path that blocks of one cause share: up to the first container whose entries grow, else
 * up to the graph. */
size_t mp_holder_root(const char *path);
/* Advice about a holder, as a sentence without a full stop; NULL where the path does not show what to do. */
const char *mp_holder_advice(const struct mp_holder *holder);
/* How to make a look see what `note` says was skipped, as a clause; NULL if no option helps. */
const char *mp_holders_remedy(const char *note);
void mp_holders_free(struct mp_holders *holders);

#endif

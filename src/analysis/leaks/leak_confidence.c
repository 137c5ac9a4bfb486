#include "analysis/leaks/leak_confidence.h"

#include <string.h>

#include "analysis/leaks/leak_limits.h"
#include "base/words.h"

/* True if a program's name leads to the blocks: not native code, no cycle that only the collector knows. */
static bool is_from_root(const struct mp_holder *holder)
{
    return holder && holder->certain && holder->kind < MP_HOLDER_NATIVE && !mp_holder_is_cycle(holder) &&
           !mp_holder_is_native_graph(holder->path);
}

/* True if the blocks are saved for a backward pass, and none has run: the first one may free them. */
static bool awaits_backward(const struct mp_leak_finding *finding, const struct mp_holder *holder)
{
    return finding->untrained && holder && strstr(holder->path, ".grad_fn");
}

/* True if the holder has most of the blocks that the look saw, and the look saw not too few. */
static bool explains(const struct mp_leak_finding *finding, const struct mp_holder *holder)
{
    return !finding->held || (holder->blocks * 2 >= finding->held->blocks &&
                              finding->held->blocks * MP_LEAK_SEEN_PART >= finding->blocks);
}

/* The first missing fact; NULL: none. */
static const char *missing_fact(const struct mp_leak_finding *finding, const struct mp_holder *holder, bool guessed)
{
    bool each = finding->births >= MP_LEAK_EACH_STEP * finding->why.steps;
    if (finding->class == MP_LEAK_HIDDEN) return "no recorded block explains the growth";
    if (finding->maybe_request) return "the steps may be one request or forward, whose blocks are freed when it ends";
    if (guessed) return "the steps are guessed from the order of allocations";
    if (!holder) return "no look for holders found a path to the blocks";
    if (!explains(finding, holder)) return "no look saw most of the blocks at one holder";
    if (!is_from_root(holder)) return "the path to the blocks does not begin at a name of the program";
    if (finding->twins.whole) return "it did not grow in each step, and in few repetitions";
    if (finding->why.old_freed) return "some of its blocks were freed after many steps";
    if (!each) return "it did not grow in each step";
    if (finding->regrown) return "its buffer may be a part of the work that grows";
    if (holder->kind == MP_HOLDER_DICT || holder->kind == MP_HOLDER_CACHE)
        return "the keys of what holds the blocks may come again";
    return NULL;
}

void mp_leak_confide(struct mp_leak_finding *finding, const struct mp_holder *holder, bool guessed)
{
    if (finding->class == MP_LEAK_BOUNDED) { /* the bound was read: from the container, or from code */
        bool by_code = holder && mp_holder_bound_is_code(holder);
        finding->confidence = !finding->most ? MP_LEAK_POSSIBLE : by_code ? MP_LEAK_PROBABLE : MP_LEAK_CERTAIN;
        finding->missing = finding->most ? by_code ? "the code that drops entries may not always run" : NULL
                           : !holder || mp_holder_may_be_bounded(holder)
                               ? "its code drops entries beyond a number that is not known"
                               : "it grows more and more slowly, as if its keys came again";
        return;
    }
    if (!mp_leak_is_leak(finding)) return;
    bool rooted = is_from_root(holder);
    finding->maybe_request |= awaits_backward(finding, holder);
    finding->missing = missing_fact(finding, holder, guessed);
    finding->confidence = finding->maybe_request || guessed || (finding->twins.whole && !rooted) ? MP_LEAK_POSSIBLE
                          : finding->missing                                                     ? MP_LEAK_PROBABLE
                                                                                                 : MP_LEAK_CERTAIN;
}

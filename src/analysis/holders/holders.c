#include "analysis/holders/holders.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/sites/placement.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/stack_facts.h"

static const char native_code[] = "native code", not_found[] = "not found";
static const char autocast_cache[] = "autocast's cache of casts";

/* A block that lived at a look. */
struct held {
    uint16_t track;
    uint32_t stack, block, look;
    const struct mp_model_holder *holder; /* NULL: the look found none */
};
struct held_blocks {
    struct held *at;
    size_t count, room;
};

struct moments { /* by look: number of past events */
    uint32_t *at;
    size_t count, room;
};

static bool lived_at(const struct mp_model *model, uint32_t block, uint32_t moment)
{
    uint32_t born = model->blocks.alloc_event[block], died = model->blocks.free_event[block];
    return (born == MP_NONE || born < moment) && (died == MP_NONE || died >= moment);
}

static bool is_looked_for(const struct mp_model *model, uint32_t block)
{
    return model->tracks.at[model->blocks.track[block]].layer == MP_LAYER_TORCH;
}

/* The last look at which the block lived; MP_NONE: none. */
static uint32_t last_look(const struct mp_model *model, const struct moments *looks, uint32_t block)
{
    for (size_t look = looks->count; look-- > 0;)
        if (lived_at(model, block, looks->at[look])) return (uint32_t)look;
    return MP_NONE;
}

/* Collects the blocks that live at a moment. */
static void collect_at(const struct mp_model *model, uint16_t track, uint32_t moment, struct held_blocks *all)
{
    for (uint32_t block = 0, next = 0; block < model->blocks.count; block++) {
        while (next < model->holders.count && model->holders.at[next].block < block)
            next++;
        bool found = next < model->holders.count && model->holders.at[next].block == block;
        if (model->blocks.track[block] != track || !lived_at(model, block, moment)) continue;
        mp_vec_add(all, ((struct held){.track = track,
                                       .stack = model->blocks.stack[block],
                                       .block = block,
                                       .holder = found ? &model->holders.at[next] : NULL}));
    }
}

static void collect(const struct mp_model *model, bool only_last, struct held_blocks *all)
{
    struct moments looks = {0};
    size_t next = 0;
    for (size_t i = 0; i < model->looks.count; i++)
        mp_vec_add(&looks, mp_model_events_before(model, model->looks.at[i].time_ns, true));
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        while (next < model->holders.count && model->holders.at[next].block < block)
            next++;
        bool found = next < model->holders.count && model->holders.at[next].block == block;
        struct held held = {.track = model->blocks.track[block],
                            .stack = model->blocks.stack[block],
                            .block = block,
                            .look = found ? model->holders.at[next].look : MP_NONE,
                            .holder = found ? &model->holders.at[next] : NULL};
        if (!found && is_looked_for(model, block)) held.look = last_look(model, &looks, block);
        bool left_out = only_last && held.look + 1 != model->looks.count;
        if (held.look != MP_NONE && !left_out) mp_vec_add(all, held);
    }
    mp_vec_free(&looks);
}

static int by_site(const void *left, const void *right)
{
    const struct held *a = left, *b = right;
    if (a->track != b->track) return a->track < b->track ? -1 : 1;
    if (a->stack != b->stack) return a->stack < b->stack ? -1 : 1;
    if (a->look != b->look) return a->look > b->look ? -1 : 1; /* the last first */
    uint32_t path = a->holder ? a->holder->path : 0, other = b->holder ? b->holder->path : 0;
    if (path != other) return path < other ? -1 : 1;
    return a->block < b->block ? -1 : a->block > b->block;
}

static bool is_same_site(const struct held *a, const struct held *b)
{
    return a->track == b->track && a->stack == b->stack;
}

MP_ORDER(by_bytes, struct mp_holder, MP_FALLING(bytes) ?: MP_FALLING(blocks) ?: strcmp(a->path, b->path))

MP_ORDER(by_site_bytes, struct mp_holders_site, MP_FALLING(bytes) ?: MP_RISING(track) ?: MP_RISING(stack))

/* Says the pool and stream of a block without a path. Returns `text`, or a text that holders->texts owns.
 */
static const char *with_place(struct mp_holders *holders, const struct mp_placements *placements, uint32_t block,
                              const char *text)
{
    uint64_t pool = mp_placed(placements->pool, block), stream = mp_placed(placements->stream, block);
    bool in_pool = pool && pool != MP_PLACE_UNKNOWN, on_stream = stream && stream != MP_PLACE_UNKNOWN;
    if (!in_pool && !on_stream) return text;
    char place[128] = "", *made;
    int length = 0;
    if (in_pool) /* a pool of a CUDA graph or of torch.cuda.MemPool, with PyTorch's numbers */
        length = snprintf(place, sizeof place, ", private pool %" PRIu64 ",%" PRIu64, pool >> 32, pool & UINT32_MAX);
    if (on_stream) length += snprintf(place + length, sizeof place - (size_t)length, ", stream 0x%" PRIx64, stream);
    made = mp_alloc(strlen(text) + (size_t)length + 1);
    strcpy(stpcpy(made, text), place);
    mp_vec_add(&holders->texts, made);
    return made;
}

static bool saw_all(const struct mp_model *model, uint32_t look)
{
    return look < model->looks.count && model->looks.at[look].complete;
}

static struct mp_holder holder_of(const struct mp_model *model, struct mp_holders *holders,
                                  const struct mp_placements *placements, const struct held *held)
{
    if (held->holder)
        return (struct mp_holder){.path = mp_model_text(model, held->holder->path),
                                  .file = held->holder->file,
                                  .line = held->holder->line,
                                  .kind = held->holder->kind,
                                  .certain = held->holder->certain};
    bool all = saw_all(model, held->look), casts = mp_stack_facts(model)->of_stack[held->stack] & MP_FACT_CASTS;
    const char *native = casts ? autocast_cache : native_code;
    return (struct mp_holder){.path = with_place(holders, placements, held->block, all ? native : not_found),
                              .kind = all ? MP_HOLDER_NATIVE : MP_HOLDER_UNKNOWN};
}

/* The end of the key that follows a '['; the key may be a Python string with brackets in it. NULL: no key.
 */
static const char *key_end(const char *at)
{
    char quote = 0;
    for (; *at; at++) {
        if (quote && *at == '\\' && at[1])
            at++;
        else if (quote ? *at == quote : (*at == '\'' || *at == '"'))
            quote = quote ? 0 : *at;
        else if (!quote && *at == ']')
            return at;
    }
    return NULL;
}

/* A common path for two paths that differ only in keys of containers, which the caller frees; NULL: they differ in
 * other parts, too. */
static char *common_path(const char *a, const char *b)
{
    char *path = mp_alloc(strlen(a) + strlen(b) + 1), *to = path;
    while (*a && *a == *b) {
        *to++ = *a++;
        b++;
        if (a[-1] != '[') continue;
        const char *end = key_end(a), *other = key_end(b);
        if (!end || !other) break;
        bool same = end - a == other - b && !memcmp(a, b, (size_t)(end - a));
        memcpy(to, same ? a : "*", same ? (size_t)(end - a) : 1);
        to += same ? end - a : 1;
        a = end;
        b = other;
    }
    *to = '\0';
    if (!*a && !*b) return path;
    free(path);
    return NULL;
}

#define COMPARED_MOST 64 /* of a site's holders, only this many are compared with each other */

/* Joins holders that are entries of one container, such as the first and second part of a pair, or the hundredth
 * image. */
static void join_alike(struct mp_holders *holders, size_t first)
{
    size_t count = first;
    for (size_t i = first; i < holders->holders.count; i++) {
        const struct mp_holder *next = &holders->holders.at[i];
        char *path = NULL;
        size_t at = first;
        for (; at < count && at - first < COMPARED_MOST && !path; at++) {
            const struct mp_holder *known = &holders->holders.at[at];
            bool may_join = known->kind != MP_HOLDER_UNKNOWN || !strcmp(known->path, next->path);
            if (may_join && known->kind == next->kind && known->certain == next->certain)
                path = common_path(known->path, next->path);
        }
        if (path) {
            struct mp_holder *known = &holders->holders.at[at - 1];
            known->path = path;
            known->blocks += next->blocks;
            known->bytes += next->bytes;
            known->gradients = known->gradients && next->gradients;
            mp_vec_add(&holders->texts, path);
        } else {
            holders->holders.at[count++] = *next;
        }
    }
    holders->holders.count = count;
}

static bool is_gradient(const struct mp_model *model, uint32_t block)
{
    const struct mp_model_label *label = mp_model_label_at(model, block, MP_NONE);
    return label && label->role == MP_ROLE_GRADIENT;
}

static bool is_any_missing(const struct mp_holders *holders, size_t first)
{
    for (size_t i = first; i < holders->holders.count; i++)
        if (holders->holders.at[i].kind == MP_HOLDER_UNKNOWN && !holders->holders.at[i].certain) return true;
    return false;
}

/* Adds the blocks of one site's last look, sorted by path. `placements` NULL: blocks without a holder are only counted.
 */
static void add_site(const struct mp_model *model, struct mp_holders *holders, const struct mp_placements *placements,
                     const struct held *held, size_t count)
{
    struct mp_holders_site site = {
        .stack = held->stack, .track = held->track, .look = held->look, .first = holders->holders.count};
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = model->blocks.bytes[held[i].block];
        if (bytes == MP_BYTES_UNKNOWN) bytes = 0;
        site.blocks++;
        site.bytes += bytes;
        if (!placements && !held[i].holder) continue;
        struct mp_holder next = holder_of(model, holders, placements, &held[i]);
        struct mp_holder *last =
            holders->holders.count > site.first ? &holders->holders.at[holders->holders.count - 1] : NULL;
        if (!last || strcmp(last->path, next.path) != 0) {
            next.gradients = true;
            mp_vec_add(&holders->holders, next);
            last = &holders->holders.at[holders->holders.count - 1];
        }
        last->gradients = last->gradients && is_gradient(model, held[i].block);
        last->blocks++;
        last->bytes += bytes;
    }
    if (placements && is_any_missing(holders, site.first) && held->look < model->looks.count &&
        model->looks.at[held->look].note)
        site.note = mp_model_text(model, model->looks.at[held->look].note);
    join_alike(holders, site.first);
    site.count = holders->holders.count - site.first;
    if (!site.count) return;
    qsort(&holders->holders.at[site.first], site.count, sizeof *holders->holders.at, by_bytes);
    mp_vec_add(&holders->sites, site);
}

void mp_holders_find(const struct mp_model *model, bool only_last, struct mp_holders *holders)
{
    struct held_blocks all = {0};
    struct mp_placements placements = {0};
    *holders = (struct mp_holders){.looked = model->looks.count || model->holders.count};
    if (!holders->looked) return;
    if (model->looks.count && model->looks.at[model->looks.count - 1].note)
        holders->note = mp_model_text(model, model->looks.at[model->looks.count - 1].note);
    collect(model, only_last, &all);
    if (all.count) qsort(all.at, all.count, sizeof *all.at, by_site);
    bool is_any_unheld = false;
    for (size_t i = 0; i < all.count && !is_any_unheld; i++)
        is_any_unheld = !all.at[i].holder;
    if (is_any_unheld) mp_placements_find(model, &placements);
    for (size_t i = 0, end; i < all.count; i = end) {
        size_t first = i, last = i, best = 0, answered;
        for (end = i; end < all.count && is_same_site(&all.at[i], &all.at[end]);) {
            size_t begin = end;
            for (answered = 0;
                 end < all.count && is_same_site(&all.at[i], &all.at[end]) && all.at[end].look == all.at[begin].look;
                 end++)
                answered += all.at[end].holder || saw_all(model, all.at[end].look);
            if (begin > i && answered <= best) continue;
            first = begin;
            last = end;
            best = answered;
        }
        add_site(model, holders, &placements, &all.at[first], last - first);
    }
    mp_placements_free(&placements);
    mp_vec_free(&all);
    if (holders->sites.count) qsort(holders->sites.at, holders->sites.count, sizeof *holders->sites.at, by_site_bytes);
}

static bool says_something(const struct mp_holders *holders, const struct mp_holders_site *site)
{
    const struct mp_holder *first = &holders->holders.at[site->first];
    return first->kind == MP_HOLDER_UNKNOWN ? mp_holder_awaits_gc(first)
                                            : first->kind != MP_HOLDER_NATIVE || strcmp(first->path, native_code) > 0;
}

static bool row_awaits_gc(const struct mp_model *model, const struct mp_model_holder *row)
{
    const struct mp_holder holder = {
        .path = mp_model_text(model, row->path), .kind = row->kind, .certain = row->certain};
    return mp_holder_awaits_gc(&holder);
}

unsigned char *mp_holders_leave_garbage(const struct mp_model *model, uint16_t track, uint32_t moment)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    unsigned char *leaves = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (uint32_t block = 0; block < blocks->count; block++)
        leaves[blocks->stack[block]] |= blocks->track[block] == track && blocks->free_event[block] < moment;
    mp_vec_each (const struct mp_model_holder, row, &model->holders) {
        uint32_t since = row->since < row->look ? row->since : row->look;
        if (blocks->track[row->block] != track || leaves[blocks->stack[row->block]] || since >= model->looks.count)
            continue;
        leaves[blocks->stack[row->block]] =
            mp_model_events_before(model, model->looks.at[since].time_ns, true) <= moment && row_awaits_gc(model, row);
    }
    return leaves;
}

static size_t known_of(const struct mp_holders *holders, const struct mp_holders_site *site)
{
    size_t known = 0;
    for (size_t i = site->first; i < site->first + site->count; i++)
        if (strcmp(holders->holders.at[i].path, not_found) != 0 &&
            strcmp(holders->holders.at[i].path, native_code) != 0)
            known += holders->holders.at[i].blocks;
    return known;
}

void mp_holders_find_at(const struct mp_model *model, uint16_t track, uint32_t moment, struct mp_holders *holders)
{
    struct held_blocks all = {0};
    mp_holders_find(model, false, holders);
    collect_at(model, track, moment, &all);
    if (all.count) qsort(all.at, all.count, sizeof *all.at, by_site);
    for (size_t i = 0, end; i < all.count; i = end) {
        size_t before = holders->sites.count, known = 0;
        for (end = i; end < all.count && is_same_site(&all.at[i], &all.at[end]);)
            known += all.at[end++].holder != NULL;
        const struct mp_holders_site *other = mp_holders_of(holders, track, all.at[i].stack);
        if (other && known_of(holders, other) > known) continue;
        add_site(model, holders, NULL, &all.at[i], end - i);
        if (holders->sites.count == before) continue;
        for (size_t k = 0; k < before; k++)
            if (holders->sites.at[k].track == track && holders->sites.at[k].stack == all.at[i].stack)
                holders->sites.at[k--] = holders->sites.at[--before];
        holders->sites.at[before] = holders->sites.at[holders->sites.count - 1];
        holders->sites.count = before + 1;
    }
    unsigned char *leaves = mp_holders_leave_garbage(model, track, moment);
    for (size_t k = 0; k < holders->sites.count;) {
        const struct mp_holders_site *site = &holders->sites.at[k];
        bool may_be =
            site->track != track || leaves[site->stack] || !mp_holder_awaits_gc(&holders->holders.at[site->first]);
        if (says_something(holders, site) && may_be)
            k++;
        else
            holders->sites.at[k] = holders->sites.at[--holders->sites.count];
    }
    free(leaves);
    mp_vec_free(&all);
    if (holders->sites.count) qsort(holders->sites.at, holders->sites.count, sizeof *holders->sites.at, by_site_bytes);
}

const struct mp_holders_site *mp_holders_of(const struct mp_holders *holders, uint16_t track, uint32_t stack)
{
    for (size_t i = 0; i < holders->sites.count; i++)
        if (holders->sites.at[i].track == track && holders->sites.at[i].stack == stack) return &holders->sites.at[i];
    return NULL;
}

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), of_end = strlen(end);
    return length >= of_end && !strcmp(text + length - of_end, end);
}

static bool ends_in_before(const char *path, const char *end, const char *before)
{
    const char *at = strstr(path, before);
    size_t length = strlen(end);
    return at && (size_t)(at - path) >= length && !memcmp(at - length, end, length);
}

bool mp_holder_is_bounded(const struct mp_holder *holder, uint64_t *entries, uint64_t *most)
{
    static const char form[] =
        " (%" SCNu64 " of at most %" SCNu64 " entries"; /* the form that holders_names.py writes */
    for (const char *at = strstr(holder->path, " ("); at; at = strstr(at + 1, " ("))
        if (sscanf(at, form, entries, most) == 2) return *entries > 0;
    return false;
}

bool mp_holder_bound_is_code(const struct mp_holder *holder)
{
    return strstr(holder->path, " entries, by its code)") != NULL;
}

bool mp_holder_may_be_bounded(const struct mp_holder *holder)
{
    return strstr(holder->path, " entries, code drops some)") != NULL;
}

enum mp_holder_later mp_holder_later(const struct mp_holder *holder, uint32_t *line) /* holders_later.py */
{
    const char *read = strstr(holder->path, " (read later, line "),
               *counted = strstr(holder->path, " (counted later, line ");
    *line = 0;
    if (read && sscanf(read, " (read later, line %" SCNu32 ")", line) == 1) return MP_HOLDER_READ_LATER;
    return counted && sscanf(counted, " (counted later, line %" SCNu32 ")", line) == 1 ? MP_HOLDER_COUNTED_LATER
                                                                                       : MP_HOLDER_NOT_LATER;
}

enum mp_holder_use mp_holder_use(const char *path, uint32_t *line) /* holders_idle.py writes the path */
{
    const char *form = strstr(path, " (not read from line ");
    *line = 0;
    if (ends_in(path, " (not used in backward)")) return MP_HOLDER_NOT_IN_BACKWARD;
    return form && sscanf(form, " (not read from line %" SCNu32 " on)", line) == 1 ? MP_HOLDER_NOT_READ
                                                                                   : MP_HOLDER_READ;
}

size_t mp_holder_variable(const char *path)
{
    const char *of_frame = strstr(path, "().");
    size_t before = of_frame ? (size_t)(of_frame - path) + strlen("().") : 0;
    return before + strcspn(path + before, ".[ ");
}

static const char native[] = "native code → ", own_hooks[] = "native code → hooks of autograd";
static const char native_graph[] = "native code → grad_fn";

/* True if only the graph of a gradient leads to the block, as after backward(create_graph=True). */
static bool is_of_gradients(const char *path)
{
    return !strncmp(path, native, strlen(native)) && strstr(path, "grad_fn.variable");
}

/* As holders_names.py writes them. */
static const char gc_cycle[] = "a cycle of ", awaits_gc[] = " that gc has not collected yet";
static const char gc_is_off[] = " that gc has not collected yet, as it is off";

static const char unseen_cycle[] = "a cycle that gc cannot see: ";

static bool is_unseen_cycle(const char *path)
{
    return !strncmp(path, unseen_cycle, strlen(unseen_cycle));
}

/* The advice that breaks a cycle through C++, by a part of the way from an object back to it. */
static const char *breaks_cycle(const char *path)
{
    static const struct {
        const char *part, *advice;
    } ways[] = {
        {".hooks",
         "a hook closes over what leads back to its tensor: remove() the hook's handle, or let it keep a weak "
         "reference"},
        {"._base",
         "an object keeps views of itself, as FSDP's flat parameter does: set the attribute that keeps them to "
         "None before the object is dropped"},
        {".variable.grad", "backward(create_graph=True) makes a parameter and its .grad a cycle: take gradients with "
                           "torch.autograd.grad(), or set .grad to None after use"},
        {".grad.grad_fn", "backward(create_graph=True) makes a parameter and its .grad a cycle: take gradients with "
                          "torch.autograd.grad(), or set .grad to None after use"},
        {"Backward.", "forward() keeps its result on ctx, whose node the result keeps: ctx.save_for_backward(result) "
                      "keeps it without a cycle"},
        {"", "objects refer to one another through C++: set one of these references to None when they are not needed"},
    };
    size_t length = strcspn(path + strlen(unseen_cycle), " ") + strlen(unseen_cycle);
    for (size_t i = 0;; i++) {
        const char *at = strstr(path, ways[i].part);
        if ((at && at < path + length) || !*ways[i].part) return ways[i].advice;
    }
}

static bool is_gc_cycle(const char *path)
{
    return !strncmp(path, gc_cycle, strlen(gc_cycle)) && strstr(path, awaits_gc);
}

bool mp_holder_awaits_gc(const struct mp_holder *holder)
{
    return holder->certain && is_gc_cycle(holder->path);
}

bool mp_holder_gc_is_off(const struct mp_holder *holder)
{
    return strstr(holder->path, gc_is_off) != NULL;
}

bool mp_holder_is_cycle(const struct mp_holder *holder)
{
    if (mp_holder_awaits_gc(holder) || is_unseen_cycle(holder->path)) return true;
    return !strncmp(holder->path, own_hooks, strlen(own_hooks)) || is_of_gradients(holder->path);
}

bool mp_holder_is_native_graph(const char *path)
{
    return !strncmp(path, native_graph, strlen(native_graph));
}

size_t mp_holder_root(const char *path)
{
    const char *entries = strstr(path, "[*]"), *graph = strstr(path, ".grad_fn"), *hook = strstr(path, own_hooks);
    if (is_unseen_cycle(path)) return strlen(unseen_cycle) + strcspn(path + strlen(unseen_cycle), " ");
    if (hook) return (size_t)(hook - path) + strlen(own_hooks);
    if (is_of_gradients(path)) return strcspn(path, ".");
    if (is_gc_cycle(path)) return (size_t)(strstr(path, awaits_gc) - path) + strlen(awaits_gc);
    if (mp_holder_is_native_graph(path)) return strlen(native_graph);
    if (entries) return (size_t)(entries - path) + strlen("[*]");
    return graph ? (size_t)(graph - path) : strlen(path);
}

/* True if the path is a variable's name alone, such as main().batch, without an entry of its list. */
static bool is_name_of_frame(const char *path)
{
    const char *name = strstr(path, "().");
    return name && !strpbrk(name + strlen("()."), ".[ ");
}

const char *mp_holder_advice(const struct mp_holder *holder)
{
    static const char of_gradients[] = "gradients made with create_graph=True keep the graph: take them with "
                                       "torch.autograd.grad(), or set .grad to None after use";
    const char *path = holder->path;
    if (!strcmp(path, autocast_cache))
        return "casts of weights live until the autocast block ends: enter it for each request, or with "
               "cache_enabled=False";
    if (is_unseen_cycle(path)) return breaks_cycle(path);
    if (!strncmp(path, own_hooks, strlen(own_hooks)))
        return "a hook of a graph keeps a tensor of that graph, and gc cannot see the cycle: keep a weak reference or "
               "a detached tensor in it, or remove() the hook";
    if (is_of_gradients(path)) return of_gradients;
    if (!holder->certain) return NULL;
    if (is_gc_cycle(path) && strstr(path, " → __traceback__"))
        return "a variable of a frame keeps the error whose traceback keeps the frame: del it where the function ends, "
               "or keep str(error)";
    if (is_gc_cycle(path)) /* autograd gives a Function's ctx the name of its class */
        return ends_in_before(path, "Backward", awaits_gc)
                   ? "a tensor that forward() keeps on ctx has a graph that keeps ctx: ctx.save_for_backward(tensor) "
                     "keeps it without a cycle"
                   : "objects refer to one another until gc frees them: make one of the references a weakref, or call "
                     "gc.collect()";
    if (ends_in(path, " used)"))
        return "a view keeps the whole block that it looks into: keep .clone() of a tensor's view, .copy() of an "
               "array's";
    uint32_t line;
    if (mp_holder_use(path, &line))
        return "nothing reads the variable again: del it as soon as it is not needed any more";
    if (holder->gradients && ends_in(path, ".grad"))
        return "gradients of parameters stay: zero_grad(set_to_none=True) frees them";
    switch (holder->kind) {
    case MP_HOLDER_HOOK:
        return "a hook keeps it: call remove() on its handle, or let it keep .detach()ed values no longer than a step";
    case MP_HOLDER_CACHE:
        return "functools.lru_cache keeps results and arguments: give it a smaller maxsize, or call cache_clear()";
    case MP_HOLDER_TRACEBACK: /* an exception that is being handled will go */
        if (!strncmp(path, MP_HOLDER_HANDLED, strlen(MP_HOLDER_HANDLED))) return NULL;
        return "a kept exception holds the frames that it passed: keep its text, or call "
               "traceback.clear_frames(error.__traceback__)";
    case MP_HOLDER_GRAPH:
        if (!strncmp(path, "a cycle through", strlen("a cycle through")))
            return "a hook of saved_tensors_hooks() returned the tensor itself, which its own node keeps, and gc "
                   "cannot see "
                   "that: pack .detach()";
        if (strstr(path, ".grad.grad_fn")) return of_gradients;
        if (!strstr(path, "grad_fn")) return NULL;
        return "a kept tensor holds the graph that made it: keep loss.item() or loss.detach(), or compute it under "
               "torch.no_grad()";
    case MP_HOLDER_DEFAULT:
        return "a default argument is made once and lives as long as its function: make None the default";
    case MP_HOLDER_LOCAL:
        if (!is_name_of_frame(path)) return NULL;
        return "a name of a running function holds it: del it before the next iteration";
    default:
        return NULL;
    }
}

const char *mp_holders_remedy(const char *note)
{
    /* The words of python/libmemprof_torch. A look that already had the longest possible time cannot get more. */
    bool of_time = strstr(note, "out of time") || strstr(note, "in time");
    return of_time && !strstr(note, "(2000 ms)") ? "--budget 2s (in snapshot with --holders) gives looks more time"
                                                 : NULL;
}

void mp_holders_free(struct mp_holders *holders)
{
    for (size_t i = 0; i < holders->texts.count; i++)
        free(holders->texts.at[i]);
    mp_vec_free(&holders->texts);
    mp_vec_free(&holders->sites);
    mp_vec_free(&holders->holders);
}

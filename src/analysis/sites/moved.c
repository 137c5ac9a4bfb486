#include "analysis/sites/moved.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"

/* Lines of a function; longer functions are matched by order alone, as far as both sides have lines. */
#define LINES_MAX 500
#define PAIR      1024
#define SAME_PAIR (1u << 20) /* worth more than LINES_MAX other pairs; the sum of LINES_MAX of them is below 2^32 */

/* A line that allocates, itself or in its callees. */
struct line {
    uint32_t function; /* number */
    uint32_t line;
    /* A set of called functions. The hash of a function's name sets one bit in each word: with two bits, few sets look
     * the same. */
    uint64_t calls[2];
};

struct side {
    const struct mp_model *model;
    MP_VEC(struct line) lines; /* sorted, each once */
};

static uint32_t number_function(struct mp_intern *functions, const struct mp_model *model,
                                const struct mp_model_line *line)
{
    struct mp_buffer name = {0};
    mp_buffer_printf(&name, "%s\n%s", mp_path_short(mp_model_text(model, line->file)),
                     mp_model_text(model, line->function));
    uint32_t id = mp_intern_add(functions, (char *)name.data, name.size);
    mp_buffer_free(&name);
    return id;
}

static const struct mp_model_line *line_of(const struct mp_model *model, uint32_t frame, uint8_t *language)
{
    if (frame >= model->frames.count || !model->frames.at[frame].line_count) return NULL;
    *language = model->frames.at[frame].raw.language;
    return &model->lines.at[model->frames.at[frame].first_line];
}

MP_ORDER(by_line, struct line, MP_RISING(function) ?: MP_RISING(line))

/* Lists the lines of Python, with their callees. */
static void list_lines(struct side *side, struct mp_intern *functions)
{
    const struct mp_model *model = side->model;
    for (size_t node = 1; node < model->stacks.count; node++) {
        uint8_t language = 0, below = 0;
        const struct mp_model_line *called = line_of(model, model->stacks.at[node].frame, &below);
        if (called && below == MP_PYTHON) {
            struct line line = {number_function(functions, model, called), called->line, {0}};
            mp_vec_add(&side->lines, line);
        }
        uint32_t parent = model->stacks.at[node].parent;
        const struct mp_model_line *caller = parent ? line_of(model, model->stacks.at[parent].frame, &language) : NULL;
        if (!called || !caller || language != MP_PYTHON) continue;
        const char *name = mp_model_text(model, called->function);
        uint64_t hash = mp_hash_bytes(name, strlen(name));
        struct line line = {number_function(functions, model, caller),
                            caller->line,
                            {UINT64_C(1) << hash % 64, UINT64_C(1) << hash / 64 % 64}};
        mp_vec_add(&side->lines, line);
    }
    size_t kept = 0;
    if (side->lines.count) qsort(side->lines.at, side->lines.count, sizeof *side->lines.at, by_line);
    for (size_t i = 0; i < side->lines.count; i++) {
        struct line *last = kept ? &side->lines.at[kept - 1] : NULL;
        if (last && !by_line(last, &side->lines.at[i])) {
            last->calls[0] |= side->lines.at[i].calls[0];
            last->calls[1] |= side->lines.at[i].calls[1];
        } else {
            side->lines.at[kept++] = side->lines.at[i];
        }
    }
    side->lines.count = kept;
}

/* One function's lines on both sides, and for each earlier line the matching later line (+ 1; 0: none). */
struct match {
    const struct line *before, *after;
    size_t befores, afters;
    uint32_t *with;
};

/* The worth of a pair of lines. A pair with the same calls outweighs any number of other pairs. Next comes the
 * similarity of calls, then whether the line has not moved. Two versions of an edited line count as the same line if
 * they share at least half of their calls. Lines without calls show nothing. */
static uint32_t worth(const struct match *match, size_t i, size_t k)
{
    const uint64_t *before = match->before[i].calls, *after = match->after[k].calls;
    uint32_t common = 0, all = 0;
    for (size_t n = 0; n < 2; n++) {
        common += (uint32_t)__builtin_popcountll(before[n] & after[n]);
        all += (uint32_t)__builtin_popcountll(before[n] | after[n]);
    }
    if (common * 2 < all) return 0;
    uint32_t alike = !all ? PAIR : common == all ? SAME_PAIR : PAIR / 2 * common / all;
    return alike + (match->before[i].line == match->after[k].line);
}

/* Finds the sequence of pairs whose calls are most alike; of several, the one with most unmoved lines. */
static void match_calls(struct match *match)
{
    size_t wide = match->afters + 1;
    uint32_t *best = mp_alloc_zeroed((match->befores + 1) * wide, sizeof *best);
    for (size_t i = match->befores; i--;)
        for (size_t k = match->afters; k--;) {
            uint32_t down = best[(i + 1) * wide + k], right = best[i * wide + k + 1];
            uint32_t here = worth(match, i, k), both = here ? here + best[(i + 1) * wide + k + 1] : 0;
            uint32_t other = down > right ? down : right;
            best[i * wide + k] = both > other ? both : other;
        }
    for (size_t i = 0, k = 0; i < match->befores && k < match->afters;) {
        uint32_t here = worth(match, i, k), at = best[i * wide + k];
        if (here && at == here + best[(i + 1) * wide + k + 1])
            match->with[i++] = (uint32_t)++k;
        else if (at == best[(i + 1) * wide + k])
            i++;
        else
            k++;
    }
    free(best);
}

/* Matches the remaining lines between two matched lines in order, if both sides have equally many. */
static void match_rest(struct match *match)
{
    for (size_t i = 0, k = 0; i < match->befores;) {
        size_t end = i;
        while (end < match->befores && !match->with[end])
            end++;
        size_t other = end < match->befores ? match->with[end] - 1 : match->afters;
        for (size_t n = 0; end - i == other - k && n < end - i; n++)
            match->with[i + n] = (uint32_t)(k + n + 1);
        i = end + 1;
        k = other + 1;
    }
}

static void put_place(struct mp_buffer *to, const char *file, const char *function, uint32_t line)
{
    mp_buffer_clear(to);
    mp_buffer_printf(to, "%s\n%s\n%u", mp_path_short(file), function, line);
}

static void note_moves(const struct match *match, const struct mp_intern *functions, struct mp_moved *moved)
{
    const char *name = mp_intern_get(functions, match->before->function, NULL), *end = strchr(name, '\n');
    char *file = mp_text_copy_part(name, (size_t)(end - name));
    struct mp_buffer place = {0};
    bool added = false;
    for (size_t i = 0; i < match->befores; i++) {
        uint32_t line = match->with[i] ? match->after[match->with[i] - 1].line : 0;
        if (!line || line == match->before[i].line) continue;
        put_place(&place, file, end + 1, match->before[i].line);
        uint32_t id = mp_intern_add(&moved->places, (char *)place.data, place.size);
        mp_vec_grow_to(&moved->lines, id);
        moved->lines.at[id - 1] = line;
        struct mp_moved_function function = {mp_intern_add_text(&moved->names, end + 1),
                                             mp_intern_add_text(&moved->names, file), match->before[i].line, line};
        if (!added) mp_vec_add(&moved->functions, function);
        added = true;
    }
    mp_buffer_free(&place);
    free(file);
}

static bool are_same(const struct match *match)
{
    if (match->befores != match->afters) return false;
    for (size_t i = 0; i < match->befores; i++)
        if (match->before[i].line != match->after[i].line) return false;
    return true;
}

static void match_function(struct match *match, const struct mp_intern *functions, struct mp_moved *moved)
{
    if (!match->befores || !match->afters || are_same(match)) return;
    match->with = mp_alloc_zeroed(match->befores, sizeof *match->with);
    if (match->befores <= LINES_MAX && match->afters <= LINES_MAX) match_calls(match);
    match_rest(match);
    note_moves(match, functions, moved);
    free(match->with);
}

static size_t end_of(const struct side *side, size_t from, uint32_t function)
{
    while (from < side->lines.count && side->lines.at[from].function == function)
        from++;
    return from;
}

void mp_moved_find(const struct mp_model *before, const struct mp_model *after, struct mp_moved *moved)
{
    struct mp_intern functions = {0};
    struct side earlier = {.model = before}, later = {.model = after};
    *moved = (struct mp_moved){0};
    list_lines(&earlier, &functions);
    list_lines(&later, &functions);
    for (size_t i = 0, k = 0, next; i < earlier.lines.count; i = next) {
        uint32_t function = earlier.lines.at[i].function;
        next = end_of(&earlier, i, function);
        while (k < later.lines.count && later.lines.at[k].function < function)
            k++;
        size_t end = end_of(&later, k, function);
        struct match match = {earlier.lines.at + i, later.lines.at + k, next - i, end - k, NULL};
        match_function(&match, &functions, moved);
        k = end;
    }
    mp_vec_free(&earlier.lines);
    mp_vec_free(&later.lines);
    mp_intern_free(&functions);
}

uint32_t mp_moved_line(const struct mp_moved *moved, const struct mp_stack_line *line)
{
    struct mp_buffer place = {0};
    if (!moved->lines.count || line->language != MP_PYTHON || !line->file) return line->line;
    put_place(&place, line->file, line->function ? line->function : "", line->line);
    uint32_t id = mp_intern_find(&moved->places, (char *)place.data, place.size);
    mp_buffer_free(&place);
    return id && id <= moved->lines.count ? moved->lines.at[id - 1] : line->line;
}

void mp_moved_free(struct mp_moved *moved)
{
    mp_intern_free(&moved->names);
    mp_intern_free(&moved->places);
    mp_vec_free(&moved->lines);
    mp_vec_free(&moved->functions);
}

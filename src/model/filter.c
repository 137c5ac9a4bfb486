#include "model/filter.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/pattern.h"
#include "base/units.h"
#include "model/module_path.h"
#include "model/steps_infer.h"
#include "model/uses.h"

enum key {
    SIZE,
    FN,
    FILE_NAME,
    LAYER,
    KIND,
    STEP,
    MODULE,
    REGION,
    CATEGORY,
    ROLE,
    LABEL,
    DTYPE,
    SHAPE,
    OPERATOR,
    KEYS
};
enum operation { EQUAL, NOT_EQUAL, MATCH, NO_MATCH, ABOVE, BELOW, AT_LEAST, AT_MOST, OPERATIONS };

#define BIT(operation) (1u << (operation))

static const struct {
    const char *name;
    unsigned operations;
} keys[KEYS] = {
    [SIZE] = {"size", BIT(EQUAL) | BIT(ABOVE) | BIT(BELOW) | BIT(AT_LEAST) | BIT(AT_MOST)},
    [FN] = {"fn", BIT(EQUAL) | BIT(NOT_EQUAL) | BIT(MATCH) | BIT(NO_MATCH)},
    [FILE_NAME] = {"file", BIT(EQUAL) | BIT(NOT_EQUAL) | BIT(MATCH) | BIT(NO_MATCH)},
    [LAYER] = {"layer", BIT(EQUAL) | BIT(NOT_EQUAL)},
    [KIND] = {"kind", BIT(EQUAL) | BIT(NOT_EQUAL)},
    [MODULE] = {"module", BIT(EQUAL) | BIT(NOT_EQUAL) | BIT(MATCH) | BIT(NO_MATCH)},
    [REGION] = {"region", BIT(EQUAL) | BIT(NOT_EQUAL) | BIT(MATCH) | BIT(NO_MATCH)},
    [CATEGORY] = {"category", BIT(EQUAL) | BIT(NOT_EQUAL) | BIT(MATCH) | BIT(NO_MATCH)},
    [ROLE] = {"role", BIT(EQUAL) | BIT(NOT_EQUAL)},
    [LABEL] = {"label", BIT(EQUAL) | BIT(NOT_EQUAL) | BIT(MATCH) | BIT(NO_MATCH)},
    [DTYPE] = {"dtype", BIT(EQUAL) | BIT(NOT_EQUAL) | BIT(MATCH) | BIT(NO_MATCH)},
    [SHAPE] = {"shape", BIT(EQUAL) | BIT(NOT_EQUAL) | BIT(MATCH) | BIT(NO_MATCH)},
    [OPERATOR] = {"operator", BIT(EQUAL) | BIT(NOT_EQUAL) | BIT(MATCH) | BIT(NO_MATCH)},
    [STEP] = {"step", BIT(EQUAL) | BIT(ABOVE) | BIT(BELOW) | BIT(AT_LEAST) | BIT(AT_MOST)},
};

/* Longer signs come first, so that ">=" is not read as ">". */
static const struct {
    const char *text;
    enum operation operation;
} operations[] = {{"!=", NOT_EQUAL}, {"!~", NO_MATCH}, {">=", AT_LEAST}, {"<=", AT_MOST},
                  {"=", EQUAL},      {"~", MATCH},     {">", ABOVE},     {"<", BELOW}};

struct term {
    enum key key;
    enum operation operation;
    uint64_t low, high;     /* size, step: both inclusive; layer, kind, role: `low` alone */
    unsigned char *matches; /* one byte each, 1: fits. For fn and file: by stack node, for any frame of its stack. For
                             * module, region and label: by string. For category: by block */
};

struct mp_filter {
    const struct mp_model *model;
    const struct mp_filter_categories *categories; /* used while the filter is made; may be NULL */
    struct mp_steps steps;
    uint32_t *regions; /* by block; NULL if no term needs it */
    MP_VEC(struct term) terms;
};

/* Reads KEY OPERATION at `text`. Returns the rest of the text, or NULL. */
static const char *read_head(const char *text, enum key *key, enum operation *operation)
{
    text += strspn(text, " ");
    for (size_t k = 0; k < KEYS; k++) {
        size_t length = strlen(keys[k].name);
        if (strncmp(text, keys[k].name, length)) continue;
        const char *at = text + length + strspn(text + length, " ");
        for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
            if (strncmp(at, operations[i].text, strlen(operations[i].text))) continue;
            *key = (enum key)k;
            *operation = operations[i].operation;
            return at + strlen(operations[i].text);
        }
    }
    return NULL;
}

/* Finds the comma that ends a term: the first one before another term, since patterns may contain commas. */
static const char *find_end(const char *text)
{
    enum key key;
    enum operation operation;
    for (const char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ','))
        if (read_head(comma + 1, &key, &operation)) return comma;
    return text + strlen(text);
}

static void set_range(struct term *term, uint64_t low, uint64_t high)
{
    term->low = 0;
    term->high = UINT64_MAX;
    if (term->operation == EQUAL || term->operation == AT_LEAST) term->low = low;
    if (term->operation == EQUAL || term->operation == AT_MOST) term->high = high;
    if (term->operation == ABOVE) term->low = low + 1;
    if (term->operation == BELOW) term->high = low ? low - 1 : 0;
    if (term->operation == BELOW && !low) term->low = 1; /* low - 1 would wrap, and nothing is below 0 */
}

static enum mp_status read_size(struct term *term, const char *value, struct mp_error *error)
{
    uint64_t bytes;
    if (!mp_parse_bytes(value, &bytes))
        return mp_fail(error, MP_INVALID, "filter: \"%s\" is not a size; write 1MiB or 512", value);
    set_range(term, bytes, bytes);
    return MP_OK;
}

static enum mp_status read_steps(struct term *term, const char *value, struct mp_error *error)
{
    char *end;
    errno = 0;
    unsigned long long low = strtoull(value, &end, 10), high = low;
    bool good = end != value && !errno;
    if (good && term->operation == EQUAL && !strncmp(end, "..", 2)) {
        const char *second = end + 2;
        high = strtoull(second, &end, 10);
        good = end != second && !errno;
    }
    if (!good || *end || low > high)
        return mp_fail(error, MP_INVALID, "filter: \"%s\" is not a step or a range of steps; write 3 or 3..9", value);
    set_range(term, low, high);
    return MP_OK;
}

static enum mp_status read_word(struct term *term, const char *value, struct mp_error *error)
{
    static const struct {
        const char *(*name)(unsigned);
        unsigned count;
        const char *all;
    } words[KEYS] = {
        [LAYER] = {mp_layer_name, MP_LAYERS, "driver, torch, app, malloc"},
        [KIND] = {mp_kind_name, MP_KINDS, "device, pinned, managed, array, pool, vmm, graph, host, handle"},
        [ROLE] = {mp_role_name, MP_ROLES, "parameter, gradient, optimizer_state, buffer, input, kv_cache, none"},
    };
    for (term->low = 0; term->low < words[term->key].count; term->low++)
        if (!strcmp(words[term->key].name((unsigned)term->low), value)) return MP_OK;
    return mp_fail(error, MP_INVALID, "filter: there is no %s \"%s\"; they are %s", keys[term->key].name, value,
                   words[term->key].all);
}

static bool fits(const struct term *term, const regex_t *pattern, const char *value, const char *text)
{
    bool exact = term->operation == EQUAL || term->operation == NOT_EQUAL;
    return exact ? !strcmp(text, value) : !regexec(pattern, text, 0, NULL, 0);
}

static bool frame_fits(const struct mp_model *model, const struct term *term, const regex_t *pattern, const char *value,
                       uint32_t frame)
{
    if (frame == MP_FRAME_CUT) return false;
    const struct mp_model_frame *from = &model->frames.at[frame];
    for (uint32_t i = 0; i < from->line_count; i++) {
        const struct mp_model_line *line = &model->lines.at[from->first_line + i];
        uint32_t text = term->key == FN ? line->function : line->file;
        if (text && fits(term, pattern, value, mp_model_text(model, text))) return true;
    }
    return false;
}

/* Each node comes after its parent, so one pass over the nodes decides for all stacks. */
static void match_stacks(const struct mp_model *model, struct term *term, const char *value, const regex_t *pattern)
{
    signed char *frames = mp_alloc_zeroed(model->frames.count + 1, 1); /* 0 not compared, 1 fits, -1 does not */
    term->matches = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (size_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        signed char *frame = node->frame == MP_FRAME_CUT ? NULL : &frames[node->frame];
        if (frame && !*frame) *frame = frame_fits(model, term, pattern, value, node->frame) ? 1 : -1;
        term->matches[i] = term->matches[node->parent] || (frame && *frame > 0);
    }
    free(frames);
}

static void match_strings(const struct mp_model *model, size_t root, struct term *term, const char *value,
                          const regex_t *pattern)
{
    term->matches = mp_alloc_zeroed(model->strings.count + 1, 1);
    for (uint32_t i = 0; i < model->strings.count; i++)
        term->matches[i] = fits(term, pattern, value, mp_module_path(model, root, i));
}

/* By string: the type or the sizes of a tensor that has the string as its shape, or an operator's name. */
static void match_tensors(const struct mp_model *model, struct term *term, const char *value, const regex_t *pattern)
{
    term->matches = mp_alloc_zeroed(model->strings.count + 1, 1);
    for (uint32_t i = 0; i < model->strings.count; i++) {
        const char *text = mp_model_text(model, i);
        char sizes[MP_SHAPE_TEXT] = "";
        struct mp_shape shape = {.dims = 0};
        if (term->key != OPERATOR && mp_shape_read(mp_model_text(model, i), &shape))
            mp_shape_text(&shape, sizes, sizeof sizes);
        term->matches[i] = fits(term, pattern, value,
                                term->key == OPERATOR ? text
                                : term->key == DTYPE  ? shape.dtype
                                                      : sizes);
    }
}

static void match_regions(struct mp_filter *filter, struct term *term, const char *value, const regex_t *pattern)
{
    if (!filter->regions) filter->regions = mp_regions_of_births(filter->model);
    for (size_t i = 0; i < filter->model->blocks.count; i++)
        if (filter->regions[i] == MP_NONE) filter->regions[i] = 0; /* 0 is the empty text */
    match_strings(filter->model, 0, term, value, pattern);
}

static void match_categories(struct mp_filter *filter, struct term *term, const char *value, const regex_t *pattern)
{
    const struct mp_filter_categories *categories = filter->categories;
    term->matches = mp_alloc_zeroed(filter->model->blocks.count + 1, 1);
    for (uint32_t i = 0; i < filter->model->blocks.count; i++)
        term->matches[i] = fits(term, pattern, value, categories->of_block(categories->context, i));
}

static enum mp_status match_text(struct mp_filter *filter, struct term *term, const char *value, struct mp_error *error)
{
    regex_t pattern;
    bool exact = term->operation == EQUAL || term->operation == NOT_EQUAL;
    struct mp_error why;
    if (!exact && mp_pattern_compile(value, &pattern, &why))
        return mp_fail(error, MP_INVALID, "filter: \"%s\" is not a regular expression: %s", value, why.text);
    if (term->key == MODULE)
        match_strings(filter->model, mp_module_root(filter->model), term, value, &pattern);
    else if (term->key == LABEL)
        match_strings(filter->model, 0, term, value, &pattern);
    else if (term->key == DTYPE || term->key == SHAPE || term->key == OPERATOR)
        match_tensors(filter->model, term, value, &pattern);
    else if (term->key == REGION)
        match_regions(filter, term, value, &pattern);
    else if (term->key == CATEGORY)
        match_categories(filter, term, value, &pattern);
    else
        match_stacks(filter->model, term, value, &pattern);
    if (!exact) regfree(&pattern);
    return MP_OK;
}

static enum mp_status add_term(struct mp_filter *filter, const char *text, size_t length, struct mp_error *error)
{
    struct term term = {0};
    char *copy = mp_text_copy_part(text, length);
    const char *value = read_head(copy, &term.key, &term.operation);
    enum mp_status status;
    if (!value)
        status = mp_fail(error, MP_INVALID,
                         "filter: cannot read \"%s\"; write size>1MiB, fn~NAME, file~NAME, module~NAME, region~NAME, "
                         "category=NAME, role=parameter, label~NAME, dtype=float32, shape~8, operator~mm, layer=torch, "
                         "kind=pinned or "
                         "step=3..9, joined by commas",
                         copy);
    else if (!(keys[term.key].operations & BIT(term.operation)))
        status = mp_fail(error, MP_INVALID, "filter: \"%s\" cannot be compared that way (in \"%s\")",
                         keys[term.key].name, copy);
    else if (term.key == SIZE)
        status = read_size(&term, value, error);
    else if (term.key == STEP)
        status = read_steps(&term, value, error);
    else if (term.key == LAYER || term.key == KIND || term.key == ROLE)
        status = read_word(&term, value, error);
    else if (term.key == CATEGORY && (!filter->categories || !filter->categories->of_block))
        status = mp_fail(error, MP_INVALID, "filter: categories are not known here (in \"%s\")", copy);
    else
        status = match_text(filter, &term, value, error);
    free(copy);
    if (status == MP_OK) mp_vec_add(&filter->terms, term);
    if (status != MP_OK) free(term.matches);
    return status;
}

enum mp_status mp_filter_make(const struct mp_model *model, const char *text,
                              const struct mp_filter_categories *categories, struct mp_filter **filter,
                              struct mp_error *error)
{
    struct mp_filter *made = mp_alloc_zeroed(1, sizeof *made);
    mp_steps_find(model, &made->steps);
    made->model = model;
    made->categories = categories;
    enum mp_status status = MP_OK;
    for (const char *at = text; status == MP_OK; at++) {
        const char *end = find_end(at);
        status = add_term(made, at, (size_t)(end - at), error);
        at = end;
        if (!*at) break;
    }
    made->categories = NULL;
    if (status == MP_OK)
        *filter = made;
    else
        mp_filter_free(made);
    return status;
}

static bool picks(const struct mp_filter *filter, const struct term *term, uint32_t block)
{
    const struct mp_model *model = filter->model;
    const struct mp_model_blocks *blocks = &model->blocks;
    const struct mp_model_label *label;
    struct mp_tensor tensor;
    uint64_t number;
    switch (term->key) {
    case SIZE:
        number = blocks->bytes[block];
        return number != MP_BYTES_UNKNOWN && number >= term->low && number <= term->high;
    case STEP: /* the step in which the block was born */
        number = blocks->alloc_event[block] == MP_NONE ? 0 : mp_step_of(&filter->steps, blocks->alloc_event[block]);
        return number >= term->low && number <= term->high;
    case LAYER:
        return (model->tracks.at[blocks->track[block]].layer == term->low) == (term->operation == EQUAL);
    case KIND:
        return (blocks->kind[block] == term->low) == (term->operation == EQUAL);
    case ROLE:
        label = mp_model_label_at(model, block, MP_NONE);
        return ((label ? label->role : MP_ROLE_NONE) == term->low) == (term->operation == EQUAL);
    case LABEL:
        label = mp_model_label_at(model, block, MP_NONE);
        number = label ? label->name : 0;
        break;
    case DTYPE:
    case SHAPE:
    case OPERATOR:
        mp_tensor_of(model, block, &tensor);
        number = term->key == OPERATOR ? tensor.operator: tensor.shape;
        break;
    case MODULE:
        number = mp_model_module(model, block);
        break;
    case REGION:
        number = filter->regions[block];
        break;
    case CATEGORY:
        number = block;
        break;
    default:
        number = blocks->stack[block];
    }
    return term->matches[number] == (term->operation == EQUAL || term->operation == MATCH);
}

bool mp_filter_picks(const struct mp_filter *filter, uint32_t block)
{
    for (size_t i = 0; filter && i < filter->terms.count; i++)
        if (!picks(filter, &filter->terms.at[i], block)) return false;
    return true;
}

void mp_filter_free(struct mp_filter *filter)
{
    if (!filter) return;
    for (size_t i = 0; i < filter->terms.count; i++)
        free(filter->terms.at[i].matches);
    mp_vec_free(&filter->terms);
    free(filter->regions);
    mp_steps_free(&filter->steps);
    free(filter);
}

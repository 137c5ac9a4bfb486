#include <stdlib.h>
#include <string.h>

#include "analysis/advise/passes.h"
#include "base/memory.h"
#include "base/search.h"
#include "model/track.h"

/*
 * Forward under autocast to bfloat16. By the operator that makes it, and by what PyTorch's lists say of that operator
 * on this kind of device, a block has half of its bytes, or all of them, or follows what the operator read: the result
 * before it, of two that it adds the one that came into the module, and of a parameter 32 bits. An operator of the
 * first list that reads 32 bits makes a copy of half the size, which backward keeps in place of what was read;
 * parameters have copies until backward has read them. In backward gradients of such operators have half of their
 * bytes, too, and those of parameters are made from such.
 */
#define OPERATOR  "at::_ops::"
#define LOOK_BACK 2000 /* allocations, for another operand */

enum rule { RULE_FOLLOWS, RULE_HALF, RULE_FULL, RULE_SUMS }; /* sums: in full, from halves without a copy */

/* From PyTorch's autocast_mode.h and autocast_mode.cpp; a star stands for any end. */
static const char *const halves[] = {"linear",
                                     "matmul",
                                     "addmm",
                                     "mm",
                                     "bmm",
                                     "baddbmm",
                                     "addbmm",
                                     "conv1d*",
                                     "conv2d*",
                                     "conv3d*",
                                     "convolution",
                                     "_convolution*",
                                     "conv_tbc",
                                     "mkldnn_convolution",
                                     "scaled_dot_product_attention",
                                     "_scaled_dot_product_*",
                                     "convolution_backward"};
static const char *const halves_on_gpu[] = {"conv_transpose*",
                                            "cudnn_convolution*",
                                            "prelu",
                                            "addmv",
                                            "addr",
                                            "einsum",
                                            "mv",
                                            "linalg_vecdot",
                                            "chain_matmul",
                                            "linalg_multi_dot",
                                            "_thnn_fused_lstm_cell",
                                            "_thnn_fused_gru_cell",
                                            "lstm_cell",
                                            "gru_cell",
                                            "rnn_tanh_cell",
                                            "rnn_relu_cell"};
static const char *const fulls[] = {"mse_loss",
                                    "nll_loss*",
                                    "cross_entropy_loss",
                                    "smooth_l1_loss",
                                    "l1_loss",
                                    "huber_loss",
                                    "binary_cross_entropy*",
                                    "kl_div",
                                    "cosine_embedding_loss",
                                    "hinge_embedding_loss",
                                    "poisson_nll_loss",
                                    "margin_ranking_loss",
                                    "multilabel_margin_loss*",
                                    "soft_margin_loss",
                                    "triplet_margin_loss",
                                    "multi_margin_loss",
                                    "ctc_loss*",
                                    "cdist"};
static const char *const fulls_on_gpu[] = {"acos",
                                           "asin",
                                           "cosh",
                                           "erfinv",
                                           "exp",
                                           "expm1",
                                           "log",
                                           "log10",
                                           "log2",
                                           "log1p",
                                           "reciprocal",
                                           "rsqrt",
                                           "sinh",
                                           "tan",
                                           "pow_*",
                                           "softplus",
                                           "layer_norm",
                                           "native_layer_norm",
                                           "group_norm",
                                           "frobenius_norm*",
                                           "nuclear_norm*",
                                           "cosine_similarity",
                                           "dist",
                                           "pdist",
                                           "renorm",
                                           "logsumexp*",
                                           "upsample_*",
                                           "_upsample_*",
                                           "softmax_*",
                                           "log_softmax_*",
                                           "cumprod*",
                                           "cumsum*",
                                           "linalg_vector_norm",
                                           "linalg_matrix_norm*",
                                           "norm_*"};
/* Also in full, but they read 16 bits as they are. */
static const char *const sums_on_gpu[] = {"sum", "sum_*", "prod", "prod_*"};
static const char *const fulls_on_host[] = {"avg_pool3d",
                                            "max_pool3d",
                                            "adaptive_avg_pool3d",
                                            "adaptive_max_pool3d",
                                            "fractional_max_pool*",
                                            "max_unpool*",
                                            "grid_sampler*",
                                            "_grid_sampler_2d_cpu_fallback",
                                            "polar",
                                            "prod",
                                            "prod_*",
                                            "quantile*",
                                            "nanquantile*",
                                            "stft*",
                                            "trace",
                                            "view_as_complex",
                                            "cholesky*",
                                            "inverse",
                                            "lu_solve",
                                            "orgqr",
                                            "ormqr",
                                            "geqrf",
                                            "_lu_with_info",
                                            "qr",
                                            "svd",
                                            "triangular_solve",
                                            "pinverse",
                                            "reflection_pad1d",
                                            "reflection_pad2d",
                                            "replication_pad*",
                                            "fft_*",
                                            "linalg_cond*",
                                            "linalg_matrix_rank*",
                                            "linalg_solve",
                                            "linalg_cholesky*",
                                            "linalg_svd*",
                                            "linalg_eig*",
                                            "linalg_inv*",
                                            "linalg_householder_product",
                                            "linalg_tensor*",
                                            "linalg_qr",
                                            "linalg_lstsq",
                                            "fake_quantize_per_tensor_affine"};

struct back {
    uint32_t module, event;
};

struct caster {
    struct mp_estimator *e;
    const struct mp_model *model;
    struct mp_change change;
    const struct mp_passes *passes;
    bool on_host, unsure;      /* unsure: what CPUs do then depends on their kind, or fails */
    MP_VEC(struct back) backs; /* sorted */
    unsigned char *rules;      /* enum rule, by stack */
    unsigned char *half;       /* by block */
    struct mp_map types;       /* by module and operator: 1 full, 2 half */
    struct mp_map operands;    /* by module: the bytes of the gradient that its backward gives on */
    struct mp_map cast;        /* by module: its operand was cast */
    struct mp_map results;     /* by module: the bytes of its half result */
    struct mp_map weights;     /* by module: the backward before which its parameters were cast, + 1 */
};

static bool is_in(const char *const *list, size_t count, const char *name, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        size_t wanted = strlen(list[i]);
        bool open = list[i][wanted - 1] == '*';
        wanted -= open;
        if ((open ? length >= wanted : length == wanted) && !strncmp(list[i], name, wanted)) return true;
    }
    return false;
}

#define IS_IN(list, name, length) is_in(list, sizeof(list) / sizeof *(list), name, length)

static enum rule rule_of_name(bool on_host, const char *name, size_t length)
{
    if (IS_IN(halves, name, length) || (!on_host && IS_IN(halves_on_gpu, name, length))) return RULE_HALF;
    if (!on_host && IS_IN(sums_on_gpu, name, length)) return RULE_SUMS;
    if (IS_IN(fulls, name, length)) return RULE_FULL;
    if (on_host ? IS_IN(fulls_on_host, name, length) : IS_IN(fulls_on_gpu, name, length)) return RULE_FULL;
    return RULE_FOLLOWS;
}

/* The outermost operator of a list within the innermost Python frame decides. */
static void find_rules(struct caster *c)
{
    const struct mp_model *model = c->model;
    unsigned char *frames = mp_alloc_zeroed(model->frames.count + 1, 1);
    c->rules = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (size_t i = 0; i < model->frames.count; i++)
        for (uint32_t k = 0; model->frames.at[i].raw.language == MP_NATIVE && k < model->frames.at[i].line_count; k++) {
            const char *function = mp_model_text(model, model->lines.at[model->frames.at[i].first_line + k].function);
            const char *at = strstr(function, OPERATOR);
            if (!at) continue;
            at += strlen(OPERATOR);
            frames[i] = (unsigned char)rule_of_name(c->on_host, at, strcspn(at, ":("));
        }
    for (size_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        if (node->frame == MP_FRAME_CUT || model->frames.at[node->frame].raw.language != MP_NATIVE) continue;
        c->rules[i] = c->rules[node->parent] ? c->rules[node->parent] : frames[node->frame];
    }
    free(frames);
}

static const struct mp_operator_of *operator_of(const struct caster *c, const struct mp_pass_act *act)
{
    return &c->passes->operators.of_stack[act->stack];
}

static unsigned phase_of(const struct caster *c, const struct mp_pass_act *act)
{
    return mp_phase_of_block(&c->e->phases, c->model, act->block);
}

static uint64_t bytes_of(const struct caster *c, uint32_t block)
{
    return mp_pass_bytes(c->passes, block);
}

static uint32_t freed(const struct caster *c, uint32_t block)
{
    return c->model->blocks.free_event[block];
}

static int by_module(const void *a, const void *b)
{
    const struct back *x = a, *y = b;
    if (x->module != y->module) return x->module < y->module ? -1 : 1;
    return (x->event > y->event) - (x->event < y->event);
}

/* What each module's backward gives on: that is as large as what its forward reads. */
static void find_operands(struct caster *c)
{
    for (size_t i = 0; i < c->passes->acts.count; i++) {
        const struct mp_pass_act *act = &c->passes->acts.at[i];
        if (!act->module || phase_of(c, act) != MP_PHASE_BACKWARD) continue;
        const struct back back = {act->module, act->event};
        mp_vec_add(&c->backs, back);
        if (c->rules[act->stack] != RULE_HALF || c->e->category[act->block] == MP_CATEGORY_GRADIENTS) continue;
        uint64_t *bytes = mp_map_at(&c->operands, (uint64_t)act->module + 1, NULL);
        if (!*bytes) *bytes = bytes_of(c, act->block);
    }
    if (c->backs.count) qsort(c->backs.at, c->backs.count, sizeof *c->backs.at, by_module);
}

static uint64_t about(const struct mp_map *map, uint32_t module)
{
    const uint64_t *found = module ? mp_map_find(map, (uint64_t)module + 1) : NULL;
    return found ? *found : 0;
}

static void make_half(struct caster *c, const struct mp_pass_act *act)
{
    c->half[act->block] = true;
    mp_estimate_resize(c->e, &c->change, act->block, bytes_of(c, act->block) / 2, act->event);
}

/* ---- forward */

static bool is_within(const struct mp_model *model, uint32_t module, uint32_t outer)
{
    const char *path = mp_model_text(model, module), *wanted = mp_model_text(model, outer);
    size_t length = strlen(wanted);
    return !strncmp(path, wanted, length) && (!path[length] || path[length] == '.');
}

static bool lives(const struct caster *c, uint32_t block, uint32_t event)
{
    return freed(c, block) == MP_NONE || freed(c, block) > event;
}

/* The other operand of a sum: what the module summed before, else what came into it. MP_NONE: the program's own. */
static uint32_t other_of(const struct caster *c, size_t at, uint32_t one)
{
    const struct mp_pass_act *act = &c->passes->acts.at[at];
    uint64_t bytes = bytes_of(c, act->block);
    bool outside = false;
    for (size_t i = at, looked = 0; i-- && looked++ < LOOK_BACK;) {
        const struct mp_pass_act *before = &c->passes->acts.at[i];
        if (phase_of(c, before) != MP_PHASE_FORWARD) break;
        outside = outside || !before->module || !is_within(c->model, before->module, act->module);
        bool may = outside || (before->module == act->module && mp_pass_is_sum(c->passes, i));
        if (may && before->block != one && bytes_of(c, before->block) == bytes && lives(c, before->block, act->event))
            return before->block;
    }
    return MP_NONE;
}

/* What an operator reads, of the bytes that its backward gives on: the last such result that lives. */
static uint32_t operand_of(const struct caster *c, size_t at, uint32_t last)
{
    const struct mp_pass_act *act = &c->passes->acts.at[at];
    uint64_t bytes = mp_pass_parameters(c->passes, act->module) ? about(&c->operands, act->module) : 0;
    if (!bytes || (last != MP_NONE && bytes_of(c, last) == bytes)) return last;
    for (size_t i = at, looked = 0; i-- && looked++ < LOOK_BACK;) {
        const struct mp_pass_act *before = &c->passes->acts.at[i];
        if (phase_of(c, before) != MP_PHASE_FORWARD) break;
        if (bytes_of(c, before->block) == bytes && lives(c, before->block, act->event)) return before->block;
    }
    return MP_NONE;
}

/* A parameter's gradient, be it a temporary that is added to one. */
static bool is_gradient(const struct caster *c, const struct mp_pass_act *act)
{
    if (c->e->category[act->block] == MP_CATEGORY_GRADIENTS) return true;
    return c->rules[act->stack] == RULE_HALF && mp_estimate_is_parameters_size(c->e, act->block) &&
           about(&c->operands, act->module) != bytes_of(c, act->block);
}

static bool is_result_kept(const struct caster *c, uint32_t block)
{
    return mp_operator_keeps_first(c->passes->operators.of_stack[c->model->blocks.stack[block]].number);
}

static void cast_parameters(struct caster *c, const struct mp_pass_act *act, uint32_t backward)
{
    uint64_t bytes = mp_pass_parameters(c->passes, act->module);
    uint64_t *done = mp_map_at(&c->weights, (uint64_t)act->module + 1, NULL);
    if (!bytes || *done == (uint64_t)backward + 1) return;
    *done = (uint64_t)backward + 1;
    uint32_t turn = c->e->phases.turns.at[backward].first, over = turn;
    if (about(&c->operands, act->module)) {
        size_t at = MP_COUNT_BEFORE(c->backs.count, i,
                                    c->backs.at[i].module < act->module ||
                                        (c->backs.at[i].module == act->module && c->backs.at[i].event < turn));
        if (at < c->backs.count && c->backs.at[at].module == act->module) over = c->backs.at[at].event + 1;
    }
    mp_pass_add(c->passes, &c->change, act->block, bytes / 2, act->event, over);
}

/* Before PyTorch 2.1 (that stops early), a norm on the CPU fails where it reads 16 bits and has parameters of 32. */
static bool is_norm(const struct caster *c, const struct mp_pass_act *act)
{
    return mp_operator_saves(operator_of(c, act)->number) == MP_SAVES_RESULTS &&
           !mp_operator_keeps_first(operator_of(c, act)->number) && mp_pass_parameters(c->passes, act->module);
}

/* Of two tensors an operator gives the wider type, and parameters have 32 bits: where a module has some of its own and
 * calls such an operator, it is taken to be one of them that is read. */
static bool reads_parameter(const struct caster *c, const struct mp_pass_act *act)
{
    return mp_operator_is_binary(operator_of(c, act)->number) && mp_pass_parameters(c->passes, act->module);
}

/* An operator's allocations, from `at` on; `last`: the result before them. Returns its own. */
static uint32_t pass_forward(struct caster *c, size_t at, size_t count, uint32_t last)
{
    const struct mp_pass_act *act = &c->passes->acts.at[at];
    uint32_t turn = mp_phase_turn_of(&c->e->phases, act->event);
    uint32_t backward = turn == MP_NONE ? MP_NONE : c->e->phases.turns.at[turn].backward;
    uint32_t after = mp_pass_after(c->passes, at + count);
    enum rule rule = act->module ? c->rules[act->stack] : RULE_FULL;
    uint32_t operand = rule == RULE_HALF ? operand_of(c, at, last) : last;
    bool half = operand != MP_NONE && c->half[operand];
    if (backward == MP_NONE) return last; /* nothing is trained */
    uint32_t start = c->e->phases.turns.at[backward].first;
    if (rule == RULE_HALF) {
        bool kept = operand != MP_NONE && freed(c, operand) != MP_NONE && freed(c, operand) >= start;
        if (operand != MP_NONE && !half) {
            mp_pass_add(c->passes, &c->change, operand, bytes_of(c, operand) / 2, act->event,
                        kept ? freed(c, operand) : after);
            *mp_map_at(&c->cast, (uint64_t)act->module + 1, NULL) = bytes_of(c, operand);
            const struct mp_edit_end end = {.block = operand, .freed = mp_pass_let_go(c->passes, at, operand, after)};
            if (kept && !is_result_kept(c, operand)) mp_vec_add(&c->change.edits.ends, end);
        }
        cast_parameters(c, act, backward);
        *mp_map_at(&c->results, (uint64_t)act->module + 1, NULL) = bytes_of(c, act->block);
    } else if (rule == RULE_FULL && half) {
        enum mp_operator_saves saves = mp_operator_saves(operator_of(c, act)->number);
        bool kept = saves != MP_SAVES_RESULTS && saves != MP_SAVES_NOTHING;
        mp_pass_add(c->passes, &c->change, operand, bytes_of(c, operand), act->event, kept ? freed(c, operand) : after);
    } else if (rule == RULE_FOLLOWS && half && mp_pass_is_sum(c->passes, at)) {
        uint32_t other = other_of(c, at, operand);
        half = other != MP_NONE && c->half[other] && !reads_parameter(c, act);
        if (!half && c->on_host)
            mp_pass_add(c->passes, &c->change, act->block, bytes_of(c, act->block), act->event, after);
    } else if (rule == RULE_FOLLOWS && half && reads_parameter(c, act)) {
        half = false;
    }
    if (c->on_host && half && !c->passes->operators.stops_early && is_norm(c, act)) c->unsure = true;
    bool halve = rule == RULE_HALF || (rule == RULE_FOLLOWS && half);
    for (size_t i = 0; halve && i < count; i++)
        if (rule == RULE_HALF || bytes_of(c, act[i].block) == bytes_of(c, act->block)) make_half(c, &act[i]);
    unsigned node = mp_operator_node(operator_of(c, act)->number);
    if (node) *mp_map_at(&c->types, ((uint64_t)act->module << 16 | node) + 1, NULL) = halve ? 2 : 1;
    return act->block;
}

/* ---- backward */

/* `chain`: whether the gradient that comes in has half of its bytes; returns that of what goes on. */
static bool pass_backward(struct caster *c, size_t at, size_t count, bool chain)
{
    uint32_t after = mp_pass_after(c->passes, at + count);
    const struct mp_pass_act *first = &c->passes->acts.at[at];
    if (c->rules[first->stack] == RULE_HALF && !chain)
        mp_pass_add(c->passes, &c->change, first->block, about(&c->results, first->module) / 2, first->event, after);
    for (size_t i = at; i < at + count; i++) {
        const struct mp_pass_act *act = &c->passes->acts.at[i];
        bool half = chain;
        if (is_gradient(c, act)) {
            if (c->rules[act->stack] == RULE_HALF)
                mp_pass_add(c->passes, &c->change, act->block, bytes_of(c, act->block) / 2, act->event, after);
            continue;
        }
        unsigned node = mp_operator_node(operator_of(c, act)->node);
        const uint64_t *type = node ? mp_map_find(&c->types, ((uint64_t)act->module << 16 | node) + 1) : NULL;
        if (c->rules[act->stack] == RULE_HALF)
            half = true;
        else if (!act->module)
            half = false;
        else if (type)
            half = *type == 2;
        if (c->rules[act->stack] == RULE_HALF && about(&c->cast, act->module) == bytes_of(c, act->block)) {
            mp_pass_add(c->passes, &c->change, act->block, bytes_of(c, act->block) / 2, act->event, after);
            half = false;
        }
        if (half) make_half(c, act);
        chain = half;
    }
    return chain;
}

static void pass(struct caster *c)
{
    uint32_t last = MP_NONE;
    bool chain = false;
    for (size_t at = 0, next; at < c->passes->acts.count; at = next) {
        next = mp_pass_next(c->passes, at);
        if (phase_of(c, &c->passes->acts.at[at]) == MP_PHASE_FORWARD) {
            last = pass_forward(c, at, next - at, last);
            chain = false;
        } else {
            chain = pass_backward(c, at, next - at, chain);
            last = MP_NONE;
        }
    }
}

static bool has_operators(const struct caster *c)
{
    for (size_t i = 0; i < c->passes->acts.count; i++)
        if (c->rules[c->passes->acts.at[i].stack] == RULE_HALF) return true;
    return false;
}

/* A CPU without instructions for bfloat16 unfolds the input of a convolution, which takes more than is saved. */
static bool convolves(const struct caster *c)
{
    bool does = false;
    for (size_t i = 0; i < c->model->lines.count; i++)
        does |= strstr(mp_model_text(c->model, c->model->lines.at[i].function), OPERATOR "convolution") != NULL;
    return does;
}

void mp_precision_find(struct mp_estimator *e, const struct mp_passes *passes)
{
    const char *device = mp_track_device(e->model, e->history->track);
    struct caster c = {.e = e,
                       .model = e->model,
                       .passes = passes,
                       .change = {.kind = MP_CHANGE_PRECISION, .what = MP_CHANGE_AUTOCAST, .estimated = true},
                       .on_host = !strncmp(device, "cpu", 3)};
    if (!e->model->blocks.module) return;
    c.half = mp_alloc_zeroed(e->model->blocks.count + 1, 1);
    find_rules(&c);
    find_operands(&c);
    if (has_operators(&c) && !(c.on_host && convolves(&c))) pass(&c);
    if (c.unsure)
        mp_edits_free(&c.change.edits);
    else
        mp_estimate_propose(e, &c.change);
    mp_vec_free(&c.backs);
    free(c.rules);
    free(c.half);
    struct mp_map *maps[] = {&c.types, &c.operands, &c.cast, &c.results, &c.weights};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        mp_map_free(maps[i]);
}

#include "model/stack_facts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "model/model.h"
#include "model/rules.h"

static const struct mp_stack_pattern patterns[] = {
    {MP_FACT_WORKSPACE, "at::(cuda|native)::.*[Ww]orkspace"},
    /* The functions that request a workspace may have no name. The functions around them have one. */
    {MP_FACT_WORKSPACE, "at::cuda::(getCurrentCUDABlas|getCurrentCUDASolver|getCurrentCUDASparse|blas::)"},
    {MP_FACT_WORKSPACE, "at::native::(.*run_conv_plan|raw_cudnn_convolution_)"},
    {MP_FACT_COMMUNICATES, "c10d::"},
    {MP_FACT_COMMUNICATES, "ncclComm"},
    {MP_FACT_COMMUNICATES, "(all_gather|all_reduce|reduce_scatter|foreach_reduce|unshard)[^ ]* .*torch/distributed/"},
    {MP_FACT_COMMUNICATES, "torch/distributed/distributed_c10d\\.py:"},
    {MP_FACT_ACCUMULATES, "torch::autograd::AccumulateGrad"},
    {MP_FACT_LOADS_DATA, "torch/utils/data/"},
    {MP_FACT_MAKES_STATE, "(^|\\.)_init_group .*torch/optim/"},
    {MP_FACT_REPLICATES, "(^|\\.)_broadcast_coalesced_reshape .*torch/nn/parallel/"},
    {MP_FACT_MAKES_PARAMETERS,
     "(^|\\.)(__init__|reset_parameters|_apply|to|cuda|cpu|half|convert) .*torch/nn/modules/"},
    {MP_FACT_MAKES_PARAMETERS, "torch/nn/init\\.py:"},
    {MP_FACT_MAKES_PARAMETERS,
     "(^|\\.)(from_pretrained|load_state_dict|_load_from_state_dict|init_weights?|_init_weights) .*\\.py:"},
    {MP_FACT_BUILDS_OPTIMIZER, "(^|\\.)(__init__|load_state_dict) .*optim[a-z_]*\\.py:"},
    {MP_FACT_CONSTRUCTS, "(^|\\.)__init__ [^ ]+\\.py:"},

    {MP_FACT_FORWARD, "(^|\\.)(_wrapped_call_impl|_call_impl|__call__) .*torch/nn/modules/module\\.py:"},
    {MP_FACT_FORWARD, "(^|\\.)forward [^ ]+\\.py:"},
    {MP_FACT_FORWARD, "^nn\\.Module: "},               /* PyTorch's profiler */
    {MP_FACT_FORWARD, "^CompiledFunction$"},           /* in PyTorch's profiler: compiled by AOTAutograd */
    {MP_FACT_BACKWARD, "(^|\\.)backward [^ ]+\\.py:"}, /* Tensor.backward(), Function.backward(), ... */
    {MP_FACT_BACKWARD, "(^|\\.)grad .*torch/autograd/__init__\\.py:"},
    {MP_FACT_BACKWARD, "torch::autograd::Engine::"},
    {MP_FACT_BACKWARD, "autograd::engine::evaluate_function"}, /* PyTorch's profiler */
    {MP_FACT_BACKWARD, "^CompiledFunctionBackward$"},
    {MP_FACT_OPTIMIZER, "torch/optim/"},
    {MP_FACT_OPTIMIZER, "^Optimizer\\.step#"},
    {MP_FACT_OPTIMIZER, "/(apex/optimizers|bitsandbytes/optim|deepspeed/ops/adam)/"},
    {MP_FACT_OPTIMIZER, "torch/(cuda/)?amp/grad_scaler\\.py:"},
    {MP_FACT_OPTIMIZER, "torch/nn/utils/clip_grad\\.py:"},

    {MP_FACT_CALLS_MODULE, "(^|\\.)_call_impl .*torch/nn/modules/module\\.py:"},
    {MP_FACT_WRAPS_CALL, "(^|\\.)_wrapped_call_impl .*torch/nn/modules/module\\.py:"},
    {MP_FACT_RUNS_MODULES, "(^|\\.)forward .*torch/nn/modules/container\\.py:"},

    {MP_FACT_CASTS, "autocast::cached_cast"},
    {MP_FACT_LISTS, "_multi_tensor_"},
    {MP_FACT_ADAM, "torch/optim/adamw?\\.py:"},
    {MP_FACT_ZEROES, "(^|\\.)zero_grad( |$)"},
    {MP_FACT_PINNED_CACHE, "CachingHostAllocator"},
    {MP_FACT_WIDE_SUMS, "(at::_ops::|aten::)(argm(ax|in)|(max|min|median)_dim|aminmax|std|var)"},
    {MP_FACT_MULTIPLIES,
     "(^|\\.)forward .*torch/nn/modules/linear\\.py:|(at::_ops::|aten::)(linear|addmm|mm|bmm|matmul)"},
    {MP_FACT_SUMS, "(at::_ops::|aten::)sum"},
    {MP_FACT_CLASS_LOSS,
     "(^|\\.)(cross_entropy|log_softmax) .*torch/nn/functional\\.py:|(at::_ops::|aten::)_?(cross_entropy|log_softmax)"},
    {MP_FACT_KV_CACHE, "(Kv|KV|KeyValue|kv_|key_value_|past_key_values_)_?[Cc]ache|/transformers/cache_utils\\.py:"},
    {MP_FACT_EMBEDS, "embedding_dense_backward"},
    {MP_FACT_OF_TORCH, "[ /]torch/[^:]*\\.py:"},
    {MP_FACT_STEPS, "(^|\\.)step "},
    {MP_FACT_JOINS, "structured_cat_out|(at::_ops::|aten::)(cat|constant_pad_nd)"},
};

#define PATTERNS (sizeof patterns / sizeof *patterns)

const struct mp_stack_pattern *mp_stack_pattern(size_t index)
{
    return index < PATTERNS ? &patterns[index] : NULL;
}

enum mp_torch_file mp_torch_file(const char *path)
{
    static const struct {
        const char *part;
        enum mp_torch_file file;
    } files[] = {
        {"torch/autograd/grad_mode.py", MP_TORCH_FILE_WRAPS},
        {"torch/utils/_contextlib.py", MP_TORCH_FILE_WRAPS},
        {"torch/nn/modules/module.py", MP_TORCH_FILE_CALLS},
        {"torch/autograd/__init__.py", MP_TORCH_FILE_RUNS},
        {"torch/nn/", MP_TORCH_FILE_INSIDE},
        {"torch/autograd/", MP_TORCH_FILE_INSIDE},
        {"torch/_tensor.py", MP_TORCH_FILE_INSIDE},
        {"torch/_dynamo/", MP_TORCH_FILE_INSIDE},
        {"torch/utils/", MP_TORCH_FILE_INSIDE},
        {"torch/optim/", MP_TORCH_FILE_OPTIMIZES},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strstr(path, files[i].part)) return files[i].file;
    return MP_TORCH_FILE_NONE;
}

static bool begins(const char *text, const char *const *beginnings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strncmp(text, beginnings[i], strlen(beginnings[i]))) return true;
    return false;
}
#define BEGINS(text, list) begins(text, list, sizeof(list) / sizeof *(list))

bool mp_torch_is_short_path(const char *path)
{
    static const char *const package[] = {"torch/"};
    return BEGINS(path, package);
}

/* PyTorch's own history gives functions without their libraries. */
bool mp_torch_serves_allocation(const char *function)
{
    static const char *const functions[] = {"aten::empty",
                                            "aten::new_empty",
                                            "aten::resize_",
                                            "c10::cuda::",
                                            "torch::unwind::",
                                            "torch::CapturedTraceback::",
                                            "torch::cuda::(anonymous namespace)::gather",
                                            "std::shared_ptr<c10::GatheredContext>",
                                            "at::detail::empty",
                                            "at::TensorBase at::detail::_empty"};
    return BEGINS(function, functions);
}

bool mp_torch_makes_gradient(const char *function)
{
    static const char *const functions[] = {"torch::autograd::generated::", "torch::autograd::AccumulateGrad"};
    return BEGINS(function, functions);
}

bool mp_torch_is_plumbing(const char *name, size_t length)
{
    static const char *const parts[] = {
        "empty",    "alloc", "Alloc",      "resize",  "dispatch", "Dispatch", "wrapper",    "Boxed", "boxed",
        "detail::", "c10::", "at::meta::", "Storage", "Iterator", "autograd", "MaybeOwned", "Py",    "__libc"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (memmem(name, length, parts[i], strlen(parts[i]))) return true;
    return false;
}

struct mp_known_facts {
    _Atomic(struct mp_stack_facts *) found;
};

struct mp_known_facts *mp_known_facts_new(void)
{
    return mp_alloc_zeroed(1, sizeof(struct mp_known_facts));
}

static void free_facts(struct mp_stack_facts *facts)
{
    if (!facts) return;
    free(facts->of_frame);
    free(facts->of_stack);
    free(facts->inside);
    free(facts);
}

void mp_known_facts_free(void *facts)
{
    struct mp_known_facts *known = facts;
    if (known) free_facts(atomic_load(&known->found));
    free(known);
}

/* ---- frames ---- */

struct finder {
    const struct mp_model *model;
    struct mp_rules rules; /* the patterns, in their order */
    struct mp_map
        known; /* facts by the texts of a line; frames also differ in line numbers and addresses, which show no facts */
    struct mp_buffer scratch;
};

static uint32_t facts_of_text(struct finder *f, const struct mp_model_line *line, uint32_t module)
{
    uint32_t facts = 0;
    mp_rules_line_text(f->model, line, module, &f->scratch);
    const char *text = mp_buffer_text(&f->scratch);
    for (size_t i = 0; i < PATTERNS; i++)
        if (!(facts & patterns[i].fact) && mp_rule_fits(&f->rules.rules.at[i], text)) facts |= patterns[i].fact;
    return facts;
}

static uint32_t facts_of_frame(struct finder *f, const struct mp_model_frame *frame)
{
    static const struct mp_model_line unknown;
    uint32_t module = frame->raw.language == MP_NATIVE ? frame->raw.module : 0, facts = 0;
    for (uint32_t i = 0; i < frame->line_count || !i; i++) {
        const struct mp_model_line *line = frame->line_count ? &f->model->lines.at[frame->first_line + i] : &unknown;
        bool added, of_library = !line->file;
        uint64_t key = (uint64_t)line->function << 32 | (uint64_t)of_library << 31 | (of_library ? module : line->file);
        uint64_t *known = mp_map_at(&f->known, key + 1, &added);
        if (added) *known = facts_of_text(f, line, module);
        facts |= (uint32_t)*known;
    }
    return frame->raw.language == MP_BACKWARD ? facts | MP_FACT_BACKWARD : facts;
}

/* ---- stacks ---- */

/* Each node comes after its parent, so one pass over the nodes finds the facts of all stacks. */
static struct mp_stack_facts *find_facts(const struct mp_model *model)
{
    struct finder f = {.model = model};
    struct mp_stack_facts *facts = mp_alloc_zeroed(1, sizeof *facts);
    *facts = (struct mp_stack_facts){
        .of_frame = mp_alloc_zeroed(model->frames.count + 1, sizeof *facts->of_frame),
        .of_stack = mp_alloc_zeroed(model->stacks.count + 1, sizeof *facts->of_stack),
        .inside = mp_alloc_zeroed(model->stacks.count + 1, sizeof *facts->inside),
    };
    struct mp_error never;
    for (size_t i = 0; i < PATTERNS; i++)
        mp_rules_add(&f.rules, "", patterns[i].regex, &never);
    for (size_t i = 0; i < model->frames.count; i++)
        facts->of_frame[i] = facts_of_frame(&f, &model->frames.at[i]);
    for (size_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        bool cut = node->frame == MP_FRAME_CUT;
        bool border = !cut && model->frames.at[node->frame].raw.language == MP_BACKWARD;
        uint32_t own = cut ? 0 : facts->of_frame[node->frame];
        facts->of_stack[i] = own | facts->of_stack[node->parent];
        facts->inside[i] = own | (border ? 0 : facts->inside[node->parent]);
    }
    mp_rules_free(&f.rules);
    mp_map_free(&f.known);
    mp_buffer_free(&f.scratch);
    return facts;
}

const struct mp_stack_facts *mp_stack_facts(const struct mp_model *model)
{
    struct mp_stack_facts *before = atomic_load(&model->facts->found);
    if (before) return before;
    struct mp_stack_facts *found = find_facts(model);
    if (atomic_compare_exchange_strong(&model->facts->found, &before, found)) return found;
    free_facts(found);
    return before;
}

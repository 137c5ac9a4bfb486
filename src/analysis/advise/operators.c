#include "analysis/advise/operators.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/stack_facts.h"

/* From PyTorch's derivatives.yaml: the operator with its overload, its node without "Backward", and the tensors that
 * backward reads. tests/advise/check_operators.py compares it with that file. An operator that is not listed counts as
 * one that saves results. */
static const struct {
    const char *name, *node;
    enum mp_operator_saves saves;
} table[] = {
    {"add_Tensor", "Add", MP_SAVES_NOTHING},
    {"add_Scalar", "Add", MP_SAVES_NOTHING},
    {"sub_Tensor", "Sub", MP_SAVES_NOTHING},
    {"sub_Scalar", "Sub", MP_SAVES_NOTHING},
    {"rsub_Tensor", "Rsub", MP_SAVES_NOTHING},
    {"rsub_Scalar", "Rsub", MP_SAVES_NOTHING},
    {"neg", "Neg", MP_SAVES_NOTHING},
    {"mul_Scalar", "Mul", MP_SAVES_NOTHING},
    {"div_Scalar", "Div", MP_SAVES_NOTHING},
    {"sum", "Sum", MP_SAVES_NOTHING},
    {"sum_dim_IntList", "Sum", MP_SAVES_NOTHING},
    {"mean", "Mean", MP_SAVES_NOTHING},
    {"mean_dim", "Mean", MP_SAVES_NOTHING},
    {"cat", "Cat", MP_SAVES_NOTHING},
    {"stack", "Stack", MP_SAVES_NOTHING},
    {"clone", "Clone", MP_SAVES_NOTHING},
    {"_to_copy", "ToCopy", MP_SAVES_NOTHING},
    {"expand", "Expand", MP_SAVES_NOTHING},
    {"repeat", "Repeat", MP_SAVES_NOTHING},
    {"roll", "Roll", MP_SAVES_NOTHING},
    {"flip", "Flip", MP_SAVES_NOTHING},
    {"cumsum", "Cumsum", MP_SAVES_NOTHING},
    {"tril", "Tril", MP_SAVES_NOTHING},
    {"triu", "Triu", MP_SAVES_NOTHING},
    {"constant_pad_nd", "ConstantPadNd", MP_SAVES_NOTHING},
    {"upsample_nearest1d", "UpsampleNearest1D", MP_SAVES_NOTHING},
    {"upsample_nearest2d", "UpsampleNearest2D", MP_SAVES_NOTHING},
    {"upsample_bilinear2d", "UpsampleBilinear2D", MP_SAVES_NOTHING},
    {"im2col", "Im2Col", MP_SAVES_NOTHING},
    {"pixel_shuffle", "PixelShuffle", MP_SAVES_NOTHING},
    {"index_select", "IndexSelect", MP_SAVES_INPUTS},
    {"index_Tensor", "Index", MP_SAVES_INPUTS},
    {"embedding", "Embedding", MP_SAVES_INPUTS},
    {"avg_pool2d", "AvgPool2D", MP_SAVES_INPUTS},
    {"_adaptive_avg_pool2d", "AdaptiveAvgPool2D", MP_SAVES_INPUTS},
    {"addmm", "Addmm", MP_SAVES_INPUTS},
    {"mm", "Mm", MP_SAVES_INPUTS},
    {"bmm", "Bmm", MP_SAVES_INPUTS},
    {"baddbmm", "Baddbmm", MP_SAVES_INPUTS},
    {"addmv", "Addmv", MP_SAVES_INPUTS},
    {"dot", "Dot", MP_SAVES_INPUTS},
    {"mul_Tensor", "Mul", MP_SAVES_INPUTS},
    {"div_Tensor", "Div", MP_SAVES_INPUTS},
    {"addcmul", "Addcmul", MP_SAVES_INPUTS},
    {"convolution", "Convolution", MP_SAVES_INPUTS},
    {"gelu", "Gelu", MP_SAVES_INPUTS},
    {"silu", "Silu", MP_SAVES_INPUTS},
    {"hardswish", "Hardswish", MP_SAVES_INPUTS},
    {"mish", "Mish", MP_SAVES_INPUTS},
    {"leaky_relu", "LeakyRelu", MP_SAVES_INPUTS},
    {"elu", "Elu", MP_SAVES_INPUTS},
    {"softplus", "Softplus", MP_SAVES_INPUTS},
    {"hardtanh", "Hardtanh", MP_SAVES_INPUTS},
    {"glu", "Glu", MP_SAVES_INPUTS},
    {"log", "Log", MP_SAVES_INPUTS},
    {"pow_Tensor_Scalar", "Pow", MP_SAVES_INPUTS},
    {"abs", "Abs", MP_SAVES_INPUTS},
    {"sin", "Sin", MP_SAVES_INPUTS},
    {"cos", "Cos", MP_SAVES_INPUTS},
    {"where_self", "Where", MP_SAVES_INPUTS},
    {"masked_fill_Scalar", "MaskedFill", MP_SAVES_INPUTS},
    {"masked_fill_Tensor", "MaskedFill", MP_SAVES_INPUTS},
    {"gather", "Gather", MP_SAVES_INPUTS},
    {"index_add", "IndexAdd", MP_SAVES_INPUTS},
    {"scatter_add", "ScatterAdd", MP_SAVES_INPUTS},
    {"clamp", "Clamp", MP_SAVES_INPUTS},
    {"clamp_min", "ClampMin", MP_SAVES_INPUTS},
    {"_prelu_kernel", "PreluKernel", MP_SAVES_INPUTS},
    {"reflection_pad2d", "ReflectionPad2D", MP_SAVES_INPUTS},
    {"pow_Tensor_Tensor", "Pow", MP_SAVES_RESULTS},
    {"native_layer_norm", "NativeLayerNorm", MP_SAVES_RESULTS},
    {"native_batch_norm", "NativeBatchNorm", MP_SAVES_RESULTS},
    {"cudnn_batch_norm", "CudnnBatchNorm", MP_SAVES_RESULTS},
    {"native_group_norm", "NativeGroupNorm", MP_SAVES_RESULTS},
    {"relu", "Relu", MP_SAVES_RESULTS},
    {"sigmoid", "Sigmoid", MP_SAVES_RESULTS},
    {"tanh", "Tanh", MP_SAVES_RESULTS},
    {"log_sigmoid_forward", "LogSigmoid", MP_SAVES_RESULTS},
    {"_softmax", "Softmax", MP_SAVES_RESULTS},
    {"_log_softmax", "LogSoftmax", MP_SAVES_RESULTS},
    {"native_dropout", "NativeDropout", MP_SAVES_RESULTS},
    {"exp", "Exp", MP_SAVES_RESULTS},
    {"sqrt", "Sqrt", MP_SAVES_RESULTS},
    {"rsqrt", "Rsqrt", MP_SAVES_RESULTS},
    {"max_pool2d_with_indices", "MaxPool2DWithIndices", MP_SAVES_RESULTS},
    {"linalg_vector_norm", "LinalgVectorNorm", MP_SAVES_RESULTS},
    {"amax", "Amax", MP_SAVES_RESULTS},
    {"max_dim", "Max", MP_SAVES_RESULTS},
    {"logsumexp", "Logsumexp", MP_SAVES_RESULTS},
    {"_scaled_dot_product_flash_attention", "ScaledDotProductFlashAttention", MP_SAVES_RESULTS},
    {"_scaled_dot_product_efficient_attention", "ScaledDotProductEfficientAttention", MP_SAVES_RESULTS},
    {"_cudnn_rnn", "CudnnRnn", MP_SAVES_RESULTS},
    {"_thnn_fused_lstm_cell", "ThnnFusedLstmCell", MP_SAVES_RESULTS},
    {"_thnn_fused_gru_cell", "ThnnFusedGruCell", MP_SAVES_RESULTS},
    {"mse_loss", "MseLoss", MP_SAVES_INPUTS},
    {"smooth_l1_loss", "SmoothL1Loss", MP_SAVES_INPUTS},
    {"huber_loss", "HuberLoss", MP_SAVES_INPUTS},
    {"binary_cross_entropy", "BinaryCrossEntropy", MP_SAVES_INPUTS},
    {"binary_cross_entropy_with_logits", "BinaryCrossEntropyWithLogits", MP_SAVES_INPUTS},
    {"nll_loss_forward", "NllLoss", MP_SAVES_RESULTS},
    {"nll_loss2d_forward", "NllLoss2D", MP_SAVES_RESULTS},
    {"view", "View", MP_SAVES_NOTHING},
    {"_unsafe_view", "UnsafeView", MP_SAVES_NOTHING},
    {"_reshape_alias", "ReshapeAlias", MP_SAVES_NOTHING},
    {"t", "T", MP_SAVES_NOTHING},
    {"transpose_int", "Transpose", MP_SAVES_NOTHING},
    {"permute", "Permute", MP_SAVES_NOTHING},
    {"slice_Tensor", "Slice", MP_SAVES_NOTHING},
    {"select_int", "Select", MP_SAVES_NOTHING},
    {"split_Tensor", "Split", MP_SAVES_NOTHING},
    {"unbind_int", "Unbind", MP_SAVES_NOTHING},
    {"unsqueeze", "Unsqueeze", MP_SAVES_NOTHING},
    {"squeeze_dim", "Squeeze", MP_SAVES_NOTHING},
};
#define OPERATORS    (sizeof table / sizeof *table)
#define UNKNOWN_NODE UINT16_MAX

/* Composite operators have no formulas of their own: the operators that they call do. */
static const char *const composite[] = {"linear",
                                        "layer_norm",
                                        "batch_norm",
                                        "_batch_norm_impl_index",
                                        "group_norm",
                                        "conv1d",
                                        "conv2d",
                                        "conv3d",
                                        "matmul",
                                        "dropout",
                                        "softmax_int",
                                        "reshape",
                                        "contiguous",
                                        "flatten_using_ints",
                                        "to_dtype",
                                        "to_dtype_layout",
                                        "pad",
                                        "log_softmax_int",
                                        "max_pool2d",
                                        "adaptive_avg_pool2d",
                                        "log_sigmoid",
                                        "cosine_similarity",
                                        "conv2d_padding",
                                        "cross_entropy_loss"};

static uint16_t find_operator(const char *name, size_t length)
{
    for (size_t i = 0; i < OPERATORS; i++)
        if (strlen(table[i].name) == length && !strncmp(table[i].name, name, length)) return (uint16_t)(i + 1);
    return 0;
}

static bool is_composite(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof composite / sizeof *composite; i++)
        if (strlen(composite[i]) == length && !strncmp(composite[i], name, length)) return true;
    return false;
}

/* The name of a node, such as "AddmmBackward0". */
static uint16_t find_node(const char *name)
{
    const char *end = strstr(name, "Backward");
    for (size_t i = 0; end && i < OPERATORS; i++)
        if (strlen(table[i].node) == (size_t)(end - name) && !strncmp(table[i].node, name, (size_t)(end - name)))
            return (uint16_t)(i + 1);
    return UNKNOWN_NODE;
}

/* Facts that a native frame shows. */
struct shown {
    bool call;       /* for an operator that is no composite */
    uint16_t number; /* 0: unknown */
    uint16_t node;
};

static struct shown shown_by(const char *function)
{
    struct shown shown = {0};
    size_t length;
    const char *name = mp_operator_called(function, &length), *node = mp_node_run(function);
    shown.call = name && !is_composite(name, length);
    if (shown.call) shown.number = find_operator(name, length);
    if (node) shown.node = find_node(node);
    return shown;
}

/* Autograd sees the outermost operator within the innermost Python frame. Parents come before children. */
void mp_operators_find(const struct mp_model *model, struct mp_operators *operators)
{
    const struct mp_stack_facts *facts = mp_stack_facts(model);
    struct shown *frames = mp_alloc_zeroed(model->frames.count + 1, sizeof *frames);
    *operators =
        (struct mp_operators){.of_stack = mp_alloc_zeroed(model->stacks.count + 1, sizeof *operators->of_stack)};
    for (size_t i = 0; i < model->frames.count; i++) {
        const struct mp_model_frame *frame = &model->frames.at[i];
        operators->stops_early |= (facts->of_frame[i] & MP_FACT_WRAPS_CALL) != 0;
        for (uint32_t k = 0; frame->raw.language == MP_NATIVE && k < frame->line_count; k++) {
            struct shown shown = shown_by(mp_model_text(model, model->lines.at[frame->first_line + k].function));
            if (shown.call || shown.node) frames[i] = shown;
        }
    }
    for (uint32_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *stack = &model->stacks.at[i];
        struct mp_operator_of *of = &operators->of_stack[i];
        if (stack->frame == MP_FRAME_CUT || model->frames.at[stack->frame].raw.language != MP_NATIVE) continue;
        *of = operators->of_stack[stack->parent];
        const struct shown *shown = &frames[stack->frame];
        if (shown->node) *of = (struct mp_operator_of){.node = shown->node};
        if (!shown->call || of->call) continue;
        of->call = i;
        of->number = shown->number;
    }
    free(frames);
}

void mp_operators_free(struct mp_operators *operators)
{
    free(operators->of_stack);
}

enum mp_operator_saves mp_operator_saves(unsigned number)
{
    return number && number <= OPERATORS ? table[number - 1].saves : MP_SAVES_UNKNOWN;
}

bool mp_operators_match(unsigned one, unsigned other)
{
    return one && other && one <= OPERATORS && other <= OPERATORS &&
           !strcmp(table[one - 1].node, table[other - 1].node);
}

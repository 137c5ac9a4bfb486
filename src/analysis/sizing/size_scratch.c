#include "analysis/sizing/size_scratch.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define OPERATOR "at::_ops::"

/* Of a reduction over rows, as PyTorch divides it (ATen/native/cuda/Reduce.cuh): each of `ctas` blocks of threads
 * leaves 128 sums for each output. From 1024 rows on there are a 64th as many blocks as rows, rounded up, so sums of
 * four bytes take twice as much as an input of float, four times as much as one of bfloat16, and a sixteenth of that;
 * there are no more than fill the device (16 for each of 160 multiprocessors), but for one for each 1024 rows. Records
 * have 16 bytes. To sort, there are keys and indices of eight bytes, each twice, and once more where it is not along
 * the last dimension. tests/cuda_torch/check_size.py holds this against PyTorch. */
static const struct {
    uint64_t sixteenths, most, part; /* no more than `most`, but for a part of the input */
} takes[] = {
    [MP_SIZE_TAKES_SUMS] = {68, (uint64_t)160 << 20, 4},
    [MP_SIZE_TAKES_RECORDS] = {272, (uint64_t)640 << 20, 1},
    [MP_SIZE_TAKES_KEYS] = {160, (uint64_t)1 << 40, 1},
};

/* By the beginnings of their names; all others take sums. */
static const struct {
    const char *name;
    enum mp_size_taking taking;
} operators[] = {
    {"max_dim", MP_SIZE_TAKES_RECORDS}, {"min_dim", MP_SIZE_TAKES_RECORDS},       {"argmax", MP_SIZE_TAKES_RECORDS},
    {"argmin", MP_SIZE_TAKES_RECORDS},  {"std", MP_SIZE_TAKES_RECORDS},           {"var", MP_SIZE_TAKES_RECORDS},
    {"sort", MP_SIZE_TAKES_KEYS},       {"count_nonzero", MP_SIZE_TAKES_RECORDS}, {"argsort", MP_SIZE_TAKES_KEYS},
    {"msort", MP_SIZE_TAKES_KEYS},      {"median", MP_SIZE_TAKES_KEYS},           {"nanmedian", MP_SIZE_TAKES_KEYS},
    {"unique", MP_SIZE_TAKES_KEYS},     {"_unique", MP_SIZE_TAKES_KEYS},          {"randperm", MP_SIZE_TAKES_KEYS},
};

static unsigned char taking_of(const struct mp_model *model, const struct mp_model_frame *frame)
{
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const char *function = mp_model_text(model, model->lines.at[frame->first_line + i].function);
        const char *name = strstr(function, OPERATOR);
        for (size_t k = 0; name && k < sizeof operators / sizeof *operators; k++)
            if (!strncmp(name + strlen(OPERATOR), operators[k].name, strlen(operators[k].name)))
                return (unsigned char)operators[k].taking;
    }
    return MP_SIZE_TAKES_SUMS;
}

unsigned char *mp_size_scratch_find(const struct mp_model *model)
{
    unsigned char *frames = mp_alloc_zeroed(model->frames.count + 1, 1);
    unsigned char *stacks = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (uint32_t i = 0; i < model->frames.count; i++)
        if (model->frames.at[i].raw.language == MP_NATIVE) frames[i] = taking_of(model, &model->frames.at[i]);
    for (uint32_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *stack = &model->stacks.at[i];
        if (stack->frame == MP_FRAME_CUT || model->frames.at[stack->frame].raw.language != MP_NATIVE) continue;
        stacks[i] = frames[stack->frame] ? frames[stack->frame] : stacks[stack->parent];
    }
    free(frames);
    return stacks;
}

uint64_t mp_size_scratch_on(enum mp_size_taking taking, uint64_t bytes)
{
    uint64_t most = takes[taking].most, part = bytes / takes[taking].part;
    if (bytes < most / takes[taking].sixteenths * 16) most = takes[taking].sixteenths * bytes / 16;
    return most > part ? most : part;
}

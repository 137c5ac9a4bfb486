/*
 * Allocators that take large pieces from the driver and cut them up out of sight: which of what the driver handed out
 * is theirs, by the frames of whoever asked for it, and the switch that opens each.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/device_parts.h"
#include "model/stack.h"

/* Of what was handed out: less than this share of one is not worth a line. */
#define LEAST_SHARE 20

static const struct {
    const char *name, *module, *function; /* what a frame's shared object begins with, what its function contains; ""
                                           * for any, NULL for none */
    bool pools;                           /* only blocks of the driver's pools */
    const char *advice;
} rules[] = {
    {"PyTorch's pluggable allocator", NULL, "CUDAPluggableAllocator", false,
     "tensors are not told apart in it; without change_current_allocator() they are seen as torch"},
    {"PyTorch's cudaMallocAsync backend", "libc10_cuda", "CudaMallocAsync", true,
     "tensors are the blocks of the driver's pool; PYTORCH_CUDA_ALLOC_CONF=backend:native shows them as torch"},
    {"RMM's pool", NULL, "pool_memory_resource", false,
     "its blocks are not seen; rmm.reinitialize(pool_allocator=False) shows each"},
    {"RMM's arena", NULL, "arena_memory_resource", false,
     "its blocks are not seen; another memory resource, as cuda_async_memory_resource, shows each"},
    {"XLA's arena", "xla_", "", false,
     "its buffers are not seen; XLA_PYTHON_CLIENT_PREALLOCATE=false lets it grow as needed, "
     "XLA_PYTHON_CLIENT_ALLOCATOR=platform shows each"},
    {"XLA's arena", NULL, "BFCAllocator", false,
     "its buffers are not seen; XLA_PYTHON_CLIENT_PREALLOCATE=false (TF_FORCE_GPU_ALLOW_GROWTH=true) lets it grow as "
     "needed, XLA_PYTHON_CLIENT_ALLOCATOR=platform shows each"},
    {"CuPy's pool", NULL, "cupy.cuda.memory.MemoryPool", false,
     "its blocks are not seen; cupy.cuda.set_allocator(None) shows each"},
    {"CuPy's pool", NULL, "SingleDeviceMemoryPool", false,
     "its blocks are not seen; cupy.cuda.set_allocator(None) shows each"},
};
#define RULES (sizeof rules / sizeof *rules)

static bool line_matches(const struct mp_stack_line *line, size_t rule)
{
    const char *module = line->module ? mp_path_short(line->module) : "";
    if (rules[rule].module && (!strncmp(module, rules[rule].module, strlen(rules[rule].module))) &&
        (!*rules[rule].function || (line->function && strstr(line->function, rules[rule].function))))
        return true;
    return !rules[rule].module && line->function && strstr(line->function, rules[rule].function);
}

/* The rule that a stack falls under, + 1; 0: none. */
static unsigned char rule_of(const struct mp_stack_lines *lines, bool in_pool)
{
    for (size_t rule = 0; rule < RULES; rule++)
        for (size_t i = 0; i < lines->count && (in_pool || !rules[rule].pools); i++)
            if (line_matches(&lines->at[i], rule)) return (unsigned char)(rule + 1);
    return 0;
}

static bool add_all(const struct mp_model *model, const unsigned char *roles, const struct mp_device_use *use,
                    uint64_t bytes[RULES])
{
    enum { NOT_ASKED = 255 };
    struct mp_stack_lines lines = {0};
    size_t stacks = model->stacks.count + 1;
    unsigned char *known = malloc(2 * stacks); /* the rule of a stack outside and inside pools */
    bool done = known;
    if (known) memset(known, NOT_ASKED, 2 * stacks);
    for (size_t i = 0; i < model->blocks.count && done; i++) {
        unsigned role = roles[model->blocks.track[i]];
        if ((role != MP_DEVICE_ROLE_BLOCKS && role != MP_DEVICE_ROLE_POOL) || !mp_device_is_live(model, i, use->moment))
            continue;
        unsigned char *rule = &known[model->blocks.stack[i] + (role == MP_DEVICE_ROLE_POOL ? stacks : 0)];
        if (*rule == NOT_ASKED) {
            done = mp_stack_resolve(model, model->blocks.stack[i], &lines);
            *rule = done ? rule_of(&lines, role == MP_DEVICE_ROLE_POOL) : 0;
        }
        uint64_t size = mp_model_bytes_at(model, (uint32_t)i, use->moment ? use->moment - 1 : 0);
        if (*rule && size != MP_BYTES_UNKNOWN) bytes[*rule - 1] += size;
    }
    mp_stack_lines_free(&lines);
    free(known);
    return done;
}

bool mp_device_find_hidden(const struct mp_model *model, const unsigned char *roles, struct mp_device_use *use)
{
    uint64_t bytes[RULES] = {0};
    bool done = add_all(model, roles, use, bytes);
    for (size_t i = 0; i < RULES && done; i++) {
        struct mp_hidden_allocator hidden = {rules[i].name, rules[i].advice, bytes[i]};
        if (bytes[i] && bytes[i] >= use->handed_out_bytes / LEAST_SHARE) done = mp_vec_push(&use->hidden, hidden);
    }
    return done;
}

#include <stdlib.h>
#include <string.h>

#include "analysis/device_parts.h"

/* Shared objects that only pass a request on: the driver, its runtime, the recorder. */
static const char *const passing_on[] = {"libcuda.so", "libcudart", "libcupti", "libmemprof",
                                         "libnvidia",  "libc.so",   "ld-linux"};
/* How people call those that ask. */
static const struct {
    const char *beginning, *name;
} libraries[] = {{"libc10", "PyTorch"},
                 {"libtorch", "PyTorch"},
                 {"libnccl", "NCCL"},
                 {"libcublas", "cuBLAS"},
                 {"libcudnn", "cuDNN"},
                 {"libcufft", "cuFFT"},
                 {"libcusparse", "cuSPARSE"},
                 {"libcusolver", "cuSOLVER"},
                 {"libcurand", "cuRAND"},
                 {"libnvinfer", "TensorRT"},
                 {"librmm", "RMM"},
                 {"libcudf", "cuDF"},
                 {"xla_", "XLA"},
                 {"libjax", "XLA"},
                 {"libtensorflow", "TensorFlow"},
                 {"libnvshmem", "NVSHMEM"},
                 {"libucx", "UCX"}};

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* The library that asked, by the modules of the stack from inside out; NULL: not known. */
static const char *asker(const struct mp_model *model, uint32_t stack)
{
    const char *name = NULL;
    for (; stack && !name; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != MP_NATIVE) continue;
        uint32_t module = model->frames.at[frame].raw.module;
        if (!module) continue;
        const char *path = mp_model_text(model, model->modules.at[module].path), *slash = strrchr(path, '/');
        name = slash ? slash + 1 : path;
        for (size_t i = 0; i < sizeof passing_on / sizeof *passing_on; i++)
            if (name && (!*name || begins(name, passing_on[i]))) name = NULL;
    }
    for (size_t i = 0; name && i < sizeof libraries / sizeof *libraries; i++)
        if (begins(name, libraries[i].beginning)) return libraries[i].name;
    return name;
}

static int largest_first(const void *left, const void *right)
{
    const struct mp_device_part *a = left, *b = right;
    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : strcmp(a->name, b->name);
}

/* Bytes of live blocks by asker, the largest first. */
static bool gather(const struct mp_model *model, const unsigned char *roles, uint32_t moment,
                   struct mp_device_use *found)
{
    bool done = true;
    const char **askers = calloc(model->stacks.count + 1, sizeof *askers); /* by stack, as far as asked */
    unsigned char *asked = calloc(model->stacks.count + 1, 1);
    for (size_t i = 0; askers && asked && done && i < model->blocks.count; i++) {
        unsigned role = roles[model->blocks.track[i]];
        if ((role != MP_DEVICE_ROLE_BLOCKS && role != MP_DEVICE_ROLE_POOL) || !mp_device_is_live(model, i, moment))
            continue;
        uint32_t stack = model->blocks.stack[i];
        if (!asked[stack]) askers[stack] = asker(model, stack);
        asked[stack] = 1;
        uint64_t bytes = mp_model_bytes_at(model, (uint32_t)i, moment ? moment - 1 : 0);
        done = mp_device_add_part(found, MP_PART_LIBRARY, askers[stack] ? askers[stack] : "unknown callers", bytes);
    }
    done &= askers && asked;
    free(askers);
    free(asked);
    if (found->parts.count) qsort(found->parts.at, found->parts.count, sizeof *found->parts.at, largest_first);
    return done;
}

bool mp_device_add_libraries(const struct mp_model *model, const unsigned char *roles, uint64_t bytes,
                             struct mp_device_use *use)
{
    static const char torch[] = "PyTorch";
    struct mp_device_use found = {.parts = {0}};
    bool done = gather(model, roles, use->moment, &found), has_torch = false;
    for (size_t i = 0; i < found.parts.count && done; i++) {
        const struct mp_device_part *part = &found.parts.at[i];
        bool is_torch = !strcmp(part->name, torch); /* its segments are not asked about: what is left over is its own */
        uint64_t share = is_torch ? 0 : part->bytes < bytes ? part->bytes : bytes;
        has_torch |= is_torch;
        done = mp_device_add_part(use, MP_PART_LIBRARY, part->name, share);
        bytes -= share;
    }
    mp_vec_free(&found.parts);
    return done && mp_device_add_part(use, MP_PART_LIBRARY, has_torch ? torch : "unknown callers", bytes);
}

/*
 * Modules and libraries with static variables. The stand-in's image is a text:
 *
 *     softgpu module
 *     variable NAME BYTES
 *     managed NAME BYTES
 */
#include "softgpu/driver/module.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/code.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/device.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/kernel_code.h"
#include "softgpu/driver/ledger.h"
#include "softgpu/driver/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLES   16
#define NAME        64
#define IMAGE_LEAST 64 /* an image has at least this many bytes, so these may be read */

struct module {
    size_t count;
    uint64_t addresses[VARIABLES];
    char *names[VARIABLES]; /* never freed, since records point at them */
};

static const char first_line[] = "softgpu module\n";

/* Reads a line that declares a variable; false: another line. */
static bool read_variable(const char *line, bool *managed, char name[NAME], uint64_t *bytes)
{
    char word[16];
    if (sscanf(line, "%15s %63s %" SCNu64, word, name, bytes) != 3 || !*bytes) return false;
    *managed = !strcmp(word, "managed");
    return *managed || !strcmp(word, "variable");
}

/* True for output of NVIDIA's compilers: an ELF file, a fat binary or its wrapper, PTX. Variables in it are not
 * modelled. */
static bool is_code(const char *image)
{
    static const uint32_t fat_binary = 0xba55ed50, wrapper = 0x466243b1;
    return !memcmp(image,
                   "\x7f"
                   "ELF",
                   4) ||
           !memcmp(image, &fat_binary, 4) || !memcmp(image, &wrapper, 4) || !memcmp(image, "//", 2) ||
           !memcmp(image, ".ver", 4);
}

static bool add_variable(struct module *module, CUcontext context, const char *line)
{
    bool managed;
    char name[NAME];
    uint64_t bytes;
    if (module->count == VARIABLES || !read_variable(line, &managed, name, &bytes)) return true;
    enum soft_class class = managed ? SOFT_managed_variable : SOFT_variable;
    if (!managed && !soft_take(class, context->device, bytes, bytes)) return false;
    uint64_t address = soft_new_address(bytes);
    struct soft_block *block = soft_add(class, context->device, address, bytes, NULL);
    char *kept = strdup(name);
    soft_report_memory(block, SOFT_MEMORY_ALLOCATION, managed ? SOFT_MEMORY_MANAGED_STATIC : SOFT_MEMORY_STATIC, kept);
    module->addresses[module->count] = address;
    module->names[module->count++] = kept;
    return true;
}

void soft_free_module(struct soft_block *block)
{
    const struct module *module = block->more;
    for (size_t i = 0; i < module->count; i++) {
        struct soft_block *variable = soft_find_like(SOFT_variable, module->addresses[i]);
        bool managed = variable->class == SOFT_managed_variable;
        soft_report_memory(variable, SOFT_MEMORY_RELEASE, managed ? SOFT_MEMORY_MANAGED_STATIC : SOFT_MEMORY_STATIC,
                           module->names[i]);
        if (!managed) soft_give(variable->device, variable->bytes);
        soft_free_address(variable->address, variable->bytes);
        soft_remove(variable);
    }
    soft_code_forget((void *)(uintptr_t)block->address);
    free((void *)(uintptr_t)block->address);
    soft_remove(block);
}

static CUresult load(enum soft_class class, void *to, const char *image)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    bool own = image && !strncmp(image, first_line, sizeof first_line - 1);
    if (!to || !image || (!own && !is_code(image))) return CUDA_ERROR_INVALID_IMAGE;
    struct soft_code code = soft_code_of_image(own ? NULL : image, NULL, soft_capability(), true);
    if (!code.binary) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    void *handle = malloc(16);
    struct module *module = calloc(1, sizeof *module);
    if (!handle || !module) abort();
    struct soft_block *block = soft_add(class, context->device, (uint64_t)(uintptr_t)handle, 0, context);
    block->more = module;
    soft_kernel_is(handle, &code);
    for (const char *line = own ? image + sizeof first_line - 1 : NULL; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (add_variable(module, context, line)) continue;
        soft_free_module(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *(void **)to = handle;
    return CUDA_SUCCESS;
}

static CUresult load_file(enum soft_class class, void *to, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    long length = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    char *image = length < 0 ? NULL : calloc(1, (size_t)length + IMAGE_LEAST);
    rewind(file);
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    if (image && fread(image, 1, (size_t)length, file) == (size_t)length) result = load(class, to, image);
    fclose(file);
    free(image);
    return result;
}

static CUresult unload(enum soft_class class, const void *handle)
{
    struct soft_block *block = soft_find(class, (uint64_t)(uintptr_t)handle);
    if (!block) return CUDA_ERROR_INVALID_HANDLE;
    soft_free_module(block);
    return CUDA_SUCCESS;
}

static CUresult get_global(enum soft_class class, CUdeviceptr *to, size_t *bytes, const void *handle, const char *name)
{
    struct soft_block *block = soft_find(class, (uint64_t)(uintptr_t)handle);
    if (!block) return CUDA_ERROR_INVALID_HANDLE;
    const struct module *module = block->more;
    for (size_t i = 0; i < module->count; i++) {
        if (strcmp(module->names[i], name)) continue;
        if (to) *to = module->addresses[i];
        if (bytes) *bytes = soft_find_like(SOFT_variable, module->addresses[i])->bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

ENTRY(cuModuleLoad, load_file(SOFT_module, module, fname), (CUmodule *, module), (const char *, fname))
ENTRY(cuModuleLoadData, load(SOFT_module, module, image), (CUmodule *, module), (const void *, image))
ENTRY(cuModuleLoadDataEx, load(SOFT_module, module, image), (CUmodule *, module), (const void *, image),
      (unsigned, numOptions), (int *, options), (void **, optionValues))
ENTRY(cuModuleLoadFatBinary, load(SOFT_module, module, fatCubin), (CUmodule *, module), (const void *, fatCubin))
ENTRY(cuModuleUnload, unload(SOFT_module, hmod), (CUmodule, hmod))
ENTRY(cuModuleGetGlobal_v2, get_global(SOFT_module, dptr, bytes, hmod, name), (CUdeviceptr *, dptr), (size_t *, bytes),
      (CUmodule, hmod), (const char *, name))
ENTRY(cuLibraryLoadData, load(SOFT_library, library, code), (CUlibrary *, library), (const void *, code),
      (int *, jitOptions), (void **, jitOptionsValues), (unsigned, numJitOptions), (int *, libraryOptions),
      (void **, libraryOptionValues), (unsigned, numLibraryOptions))
ENTRY(cuLibraryLoadFromFile, load_file(SOFT_library, library, fileName), (CUlibrary *, library),
      (const char *, fileName), (int *, jitOptions), (void **, jitOptionsValues), (unsigned, numJitOptions),
      (int *, libraryOptions), (void **, libraryOptionValues), (unsigned, numLibraryOptions))
ENTRY(cuLibraryUnload, unload(SOFT_library, library), (CUlibrary, library))
ENTRY(cuLibraryGetGlobal, get_global(SOFT_library, dptr, bytes, library, name), (CUdeviceptr *, dptr),
      (size_t *, bytes), (CUlibrary, library), (const char *, name))
ENTRY(cuLibraryGetManaged, get_global(SOFT_library, dptr, bytes, library, name), (CUdeviceptr *, dptr),
      (size_t *, bytes), (CUlibrary, library), (const char *, name))

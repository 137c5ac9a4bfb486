/*
 * libFuzzer target for the data of a process that `memprof attach` reads. The input is a mapped ELF file with its
 * symbols and unwind tables. The same bytes are a stack in its code and Python's code objects.
 */
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/attach_python.h"
#include "attach/attach_target.h"
#include "attach/attach_unwind.h"
#include "wire/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* libelf 0.188 forgets some 200 bytes in one of 800 damaged files. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libelf";
}

enum { BASE = 1 << 24, STACK = 4096, FRAMES = 64, OBJECTS = 64 };

static void read_symbols(struct mp_attach_module *module)
{
    static const char *const names[] = {"_ZN3c108free_cpuEPv", "_ZN3c109alloc_cpuEm", "_PyRuntime", ""};
    uint64_t address, bytes, offset, returns[16];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mp_attach_symbol(module, names[i], &address, &bytes)) {
            (void)mp_attach_file_offset(module, address, &offset);
            (void)mp_attach_returns(module, address, bytes, returns, 16);
        }
}

/* The words of the input are return addresses: every other one in the module. */
static void unwind(struct mp_attach_target *target, const uint8_t *data, size_t size)
{
    const struct mp_attach_module *module = target->modules.at[0];
    struct mp_attach_native frames[FRAMES];
    uint64_t stack[STACK / sizeof(uint64_t)] = {0}, extent = module->end - module->start;
    bool cut;
    for (size_t i = 0; i < STACK / sizeof(uint64_t) && (i + 1) * sizeof(uint64_t) <= size; i++) {
        memcpy(&stack[i], data + size - (i + 1) * sizeof(uint64_t), sizeof(uint64_t));
        if (i % 2 && extent) stack[i] = module->start + stack[i] % extent;
    }
    struct mp_attach_event event = {.sp = BASE, .bp = BASE + 64, .stack_bytes = STACK};
    for (size_t i = 1; i < FRAMES; i += 2) {
        event.ip = stack[i];
        (void)mp_attach_unwind(target, &event, stack, frames, FRAMES, &cut);
    }
}

static void read_python(struct mp_attach_target *target, const uint8_t *data, size_t size)
{
    static struct mp_attach_code code;
    static uint64_t objects[OBJECTS * 64];
    for (unsigned minor = MP_PYTHON_MINOR_FIRST; minor <= MP_PYTHON_MINOR_LAST; minor++) {
        const struct mp_python_layout *layout = mp_python_layout_find(minor, false);
        if (!layout) continue;
        /* Each third word leads back into these objects. */
        for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
            objects[i] = 0;
            memcpy(&objects[i], data + i * 8 % size, size - i * 8 % size < 8 ? size - i * 8 % size : 8);
            if (i % 3 == 0) objects[i] = (uint64_t)(uintptr_t)(objects + objects[i] % (OBJECTS * 32));
        }
        const struct mp_attach_interpreter python = {.layout = layout};
        for (size_t i = 0; i < OBJECTS; i++) {
            const char *at = (const char *)(objects + i * 8);
            uint64_t name, file, lines;
            uint32_t first;
            memcpy(&name, at + layout->code_name, sizeof name);
            memcpy(&file, at + layout->code_file, sizeof file);
            memcpy(&lines, at + layout->code_lines, sizeof lines);
            memcpy(&first, at + layout->code_first_line, sizeof first);
            const struct mp_attach_frame frame = {(uint64_t)(uintptr_t)at, objects[i],
                                                  mp_attach_tag(name, file, lines, first), 0};
            (void)mp_attach_describe(target, &python, &frame, &code);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct mp_mapping mapping = {.start = BASE, .end = BASE + 4096, .permissions = "r-xp", .path = "/libc10.so"};
    struct mp_attach_target target = {.pid = (uint32_t)getpid(), .thread = (uint32_t)getpid(), .pidfd = -1};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (!size || fd < 0 || write(fd, data, size) != (ssize_t)size) {
        if (fd >= 0) close(fd);
        return 0;
    }
    struct mp_mapping code = mapping;
    Elf64_Phdr segment;
    for (size_t at = 64; at + sizeof segment <= size && at < 1024; at += sizeof segment) {
        memcpy(&segment, data + at, sizeof segment);
        if (segment.p_type == PT_LOAD && segment.p_flags & PF_X) code.offset = segment.p_offset & ~UINT64_C(4095);
    }
    struct mp_attach_module *module = mp_mapped_file_module(fd, &code);
    if (module) {
        mp_vec_add(&target.modules, module);
        read_symbols(module);
        target.thread = UINT32_MAX; /* no address makes it read the maps of this process */
        unwind(&target, data, size);
        target.thread = target.pid;
    }
    read_python(&target, data, size);
    mp_attach_target_close(&target);
    return 0;
}

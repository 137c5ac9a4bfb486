/* A torch on disk: the functions that can be hooked, and the parts that the shim knows. */
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/doctor/doctor_parts.h"

/* ---- hooks ---- */

static const struct mp_hook {
    const char *symbol, *meaning;
} reports[] = {{"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", "of 2.x"},
               {"_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE", "of 1.10 to 1.13"},
               {"_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE", "of 1.9"}},
  nodes[] = {
      {"_ZN2at15sequence_number17get_and_incrementEv", "at::sequence_number::get_and_increment"},
      {"_ZN2at14RecordFunction15currentThreadIdEv", "at::RecordFunction::currentThreadId"},
      {"_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferE"
       "RKS2_INS0_10ReadyQueueEE",
       "torch::autograd::Engine::evaluate_function"}};

/* The functions that a shared object defines: a bit for each. */
static unsigned hooks_of(const char *path, const struct mp_hook *hooks, size_t count)
{
    unsigned found = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    elf_version(EV_CURRENT);
    Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
    for (Elf_Scn *section = NULL; elf && (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM || !header.sh_entsize) continue;
        Elf_Data *data = elf_getdata(section, NULL);
        for (size_t i = 0; data && i < header.sh_size / header.sh_entsize; i++) {
            GElf_Sym symbol;
            const char *name = gelf_getsym(data, (int)i, &symbol) && symbol.st_shndx != SHN_UNDEF
                                   ? elf_strptr(elf, header.sh_link, symbol.st_name)
                                   : NULL;
            for (size_t j = 0; name && j < count; j++)
                if (!strcmp(name, hooks[j].symbol)) found |= 1u << j;
        }
    }
    if (elf) elf_end(elf);
    if (fd >= 0) close(fd);
    return found;
}

/* The same for one of torch's libraries. Wheels have it in torch's folder, distributions among their own libraries. */
static unsigned hooks_in(const char *folder, const char *library, const struct mp_hook *hooks, size_t count)
{
    static const char *const elsewhere[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"};
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/lib/%s", folder, library);
    unsigned found = hooks_of(path, hooks, count);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere && !found; i++) {
        snprintf(path, sizeof path, "%s/%s", elsewhere[i], library);
        found = hooks_of(path, hooks, count);
    }
    return found;
}

static bool check_hooks(struct mp_checks *checks, const char *folder, const char *version)
{
    enum { REPORTS = sizeof reports / sizeof *reports, NODES = sizeof nodes / sizeof *nodes };
    unsigned found = hooks_in(folder, "libc10.so", reports, REPORTS);
    unsigned missing = ~hooks_in(folder, "libtorch_cpu.so", nodes, NODES) & ((1u << NODES) - 1);
    if (!*version) version = "version unknown";
    if (!found) {
        struct mp_check *check =
            mp_doctor_add(checks, "torch", MP_CHECK_LIMITED, "%s, no hook found in libc10", version);
        mp_doctor_advise(check,
                         "its tensors are not seen: libc10 is not where it mostly is (%s), or reports by a "
                         "function that this version does not know",
                         folder);
        return check;
    }
    struct mp_check *check =
        mp_doctor_add(checks, "torch", missing ? MP_CHECK_LIMITED : MP_CHECK_OK, "%s, hooks %s%s", version,
                      reports[31 - __builtin_clz(found)].meaning, missing ? "" : ", forward lines for backward");
    if (missing)
        mp_doctor_advise(check,
                         "what backward allocates has no forward line: libtorch_cpu, where it mostly is, has no %s",
                         nodes[__builtin_ctz(missing)].meaning);
    return check;
}

/* ---- the shim ---- */

static bool has_text(const char *folder, const char *file, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *source = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (source && !found && getline(&line, &room, source) > 0)
        found = strstr(line, text);
    free(line);
    if (source) fclose(source);
    return found;
}

/* The names in torch's own sources on which the shim (python/libmemprof_torch) relies. */
static struct mp_check *check_shim(struct mp_checks *checks, const char *folder)
{
    static const struct {
        const char *what, *file, *text;
    } parts[] = {{"modules", "nn/modules/module.py", "_call_impl"},
                 {"regions", "autograd/profiler.py", "class record_function"},
                 {"steps", "optim/optimizer.py", "Optimizer.step#"},
                 {"roles", "nn/parameter.py", "class Parameter"}};
    char known[160] = "", missing[160] = "";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *list = has_text(folder, parts[i].file, parts[i].text) ? known : missing;
        size_t used = strlen(list);
        snprintf(list + used, sizeof known - used, "%s%s", used ? ", " : "", parts[i].what);
    }
    /* Needed only with CUDA, so a version without CUDA lacks nothing. */
    bool history = has_text(folder, "cuda/memory.py", "max_entries");
    struct mp_check *check = mp_doctor_add(checks, "torch shim", *missing ? MP_CHECK_LIMITED : MP_CHECK_OK, "%s%s",
                                           *known ? known : "nothing", history ? ", history of CUDA" : "");
    if (*missing) mp_doctor_advise(check, "without %s: not as this version of memprof knows torch", missing);
    return check;
}

bool mp_doctor_torch(struct mp_checks *checks, const char *folder, const char *version)
{
    return check_hooks(checks, folder, version) && check_shim(checks, folder);
}

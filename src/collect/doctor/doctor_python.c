/* The Python on the search path, and its torch. torch is examined by its files, since importing it takes seconds. */
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/doctor/doctor_python.h"
#include "wire/c10.h"
#include "wire/config.h"

/* Prints minor version, version and path of this Python, "free-threaded" or "", and torch's folder and version. */
static char script[] = "import sys, importlib.util as u, os, sysconfig\n"
                       "s = u.find_spec('torch')\n"
                       "f = os.path.dirname(s.origin) if s and s.origin else ''\n"
                       "v = {}\n"
                       "try: exec(open(os.path.join(f, 'version.py')).read(), v)\n"
                       "except Exception: pass\n"
                       "print(sys.version_info[1], '.'.join(map(str, sys.version_info[:3])),\n"
                       "      int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))), sep='\\n')\n"
                       "print(sys.executable, f, v.get('__version__', ''), sep='\\n')\n";

/* ---- torch's hooks ---- */

struct hook {
    const char *symbol, *meaning;
};

static const struct hook reports[] = {{MP_C10_USAGE_UNSIGNED, "of 2.x"},
                                      {MP_C10_USAGE_SIGNED, "of 1.10 to 1.13"},
                                      {MP_C10_USAGE_OLD, "of 1.9"},
                                      {0}},
                         nodes[] = {{"_ZN2at15sequence_number17get_and_incrementEv", ""},
                                    {"_ZN2at14RecordFunction15currentThreadIdEv", ""},
                                    {"_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_"
                                     "9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE",
                                     ""},
                                    {0}};

/* The functions in `hooks` that a shared object defines, one bit each. */
static unsigned hooks_of(const char *path, const struct hook *hooks)
{
    unsigned found = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    elf_version(EV_CURRENT);
    Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
    for (Elf_Scn *section = NULL; elf && (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        GElf_Sym symbol;
        if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM || !header.sh_entsize) continue;
        Elf_Data *data = elf_getdata(section, NULL);
        for (size_t i = 0; data && i < header.sh_size / header.sh_entsize; i++) {
            if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF) continue;
            const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
            for (size_t j = 0; name && hooks[j].symbol; j++)
                if (!strcmp(name, hooks[j].symbol)) found |= 1u << j;
        }
    }
    if (elf) elf_end(elf);
    if (fd >= 0) close(fd);
    return found;
}

/* Does the same for one of torch's libraries. Wheels have the library in torch's folder, distributions in their own
 * folders of libraries. */
static unsigned hooks_in(const char *folder, const char *library, const struct hook *hooks)
{
    static const char *const elsewhere[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"};
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/lib/%s", folder, library);
    unsigned found = hooks_of(path, hooks);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere && !found; i++) {
        snprintf(path, sizeof path, "%s/%s", elsewhere[i], library);
        found = hooks_of(path, hooks);
    }
    return found;
}

static void check_torch(struct mp_checks *checks, const char *folder, const char *version)
{
    unsigned found = hooks_in(folder, "libc10.so", reports), backward = hooks_in(folder, "libtorch_cpu.so", nodes);
    if (!*version) version = "version unknown";
    if (!found)
        mp_doctor_add(checks, "torch", MP_CHECK_LIMITED,
                      "memprof cannot see its tensors: libc10 is not in its usual folder, or reports through a "
                      "function that this memprof does not know",
                      "%s, no hook found in libc10 of %s", version, folder);
    else if (backward != 7)
        mp_doctor_add(checks, "torch", MP_CHECK_LIMITED,
                      "blocks from backward have no forward line: libtorch_cpu is not in its usual folder, or lacks "
                      "the functions that this memprof knows",
                      "%s, hooks %s", version, reports[31 - __builtin_clz(found)].meaning);
    else
        mp_doctor_add(checks, "torch", MP_CHECK_OK, NULL, "%s, hooks %s, forward lines for backward", version,
                      reports[31 - __builtin_clz(found)].meaning);
}

/* ---- Python ---- */

static void run_script(FILE *out, const void *context)
{
    (void)context; /* unused */
    if (dup2(fileno(out), STDOUT_FILENO) >= 0 && freopen("/dev/null", "r", stdin))
        execlp("python3", "python3", "-c", script, (char *)NULL);
    _exit(127);
}

void mp_doctor_python(struct mp_checks *checks, char *site)
{
    char answer[MP_ANSWER_ROOM], *rest = answer, *fields[6], none[] = "", advice[160];
    if (!mp_doctor_ask(run_script, NULL, answer)) {
        mp_doctor_add(checks, "python", MP_CHECK_ABSENT, "programs in other languages are recorded all the same",
                      "no python3 on the search path");
        return;
    }
    for (size_t i = 0; i < 6; i++) {
        fields[i] = rest ? strsep(&rest, "\n") : NULL;
        if (!fields[i]) fields[i] = none;
    }
    int minor = atoi(fields[0]);
    bool known = minor >= MP_PYTHON_MINOR_FIRST && minor <= MP_PYTHON_MINOR_LAST;
    snprintf(advice, sizeof advice,
             "its frames are unknown to this version of memprof: stacks are native only (known: 3.%d to 3.%d)",
             MP_PYTHON_MINOR_FIRST, MP_PYTHON_MINOR_LAST);
    mp_doctor_add(checks, "python", known ? MP_CHECK_OK : MP_CHECK_LIMITED, known ? NULL : advice, "%s%s, %s",
                  fields[1], atoi(fields[2]) ? " free-threaded" : "", fields[3]);
    if (!*fields[4]) return;
    snprintf(site, PATH_MAX, "%s", fields[4]);
    char *slash = strrchr(site, '/');
    if (slash) *slash = '\0';
    check_torch(checks, fields[4], fields[5]);
}

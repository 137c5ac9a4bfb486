#include "exchange/common/public_names.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include "base/member.h"
#include "base/words.h"

/* ---- the list ---- */

static const uint32_t listed[] = {
#include "exchange/common/public_names.inc"
};

/* Whether the list has a name (`length` bytes) of that kind; tools/public-names documents the kinds. */
static bool is_listed(char kind, const char *name, size_t length)
{
    const char head[] = {kind, ':'};
    uint32_t sum = (uint32_t)crc32_z(crc32(0, (const unsigned char *)head, 2), (const unsigned char *)name, length);
    size_t low = 0, high = sizeof listed / sizeof *listed;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (listed[middle] < sum)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof listed / sizeof *listed && listed[low] == sum;
}

static bool is_one_of(const char *text, size_t length, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == length && !memcmp(*words, text, length)) return true;
    return false;
}

/* Whether `text` matches `pattern`, in which # stands for one or more digits. */
static bool is_like(const char *text, const char *pattern)
{
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*text++ != *pattern) return false;
            continue;
        }
        size_t digits = strspn(text, "0123456789");
        if (!digits) return false;
        text += digits;
    }
    return !*text;
}

static bool is_like_one(const char *text, const char *const *patterns)
{
    for (; *patterns; patterns++)
        if (is_like(text, *patterns)) return true;
    return false;
}

/* ---- files and libraries ---- */

/* The beginning of a standard library path in "/usr/lib/python3.11/json/encoder.py": behind the version. */
static const char *behind_version(const char *path)
{
    static const char *const folders[] = {"/lib/python3.", "/lib64/python3."};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *at = strstr(path, folders[i]);
        if (!at) continue;
        at += strlen(folders[i]);
        size_t digits = strspn(at, "0123456789");
        if (digits && at[digits] == '/') return at + digits + 1;
    }
    return NULL;
}

static const char *python_part(const char *path)
{
    static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *at = strstr(path, folders[i]), *name = at ? at + strlen(folders[i]) : NULL;
        if (at) return is_listed('f', name, strlen(name)) ? at : NULL;
    }
    const char *name = behind_version(path);
    if (name && is_listed('f', name, strlen(name)))
        return strstr(path, "/lib64/") ? strstr(path, "/lib64/") : strstr(path, "/lib/");
    bool is_torch = !strncmp(path, "torch/", strlen("torch/")); /* PyTorch's profiler gives its own files like this */
    return is_torch && is_listed('f', path, strlen(path)) ? path : NULL;
}

/* The beginning of a source path of PyTorch or the C++ library, on whatever machine it was built. */
static const char *native_part(const char *path)
{
    static const char *const folders[] = {"/aten/src/", "/torch/csrc/", "/c10/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        for (const char *at = path; (at = strstr(at, folders[i])); at++)
            if (is_listed('f', at + 1, strlen(at + 1))) return at;
    const char *at = strstr(path, "/include/c++/"), *name = at ? strchr(at + strlen("/include/c++/"), '/') : NULL;
    if (!name) return NULL;
    /* "include/c++/bits/stl_vector.h": the list omits the version. */
    char text[256] = "include/c++";
    size_t length = strlen(name);
    if (length >= sizeof text - strlen(text)) return NULL;
    memcpy(text + strlen(text), name, length + 1);
    size_t version = (size_t)(name - at) - strlen("/include/c++/");
    bool is_version = strspn(at + strlen("/include/c++/"), "0123456789.") == version;
    return is_version && is_listed('f', text, strlen(text)) ? at : NULL;
}

/* "<frozen importlib._bootstrap>": a module of the standard library. */
static bool is_frozen(const char *path)
{
    static const char *const modules[] = {"importlib._bootstrap",
                                          "importlib._bootstrap_external",
                                          "runpy",
                                          "os",
                                          "site",
                                          "codecs",
                                          "io",
                                          "abc",
                                          "zipimport",
                                          "posixpath",
                                          "genericpath",
                                          "stat",
                                          NULL};
    static const char head[] = "<frozen ";
    size_t length = strlen(path);
    if (strncmp(path, head, sizeof head - 1) || path[length - 1] != '>') return false;
    return is_one_of(path + sizeof head - 1, length - sizeof head, modules);
}

const char *mp_public_path(const char *path)
{
    static const char *const made_up[] = {
        "<string>", "<stdin>", "<eval_with_key>", "<eval_with_key>.#", "<__array_function__ internals>", NULL};
    if (*path == '<') return is_like_one(path, made_up) || is_frozen(path) ? path : NULL;
    const char *found = *path ? python_part(path) : NULL;
    return found || !*path ? found : native_part(path);
}

static bool is_numbered(const char *text)
{
    return strspn(text, ".-0123456789") == strlen(text);
}

/* PyTorch's own extension lies in its folder; others may have the same name. */
static bool is_extension_of_torch(const char *path, const char *name)
{
    static const char folder[] = "/torch/";
    static const char *const names[] = {"_C.so", "_C.cpython-#-x86_64-linux-gnu.so",
                                        "_C.cpython-#-aarch64-linux-gnu.so", NULL};
    return name - path >= (ptrdiff_t)sizeof folder - 1 &&
           !strncmp(name - (sizeof folder - 1), folder, sizeof folder - 1) && is_like_one(name, names);
}

const char *mp_public_library(const char *path)
{
    static const char *const others[] = {"python",
                                         "python#",
                                         "python#.#",
                                         "linux-vdso.so.#",
                                         "memprof",
                                         "libmemprof.so",
                                         "libmemprof-hooks.so",
                                         "libpython#.#.so.#.#",
                                         "libpython#.so",
                                         NULL};
    /* From packages that are not in Debian, or have other names there. */
    static const char *const more[] = {"libmkl_core.so",
                                       "libmkl_rt.so",
                                       "libmkl_intel_lp64.so",
                                       "libmkl_intel_thread.so",
                                       "libmkl_gnu_thread.so",
                                       "libopenblas.so",
                                       "libiomp5.so",
                                       "libcudnn.so",
                                       "libcudnn_ops_infer.so",
                                       "libcudnn_cnn_infer.so",
                                       "libcudnn_cnn_train.so",
                                       "libcudnn_graph.so",
                                       "libcudnn_ops.so",
                                       "libcudnn_cnn.so",
                                       "libcudnn_adv.so",
                                       "libcudnn_engines_precompiled.so",
                                       "libcudnn_engines_runtime_compiled.so",
                                       "libcudnn_heuristic.so",
                                       "libnvrtc.so",
                                       "libcublasLt.so",
                                       "libtorch_cuda.so",
                                       "libc10_cuda.so",
                                       "libnvToolsExt.so",
                                       "libnvJitLink.so",
                                       NULL};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *ending = strstr(name, ".so");
    if (is_like_one(name, others) || is_extension_of_torch(path, name)) return name;
    if (!ending || !is_numbered(ending + 3)) return NULL;
    size_t length = (size_t)(ending + 3 - name);
    return is_listed('l', name, length) || is_one_of(name, length, more) ? name : NULL;
}

/* ---- functions ---- */

static bool is_word(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

/* C++ words that are no names, and those that compilers and demanglers add. */
static bool is_of_language(const char *word, size_t length)
{
    static const char *const words[] = {
        "void",   "bool",      "char",       "short",    "int",     "long",     "float",   "double",
        "const",  "volatile",  "unsigned",   "signed",   "auto",    "true",     "false",   "operator",
        "lambda", "anonymous", "namespace",  "decltype", "clone",   "isra",     "part",    "constprop",
        "cold",   "lto_priv",  "__float128", "size_t",   "virtual", "thunk",    "to",      "non",
        "new",    "delete",    "unnamed",    "ul",       "ull",     "u",        "l",       "uint8_t",
        "int8_t", "uint16_t",  "int16_t",    "uint32_t", "int32_t", "uint64_t", "int64_t", NULL};
    return is_one_of(word, length, words);
}

static bool is_namespace(const char *word, size_t length)
{
    static const char *const names[] = {"at",     "c10",  "torch", "std",    "pybind11",   "__gnu_cxx", "aten",
                                        "caffe2", "c10d", "cub",   "thrust", "__cxxabiv1", "__detail",  NULL};
    return is_one_of(word, length, names);
}

bool mp_public_function(const char *name)
{
    size_t plain = 0;
    while (is_word(name[plain]))
        plain++;
    if (!name[plain]) return is_listed('c', name, plain);
    /* "clone.isra.0": a compiler's version of an exported function. */
    static const char *const made[] = {".cold",        ".isra.#",      ".part.#",           ".constprop.#",
                                       ".isra.#.cold", ".part.#.cold", ".constprop.#.cold", NULL};
    if (is_like_one(name + plain, made)) return is_listed('c', name, plain);
    bool is_scoped = false;
    for (const char *at = name; *at;) {
        size_t length = 0;
        while (is_word(at[length]))
            length++;
        if (!length) {
            if (!strchr(" :<>(),*&~[]{}.#+-=!|^%/'", *at)) return false;
            at++;
            continue;
        }
        bool is_inner = at > name + 1 && at[-1] == ':' && at[-2] == ':';
        bool is_outer = !is_inner && !strncmp(at + length, "::", 2);
        bool is_number = strspn(at, "0123456789") + strspn(at + strspn(at, "0123456789"), "ulUL") == length;
        if (is_outer && !is_namespace(at, length)) return false;
        is_scoped |= is_outer;
        if (!is_number && !is_of_language(at, length) && !(is_inner || is_outer || at[-1] == '~')) return false;
        if (!is_number && !is_of_language(at, length) && !is_listed('w', at, length)) return false;
        at += length;
    }
    return is_scoped;
}

bool mp_public_python(const char *name)
{
    static const char *const nameless[] = {"<module>",  "<lambda>",  "<listcomp>", "<dictcomp>",
                                           "<setcomp>", "<genexpr>", "<locals>",   NULL};
    for (const char *at = name;; at++) {
        size_t length = strcspn(at, ".");
        if (!is_one_of(at, length, nameless) && !is_listed('p', at, length)) return false;
        at += length;
        if (!*at) return true;
    }
}

/* ---- memprof's own names, and the rest ---- */

bool mp_public_thread(const char *name)
{
    static const char *const known[] = {"python",
                                        "python#",
                                        "python#.#",
                                        "pt_main_thread",
                                        "pt_autograd_#",
                                        "pt_data_worker",
                                        "pt_data_pin",
                                        "pt_nccl_watchdg",
                                        "pt_nccl_heartbt",
                                        "pt_elastic",
                                        "pt_tcpstore",
                                        "pt_gloo_runloop",
                                        "cuda-EvtHandlr",
                                        "cuda#",
                                        "OpenMP",
                                        "ranges #",
                                        NULL};
    return is_like_one(name, known);
}

static bool is_own_word(const char *word, size_t length)
{
    char lower[32];
    if (length >= sizeof lower) return false;
    for (size_t i = 0; i < length; i++)
        lower[i] = (char)tolower((unsigned char)word[i]);
    return is_listed('n', lower, length);
}

bool mp_public_words(const char *text)
{
    for (const char *at = text; *at;) {
        size_t letters = 0, digits = strspn(at, "0123456789");
        while (isalpha((unsigned char)at[letters]))
            letters++;
        if (letters && !is_own_word(at, letters)) return false;
        if (!letters && !digits &&
            ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f || strchr("_/\\@\"`<>", *at)))
            return false;
        at += letters ? letters : digits ? digits : 1;
    }
    return true;
}

bool mp_public_setting(const char *key, size_t length)
{
    static const char *const keys[] = {"native", "python",     "free_stacks",    "torch",         "cpu_tensors",
                                       "cupti",  "hooks",      "cpu_throughout", "wait",          "follow",
                                       "paused", "max_events", "shim",           "torch_history", "sample",
                                       "depth",  "live_each",  "live_steps",     "holders",       NULL};
    return is_one_of(key, length, keys);
}

bool mp_public_role(const char *role)
{
    static const char *const roles[] = {"",
                                        "chief",
                                        "evaluator",
                                        "master",
                                        "ps",
                                        "trainer",
                                        MP_ROLE_LOADER_WORKER,
                                        MP_ROLE_POOL_WORKER,
                                        MP_ROLE_WORKER,
                                        MP_ROLE_FORK_SERVER,
                                        MP_ROLE_TRACKER,
                                        MP_ROLE_FORKED,
                                        NULL};
    return is_one_of(role, strlen(role), roles);
}

bool mp_public_device(const char *name)
{
    for (unsigned type = 0; type < 64; type++) {
        const char *known = mp_device_type_name(type);
        size_t length = strlen(known);
        if (!strncmp(name, known, length) && (!name[length] || is_like(name + length, ":#"))) return true;
    }
    return false;
}

/* "H200", "80GB", "SXM5": a few letters, a number, a few letters. */
static bool is_type_number(const char *word, size_t length)
{
    size_t before = 0, digits = 0, after = 0;
    while (before < length && isupper((unsigned char)word[before]))
        before++;
    while (before + digits < length && isdigit((unsigned char)word[before + digits]))
        digits++;
    while (before + digits + after < length && isalpha((unsigned char)word[before + digits + after]))
        after++;
    return before + digits + after == length && before <= 3 && digits && digits <= 5 && after <= 3;
}

bool mp_public_model(const char *name)
{
    for (const char *at = name;;) {
        at += strspn(at, " -()");
        if (!*at) return true;
        size_t length = strcspn(at, " -()");
        if (!is_type_number(at, length) && !is_own_word(at, length)) return false;
        at += length;
    }
}

bool mp_public_tensor(const char *name, size_t length)
{
    static const char *const names[] = {
        "weight",         "bias",         "grad",    "running_mean", "running_var",    "num_batches_tracked",
        "in_proj_weight", "in_proj_bias", "exp_avg", "exp_avg_sq",   "max_exp_avg_sq", "momentum_buffer",
        "square_avg",     "step"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && !memcmp(names[i], name, length)) return true;
    return false;
}

#include "exchange/public_names.h"

#include <ctype.h>
#include <string.h>

static bool begins_with_one(const char *text, const char *const *beginnings)
{
    for (; *beginnings; beginnings++)
        if (!strncmp(text, *beginnings, strlen(*beginnings))) return true;
    return false;
}

/* Where the path of a Python module begins: "/lib/python3.11/json/..." or "/site-packages/torch/...". */
static const char *python_part(const char *path)
{
    static const char *const packages[] = {"torch/",  "torchvision/", "torchaudio/", "torchgen/", "functorch/",
                                           "triton/", "numpy/",       "nvidia/",     NULL};
    static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *at = strstr(path, folders[i]);
        if (at) return begins_with_one(at + strlen(folders[i]), packages) ? at : NULL;
    }
    if (!strncmp(path, "torch/", strlen("torch/"))) return path; /* as PyTorch's profiler has its own */
    const char *library = strstr(path, "/lib/python3");
    return library ? library : strstr(path, "/lib64/python3");
}

/* Where the source of PyTorch, Python or the C++ library begins, on whatever machine it was built. */
static const char *native_part(const char *path)
{
    static const char *const folders[] = {"/aten/src/ATen/", "/torch/csrc/", "/c10/",    "/torch/include/",
                                          "/include/c++/",   "/sysdeps/",    "/glibc-",  "/Objects/",
                                          "/Python/",        "/nptl/",       "/stdlib/", "/pybind11/"};
    const char *dot = strrchr(path, '.');
    if (!dot || !strcmp(dot, ".py")) return NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *at = strstr(path, folders[i]);
        if (at) return at;
    }
    return NULL;
}

const char *mp_public_path(const char *path)
{
    static const char *const made_up[] = {
        "<frozen ", "<string>", "<stdin>", "<ipython-input", "<eval_with_key>", "<__array_function__", "<attrs ", NULL};
    if (*path == '<') return begins_with_one(path, made_up) ? path : NULL;
    const char *found = *path ? python_part(path) : NULL;
    return found || !*path ? found : native_part(path);
}

const char *mp_public_library(const char *path)
{
    static const char *const beginnings[] = {
        "ld-linux",   "libc.so",   "libc-2",    "libm.so",     "libpthread",  "libdl",    "librt",     "libstdc++",
        "libgcc_s",   "libpython", "python",    "libtorch",    "libc10",      "libcuda",  "libcudart", "libcublas",
        "libcudnn",   "libcufft",  "libcurand", "libcusparse", "libcusolver", "libcupti", "libnccl",   "libnv",
        "libmemprof", "libgomp",   "libiomp",   "libmkl",      "libopenblas", "libblas",  "liblapack", "libshm",
        "libcaffe2",  "_C.",       "memprof",   "linux-vdso",  "_ctypes.",    NULL};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return begins_with_one(name, beginnings) ? name : NULL;
}

static bool is_word(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

/* True where every type in a template's arguments or parameters is one of those that `known` begins. */
static bool has_known_types_only(const char *name, const char *const *known)
{
    static const char *const words[] = {"void",      "bool",   "char",      "short",      "int",    "long", "float",
                                        "double",    "const",  "unsigned",  "signed",     "auto",   "true", "false",
                                        "operator",  "lambda", "anonymous", "namespace",  "clone",  "isra", "part",
                                        "constprop", "cold",   "decltype",  "__float128", "size_t", NULL};
    for (const char *at = name + strcspn(name, "<("); *at;) {
        size_t length = 0;
        while (is_word(at[length]))
            length++;
        bool is_root = length && at[-1] != ':' && at[-1] != '~' && !isdigit((unsigned char)*at);
        if (is_root && !begins_with_one(at, known)) {
            bool is_known = false;
            for (const char *const *word = words; *word; word++)
                is_known |= strlen(*word) == length && !strncmp(*word, at, length);
            if (!is_known) return false;
        }
        at += length ? length : 1;
    }
    return true;
}

bool mp_public_function(const char *name)
{
    static const char *const types[] = {"at::",        "c10::",  "torch::",  "std::", "pybind11::",
                                        "__gnu_cxx::", "aten::", "caffe2::", "_Py",   "Py",
                                        "cuda",        "CU",     "THP",      "__nv_", NULL};
    static const char *const plain[] = {"__libc_", "cu", "nccl", "_start", "clone", "start_thread", NULL};
    static const char *const results[] = {"void ", "bool ", "int ", "long ", "auto ", NULL};
    if (*name == '<') return true; /* <module>, <lambda> */
    const char *from = name;
    if (begins_with_one(name, results)) from = strchr(name, ' ') + 1;
    return (begins_with_one(from, types) || begins_with_one(from, plain)) && has_known_types_only(from, types);
}

bool mp_public_thread(const char *name)
{
    static const char *const beginnings[] = {"pt_", "python", "cuda", "nccl", "OpenMP", NULL};
    return begins_with_one(name, beginnings);
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

#include "capture/python/runtime.h"

#include <dlfcn.h>
#include <string.h>

static bool find_symbol(const struct mp_python_runtime *runtime, const char *name, void *slot)
{
    void *found = mp_loaded_symbol(&runtime->library, name);
    memcpy(slot, &found, sizeof found);
    return found != NULL;
}

static unsigned read_number(const char **text)
{
    unsigned number = 0;
    for (; **text >= '0' && **text <= '9'; ++*text)
        number = number * 10 + (unsigned)(**text - '0');
    return number;
}

/* Reads versions such as "3.13.0 experimental free-threading build (main, ...". */
static bool read_version(struct mp_python_runtime *runtime)
{
    const char *(*version)(void);
    if (!find_symbol(runtime, "Py_GetVersion", &version)) return false;
    const char *text = version();
    bool free_threaded = strstr(text, "free-threading") != NULL;
    runtime->major = read_number(&text);
    if (*text == '.') text++;
    runtime->minor = read_number(&text);
    runtime->layout = runtime->major == 3 ? mp_python_layout_find(runtime->minor, free_threaded) : NULL;
    return true;
}

/* Up to 3.11, _PyThreadState_UncheckedGet() returns the state of the thread that holds the GIL. From 3.12 on it returns
 * the calling thread's state while that thread is attached. In both cases the result equals the calling thread's state
 * exactly while this thread may run Python code. */
static bool find_accessors(struct mp_python_runtime *runtime)
{
    return find_symbol(runtime, "PyGILState_GetThisThreadState", &runtime->own_thread) &&
           (find_symbol(runtime, "PyThreadState_GetUnchecked", &runtime->attached_thread) ||
            find_symbol(runtime, "_PyThreadState_UncheckedGet", &runtime->attached_thread)) &&
           find_symbol(runtime, "PyCode_Type", &runtime->code_type) &&
           find_symbol(runtime, "PyUnicode_Type", &runtime->string_type) &&
           find_symbol(runtime, "PyBytes_Type", &runtime->bytes_type);
}

void mp_python_runtime_keep(const struct mp_python_runtime *runtime)
{
    Dl_info info;
    if (dladdr(runtime->code_type, &info) && info.dli_fname &&
        !dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
        dlerror(); /* clears the message of our failure, which the program must not see */
}

bool mp_python_runtime_find(struct mp_python_runtime *runtime)
{
    memset(runtime, 0, sizeof *runtime);
    if (!mp_loaded_with("Py_IsInitialized", NULL, &runtime->library)) return false;
    bool present = find_symbol(runtime, "Py_IsInitialized", &runtime->is_initialized) && read_version(runtime);
    if (present && !find_accessors(runtime)) runtime->layout = NULL;
    const void *published = NULL;
    if (runtime->layout && find_symbol(runtime, "_PyRuntime", &published) &&
        !mp_python_layout_agrees(runtime->layout, published))
        runtime->layout = NULL;
    if (runtime->layout) {
        find_symbol(runtime, "_PyEval_EvalFrameDefault", &runtime->interpreter_loop);
        find_symbol(runtime, "Py_AddPendingCall", &runtime->add_pending_call);
    }
    return present;
}

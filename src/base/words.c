#include "base/words.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define NAME(table, index) ((index) < sizeof(table) / sizeof *(table) && (table)[index] ? (table)[index] : "?")

const char *mp_event_type_name(unsigned type)
{
    static const char *const names[] = {"none",         "alloc",      "free", "resize",   "oom",   "step",
                                        "region_begin", "region_end", "mark", "reserved", "start", "stop"};
    return NAME(names, type);
}

const char *mp_signal_name(unsigned number)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT", [SIGILL] = "ILL",   [SIGTRAP] = "TRAP",
        [SIGABRT] = "ABRT", [SIGBUS] = "BUS",   [SIGFPE] = "FPE",   [SIGKILL] = "KILL", [SIGUSR1] = "USR1",
        [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2", [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
        [SIGCHLD] = "CHLD", [SIGCONT] = "CONT", [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP", [SIGURG] = "URG",
        [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGPROF] = "PROF", [SIGIO] = "IO",     [SIGPWR] = "PWR",
        [SIGSYS] = "SYS"};
    return number < sizeof names / sizeof *names ? names[number] : NULL;
}

const char *mp_layer_name(unsigned layer)
{
    static const char *const names[] = {"driver", "torch", "app", "malloc"};
    return NAME(names, layer);
}

const char *mp_kind_name(unsigned kind)
{
    static const char *const names[] = {"device", "pinned", "managed", "array", "pool",
                                        "vmm",    "graph",  "host",    "handle"};
    return NAME(names, kind);
}

const char *mp_size_basis_name(unsigned basis)
{
    static const char *const names[] = {"requested", "block", "exact"};
    return NAME(names, basis);
}

const char *mp_language_name(unsigned language)
{
    static const char *const names[] = {"native", "python", "backward"};
    return NAME(names, language);
}

const char *mp_role_name(unsigned role)
{
    static const char *const names[] = {"none",   "parameter", "gradient", "optimizer_state",
                                        "buffer", "input",     "kv_cache"};
    return NAME(names, role);
}

const char *mp_holder_kind_name(unsigned kind)
{
    static const char *const names[] = {"none", "list",  "dict",      "attribute", "closure", "local",  "default",
                                        "hook", "cache", "traceback", "graph",     "thread",  "native", "unknown"};
    return NAME(names, kind);
}

const char *mp_metadata_kind_name(unsigned kind)
{
    static const char *const names[] = {"none", "user", "annotation", "internal"};
    return NAME(names, kind);
}

const char *mp_device_type_name(unsigned type)
{
    /* c10/core/DeviceType.h: the numbers are part of PyTorch's ABI. */
    static const char *const names[] = {[0] = "cpu",  [1] = "cuda",  [6] = "hip",  [9] = "xla",           [12] = "xpu",
                                        [13] = "mps", [14] = "meta", [15] = "hpu", [20] = "privateuseone"};
    return type < sizeof names / sizeof *names && names[type] ? names[type] : "device";
}

void mp_format_device_id(char *to, size_t room, unsigned type, int index)
{
    if (index < 0)
        snprintf(to, room, "%s", mp_device_type_name(type));
    else
        snprintf(to, room, "%s:%d", mp_device_type_name(type), index);
}

void mp_format_track_id(char *to, size_t room, unsigned device_type, int device_index, unsigned layer, const char *pool,
                        size_t pool_length)
{
    char device[32];
    mp_format_device_id(device, sizeof device, device_type, device_index);
    snprintf(to, room, "%s/%s%s%.*s", device, mp_layer_name(layer), pool_length ? "/" : "", (int)pool_length, pool);
}

const struct mp_driver_track *mp_driver_track(const char *name)
{
    static const struct mp_driver_track tracks[] = {
        {"", MP_DRIVER_BLOCKS, false, false},
        {"pool", MP_DRIVER_POOLED, false, true},
        {"graph", MP_DRIVER_POOLED, false, true},
        {"nodes", MP_DRIVER_NOTHING, true, false},
        {"managed", MP_DRIVER_NOTHING, false, true},
        {"addresses", MP_DRIVER_NOTHING, true, false},
        {"mapped", MP_DRIVER_NOTHING, true, true},
        {"imported", MP_DRIVER_NOTHING, false, true},
        {"contexts", MP_DRIVER_CONTEXTS, false, false},
        {"modules", MP_DRIVER_MODULES, false, false},
        {"libraries", MP_DRIVER_MODULES, false, false},
        {"streams", MP_DRIVER_HANDLES, false, false},
        {"events", MP_DRIVER_HANDLES, false, false},
        {"graphs", MP_DRIVER_HANDLES, false, false},
        {"executables", MP_DRIVER_HANDLES, false, false},
        {"pools", MP_DRIVER_HANDLES, false, false},
    };
    static const struct mp_driver_track other = {"", MP_DRIVER_NOTHING, false, false};
    for (size_t i = 0; i < sizeof tracks / sizeof *tracks; i++)
        if (!strcmp(name, tracks[i].name)) return &tracks[i];
    return &other;
}

bool mp_track_holds_memory(unsigned layer, const char *name)
{
    enum mp_driver_part part = mp_driver_track(name)->part;
    return layer != MP_LAYER_DRIVER || part == MP_DRIVER_BLOCKS || part == MP_DRIVER_POOLED;
}

bool mp_track_is_of_addresses(unsigned layer, const char *name)
{
    return layer == MP_LAYER_DRIVER && mp_driver_track(name)->addresses;
}

#include "base/words.h"

#define NAME(table, index) ((index) < sizeof(table) / sizeof *(table) && (table)[index] ? (table)[index] : "?")

const char *mp_event_type_name(unsigned type)
{
    static const char *const names[] = {"none",       "alloc", "free",     "resize", "oom", "step", "region_begin",
                                        "region_end", "mark",  "reserved", "start",  "stop"};
    return NAME(names, type);
}

const char *mp_layer_name(unsigned layer)
{
    static const char *const names[] = {"driver", "torch", "app"};
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

const char *mp_device_type_name(unsigned type)
{
    /* c10/core/DeviceType.h: the numbers are part of PyTorch's ABI. */
    static const char *const names[] = {[0] = "cpu",  [1] = "cuda", [6] = "hip",  [9] = "xla", [12] = "xpu",
                                        [13] = "mps", [14] = "meta", [15] = "hpu", [20] = "privateuseone"};
    return type < sizeof names / sizeof *names && names[type] ? names[type] : "device";
}

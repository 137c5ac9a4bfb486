#include "analysis/leaks/leak_finding.h"

#include "base/order.h"

/* Hidden leaks come last: other leaks may cause them, since leaked blocks leave holes in the heap. */
MP_ORDER(by_rate, struct mp_leak_finding,
         MP_COMPARE(mp_leak_is_leak(b), mp_leak_is_leak(a))
         ?: MP_COMPARE(a->class == MP_LEAK_HIDDEN, b->class == MP_LEAK_HIDDEN) ?: MP_FALLING(bytes_per_step)
         ?: MP_FALLING(bytes) ?: MP_RISING(track) ?: MP_RISING(stack))

int mp_leak_by_rate(const void *left, const void *right)
{
    return by_rate(left, right);
}

static const struct {
    const char *name, *advice;
} classes[MP_LEAK_CLASSES] = {
    [MP_LEAK_RETENTION] = {"retention",
                           "something holds these blocks: a list, a cache, a hook, or a loss with its graph; keep "
                           "numbers (.item(), .detach()) or clear it"},
    [MP_LEAK_NATIVE] =
        {"native",
         "allocated by native code and not freed: a free is missing on some path, or something keeps the object that "
         "owns it; snapshot --host --holders tells which names hold NumPy's arrays and Python's bytes"},
    [MP_LEAK_HANDLE] = {"handle", "created in every step and not destroyed: make it once, or destroy it"},
    [MP_LEAK_PINNED] = {"pinned", "page-locked host memory: reuse one buffer instead of making a new one"},
    [MP_LEAK_GRAPH_POOL] = {"graph_pool",
                            "memory of CUDA graphs: capture into one shared pool, and reset unused graphs"},
    [MP_LEAK_SHAPE_CACHE] =
        {"shape_cache",
         "blocks of each new size stay: pad to a few sizes, bound the cache, or keep only the last of a history"},
    [MP_LEAK_CYCLE] = {"cycle", "fewer blocks are freed than made: a reference cycle waits for the garbage collector, "
                                "or a cache is cleared too seldom; break the cycle, or bound the cache"},
    [MP_LEAK_HIDDEN] = {"hidden",
                        "no recorded block explains it: the program's own heap (NumPy arrays, Python objects, "
                        "malloc, or holes that blocks kept elsewhere leave in it), a library, or the driver; memprof "
                        "snapshot --host records the heap's blocks with their lines, --holders counts Python's "
                        "objects and the entries of its containers"},
    [MP_LEAK_RETAINED_ONCE] = {"retained_once",
                               "these blocks stay, but only a few steps made them, or code behind the last step"},
    [MP_LEAK_FRAGMENTATION] = {"fragmentation", "the allocator reserves more and more, although its blocks do not "
                                                "grow; expandable segments or fewer sizes help"},
    [MP_LEAK_BOUNDED] = {"bounded", "a container with a bound is not full yet; a smaller bound takes less memory"},
    [MP_LEAK_KEPT] = {"kept", "the program reads these blocks after its loop: keep numbers (.item()), or move them to "
                              "the CPU, where the device's memory is short"},
    [MP_LEAK_GARBAGE] = {"garbage", "Python's collector frees these blocks once it runs: break the cycle, or call "
                                    "gc.collect(), and they take no memory meanwhile"},
};

const char *mp_leak_class_name(enum mp_leak_class class)
{
    return classes[class].name;
}

const char *mp_leak_advice(enum mp_leak_class class)
{
    return classes[class].advice;
}

const char *mp_leak_confidence_name(enum mp_leak_confidence confidence)
{
    static const char *const names[] = {"certain", "probable", "possible"};
    return names[confidence];
}

const char *mp_leak_test_name(enum mp_leak_test test)
{
    static const char *const names[MP_LEAK_TESTS] = {"growth", "regrowth", "twins", "process", "reserved", "rest"};
    return names[test];
}

/*
 * The stand-in of CUPTI for programs that use CUPTI themselves, as torch.profiler does. Calls succeed, and no activity
 * of the device is ever reported. Without a driver of NVIDIA's, NVIDIA's own CUPTI recurses until the stack overflows.
 * (The stand-in that makes records is in tests/softgpu/cupti.)
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORTED __attribute__((visibility("default")))

enum { CUPTI_ERROR_MAX_LIMIT_REACHED = 12 };

EXPORTED int cuptiGetVersion(uint32_t *version)
{
    *version = SOFTCUPTI_VERSION;
    return 0;
}

EXPORTED int cuptiGetResultString(int result, const char **text)
{
    *text = result ? "refused by the stand-in of CUPTI" : "CUPTI_SUCCESS";
    return 0;
}

EXPORTED int cuptiSubscribe(void **subscriber, void *callback, void *context)
{
    (void)callback, (void)context;
    static char one;
    *subscriber = &one;
    return 0;
}

EXPORTED int cuptiActivityEnable(int kind)
{
    (void)kind;
    static int reported;
    if (!__atomic_exchange_n(&reported, 1, __ATOMIC_RELAXED))
        fputs("memprof: nothing runs on the stand-in GPU: a profiler gets no activity of the device\n", stderr);
    return 0;
}

EXPORTED int cuptiActivityGetNextRecord(uint8_t *buffer, size_t bytes, void **record)
{
    (void)buffer, (void)bytes, (void)record;
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
}

EXPORTED int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
    (void)context, (void)stream;
    *dropped = 0;
    return 0;
}

EXPORTED int cuptiGetTimestamp(uint64_t *ns)
{
    *ns = 0;
    return 0;
}

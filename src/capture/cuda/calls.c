#include "capture/cuda/driver_calls.h"

const struct mp_cuda_call mp_cuda_calls[MP_CUDA_CALL_COUNT] = {
#define MP_CUDA_ROW(symbol, base, version, per_thread, cbid, action, ...)                                              \
    {#symbol, base, version, per_thread, cbid, MP_CUDA_##action},
    MP_CUDA_CALLS(MP_CUDA_ROW)
#undef MP_CUDA_ROW
};

#include "attach/attach.h"

enum mp_status mp_attach_run(const struct mp_attach_options *options, struct mp_collector_result *result,
                             struct mp_error *error)
{
    (void)options;
    (void)result;
    return mp_fail(error, MP_UNSUPPORTED,
                   "this memprof has no attach: it was built without libbpf, or for another processor than x86-64");
}

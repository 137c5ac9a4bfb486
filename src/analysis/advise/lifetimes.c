#include "analysis/advise/lifetimes.h"

enum mp_status mp_lifetimes_propose(const struct mp_model *model, const struct mp_torch_history *history,
                                    struct mp_changes *changes, struct mp_error *error)
{
    (void)model, (void)history, (void)changes, (void)error;
    return MP_OK;
}

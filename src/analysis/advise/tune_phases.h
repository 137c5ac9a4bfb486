/*
 * Settings of PyTorch's caching allocator for one phase of a program (load, train, serve), changed where the phase ends
 * or begins. Pure; the result is the caller's.
 */
#pragma once

#include "analysis/advise/tune.h"

/* Makes the history with the change of settings. It refers to data of `history` and `phased`, which must outlive it. */
void mp_tune_phased_apply(const struct mp_torch_history *history, const struct mp_tune_phased *phased,
                          struct mp_torch_history *changed);
void mp_tune_phased_free(struct mp_torch_history *changed);

/* Tries the settings that mp_tune() found in one phase alone, and fills tuning->phased. */
void mp_tune_phases(const struct mp_model *model, const struct mp_torch_history *history, struct mp_tuning *tuning);

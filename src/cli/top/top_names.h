/*
 * Functions and lines of a running program's native frames. `top` itself finds and keeps them, not the collector,
 * because it asks again and again for the same frames. Only frames in stacks of live blocks are looked up. One thread
 * at a time.
 */
#pragma once

#include <sys/types.h>

#include "analysis/sites/sites.h"
#include "model/model.h"

struct mp_top_names;

struct mp_top_names *mp_top_names_new(pid_t pid);
/* Names the frames of the sites' stacks in the model. */
void mp_top_names_fill(struct mp_top_names *names, struct mp_model *model, const struct mp_sites *sites);
void mp_top_names_free(struct mp_top_names *names);

/* The tensors in blocks (analysis/sites/site_tensors.h), if the recording has the log of operators: a row of text
 * "float32 [8, 128] of addmm", and an array. */
#pragma once

#include <stdint.h>

#include "analysis/sites/sites.h"
#include "base/json.h"
#include "output/form/text.h"

/* Tensors of a site's blocks, with the times of use seen from the moment. The row has the heaviest ones. */
void mp_site_tensor_row(struct mp_table *table, unsigned columns, const struct mp_model *model,
                        const struct mp_sites *sites, const struct mp_site *site);
void mp_site_tensors_json(struct mp_json *json, const char *key, const struct mp_model *model,
                          const struct mp_sites *sites, const struct mp_site *site);

/* Tensors of all blocks of a stack. */
void mp_stack_tensor_row(struct mp_table *table, unsigned columns, const struct mp_model *model, uint16_t track,
                         uint32_t stack);
void mp_stack_tensors_json(struct mp_json *json, const char *key, const struct mp_model *model, uint16_t track,
                           uint32_t stack);

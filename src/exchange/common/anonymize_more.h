/* A PyTorch snapshot's JSON beside a recording's rows, without names. Pure; any thread. */
#ifndef MP_EXCHANGE_ANONYMIZE_MORE_H
#define MP_EXCHANGE_ANONYMIZE_MORE_H

#include <stdint.h>

#include "base/buffer.h"

enum mp_named { MP_NAMED_FUNCTION, MP_NAMED_FILE, MP_NAMED_REGION, MP_NAMED_METADATA, MP_NAMED_NODE };

/* Appends the name that takes the place of `text`. `file`: of a function, where it is; else NULL. */
typedef void mp_rename(void *context, enum mp_named what, const char *text, const char *file, struct mp_buffer *out);

/* Appends the object without what may hold a name: numbers, PyTorch's own words and names in the place of names stay;
 * what else there is, and all that is not known, goes and is counted. `is_annotation`: its name is a region's. Nothing
 * where the text is no object, or nothing stays. */
void mp_more_anonymize(const char *object, bool is_annotation, mp_rename *rename, void *context, struct mp_buffer *out,
                       uint64_t *dropped);
/* Settings of PyTorch's allocator, as key=value,... or as PYTORCH_CUDA_ALLOC_CONF has them: those that everybody knows,
 * with values that are numbers, true or false. */
void mp_settings_anonymize(const char *settings, struct mp_buffer *out);

#endif

/* What the page must know before it unpacks a column: one JSON object inside a <script> element. */
#ifndef MP_OUTPUT_PAGE_HEADER_H
#define MP_OUTPUT_PAGE_HEADER_H

#include "base/buffer.h"
#include "model/model.h"
#include "output/page.h"
#include "output/page_data.h"

/* The index of the track shown first; 0 where there is none. */
unsigned mp_page_first_track(const struct mp_model *model, const struct mp_page_options *options);

/* Appends the object. Whatever the recording's names hold, no byte of it can end the element it stands in. */
void mp_page_header(const struct mp_model *model, const struct mp_page_options *options,
                    const struct mp_page_data *data, struct mp_buffer *to);

#endif

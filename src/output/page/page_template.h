/* The page without a recording, as viz/ builds it; made by viz/Makefile.inc. Ends with a NUL. */
#ifndef MP_OUTPUT_PAGE_TEMPLATE_H
#define MP_OUTPUT_PAGE_TEMPLATE_H

extern const unsigned char mp_page_template[];

#endif

/* The page without a recording, as viz/ builds it; made by viz/Makefile.inc. Ends with a NUL. */
#pragma once

extern const unsigned char mp_page_template[];

/* Texts of a page that its columns name by numbers, from 1 in order of first use. */
#pragma once

#include "base/buffer.h"
#include "base/intern.h"

struct mp_page_words {
    struct mp_intern known;        /* texts by number */
    struct mp_buffer length, text; /* columns: each text's bytes, and the texts one after the other */
};

/* Appends a text, and replaces characters that would change how the neighbouring text reads. */
void mp_page_words_append(struct mp_buffer *to, const char *text, size_t length);
/* The number of a text; 0 for an empty one. */
uint32_t mp_page_words_number(struct mp_page_words *words, const char *text, size_t length);
uint64_t mp_page_words_count(const struct mp_page_words *words);
void mp_page_words_free(struct mp_page_words *words);

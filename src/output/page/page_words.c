#include "output/page/page_words.h"

#include "base/varint.h"

uint32_t mp_page_words_number(struct mp_page_words *words, const char *text, size_t length)
{
    if (!length) return 0;
    if (!words->known.count) mp_intern_add_text(&words->known, "");
    size_t before = words->known.count;
    uint32_t number = mp_intern_add(&words->known, text, length);
    if (number < before) return number;
    mp_varint_append(&words->length, length);
    mp_buffer_append(&words->text, text, length);
    return number;
}

/* The empty text is one of them, too, and stands for none. */
uint64_t mp_page_words_count(const struct mp_page_words *words)
{
    return words->known.count ? words->known.count - 1 : 0;
}

void mp_page_words_free(struct mp_page_words *words)
{
    mp_intern_free(&words->known);
    mp_buffer_free(&words->length);
    mp_buffer_free(&words->text);
}

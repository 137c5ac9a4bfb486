#include "output/page/page_words.h"

#include "base/utf8.h"
#include "base/varint.h"

void mp_page_words_append(struct mp_buffer *to, const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text;
    for (size_t size; length; at += size, length -= size) {
        uint32_t point;
        size = mp_utf8_next(at, length, &point);
        if (mp_utf8_is_hidden(point))
            mp_buffer_append_text(to, "\xef\xbf\xbd");
        else
            mp_buffer_append(to, at, size);
    }
}

uint32_t mp_page_words_number(struct mp_page_words *words, const char *text, size_t length)
{
    if (!length) return 0;
    if (!words->known.count) mp_intern_add_text(&words->known, "");
    size_t known = words->known.count;
    uint32_t number = mp_intern_add(&words->known, text, length);
    if (number < known) return number;
    size_t before = words->text.size;
    mp_page_words_append(&words->text, text, length);
    mp_varint_append(&words->length, words->text.size - before);
    return number;
}

/* The empty text, which is number 0 of `known`, is not counted. */
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

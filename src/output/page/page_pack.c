#include "output/page/page_pack.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/memory.h"

/* Bytes in one <script>: a multiple of 3, so that its base64 needs no padding; 64 MiB of text. */
#define SCRIPT_BYTES ((size_t)48 << 20)
#define LEVEL        6

static enum mp_status refuse(struct mp_error *error, int code)
{
    if (code == Z_MEM_ERROR) mp_memory_lacks(0);
    return mp_fail(error, MP_LIMIT, "zlib cannot compress the page's data (%d)", code);
}

enum mp_status mp_pack(const struct mp_buffer *raw, struct mp_packed *packed, struct mp_error *error)
{
    z_stream stream = {0};
    int code = deflateInit2(&stream, LEVEL, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
    if (code != Z_OK) return refuse(error, code);
    size_t room = deflateBound(&stream, raw->size);
    unsigned char *data = mp_alloc(room);
    size_t taken = 0, made = 0;
    while (code == Z_OK) {
        size_t in = raw->size - taken < UINT_MAX ? raw->size - taken : UINT_MAX;
        size_t to = room - made < UINT_MAX ? room - made : UINT_MAX;
        stream.next_in = raw->size ? raw->data + taken : NULL;
        stream.avail_in = (uInt)in;
        stream.next_out = data + made;
        stream.avail_out = (uInt)to;
        code = deflate(&stream, taken + in == raw->size ? Z_FINISH : Z_NO_FLUSH);
        taken += in - stream.avail_in;
        made += to - stream.avail_out;
    }
    deflateEnd(&stream);
    if (code != Z_STREAM_END) {
        free(data);
        return refuse(error, code);
    }
    unsigned char *fitted = mp_realloc(data, made);
    *packed = (struct mp_packed){.data = fitted, .size = made, .raw_size = raw->size};
    return MP_OK;
}

void mp_packed_free(struct mp_packed *packed)
{
    free(packed->data);
    *packed = (struct mp_packed){0};
}

size_t mp_packed_scripts(size_t bytes)
{
    return (bytes + SCRIPT_BYTES - 1) / SCRIPT_BYTES;
}

/* The base64 text under construction. */
struct text {
    FILE *out;
    size_t written;         /* bytes taken so far, over all elements */
    unsigned char carry[3]; /* bytes that do not make a group of three yet */
    unsigned carried;
    unsigned filled;
    char chars[4096];
};

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void flush(struct text *text)
{
    fwrite(text->chars, 1, text->filled, text->out);
    text->filled = 0;
}

static void put_group(struct text *text, const unsigned char *from)
{
    if (text->filled == sizeof text->chars) flush(text);
    char *to = text->chars + text->filled;
    to[0] = alphabet[from[0] >> 2];
    to[1] = alphabet[(from[0] & 3) << 4 | from[1] >> 4];
    to[2] = alphabet[(from[1] & 15) << 2 | from[2] >> 6];
    to[3] = alphabet[from[2] & 63];
    text->filled += 4;
}

static void finish_text(struct text *text)
{
    if (text->carried) {
        memset(text->carry + text->carried, 0, 3 - text->carried);
        put_group(text, text->carry);
        for (unsigned i = text->carried; i < 3; i++)
            text->chars[text->filled - 3 + i] = '=';
        text->carried = 0;
    }
    flush(text);
}

static void put_bytes(struct text *text, const unsigned char *from, size_t size)
{
    while (size) {
        if (text->written % SCRIPT_BYTES == 0 && !text->carried) {
            flush(text);
            fprintf(text->out, "%s<script type=\"text/plain\" id=\"d%zu\">", text->written ? "</script>\n" : "",
                    text->written / SCRIPT_BYTES);
        }
        size_t room = SCRIPT_BYTES - text->written % SCRIPT_BYTES;
        size_t part = size < room ? size : room;
        text->written += part;
        size -= part;
        for (; part && text->carried; part--) {
            text->carry[text->carried++] = *from++;
            if (text->carried == 3) {
                put_group(text, text->carry);
                text->carried = 0;
            }
        }
        for (; part >= 3; part -= 3, from += 3)
            put_group(text, from);
        for (; part; part--)
            text->carry[text->carried++] = *from++;
    }
}

void mp_packed_write(const struct mp_packed *columns, size_t count, FILE *out)
{
    struct text text = {.out = out};
    for (size_t i = 0; i < count; i++)
        put_bytes(&text, columns[i].data, columns[i].size);
    finish_text(&text);
    if (text.written) fputs("</script>\n", out);
}

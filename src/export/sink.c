#include "export/sink.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/memory.h"

#define PASS_BYTES (1 << 20)

void mp_sink_start(struct mp_sink *sink, FILE *out, bool compress)
{
    *sink = (struct mp_sink){.out = out};
    if (!compress) return;
    z_stream *gzip = mp_alloc_zeroed(1, sizeof *gzip);
    /* 15 bits of window, and 16 for gzip's header instead of zlib's */
    if (deflateInit2(gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        mp_memory_lacks(0);
    sink->gzip = gzip;
}

static void write_bytes(struct mp_sink *sink, const void *data, size_t size)
{
    if (size && !sink->failed && fwrite(data, 1, size, sink->out) != size) sink->failed = errno ? errno : EIO;
}

static void deflate_text(struct mp_sink *sink, int flush)
{
    z_stream *gzip = sink->gzip;
    unsigned char packed[65536];
    gzip->next_in = sink->text.data;
    gzip->avail_in = (uInt)sink->text.size;
    do {
        gzip->next_out = packed;
        gzip->avail_out = sizeof packed;
        deflate(gzip, flush);
        write_bytes(sink, packed, sizeof packed - gzip->avail_out);
    } while (!gzip->avail_out && !sink->failed);
}

static void drain(struct mp_sink *sink, bool last)
{
    if (sink->failed) return;
    if (sink->gzip)
        deflate_text(sink, last ? Z_FINISH : Z_NO_FLUSH);
    else
        write_bytes(sink, sink->text.data, sink->text.size);
    sink->text.size = 0;
}

void mp_sink_pass(struct mp_sink *sink)
{
    if (sink->text.size >= PASS_BYTES) drain(sink, false);
}

enum mp_status mp_sink_end(struct mp_sink *sink, enum mp_status status, struct mp_error *error)
{
    if (!status) drain(sink, true);
    if (sink->gzip) deflateEnd(sink->gzip);
    free(sink->gzip);
    mp_buffer_free(&sink->text);
    if (status) return status;
    errno = sink->failed;
    return sink->failed ? mp_fail_errno(error, "cannot write the output") : MP_OK;
}

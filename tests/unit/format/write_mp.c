/*
 * write_mp FILE [EVENTS]: writes a made-up recording with at most EVENTS events a chunk, and prints its contents as
 * plain text. It serves check_read_mp.py, and with few events makes seeds for tests/fuzz. One line "chunk KIND COUNT
 * TIME" a chunk, then a line a row: its members in the order of format/recording.h, numbers in decimal, texts in
 * hexadecimal.
 */
#include "unit/format/maker.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_hex(const void *bytes, size_t length)
{
    putchar('x');
    for (size_t i = 0; i < length; i++)
        printf("%02x", ((const unsigned char *)bytes)[i]);
    putchar(' ');
}

static void print_number(uint64_t number)
{
    printf("%" PRIu64 " ", number);
}

#define NUMBERS(...)                                                                                                   \
    do {                                                                                                               \
        const uint64_t numbers[] = {__VA_ARGS__};                                                                      \
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)                                                  \
            print_number(numbers[n]);                                                                                  \
    } while (0)

static void print_module(const struct mp_module *row)
{
    NUMBERS(row->path, row->start, row->end, row->bias, row->file.size, row->file.inode, (uint64_t)row->file.mtime_ns,
            row->file.build_id_size);
    print_hex(row->file.build_id, sizeof row->file.build_id);
}

static void print_coverage(const struct mp_coverage *row)
{
    NUMBERS(row->events, row->dropped, row->truncated_stacks, row->unmatched_stacks, row->totals_checked,
            row->totals_wrong, row->unknown_frees, row->missed_frees);
    for (uint32_t i = 0; i < row->source_count; i++)
        print_number(row->sources[i]);
    for (uint32_t i = 0; i < row->note_count; i++)
        print_number(row->notes[i]);
    for (uint32_t i = 0; i < row->limit_count; i++)
        print_number(row->limits[i]);
}

#define ROW(type) const struct type *row = (const struct type *)made->rows + i

static void print_row(const struct made_chunk *made, size_t i)
{
    if (made->kind == MP_CHUNK_STRINGS) {
        ROW(mp_string);
        print_hex(row->text, row->length);
    } else if (made->kind == MP_CHUNK_DEVICES) {
        ROW(mp_device);
        NUMBERS(row->name, row->uuid, row->model, row->total_bytes);
    } else if (made->kind == MP_CHUNK_TRACKS) {
        ROW(mp_track);
        NUMBERS(row->device, row->layer, row->size_basis, row->name);
    } else if (made->kind == MP_CHUNK_THREADS) {
        ROW(mp_thread_info);
        NUMBERS(row->tid, row->name);
    } else if (made->kind == MP_CHUNK_MODULES) {
        ROW(mp_module);
        print_module(row);
    } else if (made->kind == MP_CHUNK_FRAMES) {
        ROW(mp_frame);
        NUMBERS(row->language, row->module, row->address, row->function, row->file, row->line, row->more);
    } else if (made->kind == MP_CHUNK_STACKS) {
        ROW(mp_stack_node);
        NUMBERS(row->parent, row->frame);
    } else if (made->kind == MP_CHUNK_SYMBOLS) {
        ROW(mp_symbol);
        NUMBERS(row->frame, row->function, row->file, row->line);
    } else if (made->kind == MP_CHUNK_EVENTS_KIND) {
        ROW(mp_event);
        NUMBERS(row->time_ns, row->address, row->bytes, row->block, row->stack, row->name, row->thread, row->track,
                row->type, row->kind);
    } else if (made->kind == MP_CHUNK_BASE) {
        ROW(mp_base_block);
        NUMBERS(row->block, row->address, row->bytes, row->birth_ns, row->stack, row->track, row->kind, row->module,
                row->role, row->label, row->request.bytes, row->request.stream, row->request.pool);
    } else if (made->kind == MP_CHUNK_SAMPLES) {
        ROW(mp_sample);
        NUMBERS(row->time_ns, row->counter, row->value);
    } else if (made->kind == MP_CHUNK_SEGMENTS) {
        ROW(mp_segment);
        NUMBERS(row->address, row->bytes, row->stream, row->pool, row->track, row->small, row->expandable, row->keys,
                row->stack);
    } else if (made->kind == MP_CHUNK_SEGMENT_PARTS) {
        ROW(mp_segment_part);
        NUMBERS(row->bytes, row->requested, row->segment, row->state);
    } else if (made->kind == MP_CHUNK_CALLS) {
        ROW(mp_allocator_call);
        NUMBERS(row->address, row->bytes, row->stream, row->pool, row->track, row->action, row->keys);
    } else if (made->kind == MP_CHUNK_ASIDES) {
        ROW(mp_aside);
        NUMBERS(row->text, row->kind);
    } else if (made->kind == MP_CHUNK_LABELS) {
        ROW(mp_label);
        NUMBERS(row->time_ns, row->block, row->role, row->name);
    } else if (made->kind == MP_CHUNK_HOLDERS) {
        ROW(mp_block_holder);
        NUMBERS(row->time_ns, row->block, row->kind, row->certain, row->path, row->file, row->line);
    } else if (made->kind == MP_CHUNK_USES) {
        ROW(mp_block_use);
        NUMBERS(row->time_ns, row->block, row->operator, row->node, row->shape, row->module, row->how);
    } else if (made->kind == MP_CHUNK_METADATA) {
        ROW(mp_block_metadata);
        NUMBERS(row->time_ns, row->block, row->kind, row->text);
    } else if (made->kind == MP_CHUNK_REQUESTS) {
        ROW(mp_block_request);
        NUMBERS(row->block, row->request.bytes, row->request.stream, row->request.pool);
    } else if (made->kind == MP_CHUNK_PAST) {
        ROW(mp_past);
        NUMBERS(row->events, row->steps, row->time_ns);
    } else if (made->kind == MP_CHUNK_PAST_PEAKS) {
        ROW(mp_past_peak);
        NUMBERS(row->bytes, row->blocks, row->time_ns, row->step, row->reserved_bytes, row->track);
    } else if (made->kind == MP_CHUNK_PAST_SITES) {
        ROW(mp_past_site);
        NUMBERS(row->bytes, row->blocks, row->stack, row->module, row->track, row->kind);
    } else if (made->kind == MP_CHUNK_COVERAGE) {
        ROW(mp_coverage);
        print_coverage(row);
    } else {
        ROW(mp_exit);
        NUMBERS(row->known, row->by_signal, row->status, row->time_ns, row->text);
    }
    putchar('\n');
}

int main(int argc, char **argv)
{
    if (argc < 2) return EXIT_FAILURE;
    struct maker maker;
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return EXIT_FAILURE;
    make_recording(&maker, fd, 6, argc > 2 ? strtoul(argv[2], NULL, 10) : 3000, true);
    mp_vec_each (const struct made_chunk, made, &maker.chunks) {
        printf("chunk %d %zu %" PRIu64 "\n", (int)made->kind, made->count, made->time_ns);
        for (size_t row = 0; row < made->count; row++)
            print_row(made, row);
    }
    free_made(&maker);
    return EXIT_SUCCESS;
}

/*
 * make_page small|N PAGE TRUTH: writes the page of a made recording (of about N events). It also writes the model's
 * contents as JSON, which the browser test compares with the page.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "model/stack.h"
#include "model/track.h"
#include "output/page/page.h"
#include "viz/made_model.h"

static void put_stack(struct mp_json *json, const struct mp_model *model, uint32_t stack)
{
    struct mp_stack_lines lines = {0};
    mp_json_array(json, "stack");
    mp_stack_resolve(model, stack, &lines);
    for (size_t i = 0; i < lines.count; i++)
        mp_json_text(json, NULL, lines.at[i].function);
    mp_json_end_array(json);
    mp_stack_lines_free(&lines);
}

static uint64_t time_of(const struct mp_model *model, uint32_t event)
{
    return event == MP_NONE ? MP_BYTES_UNKNOWN : model->events.time_ns[event];
}

/* One size of a block, from one event to another. */
static void put_piece(struct mp_json *json, const struct mp_model *model, size_t block, uint64_t bytes, uint32_t from,
                      uint32_t to)
{
    char address[32];
    snprintf(address, sizeof address, "0x%" PRIx64, model->blocks.address[block]);
    mp_json_object(json, NULL);
    mp_json_number(json, "track", model->blocks.track[block]);
    mp_json_number(json, "bytes", bytes);
    mp_json_text(json, "address", address);
    mp_json_known(json, "birth_ns", time_of(model, from));
    mp_json_known(json, "death_ns", time_of(model, to));
    mp_json_text(json, "module", mp_model_text(model, mp_model_module(model, (uint32_t)block)));
    put_stack(json, model, model->blocks.stack[block]);
    mp_json_end_object(json);
}

static void put_block(struct mp_json *json, const struct mp_model *model, size_t block)
{
    uint64_t bytes = model->blocks.bytes[block];
    uint32_t from = model->blocks.alloc_event[block];
    for (size_t i = 0; i < model->resizes.count; i++) {
        if (model->resizes.at[i].block != block) continue;
        put_piece(json, model, block, bytes, from, model->resizes.at[i].event);
        bytes = model->resizes.at[i].bytes;
        from = model->resizes.at[i].event;
    }
    put_piece(json, model, block, bytes, from, model->blocks.free_event[block]);
}

static void write_truth(const struct mp_model *model, FILE *out)
{
    struct mp_buffer text = {0};
    struct mp_json json;
    mp_json_start(&json, &text);
    mp_json_object(&json, NULL);
    mp_json_number(&json, "duration_ns", model->duration_ns);
    mp_json_number(&json, "events", model->events.count);
    mp_json_array(&json, "peaks");
    for (size_t i = 0; i < model->sums.count; i++)
        mp_json_number(&json, NULL, model->sums.at[i].peak_bytes);
    mp_json_end_array(&json);
    mp_json_array(&json, "blocks");
    for (size_t i = 0; i < model->blocks.count && model->blocks.count < 10000; i++)
        put_block(&json, model, i);
    mp_json_end_array(&json);
    mp_json_end_object(&json);
    fwrite(text.data, 1, text.size, out);
    mp_buffer_free(&text);
}

int main(int argc, char **argv)
{
    if (argc != 4) return EXIT_FAILURE;
    struct mp_model *model = strcmp(argv[1], "small") ? made_training(strtoull(argv[1], NULL, 10)) : made_small();
    FILE *page = fopen(argv[2], "w"), *truth = fopen(argv[3], "w");
    if (!page || !truth) return EXIT_FAILURE;
    struct mp_page_options options = {.track = -1, .title = "made.mp"};
    struct mp_error error;
    uint64_t began = mp_clock_monotonic_ns();
    enum mp_status status = mp_page_write(model, &options, page, &error);
    if (status) fprintf(stderr, "make_page: %s\n", error.text);
    printf("%zu events, page of %ld bytes in %.0f ms\n", model->events.count, ftell(page),
           (double)(mp_clock_monotonic_ns() - began) / MP_NS_PER_MS);
    write_truth(model, truth);
    mp_model_free(model);
    return fclose(page) || fclose(truth) || status ? EXIT_FAILURE : EXIT_SUCCESS;
}

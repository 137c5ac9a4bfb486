/*
 * Live blocks at each mark of a recording, as sums that the stand-in driver makes as well (softgpu.h):
 *
 *     live_at_marks FILE.mp EVERY
 *
 * Prints a line for each mark and each track of the driver that has live blocks, with tabs between:
 *
 *     MARK TRACK BLOCKS BYTES SUM
 *
 * Every EVERYth mark is compared with the model's own answer (analysis/sites/live.h). Exit status 1: they differ.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/sites/live.h"
#include "base/words.h"
#include "model/load.h"
#include "softgpu/softgpu.h"

static struct softgpu_digest *tracks;
static char (*names)[MP_TRACK_ID_MAX];

static uint64_t sum_of(const struct mp_model *model, uint32_t block)
{
    return softgpu_digest_of(model->blocks.address[block], model->blocks.bytes[block]);
}

static void count(const struct mp_model *model, uint32_t block, uint64_t sign)
{
    struct softgpu_digest *of = &tracks[model->blocks.track[block]];
    of->blocks += sign;
    of->bytes += sign * model->blocks.bytes[block];
    of->sum += sign * sum_of(model, block);
}

static bool agrees(const struct mp_model *model, uint16_t track, uint32_t moment)
{
    struct mp_live_blocks live = {0};
    struct softgpu_digest found = {0, 0, 0};
    mp_live_blocks_at(model, track, moment, NULL, &live);
    for (size_t i = 0; i < live.count; i++) {
        found.blocks++;
        found.bytes += live.at[i].bytes;
        found.sum += sum_of(model, live.at[i].block);
    }
    mp_live_blocks_free(&live);
    return found.blocks == tracks[track].blocks && found.bytes == tracks[track].bytes && found.sum == tracks[track].sum;
}

static void print_mark(const struct mp_model *model, uint32_t event)
{
    const char *mark = mp_model_text(model, model->notes.at[model->events.subject[event]].name);
    for (uint16_t i = 0; i < model->tracks.count; i++)
        if (tracks[i].blocks && model->tracks.at[i].layer == MP_LAYER_DRIVER)
            printf("%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", mark, names[i], tracks[i].blocks, tracks[i].bytes,
                   tracks[i].sum);
}

int main(int argc, char **argv)
{
    struct mp_model *model;
    struct mp_error error;
    if (argc != 3) return 2;
    if (mp_model_load(argv[1], &model, &error) != MP_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    unsigned long every = strtoul(argv[2], NULL, 10), marks = 0, wrong = 0;
    tracks = calloc(model->tracks.count + 1, sizeof *tracks);
    names = calloc(model->tracks.count + 1, sizeof *names);
    if (!tracks || !names || !every) return 2;
    for (uint16_t i = 0; i < model->tracks.count; i++)
        mp_track_id(model, i, names[i]);
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (model->blocks.alloc_event[block] == MP_NONE) count(model, block, 1);
    for (uint32_t i = 0; i < model->events.count; i++) {
        if (model->events.type[i] == MP_EVENT_ALLOC) count(model, model->events.subject[i], 1);
        if (model->events.type[i] == MP_EVENT_FREE) count(model, model->events.subject[i], (uint64_t)-1);
        if (model->events.type[i] != MP_EVENT_MARK) continue;
        print_mark(model, i);
        if (marks++ % every) continue;
        for (uint16_t track = 0; track < model->tracks.count; track++)
            wrong += !agrees(model, track, i + 1);
    }
    free(tracks);
    free(names);
    mp_model_free(model);
    return wrong != 0;
}

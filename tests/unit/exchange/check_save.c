/* A model that is saved and loaded again is the same: every event, block, stack and sum. */
#include "exchange/common/save.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exchange/load/load.h"
#include "format/events.h"
#include "unit/model/scene.h"
#include "unit/suite.h"
#include "unit/whole.h"

static struct mp_model *saved_and_loaded(const struct mp_model *model)
{
    char path[64];
    struct mp_error error = {0};
    struct mp_model *again;
    int fd = memfd_create("saved", MFD_CLOEXEC), kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    ck_assert_int_ge(kept, 0);
    ck_assert_msg(!mp_exchange_save(model, fd, &error), "%s", error.text);
    snprintf(path, sizeof path, "/proc/self/fd/%d", kept);
    ck_assert_msg(!mp_exchange_load(path, &again, &error), "%s", error.text);
    close(kept);
    return again;
}

/* ck_assert writes to its parent process at every call, which is too slow for each event. */
#define SAME(left, right)                                                                                              \
    do {                                                                                                               \
        uint64_t left_ = (left), right_ = (right);                                                                     \
        if (left_ != right_)                                                                                           \
            ck_abort_msg(#left " is %llu and not %llu", (unsigned long long)right_, (unsigned long long)left_);        \
    } while (0)

static void same_text(const struct mp_model *a, uint32_t left, const struct mp_model *b, uint32_t right)
{
    if (strcmp(mp_model_text(a, left), mp_model_text(b, right)))
        ck_abort_msg("\"%s\" is \"%s\"", mp_model_text(a, left), mp_model_text(b, right));
}

static void same_tables(const struct mp_model *a, const struct mp_model *b)
{
    SAME(a->devices.count, b->devices.count);
    SAME(a->tracks.count, b->tracks.count);
    SAME(a->threads.count, b->threads.count);
    SAME(a->modules.count, b->modules.count);
    SAME(a->frames.count, b->frames.count);
    SAME(a->stacks.count, b->stacks.count);
    SAME(a->samples.count, b->samples.count);
    for (size_t i = 0; i < a->devices.count; i++)
        same_text(a, a->devices.at[i].name, b, b->devices.at[i].name);
    ck_assert_mem_eq(a->stacks.at, b->stacks.at, a->stacks.count * sizeof *a->stacks.at);
    for (size_t i = 0; i < a->frames.count; i++) {
        const struct mp_model_frame *left = &a->frames.at[i], *right = &b->frames.at[i];
        SAME(left->raw.address, right->raw.address);
        SAME(left->raw.language, right->raw.language);
        SAME(left->line_count, right->line_count);
        for (uint32_t k = 0; k < left->line_count; k++) {
            const struct mp_model_line *x = &a->lines.at[left->first_line + k],
                                       *y = &b->lines.at[right->first_line + k];
            same_text(a, x->function, b, y->function);
            same_text(a, x->file, b, y->file);
            SAME(x->line, y->line);
        }
    }
}

static void same_block(const struct mp_model *a, uint32_t left, const struct mp_model *b, uint32_t right)
{
    SAME(a->blocks.address[left], b->blocks.address[right]);
    SAME(a->blocks.bytes[left], b->blocks.bytes[right]);
    SAME(a->blocks.stack[left], b->blocks.stack[right]);
    SAME(a->blocks.alloc_event[left], b->blocks.alloc_event[right]);
    SAME(a->blocks.free_event[left], b->blocks.free_event[right]);
    SAME(a->blocks.track[left], b->blocks.track[right]);
    SAME(a->blocks.kind[left], b->blocks.kind[right]);
    same_text(a, mp_model_module(a, left), b, mp_model_module(b, right));
    SAME(mp_model_bytes_at(a, left, MP_NONE), mp_model_bytes_at(b, right, MP_NONE));
    const struct mp_request *x = mp_model_request_of(a, left), *y = mp_model_request_of(b, right);
    ck_assert(!x == !y);
    if (!x) return;
    SAME(x->bytes, y->bytes);
    SAME(x->stream, y->stream);
    SAME(x->pool, y->pool);
}

static void same_label(const struct mp_model *a, const struct mp_model_label *x, const struct mp_model *b,
                       const struct mp_model_label *y)
{
    SAME(x != NULL, y != NULL);
    if (!x || !y) return;
    SAME(x->event, y->event);
    SAME(x->role, y->role);
    same_text(a, x->name, b, y->name);
}

static void same_events(const struct mp_model *a, const struct mp_model *b)
{
    SAME(a->events.count, b->events.count);
    SAME(a->blocks.count, b->blocks.count);
    for (uint32_t i = 0; i < a->events.count; i++) {
        uint32_t left = a->events.subject[i], right = b->events.subject[i];
        SAME(a->events.time_ns[i], b->events.time_ns[i]);
        SAME(a->events.type[i], b->events.type[i]);
        SAME(a->events.track[i], b->events.track[i]);
        SAME(a->events.thread[i], b->events.thread[i]);
        if (a->events.type[i] == MP_EVENT_ALLOC || a->events.type[i] == MP_EVENT_FREE ||
            a->events.type[i] == MP_EVENT_RESIZE) {
            same_block(a, left, b, right);
            SAME(mp_model_bytes_at(a, left, i), mp_model_bytes_at(b, right, i));
            same_label(a, mp_model_label_first(a, left), b, mp_model_label_first(b, right));
            same_label(a, mp_model_label_at(a, left, i), b, mp_model_label_at(b, right, i));
            same_label(a, mp_model_label_at(a, left, MP_NONE), b, mp_model_label_at(b, right, MP_NONE));
        } else {
            unsigned type = a->events.type[i]; /* a file does not keep all of it */
            const struct mp_model_note *x = &a->notes.at[left], *y = &b->notes.at[right];
            if (mp_event_keeps(type, offsetof(struct mp_event, bytes))) SAME(x->bytes, y->bytes);
            if (mp_event_keeps(type, offsetof(struct mp_event, stack))) SAME(x->stack, y->stack);
            if (mp_event_keeps(type, offsetof(struct mp_event, name))) same_text(a, x->name, b, y->name);
        }
    }
}

/* Sorts the blocks that no event shows: those of the base that are never freed. */
static int by_address_then_bytes(const void *left, const void *right)
{
    return memcmp(left, right, 4 * sizeof(uint64_t));
}

static size_t silent_blocks(const struct mp_model *model, uint64_t (**rows)[4])
{
    size_t count = 0;
    *rows = calloc(model->blocks.count + 1, sizeof **rows);
    for (size_t i = 0; i < model->blocks.count; i++) {
        if (model->blocks.alloc_event[i] != MP_NONE || model->blocks.free_event[i] != MP_NONE) continue;
        uint64_t row[4] = {model->blocks.address[i], model->blocks.bytes[i], model->blocks.stack[i],
                           model->blocks.track[i]};
        memcpy((*rows)[count++], row, sizeof row);
    }
    qsort(*rows, count, sizeof **rows, by_address_then_bytes);
    return count;
}

static void same_base(const struct mp_model *a, const struct mp_model *b)
{
    uint64_t(*left)[4], (*right)[4];
    size_t count = silent_blocks(a, &left);
    SAME(count, silent_blocks(b, &right));
    ck_assert_int_eq(memcmp(left, right, count * sizeof *left), 0);
    free(left);
    free(right);
}

static void same_sums(const struct mp_model_track_sum *a, const struct mp_model_track_sum *b)
{
    SAME(a->events, b->events);
    SAME(a->allocs, b->allocs);
    SAME(a->frees, b->frees);
    SAME(a->ooms, b->ooms);
    SAME(a->base_bytes, b->base_bytes);
    SAME(a->peak_bytes, b->peak_bytes);
    SAME(a->end_bytes, b->end_bytes);
    SAME(a->peak_blocks, b->peak_blocks);
    SAME(a->end_blocks, b->end_blocks);
    SAME(a->unknown_blocks, b->unknown_blocks);
    SAME(a->peak_event, b->peak_event);
    SAME(a->peak_ns, b->peak_ns);
    SAME(a->reserved_peak_bytes, b->reserved_peak_bytes);
}

/* Saving a model renumbers its blocks. Saving again changes nothing. */
static void check_again(struct mp_model *model, uint64_t seed)
{
    struct mp_coverage *coverage = &model->coverage;
    uint64_t *counters[] = {&coverage->dropped,        &coverage->truncated_stacks, &coverage->unmatched_stacks,
                            &coverage->totals_checked, &coverage->totals_wrong,     &coverage->unknown_frees,
                            &coverage->missed_frees};
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        *counters[i] = 1000 * seed + i;
    uint32_t **ids[] = {&coverage->sources, &coverage->notes, &coverage->limits},
             *counts[] = {&coverage->source_count, &coverage->note_count, &coverage->limit_count};
    for (uint32_t i = 0; i < 3; i++) {
        free(*ids[i]);
        *counts[i] = 1 + ((uint32_t)seed + i) % 3;
        *ids[i] = calloc(*counts[i], sizeof **ids[i]);
        for (uint32_t k = 0; k < *counts[i]; k++) {
            char text[32];
            snprintf(text, sizeof text, "sentence %u of %u", k, i);
            (*ids[i])[k] = mp_intern_text(&model->strings, text);
        }
    }
    model->how = (struct mp_exit){true, seed % 2, 9 + (uint32_t)seed, model->duration_ns, (*ids[2])[0]};
    struct mp_model *again = saved_and_loaded(model);
    ck_whole_model_eq(again, model, WHOLE_BUT_FILE);
    mp_model_free(again);
}

START_TEST(test_saved_and_loaded)
{
    for (uint64_t seed = 0; seed < 25; seed++) {
        struct scene scene;
        scene_make(&scene, seed, seed < 24 ? 600 : 70000); /* the last takes several chunks */
        struct mp_model *again = saved_and_loaded(scene.model);
        same_tables(scene.model, again);
        same_events(scene.model, again);
        same_base(scene.model, again);
        for (size_t i = 0; i < scene.model->sums.count; i++)
            same_sums(&scene.model->sums.at[i], &again->sums.at[i]);
        ck_assert_uint_eq(scene.model->start.realtime_ns, again->start.realtime_ns);
        ck_assert_uint_eq(scene.model->duration_ns, again->duration_ns);
        ck_assert_uint_eq(scene.model->coverage.note_count, again->coverage.note_count);
        ck_assert(!mp_model_incomplete(again));
        check_again(again, seed);
        mp_model_free(again);
        scene_free(&scene);
    }
}

/* A label from before the recording still counts as such, although another label comes right after the first event. */
START_TEST(test_labels_from_the_start)
{
    struct scene scene;
    for (uint64_t seed = 3;; seed++) { /* events with one stamp look the same */
        scene_make(&scene, seed, 600);
        if (scene.events.at[0].time_ns < scene.events.at[1].time_ns) break;
        scene_free(&scene);
    }
    const struct mp_model_blocks *blocks = &scene.model->blocks;
    uint32_t block = 0;
    while (block < blocks->count && (blocks->alloc_event[block] != MP_NONE || blocks->free_event[block] == MP_NONE ||
                                     blocks->free_event[block] < 2))
        block++;
    ck_assert_uint_lt(block, blocks->count);
    const struct mp_model_label before = {block, MP_NONE, MP_ROLE_PARAMETER, 0}, after = {block, 0, MP_ROLE_BUFFER, 0};
    scene.model->labels.count = 0;
    ck_assert(mp_vec_push(&scene.model->labels, before) && mp_vec_push(&scene.model->labels, after));
    struct mp_model *again = saved_and_loaded(scene.model);
    uint32_t same = again->events.subject[blocks->free_event[block]];
    SAME(again->labels.count, 2);
    same_label(scene.model, &before, again, mp_model_label_first(again, same));
    same_label(scene.model, &after, again, mp_model_label_at(again, same, 0));
    mp_model_free(again);
    scene_free(&scene);
}

START_TEST(test_full_disk)
{
    struct scene scene;
    struct mp_error error = {0};
    scene_make(&scene, 1, 600);
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(mp_exchange_save(scene.model, fd, &error), MP_IO);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1); /* closed */
    scene_free(&scene);
}

MP_SUITE("save", test_saved_and_loaded, test_labels_from_the_start, test_full_disk)

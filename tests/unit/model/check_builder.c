#include <string.h>

#include "model/builder.h"
#include "model/track.h"
#include "unit/model/scene.h"
#include "unit/suite.h"
#include "unit/whole.h"

#define ROUNDS 60
#define EVENTS 400

static void check_sums(const struct scene *scene, uint16_t track)
{
    const struct mp_model_track_sum *sum = &scene->model->sums.at[track];
    int64_t end = (int64_t)scene->events.count, first = 0;
    uint64_t peak = 0, unknown = 0;
    for (int64_t moment = 0; moment <= end; moment++) {
        uint64_t level = scene_level(scene, track, moment);
        if (level <= peak) continue;
        peak = level;
        first = moment;
    }
    for (size_t i = 0; i < scene->blocks.count; i++)
        unknown += scene->blocks.at[i].track == track && scene->blocks.at[i].bytes[0] == MP_BYTES_UNKNOWN;
    ck_assert_uint_eq(sum->base_bytes, scene_level(scene, track, 0));
    ck_assert_uint_eq(sum->peak_bytes, peak);
    ck_assert_uint_eq(sum->peak_event, first ? (uint32_t)(first - 1) : MP_NONE);
    ck_assert_uint_eq(sum->peak_blocks, scene_live(scene, track, first));
    ck_assert_uint_eq(sum->peak_ns, first ? scene->events.at[first - 1].time_ns : 0);
    ck_assert_uint_eq(sum->end_bytes, scene_level(scene, track, end));
    ck_assert_uint_eq(sum->end_blocks, scene_live(scene, track, end));
    ck_assert_uint_eq(sum->unknown_blocks, unknown);
}

static void check_counts(const struct scene *scene, uint16_t track)
{
    const struct mp_model_track_sum *sum = &scene->model->sums.at[track];
    uint64_t allocs = 0, frees = 0, ooms = 0, all = 0, reserved = MP_BYTES_UNKNOWN;
    mp_vec_each (const struct mp_event, event, &scene->events) {
        bool has_track = event->type <= MP_EVENT_OOM || event->type == MP_EVENT_RESERVED;
        if (!has_track || event->track != track) continue;
        all++;
        allocs += event->type == MP_EVENT_ALLOC;
        frees += event->type == MP_EVENT_FREE;
        ooms += event->type == MP_EVENT_OOM;
        if (event->type == MP_EVENT_RESERVED && (reserved == MP_BYTES_UNKNOWN || event->bytes > reserved))
            reserved = event->bytes;
    }
    ck_assert_uint_eq(sum->events, all);
    ck_assert_uint_eq(sum->allocs, allocs);
    ck_assert_uint_eq(sum->frees, frees);
    ck_assert_uint_eq(sum->ooms, ooms);
    ck_assert_uint_eq(sum->reserved_peak_bytes, reserved);
}

static void check_labels(const struct scene *scene, uint32_t index, const struct scene_block *block)
{
    int64_t end = block->died < (int64_t)scene->events.count ? block->died : (int64_t)scene->events.count;
    for (int64_t moment = block->born < 0 ? 1 : block->born + 1; moment <= end; moment++) {
        const struct mp_model_label *label = mp_model_label_at(scene->model, index, (uint32_t)(moment - 1));
        size_t said = 0;
        while (said < block->labels && block->said[said] <= moment)
            said++;
        ck_assert_int_eq(label != NULL, said > 0);
        if (!said) continue;
        ck_assert_uint_eq(label->role, block->role[said - 1]);
        ck_assert_uint_eq(label->name, block->label[said - 1]);
    }
    const struct mp_model_label *last = mp_model_label_at(scene->model, index, MP_NONE);
    ck_assert_int_eq(last != NULL, block->labels > 0);
    if (last) ck_assert_uint_eq(last->role, block->role[block->labels - 1]);
}

static void check_request(const struct scene *scene, uint32_t index, size_t number)
{
    const struct mp_request *reported = mp_model_request_of(scene->model, index), is = scene_request(number);
    ck_assert(reported || number % 3);
    ck_assert(!reported || number % 3 != 2);
    if (reported) ck_assert(reported->bytes == is.bytes && reported->stream == is.stream && reported->pool == is.pool);
}

/* The model's blocks are the oracle's, found by their addresses. */
static void check_blocks(const struct scene *scene)
{
    const struct mp_model *model = scene->model;
    ck_assert_uint_eq(model->blocks.count, scene->blocks.count);
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        const struct scene_block *block = &scene->blocks.at[(model->blocks.address[i] - 0x7f0000000000) / 0x100000];
        ck_assert_uint_eq(model->blocks.track[i], block->track);
        ck_assert_uint_eq(model->blocks.stack[i], block->stack);
        ck_assert_uint_eq(model->blocks.kind[i], block->kind);
        ck_assert_uint_eq(model->blocks.alloc_event[i], block->born < 0 ? MP_NONE : (uint32_t)block->born);
        ck_assert_uint_eq(model->blocks.free_event[i], block->died == INT64_MAX ? MP_NONE : (uint32_t)block->died);
        ck_assert_uint_eq(mp_model_module(model, i), block->module);
        size_t number = (size_t)(block - scene->blocks.at);
        ck_assert_uint_eq(mp_model_freed_at(model, i), block->died == INT64_MAX ? 0 : scene_freed_at(number));
        check_labels(scene, i, block);
        check_request(scene, i, number);
        for (int64_t moment = block->born + 1; moment <= (int64_t)scene->events.count; moment += 7)
            if (moment > 0)
                ck_assert_uint_eq(mp_model_bytes_at(model, i, (uint32_t)(moment - 1)), scene_bytes(block, moment));
    }
}

/* The model's events equal the scene's, in all fields. */
static void check_events(const struct scene *scene)
{
    const struct mp_model *model = scene->model;
    size_t notes = 0;
    ck_assert_uint_eq(model->events.count, scene->events.count);
    for (size_t i = 0; i < scene->events.count; i++) {
        const struct mp_event *event = &scene->events.at[i];
        ck_assert_uint_eq(model->events.type[i], event->type);
        ck_assert_uint_eq(model->events.time_ns[i], event->time_ns);
        ck_assert_uint_eq(model->events.thread[i], event->thread);
        bool has_track = event->type <= MP_EVENT_OOM || event->type == MP_EVENT_RESERVED;
        if (has_track) ck_assert_uint_eq(model->events.track[i], event->track);
        if (event->type <= MP_EVENT_RESIZE) continue;
        ck_assert_uint_eq(model->noted.at[notes], i);
        ck_assert_uint_eq(model->events.subject[i], notes);
        ck_whole_eq(mp_model_note, &model->notes.at[notes],
                    &((struct mp_model_note){.bytes = event->bytes, .stack = event->stack, .name = event->name}));
        notes++;
    }
    ck_assert_uint_eq(model->notes.count, notes);
    ck_assert_uint_eq(model->noted.count, notes);
}

START_TEST(sums_equal_brute_force)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct scene scene;
        scene_make(&scene, seed, EVENTS);
        ck_assert_uint_eq(scene.model->events.count, scene.events.count);
        for (uint16_t track = 0; track < SCENE_TRACKS; track++) {
            check_sums(&scene, track);
            check_counts(&scene, track);
        }
        check_blocks(&scene);
        check_events(&scene);
        scene_free(&scene);
    }
}

START_TEST(tracks_have_names_and_a_default)
{
    struct scene scene;
    char id[MP_TRACK_ID_MAX];
    scene_make(&scene, 5, EVENTS);
    ck_assert_str_eq(mp_track_id(scene.model, 0, id), "gpu/driver");
    ck_assert_str_eq(mp_track_id(scene.model, 2, id), "gpu/app/f");
    ck_assert_uint_eq(mp_track_find(scene.model, "gpu/torch"), 1);
    ck_assert_uint_eq(mp_track_find(scene.model, "gpu"), MP_TRACK_NONE);
    ck_assert_uint_eq(mp_track_default(scene.model), 2); /* one device: the uppermost layer that has events */
    scene.model->sums.at[2].events = 0;
    ck_assert_uint_eq(mp_track_default(scene.model), 1);
    scene_free(&scene);
}

/* A builder with one device and track, for recordings made by hand. */
static struct mp_builder *new_builder(void)
{
    static const struct mp_string_entry strings[] = {{"", 0}, {"gpu", 3}};
    static const struct mp_device device = {1, 0, 0, MP_BYTES_UNKNOWN};
    static const struct mp_track track = {0, MP_LAYER_TORCH, MP_BASIS_BLOCK, 0};
    static const struct mp_thread_info thread = {1, 0};
    struct mp_recording_start start = {0};
    struct mp_builder *builder;
    mp_builder_new(&start, &builder);
    ck_assert(!mp_builder_add(builder, &(struct mp_chunk){.kind = MP_CHUNK_STRINGS, .count = 2, .as.strings = strings},
                              NULL));
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_DEVICES, .sequence = 1, .count = 1, .as.devices = &device}, NULL));
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_TRACKS, .sequence = 2, .count = 1, .as.tracks = &track}, NULL));
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_THREADS, .sequence = 3, .count = 1, .as.threads = &thread}, NULL));
    return builder;
}

static enum mp_status add_event(struct mp_builder *builder, uint64_t sequence, struct mp_event event)
{
    struct mp_event_columns columns = {
        1,           &event.time_ns, &event.address, &event.bytes, &event.block, &event.stack,
        &event.name, &event.thread,  &event.track,   &event.type,  &event.kind};
    struct mp_error error;
    return mp_builder_add(
        builder,
        &(struct mp_chunk){.kind = MP_CHUNK_EVENTS_KIND, .sequence = sequence, .count = 1, .as.events = columns},
        &error);
}

static struct mp_model *finish(struct mp_builder *builder)
{
    struct mp_model *model;
    struct mp_damage damage = {0};
    mp_builder_finish(builder, &damage, 0, &model);
    return model;
}

/* Chunks were lost, and a base follows. Block 0 was freed unseen, block 2 was allocated unseen. */
START_TEST(base_after_a_gap_repairs)
{
    struct mp_builder *builder = new_builder();
    ck_assert(
        !add_event(builder, 4, (struct mp_event){.time_ns = 10, .type = MP_EVENT_ALLOC, .bytes = 100, .block = 0}));
    ck_assert(
        !add_event(builder, 5, (struct mp_event){.time_ns = 20, .type = MP_EVENT_ALLOC, .bytes = 50, .block = 1}));
    struct mp_base_block base[] = {{.block = 1, .bytes = 50, .birth_ns = 20},
                                   {.block = 70000, .bytes = 30, .birth_ns = 25}};
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_BASE, .sequence = 8, .count = 2, .as.base = base}, NULL));
    ck_assert(
        !add_event(builder, 9, (struct mp_event){.time_ns = 40, .type = MP_EVENT_FREE, .bytes = 30, .block = 70000}));
    struct mp_model *model = finish(builder);
    const struct mp_model_track_sum *sum = &model->sums.at[0];
    ck_assert_uint_eq(sum->base_bytes, 0);
    ck_assert_uint_eq(sum->peak_bytes, 150); /* never 180: the gap makes up no peak */
    ck_assert_uint_eq(sum->end_bytes, 50);
    ck_assert_uint_eq(model->blocks.count, 3);
    ck_assert_uint_eq(model->events.time_ns[model->blocks.alloc_event[2]], 25);
    ck_assert_uint_eq(model->events.thread[model->blocks.alloc_event[2]], MP_NONE);
    ck_assert_uint_eq(model->events.count, 5);
    mp_model_free(model);
}

/* A base with as many live blocks as expected, but with other ones. */
START_TEST(a_base_counts_by_its_blocks)
{
    struct mp_builder *builder = new_builder();
    for (uint64_t i = 0; i < 3; i++)
        ck_assert(
            !add_event(builder, 4 + i,
                       (struct mp_event){.time_ns = 10 + i, .type = MP_EVENT_ALLOC, .bytes = 100 + i, .block = i}));
    ck_assert(
        !add_event(builder, 7, (struct mp_event){.time_ns = 20, .type = MP_EVENT_FREE, .bytes = 100, .block = 0}));
    /* Both died unseen, and two others were born. */
    struct mp_base_block base[] = {{.block = 400, .bytes = 6, .birth_ns = 24},
                                   {.block = 500, .bytes = 7, .birth_ns = 25}};
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_BASE, .sequence = 9, .count = 2, .as.base = base}, NULL));
    struct mp_model *model = finish(builder);
    const struct mp_model_track_sum *sum = &model->sums.at[0];
    ck_assert_uint_eq(sum->end_bytes, 6 + 7);
    ck_assert_uint_eq(sum->end_blocks, 2);
    ck_assert_uint_eq(sum->peak_bytes, 100 + 101 + 102);
    ck_assert_uint_eq(model->blocks.count, 5);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_int_eq(model->blocks.free_event[i] == MP_NONE, model->blocks.bytes[i] < 100);
    mp_model_free(model);
}

/* Four tracks: the part left out had a lower peak, a higher one, and an equal one, which counts as first. The fourth
 * track had no peak there.
 */
START_TEST(a_peak_in_the_past_is_its_tracks)
{
    static const struct mp_track more[] = {{0, MP_LAYER_DRIVER, MP_BASIS_BLOCK, 0},
                                           {0, MP_LAYER_APP, MP_BASIS_BLOCK, 0},
                                           {0, MP_LAYER_APP, MP_BASIS_BLOCK, 1}};
    static const struct mp_past past = {.events = 9, .steps = 2, .time_ns = 8};
    static const struct mp_past_peak peaks[] = {
        {.bytes = 99, .blocks = 4, .time_ns = 6, .step = 2, .reserved_bytes = 200, .track = 0},
        {.bytes = 101, .blocks = 3, .time_ns = 5, .step = 1, .reserved_bytes = MP_BYTES_UNKNOWN, .track = 1},
        {.bytes = 100, .blocks = 2, .time_ns = 7, .step = 2, .reserved_bytes = MP_BYTES_UNKNOWN, .track = 2}};
    static const struct mp_past_site site = {.bytes = 101, .blocks = 3, .track = 1};
    struct mp_builder *builder = new_builder();
    const struct mp_chunk chunks[] = {
        {.kind = MP_CHUNK_TRACKS, .sequence = 4, .count = 3, .as.tracks = more},
        {.kind = MP_CHUNK_PAST, .sequence = 5, .count = 1, .as.past = &past},
        {.kind = MP_CHUNK_PAST_PEAKS, .sequence = 6, .count = 3, .as.past_peaks = peaks},
        {.kind = MP_CHUNK_PAST_SITES, .sequence = 7, .count = 1, .as.past_sites = &site},
    };
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
        ck_assert(!mp_builder_add(builder, &chunks[i], NULL));
    for (uint16_t track = 0; track < 4; track++)
        ck_assert(!add_event(
            builder, 8 + track,
            (struct mp_event){
                .time_ns = 10 + track, .type = MP_EVENT_ALLOC, .bytes = 100, .block = track, .track = track}));
    struct mp_model *model = finish(builder);
    for (uint16_t track = 0; track < 4; track++) {
        const struct mp_model_track_sum *sum = &model->sums.at[track];
        bool before = track == 1 || track == 2;
        ck_assert_int_eq(sum->peak_in_past, before);
        ck_assert_uint_eq(sum->peak_bytes, before ? peaks[track].bytes : 100);
        ck_assert_uint_eq(sum->peak_blocks, before ? peaks[track].blocks : 1);
        ck_assert_uint_eq(sum->peak_ns, before ? peaks[track].time_ns : 10u + track);
        ck_assert_uint_eq(sum->peak_event, before ? MP_NONE : track);
        ck_assert_uint_eq(sum->past.bytes, track < 3 ? peaks[track].bytes : 0);
    }
    ck_assert_uint_eq(model->sums.at[0].reserved_peak_bytes, 200);
    ck_assert_uint_eq(model->past.events, past.events);
    ck_assert_uint_eq(model->past_sites.count, 1);
    mp_model_free(model);
}

START_TEST(nonsense_is_refused_or_harmless)
{
    struct mp_builder *builder = new_builder();
    ck_assert_int_eq(add_event(builder, 4, (struct mp_event){.type = MP_EVENT_ALLOC, .bytes = 1, .track = 7}),
                     MP_DAMAGED);
    ck_assert_int_eq(add_event(builder, 5, (struct mp_event){.type = MP_EVENT_ALLOC, .bytes = 1, .stack = 7}),
                     MP_DAMAGED);
    ck_assert_int_eq(add_event(builder, 6, (struct mp_event){.type = MP_EVENT_ALLOC, .bytes = 1, .thread = 7}),
                     MP_DAMAGED);
    ck_assert_int_eq(add_event(builder, 7, (struct mp_event){.type = 200}), MP_OK);
    struct mp_event far = {.type = MP_EVENT_ALLOC, .bytes = 8, .block = UINT64_MAX - 1};
    ck_assert_int_eq(add_event(builder, 8, far), MP_OK); /* no memory for all the numbers before it */
    ck_assert_int_eq(add_event(builder, 9, far), MP_OK); /* the number is taken */
    far.type = MP_EVENT_FREE;
    ck_assert_int_eq(add_event(builder, 10, far), MP_OK);
    ck_assert_int_eq(add_event(builder, 11, far), MP_OK); /* it is gone */
    struct mp_stack_node loop[] = {{0, MP_FRAME_CUT}, {1, MP_FRAME_CUT}};
    ck_assert_int_eq(
        mp_builder_add(
            builder, &(struct mp_chunk){.kind = MP_CHUNK_STACKS, .sequence = 12, .count = 2, .as.stacks = loop}, NULL),
        MP_DAMAGED);
    struct mp_symbol symbol = {.frame = 3};
    ck_assert_int_eq(
        mp_builder_add(builder,
                       &(struct mp_chunk){.kind = MP_CHUNK_SYMBOLS, .sequence = 13, .count = 1, .as.symbols = &symbol},
                       NULL),
        MP_DAMAGED);
    struct mp_model *model = finish(builder);
    ck_assert_uint_eq(model->events.count, 2);
    ck_assert_uint_eq(model->sums.at[0].allocs, 1);
    ck_assert_uint_eq(model->sums.at[0].frees, 1);
    ck_assert_uint_eq(model->sums.at[0].end_bytes, 0);
    mp_model_free(model);
}

/* A file that repeats a string keeps its ids right. */
START_TEST(repeated_strings_keep_their_ids)
{
    static const struct mp_string_entry more[] = {{"gpu", 3}, {"new", 3}};
    static const struct mp_device devices[] = {{2, 0, 0, MP_BYTES_UNKNOWN}, {3, 0, 0, 0}, {3, 2, 3, 80}};
    struct mp_builder *builder = new_builder();
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_STRINGS, .sequence = 4, .count = 2, .as.strings = more}, NULL));
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_DEVICES, .sequence = 5, .count = 3, .as.devices = devices}, NULL));
    struct mp_model *model = finish(builder);
    ck_assert_uint_eq(model->devices.count, 2); /* a device that is named again is the same, with the new facts */
    ck_assert_str_eq(mp_model_text(model, model->devices.at[0].name), "gpu");
    ck_assert_str_eq(mp_model_text(model, model->devices.at[1].name), "new");
    ck_assert_str_eq(mp_model_text(model, model->devices.at[1].uuid), "gpu");
    ck_assert_uint_eq(model->devices.at[1].total_bytes, 80);
    mp_model_free(model);
}

/* A base at the recording's beginning has labels from before it; a base in the middle has those of a pause.
 */
START_TEST(a_base_brings_labels)
{
    static const struct mp_string_entry more[] = {{"net.w", 5}, {"net.g", 5}};
    struct mp_builder *builder = new_builder();
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_STRINGS, .sequence = 4, .count = 2, .as.strings = more}, NULL));
    struct mp_base_block first = {.block = 0, .bytes = 8, .module = 3, .role = MP_ROLE_PARAMETER, .label = 2};
    struct mp_base_block second[] = {{.block = 0, .bytes = 8, .module = 3, .role = MP_ROLE_GRADIENT, .label = 3},
                                     {.block = 1, .bytes = 8, .birth_ns = 25, .role = MP_ROLES}};
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_BASE, .sequence = 5, .count = 1, .as.base = &first}, NULL));
    ck_assert(!add_event(builder, 6, (struct mp_event){.time_ns = 20, .type = MP_EVENT_STEP}));
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_BASE, .sequence = 9, .count = 2, .as.base = second}, NULL));
    struct mp_label unknown = {.time_ns = 21, .block = 70, .role = MP_ROLE_INPUT};
    ck_assert(!mp_builder_add(
        builder, &(struct mp_chunk){.kind = MP_CHUNK_LABELS, .sequence = 10, .count = 1, .as.labels = &unknown}, NULL));
    struct mp_model *model = finish(builder);
    ck_assert_str_eq(mp_model_text(model, mp_model_module(model, 0)), "net.g");
    ck_assert_uint_eq(mp_model_module(model, 1), 0);
    ck_assert_uint_eq(model->labels.count, 2);
    ck_assert_uint_eq(mp_model_label_at(model, 0, 0)->role, MP_ROLE_PARAMETER);
    ck_assert_str_eq(mp_model_text(model, mp_model_label_at(model, 0, 0)->name), "net.w");
    ck_assert_uint_eq(mp_model_label_at(model, 0, MP_NONE)->role, MP_ROLE_GRADIENT);
    ck_assert_ptr_null(mp_model_label_at(model, 1, MP_NONE)); /* a role of a newer version */
    mp_model_free(model);
}

/* The device with the highest peak and, on it, the uppermost layer that has events. Memory of the host that the
 * driver made counts for little, tracks that are no memory for nothing. */
START_TEST(the_default_is_the_uppermost_of_the_highest_device)
{
    enum { GPU0 = 0, GPU1 = 1, HOST = 2, PLAIN = 0, ADDRESSES = 4 };
    static const struct mp_string_entry strings[] = {
        {"", 0}, {"cuda:0", 6}, {"cuda:1", 6}, {"cpu", 3}, {"addresses", 9}};
    static const struct mp_device devices[] = {
        {1, 0, 0, MP_BYTES_UNKNOWN}, {2, 0, 0, MP_BYTES_UNKNOWN}, {3, 0, 0, MP_BYTES_UNKNOWN}};
    static const struct mp_track tracks[] = {
        {GPU0, MP_LAYER_DRIVER, MP_BASIS_EXACT, PLAIN},    {GPU0, MP_LAYER_TORCH, MP_BASIS_BLOCK, PLAIN},
        {GPU1, MP_LAYER_TORCH, MP_BASIS_BLOCK, PLAIN},     {GPU1, MP_LAYER_DRIVER, MP_BASIS_EXACT, PLAIN},
        {HOST, MP_LAYER_DRIVER, MP_BASIS_EXACT, PLAIN},    {HOST, MP_LAYER_TORCH, MP_BASIS_BLOCK, PLAIN},
        {GPU0, MP_LAYER_DRIVER, MP_BASIS_EXACT, ADDRESSES}};
    static const struct {
        uint64_t peaks[7]; /* by track; one without a peak has no events */
        uint16_t track;
    } cases[] = {
        {{80, 60, 50, 70, 0, 0, 0}, 1}, /* the driver's peak decides the device, its layer is not shown */
        {{70, 60, 50, 80, 0, 0, 0}, 2}, /* the other device */
        {{80, 0, 50, 70, 0, 0, 0}, 0},  /* the driver alone has events there */
        {{0, 0, 90, 0, 900, 0, 0}, 2},  /* pinned memory of the host does not count, */
        {{0, 0, 50, 0, 900, 0, 0}, 4},  /* unless the device has hardly any bytes */
        {{0, 0, 50, 0, 700, 90, 0}, 5}, /* tensors of the host count as those of a device */
        {{0, 0, 50, 0, 900, 20, 0}, 4}, /* pinned memory is in no other layer */
        {{0, 0, 0, 0, 900, 0, 0}, 4},   /* there is nothing else */
        {{0, 0, 50, 0, 0, 0, 9000}, 2}, /* addresses are no memory */
    };
    struct mp_recording_start start = {0};
    struct mp_builder *builder;
    mp_builder_new(&start, &builder);
    const struct mp_chunk chunks[] = {
        {.kind = MP_CHUNK_STRINGS, .count = 5, .as.strings = strings},
        {.kind = MP_CHUNK_DEVICES, .sequence = 1, .count = 3, .as.devices = devices},
        {.kind = MP_CHUNK_TRACKS, .sequence = 2, .count = 7, .as.tracks = tracks},
    };
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
        ck_assert(!mp_builder_add(builder, &chunks[i], NULL));
    struct mp_model *model = finish(builder);
    ck_assert_uint_eq(model->sums.count, 7);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t track = 0; track < 7; track++) {
            model->sums.at[track].peak_bytes = cases[i].peaks[track];
            model->sums.at[track].events = cases[i].peaks[track] > 0;
        }
        ck_assert_msg(mp_track_default(model) == cases[i].track, "case %zu: track %u", i, mp_track_default(model));
    }
    mp_model_free(model);
}

static bool takes(const struct mp_chunk *chunk)
{
    const struct mp_recording_start start = {0};
    struct mp_builder *builder;
    struct mp_error error;
    const struct mp_job_process process = {.verdict = MP_JOB_VERDICTS - 1};
    const struct mp_chunk first = {.kind = MP_CHUNK_JOB_PROCESSES, .count = 1, .as.job_processes = &process};
    mp_builder_new(&start, &builder);
    ck_assert(!mp_builder_add(builder, &first, &error));
    bool taken = !mp_builder_add(builder, chunk, &error);
    mp_builder_free(builder);
    return taken;
}

START_TEST(rows_of_jobs_that_no_job_has_are_refused)
{
    const struct {
        struct mp_job_site row;
        bool good;
    } sites[] = {{{.bytes = 9, .most = 9, .least = 9, .processes = 1}, true},
                 {{.bytes = 9, .most = 10, .least = 9, .processes = 1}, false},
                 {{.bytes = 9, .most = 8, .least = 9, .processes = 1}, false}};
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++)
        ck_assert(takes(&(struct mp_chunk){.kind = MP_CHUNK_JOB_SITES, .count = 1, .as.job_sites = &sites[i].row}) ==
                  sites[i].good);
    struct mp_job_process process = {.verdict = MP_JOB_VERDICTS};
    const struct mp_chunk processes = {.kind = MP_CHUNK_JOB_PROCESSES, .count = 1, .as.job_processes = &process};
    ck_assert(!takes(&processes));
    process.verdict--;
    ck_assert(takes(&processes));
    struct mp_job_finding finding = {.class = MP_JOB_CLASSES};
    const struct mp_chunk findings = {.kind = MP_CHUNK_JOB_FINDINGS, .count = 1, .as.job_findings = &finding};
    ck_assert(!takes(&findings));
    finding.class = MP_JOB_CLASSES - 1;
    ck_assert(takes(&findings));
    struct mp_job_track twice[2] = {{.layer = MP_LAYERS - 1, .size_basis = MP_BASIS_EXACT}};
    struct mp_chunk tracks = {.kind = MP_CHUNK_JOB_TRACKS, .count = 1, .as.job_tracks = twice};
    ck_assert(takes(&tracks));
    tracks.count = 2;
    ck_assert(!takes(&tracks));
    tracks.count = 1;
    twice[0].layer = MP_LAYERS;
    ck_assert(!takes(&tracks));
    twice[0].layer = 0;
    twice[0].size_basis = MP_BASIS_EXACT + 1;
    ck_assert(!takes(&tracks));
}

MP_SUITE("builder", a_base_brings_labels, sums_equal_brute_force, tracks_have_names_and_a_default,
         base_after_a_gap_repairs, a_base_counts_by_its_blocks, a_peak_in_the_past_is_its_tracks,
         nonsense_is_refused_or_harmless, repeated_strings_keep_their_ids, rows_of_jobs_that_no_job_has_are_refused,
         the_default_is_the_uppermost_of_the_highest_device)

/* A user's questions to a model: windows, filters, stacks. Every answer is compared with the scene. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/builder.h"
#include "model/filter.h"
#include "model/module_path.h"
#include "model/spans.h"
#include "model/stack.h"
#include "model/track.h"
#include "model/window.h"
#include "unit/model/scene.h"
#include "unit/suite.h"

#define EVENTS 400

static size_t events_until(const struct scene *scene, uint64_t ns, bool also_at)
{
    size_t count = 0;
    for (size_t i = 0; i < scene->events.count; i++)
        count += scene->events.at[i].time_ns < ns || (also_at && scene->events.at[i].time_ns == ns);
    return count;
}

START_TEST(windows_by_time_and_part)
{
    struct scene scene;
    struct mp_window window;
    scene_make(&scene, 3, EVENTS);
    uint64_t end = scene.model->duration_ns;
    ck_assert(!mp_window_make(scene.model, NULL, NULL, &window, NULL));
    ck_assert(window.whole && window.first == 0 && window.last == scene.events.count && window.to_ns == end);
    ck_assert(!mp_window_make(scene.model, "20us", "75%", &window, NULL));
    ck_assert(!window.whole);
    ck_assert_uint_eq(window.first, events_until(&scene, 20000, false));
    ck_assert_uint_eq(window.to_ns, end / 4 * 3 + end % 4 * 3 / 4);
    ck_assert_uint_eq(window.last, events_until(&scene, window.to_ns, true));
    scene_free(&scene);
}

START_TEST(windows_by_step)
{
    struct scene scene;
    struct mp_window window;
    uint64_t begins[EVENTS + 1];
    size_t steps = 0;
    char text[32];
    scene_make(&scene, 4, EVENTS);
    for (size_t i = 0; i < scene.events.count; i++)
        if (scene.events.at[i].type == MP_EVENT_STEP) begins[steps++] = scene.events.at[i].time_ns;
    ck_assert_uint_ge(steps, 3);
    begins[steps] = scene.model->duration_ns;
    ck_assert(!mp_window_make(scene.model, "step:2", "step:2", &window, NULL));
    ck_assert_uint_eq(window.from_ns, begins[1]);
    ck_assert_uint_eq(window.to_ns, begins[2]);
    snprintf(text, sizeof text, "step:%zu", steps);
    ck_assert(!mp_window_make(scene.model, text, text, &window, NULL));
    ck_assert_uint_eq(window.to_ns, begins[steps]);
    snprintf(text, sizeof text, "step:%zu", steps + 1);
    ck_assert_int_eq(mp_window_make(scene.model, text, NULL, &window, NULL), MP_INVALID);
    scene_free(&scene);
}

START_TEST(bad_windows_are_refused)
{
    static const char *const bad[] = {"", "x", "step:", "step:0", "step:1x", "101%", "-1s", "1s1", "50%%", "%"};
    struct scene scene;
    struct mp_window window;
    scene_make(&scene, 3, EVENTS);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(mp_window_make(scene.model, bad[i], NULL, &window, NULL), MP_INVALID);
    ck_assert_int_eq(mp_window_make(scene.model, "50%", "25%", &window, NULL), MP_INVALID);
    ck_assert_int_eq(mp_window_make(scene.model, "1h", NULL, &window, NULL), MP_INVALID);
    scene_free(&scene);
}

static const struct scene_block *block_of(const struct scene *scene, uint32_t block)
{
    return &scene->blocks.at[(scene->model->blocks.address[block] - 0x7f0000000000) / 0x100000];
}

static uint32_t step_of(const struct scene *scene, int64_t born)
{
    uint32_t step = 0;
    for (int64_t i = 0; i < born; i++)
        step += scene->events.at[i].type == MP_EVENT_STEP;
    return step;
}

static bool calls_f(const struct scene *scene, uint32_t stack)
{
    for (; stack; stack = scene->model->stacks.at[stack].parent)
        if (stack % 3 == 0) return true;
    return false;
}

/* Categories of tracks, made up. */
static const char *category_of(const void *context, uint32_t block)
{
    static const char *const names[SCENE_TRACKS] = {"even", "odd", ""};
    const struct scene *scene = context;
    return names[block_of(scene, block)->track];
}

static bool wanted(const struct scene *scene, const uint32_t *regions, uint32_t at, size_t which)
{
    const struct scene_block *block = block_of(scene, at);
    uint64_t size = block->bytes[0];
    bool known = size != MP_BYTES_UNKNOWN;
    switch (which) {
    case 0:
        return known && size > 8192;
    case 1:
        return known && size <= 8192;
    case 2:
        return calls_f(scene, block->stack);
    case 3:
        return !calls_f(scene, block->stack);
    case 4:
        return block->track == 1;
    case 5:
        return block->track != 1;
    case 6:
        return block->born >= 0 && step_of(scene, block->born) >= 3 && step_of(scene, block->born) <= 9;
    case 7:
        return known && size >= 1024 && size < 20480 && block->track == 2;
    case 8:
        return block->stack != 0;
    case 9:
        return block->track == 0;
    case 10:
        return block->track != 2;
    case 11:
        return regions[at] != MP_NONE && !strcmp(mp_model_text(scene->model, regions[at]), "loss");
    case 12:
        return regions[at] == MP_NONE || !strstr(mp_model_text(scene->model, regions[at]), "ward");
    case 13:
        return block->module && strstr(mp_model_text(scene->model, block->module), "ward");
    case 14:
        return block->labels && block->role[block->labels - 1] == MP_ROLE_OPTIMIZER_STATE;
    case 15:
        return block->labels;
    case 16:
        return block->labels && strstr(mp_model_text(scene->model, block->label[block->labels - 1]), "ward");
    default:
        return block->born < 0 || step_of(scene, block->born) < 1;
    }
}

START_TEST(filters_pick_what_they_say)
{
    static const char *const texts[] = {"size>8KiB",
                                        "size<=8192",
                                        "fn~^f$",
                                        "fn!~f",
                                        "layer=torch",
                                        "layer!=torch",
                                        "step=3..9",
                                        "size>=1KiB, size<20KiB,layer=app",
                                        "file~g.{1,2}u",
                                        "category=even",
                                        "category!~^$",
                                        "region=loss",
                                        "region!~ward",
                                        "module~ward",
                                        "role=optimizer_state",
                                        "role!=none",
                                        "label~ward",
                                        "step<1"};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct scene scene;
        scene_make(&scene, seed, EVENTS);
        const struct mp_filter_categories categories = {category_of, &scene};
        uint32_t *regions = mp_regions_of_births(scene.model);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            struct mp_filter *filter;
            ck_assert(!mp_filter_make(scene.model, texts[i], &categories, &filter, NULL));
            for (uint32_t block = 0; block < scene.model->blocks.count; block++)
                ck_assert_msg(mp_filter_picks(filter, block) == wanted(&scene, regions, block, i),
                              "filter %s, block %u", texts[i], block);
            mp_filter_free(filter);
        }
        free(regions);
        scene_free(&scene);
    }
}

START_TEST(bad_filters_are_refused)
{
    static const char *const bad[] = {
        "",         "size",     "size>",      "size>x",          "size~1", "fn>a",      "fn~(",    "layer=cuda",
        "kind=x",   "step=",    "step=9..3",  "step=1..",        "step=a", "color=red", "size>1,", "size>1,bogus",
        "module>a", "region~(", "category=a", "role=parameters", "role~x", "label>a"};
    struct scene scene;
    scene_make(&scene, 1, 50);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mp_filter *filter = NULL;
        ck_assert_msg(mp_filter_make(scene.model, bad[i], NULL, &filter, NULL) == MP_INVALID, "\"%s\" was taken",
                      bad[i]);
    }
    scene_free(&scene);
}

START_TEST(stacks_resolve_to_the_root)
{
    struct scene scene;
    struct mp_stack_lines lines = {0};
    scene_make(&scene, 1, 50);
    const struct mp_model *model = scene.model;
    for (uint32_t stack = 0; stack < SCENE_STACKS; stack++) {
        mp_stack_resolve(model, stack, &lines);
        size_t depth = 0;
        for (uint32_t node = stack; node; node = model->stacks.at[node].parent, depth++) {
            ck_assert_uint_eq(lines.at[depth].line, node);
            ck_assert_str_eq(lines.at[depth].function, node % 3 ? "g" : "f");
            ck_assert(lines.at[depth].user);
        }
        ck_assert_uint_eq(lines.count, depth);
        ck_assert_ptr_eq(mp_stack_headline(&lines), depth ? lines.at : NULL);
    }
    mp_stack_resolve(model, 12345, &lines); /* no such stack: empty */
    ck_assert_uint_eq(lines.count, 0);
    mp_stack_lines_free(&lines);
    scene_free(&scene);
}

START_TEST(user_code_is_told_from_packages)
{
    static const struct {
        const char *file;
        bool user;
    } files[] = {{"/home/a/train.py", true},
                 {"train.py", true},
                 {"<string>", true},
                 {"<ipython-input-1-abc>", true},
                 {"/tmp/ipykernel_1/2.py", true},
                 {"<frozen importlib._bootstrap>", false},
                 {"<eval_with_key>.1", false},
                 {"/usr/lib/python3/dist-packages/torch/nn/functional.py", false},
                 {"/home/a/.venv/lib/python3.11/site-packages/torch/nn/functional.py", false},
                 {"/usr/lib/python3.11/contextlib.py", false},
                 {"/usr/share/memprof/python/libmemprof.py", false}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct mp_recording_start start = {0};
        struct mp_builder *builder;
        struct mp_model *model;
        struct mp_stack_lines lines = {0};
        struct mp_string_entry strings[] = {{"", 0}, {files[i].file, strlen(files[i].file)}};
        struct mp_frame frame = {MP_PYTHON, 0, 0, 0, 1, 7, 0};
        struct mp_stack_node nodes[] = {{0, 0}, {0, 0}};
        mp_builder_new(&start, &builder);
        ck_assert(!mp_builder_add(
            builder, &(struct mp_chunk){.kind = MP_CHUNK_STRINGS, .count = 2, .as.strings = strings}, NULL));
        ck_assert(!mp_builder_add(
            builder, &(struct mp_chunk){.kind = MP_CHUNK_FRAMES, .sequence = 1, .count = 1, .as.frames = &frame},
            NULL));
        ck_assert(!mp_builder_add(
            builder, &(struct mp_chunk){.kind = MP_CHUNK_STACKS, .sequence = 2, .count = 2, .as.stacks = nodes}, NULL));
        mp_builder_finish(builder, &(struct mp_damage){0}, 0, &model);
        mp_stack_resolve(model, 1, &lines);
        ck_assert_uint_eq(lines.count, 1);
        ck_assert_msg(lines.at[0].user == files[i].user, "%s", files[i].file);
        mp_stack_lines_free(&lines);
        mp_model_free(model);
    }
}

START_TEST(headlines)
{
    struct mp_stack_line lines[] = {
        {.language = MP_NATIVE, .function = "c10::alloc_cpu", .module = "/lib/libc10.so"},
        {.language = MP_NATIVE, .module = "/lib/libtorch_cpu.so"},
        {.language = MP_NATIVE, .function = "at::empty", .module = "/lib/libtorch_cpu.so"},
        {.language = MP_PYTHON, .function = "_call_impl", .file = "/usr/lib/python3/dist-packages/torch/nn/module.py"},
        {.language = MP_PYTHON, .function = "forward", .file = "/home/a/model.py", .user = true},
    };
    for (size_t count = 0; count <= 5; count++) {
        struct mp_stack_lines list = {lines, count, 0};
        static const int want[] = {-1, 0, 0, 2, 3, 4};
        ck_assert_ptr_eq(mp_stack_headline(&list), want[count] < 0 ? NULL : &lines[want[count]]);
    }
    ck_assert_str_eq(mp_path_short("/a/b/c.py"), "c.py");
    ck_assert_str_eq(mp_path_short("c.py"), "c.py");
    ck_assert_str_eq(mp_path_short("/a/nn/__init__.py"), "nn/__init__.py");
    ck_assert_str_eq(mp_path_short("__init__.py"), "__init__.py");
    ck_assert_str_eq(mp_path_short("<string>"), "<string>");
}

/* The pattern that the paths make, or the path that does not fit it. */
static const char *pattern_of(const char *const *paths, struct mp_buffer *pattern)
{
    mp_buffer_free(pattern);
    for (; *paths; paths++)
        if (!mp_module_pattern_add(pattern, *paths)) return *paths;
    return mp_buffer_text(pattern);
}

START_TEST(paths_of_modules_become_patterns)
{
    static const struct {
        const char *paths[4], *want;
    } cases[] = {{{"blocks.0.attn", "blocks.1.attn", "blocks.11.attn"}, "blocks.*.attn"},
                 {{"blocks.3.attn", "blocks.3.attn"}, "blocks.3.attn"},
                 {{"a.0.b.1", "a.0.b.2"}, "a.0.b.*"},
                 {{"a.0.b.1", "a.0.b.2", "a.1.b.2"}, "a.*.b.*"},
                 {{"0", "1"}, "*"},
                 {{"head"}, "head"},
                 {{"a.0", "b.0"}, "b.0"},
                 {{"a.0", "a.x"}, "a.x"},
                 {{"a.0", "a"}, "a"},
                 {{"a", "a.0"}, "a.0"},
                 {{"a.b", "a.b.c"}, "a.b.c"}};
    struct mp_buffer pattern = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(pattern_of(cases[i].paths, &pattern), cases[i].want);
    mp_buffer_free(&pattern);
}

START_TEST(the_one_root_of_paths_is_left_out)
{
    static const char *const texts[] = {"", "Net", "Net.a.b", "Network.a", "Net.c"};
    struct mp_model model = {.blocks.count = 3};
    uint32_t modules[3] = {1, 0, 2};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ck_assert_uint_eq(mp_intern_text(&model.strings, texts[i]), i);
    ck_assert_uint_eq(mp_module_root(&model), 0);
    model.blocks.module = modules;
    ck_assert_uint_eq(mp_module_root(&model), 4);
    ck_assert_str_eq(mp_module_path(&model, 4, 1), "Net");
    ck_assert_str_eq(mp_module_path(&model, 4, 2), "a.b");
    ck_assert_str_eq(mp_module_path(&model, 4, 0), "");
    modules[1] = 4;
    ck_assert_uint_eq(mp_module_root(&model), 4);
    modules[1] = 3;
    ck_assert_uint_eq(mp_module_root(&model), 0);
    ck_assert_str_eq(mp_module_path(&model, 0, 2), "Net.a.b");
    mp_intern_free(&model.strings);
}

static uint64_t random_below(uint64_t *random, uint64_t below)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random % below;
}

/* Random tracks of three devices with some totals, of which each track's last one counts. Every pair of tracks is
 * checked. */
START_TEST(what_an_allocator_has_from_a_lower_layer_is_its)
{
    enum { TRACKS = 9, TOTALS = 12 };
    uint64_t random = 7, backing = 0;
    for (int trial = 0; trial < 500; trial++) {
        struct mp_model model = {0};
        uint8_t types[TOTALS];
        uint16_t tracks[TOTALS];
        uint64_t last[TRACKS];
        memset(types, MP_EVENT_RESERVED, sizeof types);
        memset(last, 0xff, sizeof last);
        model.events.type = types;
        model.events.track = tracks;
        ck_assert_uint_eq(mp_intern_text(&model.strings, ""), 0);
        for (int i = 0; i < TRACKS; i++) {
            const struct mp_track track = {.device = (uint32_t)random_below(&random, 3),
                                           .layer = (uint8_t)(MP_LAYER_DRIVER + random_below(&random, 3))};
            ck_assert(mp_vec_push(&model.tracks, track));
            const struct mp_model_track_sum sum = {.end_bytes = random_below(&random, 5)};
            ck_assert(mp_vec_push(&model.sums, sum));
        }
        for (uint32_t event = 0; event < TOTALS; event++) {
            const struct mp_model_note note = {.bytes = random_below(&random, 5)};
            tracks[event] = (uint16_t)random_below(&random, TRACKS);
            types[event] = random_below(&random, 4) ? MP_EVENT_RESERVED : MP_EVENT_OOM;
            if (types[event] == MP_EVENT_RESERVED) last[tracks[event]] = note.bytes;
            ck_assert(mp_vec_push(&model.notes, note) && mp_vec_push(&model.noted, event));
        }
        unsigned char *meant = mp_tracks_meant(&model, MP_TRACK_NONE);
        for (int below = 0; below < TRACKS; below++) {
            const struct mp_track *lower = &model.tracks.at[below];
            bool backs = false;
            for (int i = 0; i < TRACKS; i++)
                backs |= model.tracks.at[i].device == lower->device && model.tracks.at[i].layer > lower->layer &&
                         last[i] == model.sums.at[below].end_bytes;
            ck_assert_int_eq(meant[below], !backs);
            backing += backs;
        }
        free(meant);
        mp_vec_free(&model.tracks);
        mp_vec_free(&model.sums);
        mp_vec_free(&model.notes);
        mp_vec_free(&model.noted);
        mp_intern_free(&model.strings);
    }
    ck_assert_uint_gt(backing, 400);
}

MP_SUITE("questions", what_an_allocator_has_from_a_lower_layer_is_its, paths_of_modules_become_patterns,
         the_one_root_of_paths_is_left_out, windows_by_time_and_part, windows_by_step, bad_windows_are_refused,
         filters_pick_what_they_say, bad_filters_are_refused, stacks_resolve_to_the_root,
         user_code_is_told_from_packages, headlines)

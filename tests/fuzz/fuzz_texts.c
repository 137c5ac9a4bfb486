/*
 * libFuzzer target for texts of users, and names of programs: a byte that picks the reader, then the text. Accepted
 * texts are used; refused ones are refused in one sentence.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/allocator/torch_settings.h"
#include "analysis/leaks/suppress.h"
#include "analysis/sites/sites.h"
#include "base/setting.h"
#include "base/step_rule.h"
#include "base/units.h"
#include "collect/recording/schedule.h"
#include "collect/session/command_line.h"
#include "collect/session/membership.h"
#include "collect/session/naming.h"
#include "collect/symbols/demangle.h"
#include "model/builder.h"
#include "model/filter.h"
#include "model/rules.h"
#include "model/track.h"
#include "model/window.h"
#include "output/form/text.h"
#include "wire/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A recording with one block, whose one frame has the name that the text's second half gives. */
static struct mp_model *make_model(const char *name)
{
    struct mp_recording_start start = {.host = "h", .configuration = "", .spool = ""};
    struct mp_builder *builder;
    struct mp_model *model;
    struct mp_error error;
    mp_builder_new(&start, &builder);
    struct mp_string_entry strings[] = {{"", 0}, {"cuda:0", 6}, {name, strlen(name)}};
    struct mp_device device = {.name = 1};
    struct mp_track track = {.layer = MP_LAYER_TORCH};
    struct mp_thread_info thread = {.tid = 1};
    struct mp_frame frame = {.language = MP_PYTHON, .function = 2, .file = 2, .line = 3};
    struct mp_stack_node stacks[] = {{0, 0}, {0, 0}};
    uint64_t time = 1, address = 4096, bytes = 512, block = 0;
    uint32_t stack = 1, none = 0;
    uint16_t on = 0;
    uint8_t type = MP_EVENT_ALLOC, kind = MP_KIND_DEVICE;
    const struct mp_chunk chunks[] = {
        {.kind = MP_CHUNK_STRINGS, .count = 3, .as.strings = strings},
        {.kind = MP_CHUNK_DEVICES, .count = 1, .as.devices = &device},
        {.kind = MP_CHUNK_TRACKS, .count = 1, .as.tracks = &track},
        {.kind = MP_CHUNK_THREADS, .count = 1, .as.threads = &thread},
        {.kind = MP_CHUNK_FRAMES, .count = 1, .as.frames = &frame},
        {.kind = MP_CHUNK_STACKS, .count = 2, .as.stacks = stacks},
        {.kind = MP_CHUNK_EVENTS_KIND,
         .count = 1,
         .as.events = {.count = 1,
                       .time_ns = &time,
                       .address = &address,
                       .bytes = &bytes,
                       .block = &block,
                       .stack = &stack,
                       .name = &none,
                       .thread = &none,
                       .track = &on,
                       .type = &type,
                       .kind = &kind}},
    };
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
        if (mp_builder_add(builder, &chunks[i], &error)) abort();
    mp_builder_finish(builder, &(struct mp_damage){0}, 0, &model);
    return model;
}

/* The text up to its first zero byte, and what follows. */
static const char *second(const char *text, size_t size)
{
    size_t length = strlen(text);
    return length < size ? text + length + 1 : "";
}

static void check_error(enum mp_status status, const struct mp_error *error)
{
    if (status && (!*error->text || strlen(error->text) >= sizeof error->text)) abort();
}

static void suppressions(const char *text, size_t size)
{
    struct mp_suppressions all = {0};
    struct mp_error error;
    check_error(mp_suppressions_parse(text, "file", &all, &error), &error);
    struct mp_model *model = make_model(second(text, size));
    (void)mp_suppressions_find(&all, model, 1);
    mp_model_free(model);
    mp_suppressions_free(&all);
}

/* A rule matches a frame exactly if its expression does, although a literal is searched first. */
static void rules(const char *text, size_t size)
{
    struct mp_rules all = {0};
    struct mp_error error;
    struct mp_buffer scratch = {0};
    check_error(mp_rules_parse(&all, "file", text, &error), &error);
    struct mp_model *model = make_model(second(text, size));
    uint32_t found = mp_rules_find_frame(&all, model, 0, &scratch), want = 0;
    while (want < all.rules.count && regexec(&all.rules.at[want].regex, (const char *)scratch.data, 0, NULL, 0))
        want++;
    if (found != (want < all.rules.count ? want : MP_NONE)) abort();
    mp_buffer_free(&scratch);
    mp_model_free(model);
    mp_rules_free(&all);
}

static void filter(const char *text, size_t size)
{
    struct mp_model *model = make_model(second(text, size));
    struct mp_filter *made = NULL;
    struct mp_error error;
    enum mp_status status = mp_filter_make(model, text, NULL, &made, &error);
    check_error(status, &error);
    if (!status) {
        (void)mp_filter_picks(made, 0);
        mp_filter_free(made);
    }
    mp_model_free(model);
}

static void window(const char *text, size_t size)
{
    struct mp_model *model = make_model("f");
    struct mp_window found;
    struct mp_error error;
    enum mp_status status = mp_window_make(model, text, second(text, size), &found, &error);
    check_error(status, &error);
    if (!status && (found.first > found.last || found.last > model->events.count)) abort();
    (void)mp_track_find(model, text);
    mp_model_free(model);
}

/* A schedule's own text is read again as the same schedule. */
static void schedule(const char *text, size_t size)
{
    struct mp_schedule made = {0}, again = {0};
    struct mp_error error;
    char first[MP_SPOOL_SCHEDULE], other[MP_SPOOL_SCHEDULE];
    (void)size;
    enum mp_status status = mp_schedule_parse(text, &made, &error);
    check_error(status, &error);
    if (status) return;
    if (mp_schedule_format(&made, first, sizeof first)) {
        if (mp_schedule_parse(first, &again, &error)) abort();
        if (!mp_schedule_format(&again, other, sizeof other) || strcmp(first, other)) abort();
        mp_schedule_free(&again);
    }
    mp_schedule_free(&made);
}

static void step_rule(const char *text, size_t size)
{
    struct mp_step_rule rule;
    struct mp_error error;
    char setting[MP_STEP_RANGE_ROOM];
    enum mp_status status = mp_step_rule_open(&rule, text, &error);
    check_error(status, &error);
    if (!status) {
        (void)mp_step_rule_matches(&rule, second(text, size));
        mp_step_rule_close(&rule);
    }
    mp_setting(setting, sizeof setting, text, "step_range");
    if (strlen(setting) >= sizeof setting) abort();
    mp_step_rule_open_configured(&rule, text);
    mp_step_rule_close(&rule);
}

static void configuration(const char *text, size_t size)
{
    struct mp_record_config config, again;
    char made[4096];
    (void)size;
    mp_record_config_defaults(&config);
    mp_record_config_parse(text, &config);
    if (config.depth < 8 || config.depth > MP_DEPTH_MAX) abort();
    if (!mp_record_config_format(&config, made, sizeof made)) abort();
    mp_record_config_defaults(&again);
    mp_record_config_parse(made, &again);
    if (again.depth != config.depth || again.paused != config.paused) abort();
}

static void command_line(const char *text, size_t size)
{
    char *arguments = calloc(1, size + 2);
    if (!arguments) abort();
    memcpy(arguments, text, size);
    mp_command_line_mask(arguments);
    for (size_t i = size; i < size + 2; i++)
        if (arguments[i]) abort();
    free(arguments);
}

static void units(const char *text, size_t size)
{
    uint64_t number;
    char made[MP_UNIT_TEXT];
    struct mp_grouping grouping;
    struct mp_error error;
    (void)size;
    if (mp_parse_bytes(text, &number)) (void)mp_format_bytes(made, number);
    if (mp_parse_duration(text, &number)) (void)mp_format_duration(made, number);
    check_error(mp_group_parse(text, &grouping, &error), &error);
    check_error(mp_sort_parse(text, &grouping, &error), &error);
}

static void allocator_settings(const char *text, size_t size)
{
    struct mp_torch_settings settings;
    struct mp_error error;
    (void)size;
    mp_torch_settings_default(&settings);
    check_error(mp_torch_settings_parse(&settings, text, &error), &error);
}

static void naming(const char *text, size_t size)
{
    char pattern[4096];
    const struct mp_naming names = {.pattern = pattern, .host = second(text, size), .start_unix_s = 1};
    if (snprintf(pattern, sizeof pattern, "/folder/%s", text) >= (int)sizeof pattern) return;
    struct mp_environment environment = {text, size};
    struct mp_named process = {.pid = 1, .program = text};
    mp_membership_of_environment(&environment, &environment, 1, &process.member);
    for (unsigned number = 0; number < 3; number++)
        free(mp_naming_path(&names, &process, number));
    (void)mp_naming_separates_processes(pattern);
}

/* Names are printed without anything that a terminal would obey. */
static void names(const char *text, size_t size)
{
    struct mp_buffer clean = {0};
    struct mp_demangler *demangler = mp_demangler_open();
    if (!demangler) abort();
    (void)size;
    mp_text_clean(&clean, mp_demangle(demangler, text));
    for (size_t i = 0; i < clean.size; i++) {
        bool second_control = i && clean.data[i - 1] == 0xc2 && clean.data[i] < 0xa0;
        if (clean.data[i] < ' ' || clean.data[i] == 0x7f || second_control) abort();
    }
    mp_buffer_free(&clean);
    mp_demangler_close(demangler);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *, size_t) = {
        suppressions, filter, window, schedule,           step_rule, configuration,
        command_line, units,  names,  allocator_settings, naming,    rules};
    if (!size || size > 4096) return 0;
    char *text = malloc(size);
    if (!text) abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    readers[data[0] % (sizeof readers / sizeof *readers)](text, size - 1);
    free(text);
    return 0;
}

#include "unit/suite.h"
#include "viz/made_model.h"

#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include "base/varint.h"
#include "model/builder.h"
#include "model/stack_facts.h"
#include "output/page/page.h"
#include "output/page/page_pack.h"

/* Takes the page's text over from a file, with a NUL at its end. */
static char *text_of(FILE *file, size_t *size)
{
    long end = ftell(file);
    ck_assert_int_ge(end, 0);
    char *text = malloc((size_t)end + 1);
    rewind(file);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(fread(text, 1, (size_t)end, file), (size_t)end);
    text[end] = '\0';
    if (size) *size = (size_t)end;
    fclose(file);
    return text;
}

static char *page_of(const struct mp_model *model, const char *title)
{
    struct mp_page_options options = {.track = -1, .title = title};
    struct mp_error error;
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ck_assert_msg(mp_page_write(model, &options, file, &error) == MP_OK, "%s", error.text);
    return text_of(file, NULL);
}

static size_t occurrences(const char *text, const char *part)
{
    size_t count = 0;
    while ((text = strstr(text, part)) != NULL) {
        text += strlen(part);
        count++;
    }
    return count;
}

/* A column as zlib's own inflate() unpacks it. */
static struct mp_buffer unpack(const struct mp_packed *packed)
{
    struct mp_buffer out = {0};
    unsigned char *room = mp_buffer_room(&out, packed->raw_size + 1);
    z_stream stream = {.next_in = packed->data,
                       .avail_in = (uInt)packed->size,
                       .next_out = room,
                       .avail_out = (uInt)packed->raw_size + 1};
    ck_assert_int_eq(inflateInit2(&stream, -MAX_WBITS), Z_OK);
    ck_assert_int_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
    ck_assert_uint_eq(stream.total_out, packed->raw_size);
    mp_buffer_grew(&out, stream.total_out);
    inflateEnd(&stream);
    return out;
}

static const struct mp_page_column *column_of(const struct mp_page_data *data, const char *name)
{
    for (size_t i = 0; i < data->columns.count; i++)
        if (!strcmp(data->columns.at[i].name, name)) return &data->columns.at[i];
    ck_abort_msg("no column %s", name);
    return NULL;
}

/* All of a column's integers, with their number checked. */
static uint64_t *integers(const struct mp_page_data *data, const char *name, size_t count)
{
    const struct mp_page_column *column = column_of(data, name);
    struct mp_buffer raw = unpack(&column->packed);
    uint64_t *values = calloc(count + 1, sizeof *values);
    const unsigned char *at = raw.data, *end = raw.data + raw.size;
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(mp_varint_get(&at, end, &values[i]), "%s ends at %zu of %zu", name, i, count);
    ck_assert_msg(at == end, "%s is longer than %zu", name, count);
    mp_buffer_free(&raw);
    return values;
}

START_TEST(test_names_stay_inside_their_elements)
{
    struct mp_model *model = made_small();
    char *plain = page_of(model, "a.mp");
    char *page = page_of(model, "<script>&\"'\xff\x01</title>");
    ck_assert_uint_eq(occurrences(page, "<script"), occurrences(plain, "<script"));
    ck_assert_uint_eq(occurrences(page, "</script"), occurrences(page, "<script"));
    ck_assert_uint_eq(occurrences(page, "</title"), 1);
    ck_assert_ptr_nonnull(strstr(page, "<title>&#60;script&#62;&#38;&#34;&#39;\xef\xbf\xbd &#60;/title&#62;: python3"));
    const char *header = strstr(page, "id=\"header\">");
    ck_assert_ptr_nonnull(header);
    header += strlen("id=\"header\">");
    size_t length = strcspn(header, "<>&");
    ck_assert_int_eq(strncmp(header + length, "</script>", 9), 0);
    ck_assert_int_eq(header[0], '{');
    ck_assert_int_eq(header[length - 2], '}');
    ck_assert_ptr_nonnull(strstr(header, "\"title\": \"\\u003cscript\\u003e\\u0026\\\"'\xef\xbf\xbd\\u0001"));
    free(plain);
    free(page);
    mp_model_free(model);
}

START_TEST(test_the_page_loads_nothing)
{
    struct mp_model *model = made_small();
    char *page = page_of(model, "a.mp");
    ck_assert_ptr_nonnull(strstr(page, "Content-Security-Policy\" content=\"default-src 'none';"));
    ck_assert_ptr_null(strstr(page, "src="));
    ck_assert_ptr_null(strstr(page, "http:"));
    ck_assert_ptr_null(strstr(page, "https:"));
    free(page);
    mp_model_free(model);
}

/* Expands a column of runs: returns one value for each block. */
static uint64_t *spread(const struct mp_page_data *data, const char *name, size_t count)
{
    size_t runs = column_of(data, name)->count, at = 0;
    uint64_t *pairs = integers(data, name, 2 * runs), *values = calloc(count + 1, sizeof *values);
    for (size_t i = 0; i < runs; i++)
        for (uint64_t k = 0; k < pairs[2 * i + 1]; k++) {
            ck_assert_uint_lt(at, count);
            values[at++] = pairs[2 * i];
        }
    ck_assert_uint_eq(at, count);
    free(pairs);
    return values;
}

/* True if module `number` of the page has the name of the block's module, without the common root. */
static bool is_module_of(const struct mp_model *model, const struct mp_page_data *data, uint64_t number, uint32_t block)
{
    uint32_t path = mp_model_module(model, block);
    if (!path || !number) return !path && !number;
    uint64_t *lengths = integers(data, "module.length", column_of(data, "module.length")->count), at = 0;
    struct mp_buffer text = unpack(&column_of(data, "module.text")->packed);
    for (uint64_t i = 0; i + 1 < number; i++)
        at += lengths[i];
    const char *name = mp_model_text(model, path) + strlen("Net.");
    bool same = strlen(name) == lengths[number - 1] && !memcmp(name, text.data + at, strlen(name));
    mp_buffer_free(&text);
    free(lengths);
    return same;
}

/* The category that a report of the track's peak gives a block that is live then. */
static void check_category(const struct mp_model *model, const struct mp_page_data *data, uint64_t number,
                           uint32_t block)
{
    uint32_t moment = model->sums.at[model->blocks.track[block]].peak_event + 1;
    uint32_t birth = model->blocks.alloc_event[block], death = model->blocks.free_event[block];
    if ((birth == MP_NONE || birth < moment) && (death == MP_NONE || death >= moment))
        ck_assert_uint_eq(number, mp_category_of(data->categories.categories, block, moment));
}

/* The page's rounding of a block: allocated less requested bytes, + 1; 0 if unknown. */
static uint64_t rounding_of(const struct mp_model *model, size_t block, uint64_t bytes)
{
    for (size_t i = 0; i < model->requests.count; i++)
        if (model->requests.at[i].block == block && model->requests.at[i].request.bytes <= bytes)
            return bytes - model->requests.at[i].request.bytes + 1;
    return 0;
}

/* Requests of every third block of a model that has none, some of them larger than the block. */
static void add_requests(struct mp_model *model)
{
    ck_assert_uint_eq(model->requests.count, 0);
    for (uint32_t block = 0; block < model->blocks.count && block < 3000; block += 3) {
        uint64_t bytes = model->blocks.bytes[block];
        struct mp_model_request reported = {.block = block,
                                            .request = {.bytes = block % 21 ? bytes - bytes / 7 : bytes + 9}};
        ck_assert(mp_vec_push(&model->requests, reported));
    }
}

/* Checks that the page's next block is block `block` of the model, allocated by event `by`; blocks of the base have no
 * event. */
#define CHECK_BORN(block, size_now, by)                                                                                \
    do {                                                                                                               \
        ck_assert_uint_lt(site[born], sites);                                                                          \
        last += reuse[born] ? 0 : (uint64_t)mp_unzigzag(address[fresh++]);                                             \
        at[born] = reuse[born] ? at[born - reuse[born]] : last;                                                        \
        ck_assert_uint_eq(sizes[size[born] - 1], size_now);                                                            \
        ck_assert_uint_eq(at[born] << data->address_shift, model->blocks.address[block]);                              \
        if (model->blocks.count < 10000) ck_assert(is_module_of(model, data, module[born], (uint32_t)(block)));        \
        check_category(model, data, category[born], (uint32_t)(block));                                                \
        ck_assert_uint_eq(kind[born], model->blocks.kind[block]);                                                      \
        ck_assert_uint_eq(thread[born], by);                                                                           \
        if ((block) < 3000) ck_assert_uint_eq(rounding[born], rounding_of(model, (block), size_now));                  \
        born++;                                                                                                        \
    } while (0)

/* Replays the columns of each track and compares with the model's own sums, blocks and times. */
static void replay_track(const struct mp_model *model, const struct mp_page_data *data, size_t index)
{
    const struct mp_page_track *track = &data->tracks.at[index];
    char name[32];
#define COLUMN(what, count) (snprintf(name, sizeof name, "t%zu." what, index), integers(data, name, count))
    uint64_t *op = COLUMN("op", track->events), *time = COLUMN("time", track->events);
    uint64_t *size = COLUMN("size", track->blocks), *site = COLUMN("site", track->blocks);
    uint64_t *reuse = COLUMN("reuse", track->blocks), *at = calloc(track->blocks + 1, sizeof *at);
    snprintf(name, sizeof name, "t%zu.module", index);
    uint64_t *module = spread(data, name, track->blocks);
    snprintf(name, sizeof name, "t%zu.category", index);
    uint64_t *category = spread(data, name, track->blocks);
    snprintf(name, sizeof name, "t%zu.kind", index);
    uint64_t *kind = spread(data, name, track->blocks);
    snprintf(name, sizeof name, "t%zu.thread", index);
    uint64_t *thread = spread(data, name, track->blocks);
    snprintf(name, sizeof name, "t%zu.rounding", index);
    uint64_t *rounding = spread(data, name, track->blocks);
    snprintf(name, sizeof name, "t%zu.address", index);
    uint64_t addresses = column_of(data, name)->count, *address = integers(data, name, addresses);
    snprintf(name, sizeof name, "t%zu.free", index);
    uint64_t *back = integers(data, name, column_of(data, name)->count);
    size_t sites = column_of(data, "stack.site")->count;
    uint64_t *sizes = integers(data, "size.bytes", column_of(data, "size.bytes")->count);
    uint64_t live = 0, peak, next = track->base_blocks, freed = 0, born = 0, fresh = 0, last = 0;
    for (uint64_t i = 0; i < track->base_blocks; i++)
        live += sizes[size[i] - 1];
    peak = live;
    for (uint64_t i = 0; i < track->events; i++) {
        live += op[i] ? -sizes[size[next - 1 - back[freed]] - 1] : sizes[size[next] - 1];
        freed += op[i];
        next += !op[i];
        if (live > peak) peak = live;
    }
    ck_assert_uint_eq(next, track->blocks);
    ck_assert_uint_eq(peak, model->sums.at[index].peak_bytes);
    ck_assert_uint_eq(live, model->sums.at[index].end_bytes);
    for (size_t i = 0; i < model->blocks.count; i++)
        if (model->blocks.track[i] == index && model->blocks.alloc_event[i] == MP_NONE)
            CHECK_BORN(i, model->blocks.bytes[i], 0);
    for (size_t i = 0; i < model->events.count; i++) {
        uint8_t type = model->events.type[i];
        uint32_t block = model->events.subject[i];
        if ((type != MP_EVENT_ALLOC && type != MP_EVENT_RESIZE) || model->blocks.track[block] != index) continue;
        CHECK_BORN(block, mp_model_bytes_at(model, block, (uint32_t)i), model->events.thread[i]);
    }
    ck_assert_uint_eq(born, track->blocks);
    ck_assert_uint_eq(fresh, addresses);
    free(op);
    free(time);
    free(size);
    free(site);
    free(address);
    free(back);
    free(sizes);
    free(reuse);
    free(module);
    free(category);
    free(kind);
    free(thread);
    free(rounding);
    free(at);
#undef COLUMN
}

START_TEST(test_columns_replay_to_the_models_sums)
{
    struct mp_model *models[] = {made_small(), made_training(200000)};
    for (size_t i = 0; i < 2; i++) {
        struct mp_page_data data;
        struct mp_error error;
        add_requests(models[i]);
        ck_assert_int_eq(mp_page_data_make(models[i], NULL, NULL, &data, &error), MP_OK);
        ck_assert_uint_eq(data.time_unit_ns, i ? 1000 : 1);
        ck_assert_uint_eq(data.tracks.count, models[i]->tracks.count);
        for (size_t track = 0; track < data.tracks.count; track++)
            replay_track(models[i], &data, track);
        mp_page_data_free(&data);
        mp_model_free(models[i]);
    }
}

/* The bytes and the number of a track's blocks that are live after `moment` events, by looking at each block. */
static uint64_t live_at(const struct mp_model *model, size_t track, uint32_t moment, const struct mp_filter *filter,
                        uint64_t *count)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    uint64_t bytes = 0;
    *count = 0;
    for (uint32_t i = 0; i < blocks->count; i++) {
        if (blocks->track[i] != track || !mp_filter_picks(filter, i)) continue;
        if (blocks->alloc_event[i] != MP_NONE && blocks->alloc_event[i] >= moment) continue;
        if (blocks->free_event[i] != MP_NONE && blocks->free_event[i] < moment) continue;
        bytes += moment ? mp_model_bytes_at(model, i, moment - 1) : blocks->bytes[i];
        ++*count;
    }
    return bytes;
}

/* A page of the moments first..last must have the same figures for each track as a look at every moment. */
static void check_part(const struct mp_model *model, uint32_t first, uint32_t last, const struct mp_filter *filter)
{
    const struct mp_page_cut cut = {.window = {.first = first, .last = last, .from_ns = 0, .to_ns = model->duration_ns},
                                    .filter = filter};
    struct mp_page_data data;
    struct mp_error error;
    ck_assert_int_eq(mp_page_data_make(model, &cut, NULL, &data, &error), MP_OK);
    uint64_t total = 0, left_out = 0, resized = 0;
    for (size_t track = 0; track < data.tracks.count; track++) {
        const struct mp_page_track *at = &data.tracks.at[track];
        uint64_t blocks, peak = 0, whole_peak = 0, bytes = 0;
        live_at(model, track, first, filter, &blocks);
        ck_assert_uint_eq(at->base_blocks, blocks);
        for (uint32_t moment = first; moment <= last; moment++) {
            uint64_t whole = live_at(model, track, moment, NULL, &blocks);
            bytes = live_at(model, track, moment, filter, &blocks);
            if (bytes > peak) peak = bytes;
            if (whole > whole_peak) whole_peak = whole;
        }
        ck_assert_uint_eq(at->peak_bytes, peak);
        ck_assert_uint_eq(at->whole_peak_bytes, whole_peak);
        ck_assert_uint_eq(at->bytes, bytes);
        ck_assert_uint_eq(at->live_blocks, blocks);
        total += at->blocks;
        left_out += at->left_out;
    }
    for (size_t i = 0; i < model->resizes.count; i++) {
        uint32_t event = model->resizes.at[i].event;
        resized += event >= first && event < last && mp_filter_picks(filter, model->resizes.at[i].block);
    }
    ck_assert_uint_eq(total - resized + left_out, model->blocks.count);
    mp_page_data_free(&data);
}

START_TEST(test_a_part_holds_what_was_live_in_it)
{
    struct mp_model *model = made_small();
    uint32_t events = (uint32_t)model->events.count;
    struct mp_filter *filter;
    struct mp_error error;
    ck_assert_int_eq(mp_filter_make(model, "size>100KiB", NULL, &filter, &error), MP_OK);
    const uint32_t parts[][2] = {{0, events},          {0, events / 3},          {events / 3, events / 2},
                                 {events / 2, events}, {events / 2, events / 2}, {events, events}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        check_part(model, parts[i][0], parts[i][1], NULL);
        check_part(model, parts[i][0], parts[i][1], filter);
    }
    mp_filter_free(filter);
    mp_model_free(model);
}

static void feed(struct mp_builder *builder, uint64_t sequence, struct mp_chunk chunk)
{
    struct mp_error error;
    chunk.sequence = sequence;
    ck_assert_msg(!mp_builder_add(builder, &chunk, &error), "%s", error.text);
}

/* Three rounds that each keep a block and then note a step of this name; the end frees all three. */
static struct mp_model *made_rounds(const char *step)
{
    const struct mp_string_entry strings[] = {{"", 0}, {"cpu", 3}, {step, (uint32_t)strlen(step)}};
    const struct mp_device device = {1, 0, 0, MP_BYTES_UNKNOWN};
    const struct mp_track track = {0, MP_LAYER_TORCH, MP_BASIS_BLOCK, 0};
    const struct mp_thread_info thread = {1, 0};
    const uint8_t types[] = {MP_EVENT_ALLOC, MP_EVENT_STEP, MP_EVENT_ALLOC, MP_EVENT_STEP, MP_EVENT_ALLOC,
                             MP_EVENT_STEP,  MP_EVENT_FREE, MP_EVENT_FREE,  MP_EVENT_FREE};
    struct mp_recording_start start = {0};
    struct mp_damage damage = {0};
    struct mp_builder *builder;
    struct mp_model *model;
    mp_builder_new(&start, &builder);
    feed(builder, 0, (struct mp_chunk){.kind = MP_CHUNK_STRINGS, .count = 3, .as.strings = strings});
    feed(builder, 1, (struct mp_chunk){.kind = MP_CHUNK_DEVICES, .count = 1, .as.devices = &device});
    feed(builder, 2, (struct mp_chunk){.kind = MP_CHUNK_TRACKS, .count = 1, .as.tracks = &track});
    feed(builder, 3, (struct mp_chunk){.kind = MP_CHUNK_THREADS, .count = 1, .as.threads = &thread});
    for (uint32_t i = 0; i < sizeof types; i++) {
        bool is_step = types[i] == MP_EVENT_STEP;
        struct mp_event event = {.time_ns = 10 * (i + 1), .type = types[i], .name = is_step ? 2 : 0};
        if (!is_step) event.block = i < 6 ? i / 2 : i - 6;
        if (!is_step) event.address = 4096 * (event.block + 1);
        if (types[i] == MP_EVENT_ALLOC) event.bytes = 512;
        struct mp_event_columns columns = {
            1,           &event.time_ns, &event.address, &event.bytes, &event.block, &event.stack,
            &event.name, &event.thread,  &event.track,   &event.type,  &event.kind};
        feed(builder, 4 + i, (struct mp_chunk){.kind = MP_CHUNK_EVENTS_KIND, .count = 1, .as.events = columns});
    }
    mp_builder_finish(builder, &damage, 0, &model);
    return model;
}

/* An optimizer's last step ends with the optimizer's work, so that the frees at the program's end do not belong to the
 * step. A marked last step ends with the recording. */
START_TEST(test_the_last_step_ends_where_it_ended)
{
    static const struct {
        const char *name;
        uint64_t end_ns, events;
    } kinds[] = {{"torch.optim", 60, 3}, {"", 90, 6}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct mp_model *model = made_rounds(kinds[i].name);
        struct mp_page_data data;
        struct mp_error error;
        ck_assert_int_eq(mp_page_data_make(model, NULL, NULL, &data, &error), MP_OK);
        ck_assert_uint_eq(data.tracks.at[0].events, 6);
        ck_assert_uint_eq(data.steps_end_ns, kinds[i].end_ns);
        ck_assert_uint_eq(data.tracks.at[0].step_events, kinds[i].events);
        mp_page_data_free(&data);
        mp_model_free(model);
    }
}

START_TEST(test_more_than_a_browser_holds_is_refused)
{
    size_t count = (size_t)MP_PAGE_EVENTS_MAX + 1;
    struct mp_model model = {.start = {.host = "", .configuration = "", .spool = ""},
                             .events = {.count = count, .subject = calloc(count, 4), .type = malloc(count)}};
    ck_assert(model.events.subject && model.events.type);
    memset(model.events.type, MP_EVENT_ALLOC, count);
    struct mp_page_data data;
    struct mp_error error;
    ck_assert_int_eq(mp_page_data_make(&model, NULL, NULL, &data, &error), MP_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "--from and --to"));
    ck_assert_ptr_nonnull(strstr(error.text, "--filter"));
    free(model.events.subject);
    free(model.events.type);
}

START_TEST(test_an_empty_recording_is_a_page_too)
{
    struct mp_model model = {.start = {.host = "", .configuration = "", .spool = ""}, .facts = mp_known_facts_new()};
    char *page = page_of(&model, "empty.mp");
    mp_known_facts_free(model.facts);
    ck_assert_ptr_nonnull(strstr(page, "\"tracks\": []"));
    free(page);
}

static int digit(char c)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return (int)(strchr(alphabet, c) - alphabet);
}

/* More data than one element may hold, in columns whose ends are at no multiple of three. */
START_TEST(test_data_is_cut_into_elements)
{
    enum { COUNT = 3 };
    const size_t sizes[COUNT] = {1, ((size_t)48 << 20) - 2, 100};
    struct mp_packed columns[COUNT];
    size_t total = 0;
    for (size_t i = 0; i < COUNT; i++) {
        columns[i] = (struct mp_packed){.data = malloc(sizes[i]), .size = sizes[i]};
        for (size_t at = 0; at < sizes[i]; at++)
            columns[i].data[at] = (unsigned char)((total + at) * 31 >> 3);
        total += sizes[i];
    }
    ck_assert_uint_eq(mp_packed_scripts(total), 2);
    FILE *file = tmpfile();
    mp_packed_write(columns, COUNT, file);
    size_t size, at = 0;
    char *text = text_of(file, &size);
    for (unsigned element = 0; element < 2; element++) {
        char head[64];
        snprintf(head, sizeof head, "<script type=\"text/plain\" id=\"d%u\">", element);
        const char *from = strstr(text, head);
        ck_assert_ptr_nonnull(from);
        from += strlen(head);
        size_t length = strcspn(from, "<");
        ck_assert_uint_eq(length % 4, 0);
        ck_assert_uint_le(length, (size_t)64 << 20);
        for (size_t i = 0; i < length; i += 4) {
            int bits = digit(from[i]) << 18 | digit(from[i + 1]) << 12;
            size_t bytes = from[i + 2] == '=' ? 1 : from[i + 3] == '=' ? 2 : 3;
            if (bytes > 1) bits |= digit(from[i + 2]) << 6;
            if (bytes > 2) bits |= digit(from[i + 3]);
            for (size_t b = 0; b < bytes; b++, at++)
                if (((bits >> (16 - 8 * b)) & 0xff) != (unsigned char)(at * 31 >> 3)) ck_abort_msg("byte %zu", at);
        }
    }
    ck_assert_uint_eq(at, total);
    ck_assert_uint_eq(occurrences(text, "</script>\n"), 2);
    for (size_t i = 0; i < COUNT; i++)
        mp_packed_free(&columns[i]);
    free(text);
}

START_TEST(test_a_full_disk_is_told)
{
    struct mp_model *model = made_small();
    struct mp_page_options options = {.track = -1, .title = "a.mp"};
    struct mp_error error;
    FILE *full = fopen("/dev/full", "w");
    ck_assert_ptr_nonnull(full);
    ck_assert_int_eq(mp_page_write(model, &options, full, &error), MP_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "No space left"));
    fclose(full);
    mp_model_free(model);
}

START_TEST(test_a_million_events_stay_small)
{
    struct mp_model *model = made_training(1000000);
    struct mp_page_options options = {.track = -1, .title = "a.mp"};
    struct mp_error error;
    FILE *file = tmpfile();
    ck_assert_int_eq(mp_page_write(model, &options, file, &error), MP_OK);
    ck_assert_int_lt(ftell(file), 4000000);
    fclose(file);
    mp_model_free(model);
}

MP_SUITE("page", test_names_stay_inside_their_elements, test_the_page_loads_nothing,
         test_columns_replay_to_the_models_sums, test_a_part_holds_what_was_live_in_it,
         test_the_last_step_ends_where_it_ended, test_more_than_a_browser_holds_is_refused,
         test_an_empty_recording_is_a_page_too, test_data_is_cut_into_elements, test_a_full_disk_is_told,
         test_a_million_events_stay_small)

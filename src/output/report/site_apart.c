#include "output/report/site_apart.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/order.h"
#include "model/track.h"
#include "output/report/frame_choice.h"
#include "output/report/sites.h"

struct table {
    const struct mp_model *model;
    const struct mp_sites *sites;
    size_t rows;
    unsigned by;
};

static void put_row(struct mp_buffer *out, const struct table *table, const struct mp_site *site)
{
    struct mp_stack_lines lines = {0};
    if (!(table->by & MP_APART_HEADLINES)) {
        mp_site_text(out, table->model, site);
        return;
    }
    mp_stack_resolve(table->model, site->stack, &lines);
    const struct mp_stack_line *line = mp_stack_headline(&lines);
    if (line) mp_headline_text(out, line);
    mp_stack_lines_free(&lines);
}

static void put_text(struct mp_buffer *out, const struct table *table, const struct mp_site *site, uint32_t twin)
{
    put_row(out, table, site);
    mp_buffer_append_text(out, "\n");
    if (twin != MP_NONE) mp_difference_text(out, table->model, site->stack, twin);
}

/* Pairs rows with equal texts: each becomes the other's twin. A row's text includes the difference from its twin in
 * `known` (NULL: none). A row with a unique text keeps its known twin. `twins` has room for all rows. */
static void find_twins(const struct table *table, const uint32_t *known, uint32_t *twins)
{
    struct mp_intern texts = {0};
    struct mp_buffer text = {0};
    uint32_t *first = mp_alloc_zeroed(table->rows + 2, sizeof *first); /* by number of a text: its first row, + 1 */
    for (uint32_t i = 0; i < table->rows; i++) {
        mp_buffer_clear(&text);
        put_text(&text, table, &table->sites->at[i], known ? known[i] : MP_NONE);
        uint32_t id = mp_intern_add(&texts, (const char *)text.data, text.size);
        uint32_t before = first[id];
        if (before)
            twins[i] = table->sites->at[before - 1].stack;
        else
            twins[i] = known ? known[i] : MP_NONE, first[id] = i + 1;
        if (before && twins[before - 1] == (known ? known[before - 1] : MP_NONE))
            twins[before - 1] = table->sites->at[i].stack;
    }
    free(first);
    mp_intern_free(&texts);
    mp_buffer_free(&text);
}

/* If two of three equal rows differ from the third in the same call, their texts are still equal. A second round
 * compares these two with each other. */
static void choose_twins(const struct table *table, struct mp_site_apart *apart)
{
    uint32_t *alike = mp_alloc((table->rows + 1) * sizeof *alike), *twins = mp_alloc((table->rows + 1) * sizeof *twins);
    find_twins(table, NULL, alike);
    find_twins(table, alike, twins);
    for (size_t i = 0; i < table->rows; i++) {
        struct mp_buffer difference = {0};
        if (twins[i] != alike[i]) mp_difference_text(&difference, table->model, table->sites->at[i].stack, twins[i]);
        apart[i] = (struct mp_site_apart){.twin = difference.size ? twins[i] : alike[i]};
        mp_buffer_free(&difference);
    }
    free(alike);
    free(twins);
}

/* ---- equal rows that no name distinguishes ---------------------------------------------------------------------- */

/* A row whose text is not unique. */
struct like {
    uint32_t text, row, first_block;
    uint16_t track;
};

MP_ORDER(by_text, struct like, MP_RISING(text) ?: MP_RISING(track) ?: MP_RISING(first_block) ?: MP_RISING(row))

/* Finds the first block of each row's stack. Blocks are in order of allocation. */
static void find_first_blocks(const struct table *table, struct like *likes, size_t count)
{
    const struct mp_model_blocks *blocks = &table->model->blocks;
    size_t stacks = table->model->stacks.count;
    uint32_t *first = mp_alloc_zeroed(stacks + 1, sizeof *first); /* by stack: its first block, + 1 */
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->stack[i] < stacks && !first[blocks->stack[i]]) first[blocks->stack[i]] = (uint32_t)i + 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t stack = table->sites->at[likes[i].row].stack;
        likes[i].first_block = stack < stacks && first[stack] ? first[stack] : MP_NONE;
    }
    free(first);
}

static void number_likes(const struct table *table, struct like *likes, size_t count, struct mp_site_apart *apart)
{
    find_first_blocks(table, likes, count);
    qsort(likes, count, sizeof *likes, by_text);
    for (size_t from = 0, end; from < count; from = end) {
        bool tracks = false;
        for (end = from; end < count && likes[end].text == likes[from].text; end++)
            tracks |= likes[end].track != likes[from].track;
        for (size_t i = from, next; i < end; i = next) {
            for (next = i; next < end && likes[next].track == likes[i].track; next++)
                apart[likes[next].row].track = tracks && !(table->by & MP_APART_TRACKS_SHOWN);
            for (size_t k = i; next - i > 1 && k < next; k++) {
                apart[likes[k].row].call = (uint32_t)(k - i) + 1;
                apart[likes[k].row].calls = (uint32_t)(next - i);
            }
        }
    }
}

static void tell_apart(const struct table *table, struct mp_site_apart *apart)
{
    struct mp_intern texts = {0};
    struct mp_buffer text = {0};
    uint32_t *times = mp_alloc_zeroed(table->rows + 2, sizeof *times); /* rows by number of a text */
    struct like *likes = mp_alloc((table->rows + 1) * sizeof *likes);
    size_t count = 0;
    for (uint32_t i = 0; i < table->rows; i++) {
        const struct mp_site *site = &table->sites->at[i];
        mp_buffer_clear(&text);
        put_text(&text, table, site, apart[i].twin);
        mp_buffer_append_text(&text, "\n");
        if (!(table->by & MP_APART_HEADLINES)) mp_site_modules_text(&text, table->sites, site);
        likes[i] = (struct like){
            .text = mp_intern_add(&texts, (const char *)text.data, text.size), .row = i, .track = site->track};
        times[likes[i].text]++;
    }
    for (size_t i = 0; i < table->rows; i++)
        if (times[likes[i].text] > 1) likes[count++] = likes[i];
    if (count) number_likes(table, likes, count, apart);
    free(times);
    free(likes);
    mp_intern_free(&texts);
    mp_buffer_free(&text);
}

struct mp_site_apart *mp_site_apart(const struct mp_model *model, const struct mp_sites *sites, size_t rows,
                                    unsigned by)
{
    const struct table table = {.model = model, .sites = sites, .rows = rows, .by = by};
    struct mp_site_apart *apart = mp_alloc((rows + 1) * sizeof *apart);
    choose_twins(&table, apart);
    tell_apart(&table, apart);
    return apart;
}

struct mp_site_apart *mp_stacks_apart(const struct mp_model *model, const uint32_t *stacks, const uint16_t *tracks,
                                      size_t rows, unsigned by)
{
    struct mp_sites sites = {.at = mp_alloc_zeroed(rows + 1, sizeof *sites.at)};
    for (size_t i = 0; i < rows; i++) {
        sites.at[i].stack = stacks[i];
        sites.at[i].track = tracks ? tracks[i] : 0;
    }
    struct mp_site_apart *apart = mp_site_apart(model, &sites, rows, by);
    free(sites.at);
    return apart;
}

static const char *ordinal_end(uint32_t number)
{
    if (number / 10 % 10 == 1) return "th";
    return number % 10 == 1 ? "st" : number % 10 == 2 ? "nd" : number % 10 == 3 ? "rd" : "th";
}

void mp_site_apart_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_site *site,
                        const struct mp_site_apart *apart)
{
    char id[MP_TRACK_ID_MAX];
    if (apart->track) {
        mp_buffer_append_text(out, ", on ");
        mp_text_clean(out, mp_track_id(model, site->track, id));
    }
    if (apart->calls)
        mp_buffer_printf(out, ", %u%s of %u such calls", apart->call, ordinal_end(apart->call), apart->calls);
}

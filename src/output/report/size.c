#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "output/report/advise.h"
#include "output/report/coverage.h"
#include "output/report/sites.h"
#include "output/report/size.h"
#include "output/report/view.h"

#define GROWING_MAX   16
#define SITES_OF_TEXT 3 /* most growing sites in text */

/* ---- tables ----------------------------------------------------------------------------------------------------- */

/* Bits of columns. */
enum { RESERVED = 1, DEVICE = 2, BOUNDS = 4 };

uint64_t mp_size_need_bytes(const struct mp_size_need *need)
{
    return need->device != MP_BYTES_UNKNOWN     ? need->device
           : need->reserved != MP_BYTES_UNKNOWN ? need->reserved
                                                : need->allocated;
}

static void get_part(struct mp_value *value, const void *of, const void *row)
{
    value->number = mp_size_need_bytes(row);
    value->whole = ((const struct mp_size_answer *)of)->limit;
}

static void get_fits(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_size_need *need = row;
    value->text = mp_size_fits_name(need->fits);
    if (need->fits == MP_FITS_YES) value->style = MP_BOLD;
    if (need->fits == MP_FITS_NO)
        mp_buffer_printf(&value->made, "no, %s over", mp_bytes(need->low - ((const struct mp_size_answer *)of)->limit));
}

/* The batch as plain digits, as users type it. */
static void get_batch(struct mp_value *value, const void *of, const void *row)
{
    (void)of;
    mp_buffer_printf(&value->made, "%llu", (unsigned long long)((const struct mp_size_need *)row)->batch);
}

#define NEED(member) MP_MEMBER(struct mp_size_need, member)
static const struct mp_column need_columns[] = {
    {NULL, "batch", MP_COUNT, NEED(batch)},
    {"batch", NULL, MP_COUNT, .get = get_batch, .style = MP_BOLD},
    {"allocated", "allocated_bytes", MP_BYTES, NEED(allocated)},
    {"reserved", "reserved_bytes", MP_BYTES, NEED(reserved), .only = RESERVED},
    {"device", "device_bytes", MP_BYTES, NEED(device), .only = DEVICE},
    {"at least", "low_bytes", MP_BYTES, NEED(low), .only = BOUNDS},
    {"at most", "high_bytes", MP_BYTES, NEED(high), .only = BOUNDS},
    {"of the limit", NULL, MP_SHARE, .get = get_part, .not_in_text = true},
    {"fits", NULL, MP_NAME, .get = get_fits},
    {NULL, "fits", MP_WORD, NEED(fits), .word = mp_size_fits_name},
    {NULL},
};

bool mp_size_has_bounds(const struct mp_size_answer *answer)
{
    for (size_t i = 0; i < answer->needs.count; i++)
        if (answer->needs.at[i].low != answer->needs.at[i].high) return true;
    return false;
}

struct mp_rows mp_size_needs(const struct mp_size_answer *answer)
{
    unsigned lacks = RESERVED | DEVICE | (mp_size_has_bounds(answer) ? 0 : BOUNDS);
    for (size_t i = 0; i < answer->needs.count; i++) {
        if (answer->needs.at[i].reserved != MP_BYTES_UNKNOWN) lacks &= ~RESERVED;
        if (answer->needs.at[i].device != MP_BYTES_UNKNOWN) lacks &= ~DEVICE;
    }
    return MP_ROWS(need_columns, answer->needs.at, answer->needs.count, .of = answer, .without = lacks);
}

static void get_probe(struct mp_value *value, const void *of, const void *row)
{
    (void)of;
    mp_buffer_printf(&value->made, "%llu", (unsigned long long)((const struct mp_size_probed *)row)->batch);
}

static void get_steps(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_size_probed *probed = row;
    (void)of;
    mp_buffer_printf(&value->made, "%u (%s)", probed->steps, probed->step_source);
}

static void put_where(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_size_probed *probed = row;
    (void)of;
    if (probed->apart && probed->where)
        mp_stack_json(json, probed->of, probed->where);
    else
        mp_json_null(json, key);
}

#define PROBED(member) MP_MEMBER(struct mp_size_probed, member)
static const struct mp_column probe_columns[] = {
    {NULL, "batch", MP_COUNT, PROBED(batch)},
    {"probe", NULL, MP_COUNT, .get = get_probe},
    {NULL, "path", MP_NAME, PROBED(name)},
    {"allocated", "allocated_bytes", MP_BYTES, PROBED(allocated)},
    {"reserved", "reserved_bytes", MP_BYTES, PROBED(reserved), .only = RESERVED},
    {NULL, "device_bytes", MP_BYTES, PROBED(device)},
    {NULL, "steps", MP_COUNT, PROBED(steps)},
    {NULL, "step_source", MP_NAME, PROBED(step_source)},
    {"a step", "step_ns", MP_DURATION, PROBED(step_ns)},
    {"steps", NULL, MP_NAME, .get = get_steps},
    {NULL, "allocations", MP_COUNT, PROBED(blocks)},
    {NULL, "apart", MP_FLAG, PROBED(apart)},
    {NULL, "stack", .put = put_where},
    {NULL},
};

struct mp_rows mp_size_probes(const struct mp_size_answer *answer)
{
    bool reserves = answer->probes.at[0].reserved != MP_BYTES_UNKNOWN;
    return MP_ROWS(probe_columns, answer->probes.at, answer->probes.count, .without = reserves ? 0 : RESERVED);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void get_share(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_size_answer *answer = of;
    value->number = ((const struct mp_size_site *)row)->bytes;
    for (size_t i = 0; i < answer->sites.count; i++)
        value->whole += answer->sites.at[i].bytes;
}

MP_GETTER(get_more, struct mp_size_site, site, value->number = (uint64_t)llround(site->per_sample))

#define GROWS(member) MP_MEMBER(struct mp_size_site, member)
static const struct mp_column site_columns[] = {
    {NULL, "bytes", MP_BYTES, GROWS(bytes)},
    {"blocks", "blocks", MP_COUNT, GROWS(blocks), .place = 1},
    {NULL, "share", MP_SHARE, .get = get_share},
    {"a sample", "more_per_batch_bytes", MP_CHANGE, .get = get_more},
    {NULL, "opaque", MP_FLAG, GROWS(opaque)},
    {"site", "stack", MP_SITE, GROWS(stack), .place = 2},
    {NULL},
};

/* Finds the sites that grow most with the batch, the fastest first, at most `room`. Returns their number. */
static size_t find_growing(const struct mp_size_answer *answer, const struct mp_size_site **most, size_t room)
{
    size_t count = 0;
    while (count < room) {
        const struct mp_size_site *best = NULL;
        mp_vec_each (const struct mp_size_site, site, &answer->sites) {
            bool taken = false;
            for (size_t k = 0; k < count; k++)
                taken |= most[k] == site;
            if (!taken && site->per_sample >= 1 && (!best || site->per_sample > best->per_sample)) best = site;
        }
        if (!best) break;
        most[count++] = best;
    }
    return count;
}

void mp_size_growth_text(struct mp_text *text, const struct mp_size_answer *answer, size_t limit)
{
    uint32_t order[GROWING_MAX];
    const struct mp_size_site *most[GROWING_MAX];
    size_t count = find_growing(answer, most, limit < GROWING_MAX ? limit : GROWING_MAX);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)(most[i] - answer->sites.at);
    mp_rows_text(text, &MP_ROWS(site_columns, answer->sites.at, count, .of = answer, .model = answer->model,
                                .order = order, .heading = "Sites that grow with the batch"));
}

void mp_size_json(struct mp_json *json, const struct mp_size_answer *answer, const struct mp_advise *advise,
                  const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    const struct mp_rows probes = mp_size_probes(answer), needs = mp_size_needs(answer);
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.size/1");
    mp_json_text(json, "track", mp_track_id(answer->model, answer->track, id));
    mp_json_number(json, "capacity_bytes", answer->capacity);
    mp_json_number(json, "margin_bytes", answer->margin);
    mp_json_known(json, "max_batch", answer->largest);
    mp_json_known(json, "about_batch", answer->about);
    mp_json_bool(json, "proved", answer->proved);
    mp_json_text(json, "limit", answer->binds);
    mp_rows_json(json, "probes", &probes);
    mp_rows_json(json, "predictions", &needs);
    mp_json_known(json, "expandable_max_batch", answer->expandable ? answer->expandable : UINT64_MAX);
    mp_json_known(json, "outside_bytes", answer->outside_most);
    mp_rows_json(json, "binding_sites",
                 &MP_ROWS(site_columns, answer->sites.at, mp_shown(answer->sites.count, view->limit), .of = answer,
                          .model = answer->model));
    mp_json_number(json, "opaque_bytes", answer->opaque);
    mp_json_array(json, "advice");
    if (advise) mp_advise_best_json(json, answer->model, advise, MP_SIZE_BEST_CHANGES);
    mp_json_end_array(json);
    MP_JSON_LIST(json, "notes", i, answer->notes.count, mp_json_text(json, NULL, answer->notes.at[i]));
    mp_coverage_json(json, answer->model);
    mp_json_end_object(json);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* The first probe that took another path; NULL: none did. */
static const struct mp_size_probed *find_apart(const struct mp_size_answer *answer)
{
    mp_vec_each (const struct mp_size_probed, probed, &answer->probes) {
        if (probed->apart) return probed;
    }
    return NULL;
}

/* Says of each probe that took another path where it left that of the others. */
static void put_apart(struct mp_text *text, const struct mp_size_answer *answer)
{
    const struct mp_size_probed *usual = answer->probes.at;
    while (find_apart(answer) && usual->apart)
        usual++;
    mp_vec_each (const struct mp_size_probed, probed, &answer->probes) {
        if (!probed->apart) continue;
        mp_say(text,
               "The probe of %llu took another path: %s allocations, not %s; other batches are predicted without it",
               (unsigned long long)probed->batch, mp_count(probed->blocks), mp_count(usual->blocks));
        mp_say(text, probed->where ? "; first at\n" : "\n");
        if (probed->where) mp_say_site(text, probed->of, probed->where);
    }
}

/* "at least 24 (largest probe), about 240, not provable: 12 sites vary" */
static void put_doubtful(struct mp_text *text, const struct mp_size_answer *answer)
{
    if (answer->largest) mp_say(text, "`at least %llu`", (unsigned long long)answer->largest);
    if (answer->largest == answer->probes.at[answer->probes.count - 1].batch)
        mp_say(text, "` (largest probe)`");
    else if (answer->largest && answer->room)
        mp_say(text, " (with room for %s of scratch memory)", mp_bytes(answer->room));
    if (answer->about == UINT64_MAX)
        mp_say(text, "`%sperhaps any`", answer->largest ? ", " : "");
    else
        mp_say(text, "`%sabout %llu`", answer->largest ? ", " : "", (unsigned long long)answer->about);
    const struct mp_size_probed *apart = find_apart(answer);
    if (apart)
        mp_say(text, ", not proven: the probe of %llu took another path", (unsigned long long)apart->batch);
    else if (!answer->proved && answer->batches < 3)
        mp_say(text, ", not proven: a proof needs recordings of three batches");
    else if (!answer->proved)
        mp_say(text, ", not provable: %s %s", mp_counted(answer->opaque_sites, "site"),
               answer->opaque_sites == 1 ? "varies" : "vary");
}

void mp_size_answer_text(struct mp_text *text, const struct mp_size_answer *answer)
{
    mp_say(text, "Largest batch that fits %s", mp_bytes(answer->capacity));
    if (answer->margin) mp_say(text, " with %s kept free", mp_bytes(answer->margin));
    mp_say(text, ": ");
    if (answer->endless)
        mp_say(text, "`any; the peak does not depend on it`");
    else if (!answer->about)
        mp_say(text, "`none, not even 1`");
    else if (answer->proved && answer->largest == answer->about)
        mp_say(text, "`%llu`", (unsigned long long)answer->largest);
    else
        put_doubtful(text, answer);
    mp_say(text, "\n");
}

static void put_growth(struct mp_text *text, const struct mp_size_answer *answer)
{
    const struct mp_size_site *most[SITES_OF_TEXT];
    uint32_t stacks[SITES_OF_TEXT] = {0};
    size_t count = find_growing(answer, most, SITES_OF_TEXT);
    for (size_t i = 0; i < count; i++)
        stacks[i] = most[i]->stack;
    struct mp_site_apart *apart = mp_stacks_apart(answer->model, stacks, NULL, count, MP_APART_HEADLINES);
    for (size_t i = 0; i < count; i++) {
        struct mp_buffer name = {0}, difference = {0}, last = {0};
        const struct mp_site site = {.stack = most[i]->stack};
        mp_stack_headline_text(&name, answer->model, most[i]->stack);
        if (apart[i].twin != MP_NONE) mp_difference_text(&difference, answer->model, most[i]->stack, apart[i].twin);
        if (difference.size) mp_buffer_printf(&name, " in %.*s", (int)difference.size, (const char *)difference.data);
        mp_site_apart_text(&last, answer->model, &site, &apart[i]);
        if (last.size) mp_buffer_printf(&name, " (%.*s)", (int)last.size - 2, (const char *)last.data + 2);
        mp_say(text, "%s%.*s %s a sample", i ? ", " : "Most of the growth: ", (int)name.size, (const char *)name.data,
               mp_bytes((uint64_t)llround(most[i]->per_sample)));
        mp_buffer_free(&name);
        mp_buffer_free(&difference);
        mp_buffer_free(&last);
    }
    free(apart);
    mp_say(text, "\n");
}

void mp_size_grounds_text(struct mp_text *text, const struct mp_size_answer *answer)
{
    char id[MP_TRACK_ID_MAX];
    if (answer->expandable)
        mp_say(text, "With expandable_segments:True about %llu would fit (replayed)\n",
               (unsigned long long)answer->expandable);
    if (answer->outside_most != MP_BYTES_UNKNOWN)
        mp_say(text,
               "Outside of PyTorch's reserved memory the device needs %s to %s (context, libraries), measured in the "
               "probes\n",
               mp_bytes(answer->outside_least), mp_bytes(answer->outside_most));
    if (answer->proved && !mp_size_has_bounds(answer)) mp_say(text, "Exact if larger batches behave like the probes. ");
    mp_say(text, "Compared with the limit, %s: memory %s on %s\n", mp_bytes(answer->limit),
           answer->binds[0] == 'd' ? "of the device, allocated" : answer->binds,
           mp_track_id(answer->model, answer->track, id));
    put_apart(text, answer);
    if (answer->opaque)
        mp_say(text, "%s (%s at the peak) %s not scale predictably with the batch\n",
               mp_counted(answer->opaque_sites, "site"), mp_bytes(answer->opaque),
               answer->opaque_sites == 1 ? "does" : "do");
}

void mp_size_notes_text(struct mp_text *text, const struct mp_size_answer *answer)
{
    for (size_t i = 0; i < answer->notes.count; i++)
        mp_say(text, "^note: ^%s\n", answer->notes.at[i]);
}

void mp_size_changes_text(struct mp_text *text, const struct mp_size_answer *answer, const struct mp_advise *advise)
{
    const struct mp_size_probed *last = &answer->probes.at[answer->probes.count - 1];
    mp_heading(text, "Changes that would lower the peak of the probe at %llu", (unsigned long long)last->batch);
    mp_say(text, advise->changes.count ? ":\n" : ": nothing that was tried\n");
    mp_advise_best_text(text, answer->model, advise, MP_SIZE_BEST_CHANGES, 1);
}

void mp_size_text(struct mp_text *text, const struct mp_size_answer *answer, const struct mp_advise *advise)
{
    const struct mp_rows probes = mp_size_probes(answer), needs = mp_size_needs(answer);
    mp_size_answer_text(text, answer);
    mp_say(text, "\n");
    mp_rows_text(text, &needs);
    mp_say(text, "\n");
    put_growth(text, answer);
    mp_size_grounds_text(text, answer);
    mp_rows_text(text, &probes);
    if (advise) mp_size_changes_text(text, answer, advise);
    mp_size_notes_text(text, answer);
}

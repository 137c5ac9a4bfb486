#include "plan/size.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/size_probing.h"
#include "plan/messages.h"
#include "plan/words.h"

#define PROBES_MAX 48
#define LARGEST    (UINT64_C(1) << 40)
#define FARTHEST   16 /* the next value is at most 16 times a value that fits */

struct probe {
    uint64_t value;
    struct mp_plan_outcome outcome;
};

struct search {
    const struct mp_invocation *invocation;
    const struct mp_plan_device *device;
    char name[64], hole[72]; /* "batch", "{batch}" */
    uint64_t start;
    struct mp_probing probing;
    struct probe probes[PROBES_MAX];
    size_t count;
    uint64_t fits, fails; /* the largest value known to fit, the smallest known not to; 0: none yet */
    uint64_t step;        /* distance of the last tried value below one that failed */
};

/* ---- the command ------------------------------------------------------------------------------------------------ */

static bool read_question(struct search *search)
{
    const char *text = search->invocation->value[MP_OPT_SIZE], *equals = strchr(text, '=');
    char *end = NULL;
    errno = 0;
    search->start = equals && equals[1] >= '0' && equals[1] <= '9' ? strtoull(equals + 1, &end, 10) : 0;
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof search->name || !end || *end || errno ||
        !search->start || search->start > LARGEST) {
        mp_message("--size %s: give NAME=N, such as batch=8: {batch} or 8 in the command is replaced", text);
        return false;
    }
    snprintf(search->name, sizeof search->name, "%.*s", (int)(equals - text), text);
    snprintf(search->hole, sizeof search->hole, "{%s}", search->name);
    return true;
}

/* Finds the start's number at the end of an operand, as a separate word ("32", "--batch-size=32"); NULL: the operand
 * does not have it. */
static const char *number_in(const char *operand, uint64_t start)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)start);
    const char *equals = strrchr(operand, '='), *word = equals ? equals + 1 : operand;
    return strcmp(word, text) ? NULL : word;
}

static bool check_command(const struct search *search)
{
    size_t holes = 0, numbers = 0;
    for (size_t i = 0; i < search->invocation->operand_count; i++) {
        holes += strstr(search->invocation->operands[i], search->hole) != NULL;
        numbers += number_in(search->invocation->operands[i], search->start) != NULL;
    }
    if (holes || numbers == 1) return true;
    mp_message("--size %s: the command has no %s, and %llu %s; write %s where the number belongs",
               search->invocation->value[MP_OPT_SIZE], search->hole, (unsigned long long)search->start,
               numbers ? "stands there more than once" : "does not either", search->hole);
    return false;
}

static char *fill_operand(const struct search *search, const char *operand, bool by_hole, uint64_t value)
{
    struct mp_buffer filled = {0};
    const char *number = by_hole ? NULL : number_in(operand, search->start);
    size_t length = strlen(search->hole);
    if (number) {
        mp_buffer_append(&filled, operand, (size_t)(number - operand));
        mp_buffer_printf(&filled, "%llu", (unsigned long long)value);
        operand = "";
    }
    while (*operand) {
        if (by_hole && !strncmp(operand, search->hole, length)) {
            mp_buffer_printf(&filled, "%llu", (unsigned long long)value);
            operand += length;
        } else {
            mp_buffer_append(&filled, operand++, 1);
        }
    }
    return mp_buffer_take(&filled);
}

/* The words of a run of the command with `value` in place of the start's number. */
static char **make_words(const struct search *search, const char *path, uint64_t value)
{
    const struct mp_invocation *invocation = search->invocation;
    char **words = mp_plan_words(invocation, !search->count, path), **command = words;
    while (strcmp(*command++, "--") != 0) {
    }
    bool by_hole = false;
    for (size_t i = 0; i < invocation->operand_count; i++)
        by_hole |= strstr(invocation->operands[i], search->hole) != NULL;
    for (size_t i = 0; i < invocation->operand_count; i++) {
        free(command[i]);
        command[i] = fill_operand(search, invocation->operands[i], by_hole, value);
    }
    return words;
}

/* ---- the search ------------------------------------------------------------------------------------------------- */

/* "run 4, with batch 64; 32 fits, 128 does not" */
static void describe(const struct search *search, uint64_t value, char text[256])
{
    char fits[64] = "", fails[64] = "";
    if (search->fits) snprintf(fits, sizeof fits, "; %llu fits", (unsigned long long)search->fits);
    if (search->fails)
        snprintf(fails, sizeof fails, "%s %llu does not", search->fits ? "," : ";", (unsigned long long)search->fails);
    snprintf(text, 256, "run %zu, with %s %llu%s%s", search->count + 1, search->name, (unsigned long long)value, fits,
             fails);
}

/* Returns an exit status. A run that runs out of memory may fail, and counts as not fitting. Any other failure ends the
 * search. */
static int probe(struct search *search, uint64_t value)
{
    char path[512], log[512], shown[256];
    struct mp_error error;
    snprintf(path, sizeof path, "%s/%llu.mp", search->probing.folder, (unsigned long long)value);
    snprintf(log, sizeof log, "%s/%llu.log", search->probing.folder, (unsigned long long)value);
    describe(search, value, shown);
    int status = mp_probing_run_words(search->invocation, shown, make_words(search, path, value), log);
    if (status < 0) return MP_EXIT_COULD_NOT;
    if (mp_probing_is_interrupted(status))
        return mp_give_up("interrupted while it ran with %s %llu", search->name, (unsigned long long)value);
    struct probe *one = &search->probes[search->count];
    *one = (struct probe){.value = value};
    bool recorded = !access(path, R_OK) && !mp_plan_judge(path, search->device, &one->outcome, &error);
    bool failed = !recorded || !one->outcome.has_device || (status && !one->outcome.ooms);
    if (failed) {
        mp_message("the run with %s %llu could not be planned; it printed last:", search->name,
                   (unsigned long long)value);
        mp_probing_print_tail(log);
    }
    unlink(path);
    unlink(log);
    if (failed) return MP_EXIT_COULD_NOT;
    search->count++;
    if (one->outcome.fits && value > search->fits) search->fits = value;
    if (!one->outcome.fits && (!search->fails || value < search->fails)) search->fails = value;
    return MP_EXIT_DONE;
}

/* The number of values read from the device that decided sizes. */
static size_t depends_on(const struct search *search)
{
    size_t most = 0;
    for (size_t i = 0; i < search->count; i++)
        if (search->probes[i].outcome.sizes > most) most = search->probes[i].outcome.sizes;
    return most;
}

/* Extrapolates the allocated bytes of the two largest probes that fit to the device's bytes. Allocated bytes grow more
 * evenly than reserved bytes. The result is mostly a little too high. 0: unknown. */
static uint64_t extrapolated(const struct search *search)
{
    const struct probe *high = NULL, *low = NULL;
    for (size_t i = 0; i < search->count; i++) {
        const struct probe *one = &search->probes[i];
        if (!one->outcome.fits) continue;
        if (!high || one->value > high->value) {
            low = high;
            high = one;
        } else if (!low || one->value > low->value) {
            low = one;
        }
    }
    if (!low || high->outcome.allocated <= low->outcome.allocated) return 0;
    double slope = (double)(high->outcome.allocated - low->outcome.allocated) / (double)(high->value - low->value);
    double left = (double)search->device->total - (double)high->outcome.estimated - (double)high->outcome.allocated;
    double value = (double)high->value + left / slope;
    return value < 1 ? 0 : value > (double)LARGEST ? LARGEST : (uint64_t)value;
}

/* Extrapolates until a value fails, then narrows the range down. It does so by extrapolation while the range is wide,
 * then in doubling steps below the failed value, and last by bisection. */
static uint64_t next_value(struct search *search)
{
    uint64_t from = search->fits, to = search->fails, guess = extrapolated(search);
    bool fitted = search->probes[search->count - 1].outcome.fits;
    if (!from) return to > 1 ? to / 2 : 0;
    if (!to) return guess > from ? guess < FARTHEST * from ? guess : FARTHEST * from : 2 * from;
    if (to - from == 1) return 0;
    if (to > 4 * from) return fitted && guess > from && guess < to ? guess : (uint64_t)sqrt((double)from * (double)to);
    if (fitted) return from + (to - from) / 2;
    search->step = search->step ? 2 * search->step : to / 32 + 1;
    return to - from > 2 * search->step ? to - search->step : from + (to - from) / 2;
}

static bool is_same(const struct mp_plan_outcome *a, const struct mp_plan_outcome *b)
{
    return a->fits && b->fits && a->allocated == b->allocated && a->reserved == b->reserved;
}

/* If a half needs as much as the start, small sizes may be rounded: a much larger value decides. */
static int check_depends(struct search *search)
{
    char bytes[MP_UNIT_TEXT];
    const struct probe *probes = search->probes;
    if (search->count < 2 || !is_same(&probes[0].outcome, &probes[1].outcome)) return MP_EXIT_DONE;
    int status = probe(search, FARTHEST * search->start);
    if (status || !is_same(&probes[0].outcome, &probes[2].outcome)) return status;
    return mp_give_up(
        "memory does not depend on %s: %llu, %llu and %llu need the same (reserved %s); did the program get "
        "the value?",
        search->name, (unsigned long long)probes[1].value, (unsigned long long)probes[0].value,
        (unsigned long long)probes[2].value, mp_format_bytes(bytes, probes[0].outcome.reserved));
}

static int find_largest(struct search *search)
{
    int status = probe(search, search->start);
    if (!status && search->fits) status = probe(search, search->start > 1 ? (search->start + 1) / 2 : 2);
    if (!status) status = check_depends(search);
    for (uint64_t value; !status && search->count < PROBES_MAX && (value = next_value(search));)
        status = value > LARGEST ? MP_EXIT_COULD_NOT : probe(search, value);
    return status;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

MP_ORDER(by_value, struct probe, MP_RISING(value))

static void put_text(const struct search *search)
{
    char total[MP_UNIT_TEXT];
    size_t values = depends_on(search);
    const struct mp_plan_outcome *last = &search->probes[search->count - 1].outcome;
    mp_format_bytes(total, search->device->total);
    if (search->fits && values)
        printf("Largest %s that fits %s (%s) if real values are as small as the planned ones: %llu\n", search->name,
               search->device->key, total, (unsigned long long)search->fits);
    else if (search->fits)
        printf("Largest %s that fits %s (%s): %llu\n", search->name, search->device->key, total,
               (unsigned long long)search->fits);
    else
        printf("Not even %s 1 fits %s (%s)\n", search->name, search->device->key, total);
    mp_plan_outcome_heading(search->name);
    for (size_t i = 0; i < search->count; i++)
        mp_plan_outcome_row(search->probes[i].value, &search->probes[i].outcome);
    printf("  planned, each on its own; %scontext and libraries estimated (~)\n",
           last->has_torch ? "allocated and reserved are PyTorch's own, " : "");
    if (last->unknown) printf("  cuDNN also takes workspaces of unknown size: keep a margin\n");
    if (values)
        printf("  depends on %zu %s read from the device that %s how much there is; memprof plan without --size lists "
               "them\n",
               values, values == 1 ? "value" : "values", values == 1 ? "decides" : "decide");
}

static void put_json(const struct search *search)
{
    struct mp_buffer out = {0};
    struct mp_json json;
    mp_json_start(&json, &out);
    mp_json_object(&json, NULL);
    mp_json_text(&json, "schema", "memprof.size/1");
    mp_json_text(&json, "device", search->device->key);
    mp_json_number(&json, "capacity_bytes", search->device->total);
    mp_json_number(&json, "margin_bytes", 0);
    mp_json_number(&json, "max_batch", search->fits);
    mp_json_bool(&json, "depends_on_values", depends_on(search) > 0);
    mp_json_text(&json, "limit", "reserved");
    const struct mp_plan_outcome *last = &search->probes[search->count - 1].outcome;
    mp_json_object(&json, "read_backs");
    mp_json_number(&json, "sizes", depends_on(search));
    mp_json_number(&json, "others", last->values);
    mp_json_end_object(&json);
    mp_json_array(&json, "probes");
    for (size_t i = 0; i < search->count; i++)
        mp_plan_outcome_json(&json, "batch", search->probes[i].value, &search->probes[i].outcome);
    mp_json_end_array(&json);
    mp_json_array(&json, "predictions");
    mp_json_end_array(&json);
    mp_json_array(&json, "binding_sites");
    mp_json_end_array(&json);
    mp_json_number(&json, "opaque_bytes", 0);
    mp_plan_print_json(&json);
}

int mp_plan_size(const struct mp_invocation *invocation, const struct mp_plan_device *device)
{
    struct search search = {.invocation = invocation, .device = device};
    if (!read_question(&search) || !check_command(&search)) return MP_EXIT_USAGE;
    int status = mp_probing_begin(&search.probing);
    if (!status) status = find_largest(&search);
    mp_probing_end(&search.probing);
    qsort(search.probes, search.count, sizeof *search.probes, by_value);
    if (!status && mp_given(invocation, MP_OPT_JSON))
        put_json(&search);
    else if (!status)
        put_text(&search);
    return status;
}

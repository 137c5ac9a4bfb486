#include "output/report/advise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/progress.h"
#include "cli/query.h"

#define MOST_RANKS 100000u

/* `list`: names of kinds, apart by commas; NULL: all. MP_EXIT_USAGE, after a message, where it makes no sense. */
static int read_kinds(const char *list, unsigned *kinds)
{
    *kinds = list ? 0 : ~0u;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char name[16];
        size_t length = strcspn(at, ",");
        enum mp_change_kind kind = MP_CHANGE_KINDS;
        if (length < sizeof name) {
            memcpy(name, at, length);
            name[length] = '\0';
            kind = mp_change_kind_named(name);
        }
        if (kind == MP_CHANGE_KINDS) {
            mp_message("--kind: \"%.*s\" is no kind of change; there are allocator, checkpoint, lifetime, precision, "
                       "optimizer, offload and shard",
                       (int)length, at);
            return MP_EXIT_USAGE;
        }
        *kinds |= 1u << kind;
    }
    return MP_EXIT_DONE;
}

/* 0 where it is not given, or is for the recording to say. */
static int read_capacity(const char *text, uint64_t *capacity)
{
    *capacity = 0;
    if (!text || !strcmp(text, "auto") || (mp_parse_bytes(text, capacity) && *capacity)) return MP_EXIT_DONE;
    mp_message("--capacity: \"%s\" is not an amount of memory, as 24GiB", text);
    return MP_EXIT_USAGE;
}

/* 0 where it is not given. */
static int read_ranks(const char *text, unsigned *ranks)
{
    char *end = NULL;
    *ranks = 0;
    if (!text) return MP_EXIT_DONE;
    unsigned long number = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (!end || *end || number < 2 || number > MOST_RANKS) {
        mp_message("--ranks: \"%s\" is not a number of ranks, from 2 to %u", text, MOST_RANKS);
        return MP_EXIT_USAGE;
    }
    *ranks = (unsigned)number;
    return MP_EXIT_DONE;
}

/* "25GB/s"; 0 where it is not given. */
static int read_link(const char *text, uint64_t *link)
{
    char bytes[32];
    *link = 0;
    if (!text) return MP_EXIT_DONE;
    size_t length = strlen(text);
    if (length > 2 && !strcmp(text + length - 2, "/s")) length -= 2;
    snprintf(bytes, sizeof bytes, "%.*s", (int)length, text);
    if (length < sizeof bytes && mp_parse_bytes(bytes, link) && *link) return MP_EXIT_DONE;
    mp_message("--link: \"%s\" is not what a second moves, as 25GB/s", text);
    return MP_EXIT_USAGE;
}

static int find_advice(struct mp_query *query, struct mp_advise_query *ask)
{
    struct mp_error error;
    struct mp_advise advise;
    if (!mp_query_pick_track(query)) {
        mp_message("%s holds no allocation: it has no track", query->view.path);
        return MP_EXIT_COULD_NOT;
    }
    ask->track = query->track;
    uint64_t total = query->model->devices.at[query->model->tracks.at[query->track].device].total_bytes;
    if (mp_given(query->invocation, MP_OPT_CAPACITY) && !ask->capacity) ask->capacity = total;
    if (ask->capacity == MP_BYTES_UNKNOWN) {
        mp_message("%s does not say how much memory the device has; say it: --capacity 24GiB", query->view.path);
        return MP_EXIT_COULD_NOT;
    }
    mp_progress_start_work(query->invocation, "trying changes");
    enum mp_status status = mp_advise_find(query->model, ask, &advise, &error);
    mp_progress_end();
    if (status) return mp_message_error(&error);
    if (query->as_json)
        mp_advise_json(&query->json, NULL, query->model, &advise, &query->view);
    else
        mp_advise_text(&query->text, query->model, &advise, &query->view);
    mp_advise_free(&advise);
    return MP_EXIT_DONE;
}

static int run(const struct mp_invocation *invocation)
{
    struct mp_query query;
    struct mp_advise_query ask = {.progress = mp_progress_report};
    int status = read_kinds(invocation->value[MP_OPT_KIND], &ask.kinds);
    if (!status) status = read_capacity(invocation->value[MP_OPT_CAPACITY], &ask.capacity);
    if (!status) status = read_ranks(invocation->value[MP_OPT_RANKS], &ask.ranks);
    if (!status) status = read_link(invocation->value[MP_OPT_LINK], &ask.link);
    if (!status) status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    return status ? status : mp_query_finish(&query, find_advice(&query, &ask));
}

extern const struct mp_command mp_command_advise;
const struct mp_command mp_command_advise = {
    .name = "advise",
    .summary = "changes that would save memory, replayed or estimated",
    .usage = "FILE",
    .about =
        "Tries changes to the program on what the recording has, and lists those that lower the peak: settings of "
        "PyTorch's caching allocator, searched by replaying all that was asked of it under each, as the line of "
        "PYTORCH_CUDA_ALLOC_CONF to set, or for one phase; blocks that live longer than they are needed; temporaries "
        "of an optimizer's step; and modules whose activations could be made again in backward. Estimated from sizes, "
        "marked ~, and not proved, are forward in "
        "bfloat16 by autocast, Adam's state of 8 bits, micro-batches "
        "of half the size, what forward keeps moved to the CPU's memory, and with --ranks what ranks divide: state "
        "(ZeRO-1), "
        "gradients (ZeRO-2), parameters (ZeRO-3, FSDP). Each has the bytes that it saves, what the peak "
        "would then be, what it costs "
        "or breaks, and how to write it. With --capacity, changes are put together until it fits, with as little as "
        "possible done twice.",
    .example = "memprof advise run.mp --capacity 24GiB",
    .options = {MP_REPORT_OPTIONS, MP_OPT_TRACK, MP_OPT_LIMIT, MP_OPT_CAPACITY, MP_OPT_KIND, MP_OPT_RANKS, MP_OPT_LINK},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};

#include <string.h>

#include "cli/progress.h"
#include "cli/query.h"
#include "exchange/load/load.h"
#include "export/flame.h"
#include "export/pprof.h"
#include "output/page/flame_page.h"

struct graph {
    struct mp_query *query;
    struct mp_model *before; /* NULL: no second recording */
    enum mp_profile_of sense;
    const char *at;
    const struct format *format;
    struct mp_profile profiles[MP_SIDES];
    char about[256];
};

/* `flames` is NULL if the format is by_place. */
typedef enum mp_status writer(const struct graph *graph, const struct mp_flames *flames, FILE *out,
                              struct mp_error *error);

static enum mp_status write_pprof(const struct graph *graph, const struct mp_flames *flames, FILE *out,
                                  struct mp_error *error)
{
    (void)flames;
    struct mp_pprof_export export = {.of = {graph->query->model, &graph->profiles[MP_AFTER]}, .sense = graph->sense};
    if (graph->before) export.before = (struct mp_pprof_side){graph->before, &graph->profiles[MP_BEFORE]};
    return mp_pprof_export(&export, out, error);
}

static struct mp_flame_export export_of(const struct graph *graph, const struct mp_flames *flames)
{
    bool compress = mp_path_ends(graph->query->invocation->value[MP_OPT_OUTPUT], ".gz");
    return (struct mp_flame_export){flames, mp_path_short(graph->query->view.path), graph->about, graph->before,
                                    compress};
}

static enum mp_status write_folded(const struct graph *graph, const struct mp_flames *flames, FILE *out,
                                   struct mp_error *error)
{
    const struct mp_flame_export export = export_of(graph, flames);
    return mp_folded_export(&export, out, error);
}

static enum mp_status write_speedscope(const struct graph *graph, const struct mp_flames *flames, FILE *out,
                                       struct mp_error *error)
{
    const struct mp_flame_export export = export_of(graph, flames);
    return mp_speedscope_export(&export, out, error);
}

static enum mp_status write_html(const struct graph *graph, const struct mp_flames *flames, FILE *out,
                                 struct mp_error *error)
{
    struct mp_flame_page page = {mp_path_short(graph->query->view.path), graph->about, graph->before};
    return mp_flame_page_write(flames, &page, out, error);
}

static const struct format {
    const char *name;
    writer *write;
    bool by_place;       /* the format takes whole stacks in all senses, not merged flames in one sense */
    const char *ends[4]; /* endings of file names that select the format without --format; none: the default */
} formats[] = {
    {"html", write_html, false, {NULL}},
    {"folded", write_folded, false, {".folded", ".folded.gz", ".txt"}},
    {"speedscope", write_speedscope, false, {".json", ".json.gz"}},
    {"pprof", write_pprof, true, {".pb.gz", ".pprof"}},
};
#define FORMATS (sizeof formats / sizeof *formats)

static enum mp_status write_graph(void *context, FILE *out, struct mp_error *error)
{
    const struct graph *graph = context;
    struct mp_flames flames = {0};
    if (graph->format->by_place) return graph->format->write(graph, NULL, out, error);
    if (graph->before) mp_flames_add(&flames, MP_BEFORE, graph->before, &graph->profiles[MP_BEFORE], graph->sense);
    mp_flames_add(&flames, MP_AFTER, graph->query->model, &graph->profiles[MP_AFTER], graph->sense);
    enum mp_status status = graph->format->write(graph, &flames, out, error);
    mp_flames_free(&flames);
    return status;
}

/* Makes the profile of one recording from the options. */
static int make_profile(const struct graph *graph, const struct mp_model *model, uint16_t track,
                        struct mp_profile *profile)
{
    const struct mp_invocation *invocation = graph->query->invocation;
    struct mp_error error;
    struct mp_window at;
    struct mp_filter *filter = NULL;
    struct mp_profile_query ask = {.track = track, .at = MP_NONE, .by_place = graph->format->by_place};
    enum mp_status status =
        mp_window_make(model, invocation->value[MP_OPT_FROM], invocation->value[MP_OPT_TO], &ask.window, &error);
    if (!status && graph->at) status = mp_window_make(model, NULL, graph->at, &at, &error);
    if (!status && graph->at) ask.at = at.last;
    if (!status) status = mp_query_filter(graph->query, model, &filter, &error);
    ask.filter = filter;
    if (!status) mp_profile_make(model, &ask, profile);
    mp_filter_free(filter);
    return status ? mp_message_error(&error) : MP_EXIT_DONE;
}

static void describe(struct graph *graph)
{
    static const char *const words[] = {[MP_PROFILE_PEAK] = "allocated at the peak",
                                        [MP_PROFILE_OUTSTANDING] = "outstanding at the end",
                                        [MP_PROFILE_ALLOCATED] = "allocated in all",
                                        [MP_PROFILE_AT] = "allocated at"};
    char id[MP_TRACK_ID_MAX];
    snprintf(graph->about, sizeof graph->about, "%s%s%s on %.80s", words[graph->sense], graph->at ? " " : "",
             graph->at ? graph->at : "", mp_track_id(graph->query->model, graph->query->track, id));
}

static int compare_with(struct graph *graph, const char *path)
{
    struct mp_error error;
    char id[MP_TRACK_ID_MAX];
    mp_progress_start(graph->query->invocation, path);
    enum mp_status loaded = mp_exchange_load(path, &graph->before, &error);
    mp_progress_end();
    if (loaded) return mp_message_error(&error);
    uint16_t track = mp_track_find(graph->before, mp_track_id(graph->query->model, graph->query->track, id));
    if (track != MP_TRACK_NONE) return make_profile(graph, graph->before, track, &graph->profiles[MP_BEFORE]);
    return mp_give_up("%s has no track %s to compare with", path, id);
}

/* Prints a message if the graph is empty, which is written anyway. There is no message for pprof, whose files also have
 * the other senses. */
static void note_empty(const struct graph *graph)
{
    for (int side = 0; side < MP_SIDES; side++)
        if (graph->profiles[side].sums[graph->sense].blocks) return;
    if (!graph->format->by_place) mp_message("nothing was %s: the flame graph is empty", graph->about);
}

static int draw(struct graph *graph, const char *before, bool *incomplete)
{
    struct mp_query *query = graph->query;
    if (mp_query_pick_track(query)) return MP_EXIT_COULD_NOT;
    describe(graph);
    int status = make_profile(graph, query->model, query->track, &graph->profiles[MP_AFTER]);
    if (!status && before) status = compare_with(graph, before);
    if (!status) note_empty(graph);
    if (!status) status = mp_output_write(query->invocation, write_graph, graph);
    *incomplete = !status && before && mp_query_report_missing(before, graph->before);
    for (int side = 0; side < MP_SIDES; side++)
        mp_profile_free(&graph->profiles[side]);
    mp_model_free(graph->before);
    return status;
}

static int read_sense(const char *of, struct graph *graph)
{
    static const char *const words[] = {"peak", "outstanding", "allocated"};
    if (!of) return MP_EXIT_DONE;
    graph->sense = MP_PROFILE_AT;
    graph->at = !strncmp(of, "at:", 3) ? of + 3 : NULL;
    for (size_t i = 0; !graph->at && i < sizeof words / sizeof *words; i++)
        if (!strcmp(of, words[i])) graph->sense = (enum mp_profile_of)i;
    if (graph->at || graph->sense != MP_PROFILE_AT) return MP_EXIT_DONE;
    return mp_refuse("--of: \"%s\" is not peak, outstanding, allocated or at:TIME", of);
}

/* The format of --format; without it, the one that the file's name selects. */
static const struct format *format_of(const struct mp_invocation *invocation)
{
    const char *given = invocation->value[MP_OPT_FORMAT], *path = invocation->value[MP_OPT_OUTPUT];
    for (size_t i = 0; i < FORMATS; i++) {
        if (given && !strcmp(given, formats[i].name)) return &formats[i];
        for (const char *const *end = formats[i].ends; !given && *end; end++)
            if (mp_path_ends(path, *end)) return &formats[i];
    }
    if (!given) return formats;
    mp_message("--format: there is no format \"%s\"; there are html, folded, speedscope and pprof", given);
    return NULL;
}

static int run_flamegraph(const struct mp_invocation *invocation)
{
    struct mp_query query;
    struct graph graph = {.query = &query};
    const char *before = invocation->operand_count > 1 ? invocation->operands[0] : NULL;
    bool incomplete = false;
    graph.format = format_of(invocation);
    int status = graph.format ? read_sense(invocation->value[MP_OPT_OF], &graph) : MP_EXIT_USAGE;
    if (!status) status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    if (status) return status;
    status = mp_query_end(&query, draw(&graph, before, &incomplete));
    return !status && incomplete ? MP_EXIT_INCOMPLETE : status;
}

const struct mp_command mp_command_flamegraph = {
    .name = "flamegraph",
    .summary = "who holds memory, as a flame graph or a profile",
    .usage = "[BEFORE] FILE",
    .writes = "flame.html, stacks.folded, flame.speedscope.json or profile.pb.gz",
    .about =
        "--of chooses what is drawn: bytes allocated at the peak, outstanding at the end, allocated in all, or "
        "allocated at a moment (at:1.5s, at:50%, at:step:10: at its end). Two recordings give their difference, by "
        "function and, for Python, file and line.\n\n--format html is one page that opens from disk. folded is for "
        "flamegraph.pl and the like (with two recordings it has two numbers a line). speedscope is JSON for "
        "https://www.speedscope.app. pprof is for `go tool pprof` and the like, with bytes and blocks of all three "
        "senses, and device, layer, region and step as labels. Without --format the name decides: .folded and .txt, "
        ".json, .pb.gz and .pprof, else html. No format has times, and only pprof has steps and regions. Native frames "
        "are equal by function, not by line. Numbers of folded stacks are bytes.",
    .example = "memprof flamegraph run.mp -o flame.html --of outstanding",
    .meanings = {{MP_OPT_OUTPUT, "write to FILE, needed; - is stdout"},
                 {MP_OPT_FORMAT, "html, folded, speedscope or pprof (as -o FILE ends: .folded and .txt, .json, .pb.gz "
                                 "and .pprof; else html)"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_FORMAT, MP_OPT_OF, MP_WINDOW_OPTIONS, MP_OPT_FILTER,
                MP_OPT_PROGRESS},
    .operands_min = 1,
    .operands_max = 2,
    .run = run_flamegraph,
};

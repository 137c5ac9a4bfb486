/*
 * Steps shared by all commands that read a recording: from options to query, from file to model, from result to output.
 */
#pragma once

#include "cli/command.h"
#include "cli/form.h"
#include "cli/output_file.h"
#include "output/report/view.h"

struct mp_query {
    const struct mp_invocation *invocation;
    struct mp_model *model;
    struct mp_view view;
    struct mp_filter *filter;
    struct mp_rules rules; /* rules of --rules; view.grouping.rules points here */
    uint16_t track;        /* MP_TRACK_NONE: all tracks, or the recording has none */
    struct mp_buffer out;
    struct mp_text text;
    struct mp_document document; /* the document that `text` writes to; document.out NULL: the form is text */
    struct mp_json json;
    bool as_json;
    struct mp_holders holders; /* view.holders and view.causes point to these once mp_query_hold() has found them */
    struct mp_held_causes causes;
};

/* The options of reports, for a command's list. */
#define MP_REPORT_OPTIONS MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_JSON, MP_OPT_COLOR, MP_OPT_PROGRESS
#define MP_SITE_OPTIONS                                                                                                \
    MP_OPT_LIMIT, MP_OPT_GROUP, MP_OPT_SORT, MP_OPT_FILTER, MP_OPT_RULES, MP_OPT_SKIP_FRAMES, MP_OPT_FULL_STACKS
#define MP_WINDOW_OPTIONS MP_OPT_TRACK, MP_OPT_FROM, MP_OPT_TO

/* Checks the options, and loads the recording that the last operand names. Returns an exit status; if it is not 0, a
 * message was printed and there is nothing to free. `default_sort`: used without --sort. */
int mp_query_open(const struct mp_invocation *invocation, enum mp_sort_by default_sort, struct mp_query *query);
/* Makes reports leave out the frames that --skip-frames names. */
enum mp_status mp_query_skip(const struct mp_invocation *invocation, struct mp_model *model, struct mp_error *error);
/* Compiles --filter for a recording, which need not be the query's. The caller frees the result. It is NULL without
 * --filter. */
enum mp_status mp_query_filter(const struct mp_query *query, const struct mp_model *model, struct mp_filter **filter,
                               struct mp_error *error);
/* Picks the default track if none was requested. Returns an exit status, after a message if the recording has no
 * track. */
int mp_query_pick_track(struct mp_query *query);
/* Finds the holders of the blocks of a peak for the view. */
void mp_query_hold(struct mp_query *query, const struct mp_peak *peak);
/* Writes query->text or query->json, reports on stderr what the recording lacks, and frees the query. `status` is the
 * command's exit status so far; after an error, nothing is written. Returns the exit status. */
int mp_query_finish(struct mp_query *query, int status);
/* Prints a message if the folder has recordings of the same command's other processes (run.PID.mp next to run.mp),
 * since the answer of `command` is for one of them. */
void mp_query_note_others(const struct mp_query *query, const char *command);
/* Does the same as mp_query_finish() for a command that has already written its output. */
int mp_query_end(struct mp_query *query, int status);

/* The exit status for --fail: MP_EXIT_FOUND if the command's check found something. */
int mp_query_found(const struct mp_invocation *invocation, bool found, int status);
/* Reports on stderr what a recording lacks; false if it lacks nothing. */
bool mp_query_report_missing(const char *path, const struct mp_model *model);

/* Reads --limit; without it *limit stays unchanged. Returns an exit status, after a message if it is not 0. */
int mp_query_limit(const struct mp_invocation *invocation, size_t *limit);
/* Sets `*color` to true if --color, or else the terminal, asks for colours. Returns an exit status, after a message
 * if it is not 0. */
int mp_query_color(const struct mp_invocation *invocation, bool *color);

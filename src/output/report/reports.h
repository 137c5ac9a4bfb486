/*
 * Result structs as text and as JSON (the keys are a promise: other programs read them). A JSON report is a member
 * `key`, or with `key` NULL a document of its own. It names its schema and ends with its coverage. Text begins with the
 * answer. These functions do not fail: a shortage of memory marks the buffer as failed.
 */
#pragma once

#include "analysis/advise/advise.h"
#include "analysis/allocator/frag.h"
#include "analysis/device/device_use.h"
#include "analysis/device/plan.h"
#include "analysis/holders/causes.h"
#include "analysis/leaks/leaks.h"
#include "analysis/sites/peak.h"
#include "analysis/sites/steps.h"
#include "analysis/sizing/size.h"
#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"
#include "output/report/sites.h"

/* How to show a report of any kind. */
struct mp_view {
    const char *path; /* the file's name as given by the user */
    size_t limit;     /* rows; 0: all */
    bool full_stacks;
    const char *filter; /* as written by the user; NULL: none */
    struct mp_grouping grouping;
    struct mp_window window;
    bool outstanding; /* leaks: list blocks that were never freed */
    bool verbose;     /* leaks: the reasons of each finding, and the constants of the rules */
    bool sizes;       /* info: what takes the file's bytes */
    const struct mp_holders *holders;    /* of the peak's blocks; NULL: not looked for */
    const struct mp_held_causes *causes; /* likewise */
};

void mp_coverage_json(struct mp_json *json, const struct mp_model *model);
/* One line: "complete: 412 816 events, none dropped", or what is missing; then the notes, one line each. */
void mp_coverage_text(struct mp_text *text, const struct mp_model *model);
/* Writes the same as the last part of a report. */
void mp_coverage_end(struct mp_text *text, const struct mp_model *model);
/* The missing part, as a sentence for a message ("the file is cut ..."); empty if the recording is complete. */
void mp_coverage_sentence(struct mp_buffer *out, const struct mp_model *model);

/* The word before a peak: "" for a complete recording, "at least " if only its end is missing, "about " if frees may be
 * missing, too. */
const char *mp_coverage_hedge(const struct mp_model *model);

/* Uses of each CUDA device ("device_use"); text: a part that begins with an empty line, or nothing. */
void mp_device_uses_json(struct mp_json *json, const struct mp_model *model);
void mp_device_uses_text(struct mp_text *text, const struct mp_model *model);

/* Only for recordings of `memprof plan`: the object "plan"; a part of text that begins with an empty line; a sentence
 * for the notes (false: none). */
void mp_plan_json(struct mp_json *json, const struct mp_model *model);
void mp_plan_text(struct mp_text *text, const struct mp_model *model);
bool mp_plan_sentence(struct mp_buffer *out, const struct mp_model *model);
/* Writes, before a report's peak, a plan's device and the sites whose values decide sizes; nothing for other
 * recordings (false). */
bool mp_plan_head_text(struct mp_text *text, const struct mp_model *model);

/* Only for recordings of a server of language models: the object "server"; a part of text that begins with an empty
 * line (false: none); a sentence on what its KV cache holds or lacks (false: none). */
void mp_server_json(struct mp_json *json, const struct mp_model *model);
bool mp_server_text(struct mp_text *text, const struct mp_model *model);
bool mp_server_sentence(struct mp_buffer *out, const struct mp_model *model, bool *lacks);

void mp_info_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_view *view);
void mp_info_text(struct mp_text *text, const struct mp_model *model, const struct mp_view *view);

/* Bytes of the file by kind of chunk: under the key "sizes", as a table. For recordings only. */
void mp_sizes_json(struct mp_json *json, const struct mp_model *model);
void mp_sizes_text(struct mp_text *text, const struct mp_model *model);

/* The part of a level's bytes that was requested: as a line of text, or nothing; as the keys requested_peak_bytes and
 * rounding; as a number (UINT64_MAX: not all is known). */
void mp_rounding_text(struct mp_text *text, const struct mp_rounding *rounding);
void mp_rounding_json(struct mp_json *json, const struct mp_rounding *rounding);
uint64_t mp_rounding_requested(const struct mp_rounding *rounding);

void mp_peak_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_peak *peak,
                  const struct mp_view *view);
/* " ± 1.2 MiB" for the bytes of a peak that is an estimate, else ""; returns `to`, which has MP_PEAK_ERROR_TEXT
 * bytes. */
#define MP_PEAK_ERROR_TEXT (MP_UNIT_TEXT + 4)
const char *mp_peak_error_text(char *to, const struct mp_model *model, const struct mp_peak *peak);
void mp_peak_text(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak,
                  const struct mp_view *view);

void mp_leaks_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view);
void mp_leaks_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view);

/* How many more steps fit into the device, rounded to two digits, because the rate is no more exact. UINT64_MAX:
 * unknown, or above a million steps. */
uint64_t mp_leak_steps_left(const struct mp_leak_finding *finding);
/* Writes the table of leaks: a row for each cause. */
void mp_findings_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                      const struct mp_view *view);
/* Writes a line about PyTorch's cache of pinned memory at the end, if the cache is large. */
void mp_pinned_cache_text(struct mp_text *text, const struct mp_model *model);
/* Writes findings that are no leak under a heading; nothing if there are none. */
void mp_reported_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                      const struct mp_view *view);

/* `groups`: the steps' bytes by group, or NULL. */
void mp_steps_json(struct mp_json *json, const char *key, const struct mp_model *model,
                   const struct mp_step_report *report, const struct mp_step_groups *groups,
                   const struct mp_view *view);
void mp_steps_text(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report,
                   const struct mp_step_groups *groups, const struct mp_view *view);

/* Writes the table of regions. `heading` and `shown` are as in struct mp_rows; `shown` NULL: all columns. */
void mp_regions_text(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report,
                     const char *heading, const char *shown);

void mp_frag_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_frag *frag);
void mp_frag_text(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag,
                  const struct mp_view *view);
/* Writes a line if several requests failed. */
void mp_oom_times_text(struct mp_text *text, const struct mp_frag_oom *oom);
/* "fragmentation: enough was free, but ..." */
const char *mp_oom_cause_text(const struct mp_frag_oom *oom);
/* The moment in words: "at the end". */
const char *mp_frag_when(const struct mp_frag *frag);

/* The advice as a sentence, its saving (MP_BYTES_UNKNOWN: not stated) and the evidence for it. */
struct mp_advice {
    char text[200], evidence[200];
    uint64_t saved;
};
/* False if no replayed setting would help. */
bool mp_frag_advice(const struct mp_frag *frag, struct mp_advice *advice);

/* The parts of `memprof report`. `peak`, `steps`, `frag` and `advise` are NULL if the recording has no track. */
struct mp_story {
    const struct mp_peak *peak;
    const struct mp_leaks *leaks;
    const struct mp_step_report *steps;
    const struct mp_frag *frag;
    const struct mp_advise *advise;
};
void mp_report_json(struct mp_json *json, const struct mp_model *model, const struct mp_story *story,
                    const struct mp_view *view);
void mp_report_text(struct mp_text *text, const struct mp_model *model, const struct mp_story *story,
                    const struct mp_view *view);

/* The answer of `memprof size`. `two`: the question had two variables. Only the view's limit is used. */
/* `advise` is the last probe's advice; its best changes are shown. NULL: not requested. */
void mp_size_json(struct mp_json *json, const struct mp_size_answer *answer, const struct mp_advise *advise,
                  const struct mp_view *view);
void mp_size_text(struct mp_text *text, const struct mp_size_answer *answer, const struct mp_advise *advise);
/* Writes the answer as a self-contained page, with a plot of bytes over the batch. */
void mp_size_page(struct mp_buffer *out, const struct mp_size_answer *answer, const struct mp_advise *advise);

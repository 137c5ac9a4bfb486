/*
 * The one table of options: help, manual, completion, settings and parsing all read it. A command lists the options it
 * takes by their ids; every command takes --help and --config.
 */
#pragma once

#include <stddef.h>

enum mp_option {
    MP_OPT_NONE, /* ends a command's list */
    MP_OPT_HELP,
    MP_OPT_CONFIG,
    MP_OPT_OUTPUT,
    MP_OPT_FORCE,
    MP_OPT_JSON,
    MP_OPT_TRACK,
    MP_OPT_FROM,
    MP_OPT_TO,
    MP_OPT_LIMIT,
    MP_OPT_GROUP,
    MP_OPT_SORT,
    MP_OPT_FILTER,
    MP_OPT_RULES,
    MP_OPT_SKIP_FRAMES,
    MP_OPT_FULL_STACKS,
    MP_OPT_COLOR,
    MP_OPT_PROGRESS,
    MP_OPT_OUTSTANDING,
    MP_OPT_SIZES,
    MP_OPT_SITE,
    MP_OPT_FAIL,
    MP_OPT_SUPPRESSIONS,
    MP_OPT_PID,
    MP_OPT_REPLAY,
    MP_OPT_KIND,
    MP_OPT_ADVISE,
    MP_OPT_STACKS,
    MP_OPT_FREE_STACKS,
    MP_OPT_HOLDERS,
    MP_OPT_OPERATORS,
    MP_OPT_HOST,
    MP_OPT_BUDGET,
    MP_OPT_DEPTH,
    MP_OPT_CAPTURE,
    MP_OPT_PAUSED,
    MP_OPT_SCHEDULE,
    MP_OPT_FOR,
    MP_OPT_MAX_EVENTS,
    MP_OPT_SAMPLE,
    MP_OPT_MAX_OVERHEAD,
    MP_OPT_UNWIND,
    MP_OPT_CHILDREN,
    MP_OPT_ON_OOM,
    MP_OPT_AT_SIGNAL,
    MP_OPT_ON_FULL,
    MP_OPT_WAIT,
    MP_OPT_PRINT_ENV,
    MP_OPT_FOLLOW,
    MP_OPT_STEP_RANGE,
    MP_OPT_STEP_AT,
    MP_OPT_NO_SHIM,
    MP_OPT_TORCH_HISTORY,
    MP_OPT_NO_TORCH_HISTORY,
    MP_OPT_NO_SYMBOLS,
    MP_OPT_NO_COMMAND,
    MP_OPT_QUIET,
    MP_OPT_VERBOSE,
    MP_OPT_STRICT,
    MP_OPT_CAPACITY,
    MP_OPT_MARGIN,
    MP_OPT_PREDICT,
    MP_OPT_PROBE,
    MP_OPT_NO_VERIFY,
    MP_OPT_FORMAT,
    MP_OPT_COLUMNS,
    MP_OPT_OF,
    MP_OPT_MAX_GROWTH,
    MP_OPT_MERGE,
    MP_OPT_METRICS,
    MP_OPT_TENSORBOARD,
    MP_OPT_DEVICE,
    MP_OPT_DEVICES,
    MP_OPT_VALUES,
    MP_OPT_SELECTED,
    MP_OPT_SIZE,
    MP_OPT_TRY,
    MP_OPT_READY_WITHIN,
    MP_OPT_TRY_CHANGES,
    MP_OPT_WORLD_SIZE,
    MP_OPT_RANK,
    MP_OPT_ONCE,
    MP_OPT_INTERVAL,
    MP_OPT_MAN,
    MP_OPTIONS
};

/* Headings of a long help, in its order. */
enum mp_option_group {
    MP_OPTS_COMMON,
    MP_OPTS_RECORDED, /* which parts of the program are recorded */
    MP_OPTS_STEPS,
    MP_OPTS_LONG_RUNS,
    MP_OPTS_RARE,
    MP_OPTION_GROUPS
};

struct mp_option_row {
    const char *name;     /* long, without dashes */
    char letter;          /* '\0': none */
    const char *argument; /* NULL: a switch; "[BEGINNING...]": may be left out, and begins with that word */
    const char *help;     /* one line, no capital, no full stop */
    enum mp_option_group group;
};

extern const struct mp_option_row mp_option_rows[MP_OPTIONS];

/* MP_OPT_NONE: no such option. */
enum mp_option mp_option_named(const char *name, size_t length);

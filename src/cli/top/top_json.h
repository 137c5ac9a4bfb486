/* One look as JSON, schema memprof.top/1: every process, and the sites of the chosen one. One thread at a time. */
#ifndef MP_CLI_TOP_JSON_H
#define MP_CLI_TOP_JSON_H

#include "base/json.h"
#include "cli/top/top_frame.h"

/* `limit`: sites; 0: all. */
void mp_top_json(struct mp_json *json, const struct mp_top_view *view, const struct mp_top_state *state, size_t limit);

#endif

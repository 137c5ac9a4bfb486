/*
 * A recording's blocks as plain text for other programs.
 *
 * CSV (RFC 4180): a line of names, then one line per block, the stack folded (outermost frame first, ';' between
 * frames). JSON lines: one object per line, each with a "type": first "recording", then "track"s, then "block"s and
 * other events ("oom", "mark", "step", "region_begin", "region_end"). A "stack" comes before the first line that names
 * it. Keys and units are those of memprof's own JSON; unknown values are empty in CSV and null in JSON.
 */
#pragma once

#include <stdio.h>

#include "exchange/common/rows.h"

enum mp_status mp_csv_export(const struct mp_block_rows *rows, bool compress, FILE *out, struct mp_error *error);
enum mp_status mp_jsonl_export(const struct mp_block_rows *rows, bool compress, FILE *out, struct mp_error *error);

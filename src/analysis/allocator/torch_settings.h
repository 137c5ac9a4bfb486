/*
 * Settings of PyTorch's CUDA caching allocator that change where memory comes from, and their text as in
 * PYTORCH_CUDA_ALLOC_CONF ("expandable_segments:True,max_split_size_mb:512").
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

#define MP_TORCH_SMALL       ((uint64_t)1 << 20) /* blocks up to this size come from segments of 2 MiB */
#define MP_TORCH_PAGE        ((uint64_t)2 << 20)
#define MP_TORCH_OWN_SEGMENT ((uint64_t)10 << 20) /* blocks from this size on get segments of their own */
#define MP_TORCH_LARGE       ((uint64_t)20 << 20)
#define MP_TORCH_MINIMUM     512
#define MP_TORCH_UNLIMITED   UINT64_MAX
#define MP_TORCH_DIVISIONS   16

struct mp_torch_settings {
    uint64_t max_split;                     /* MP_TORCH_UNLIMITED */
    uint64_t max_non_split_rounding;        /* MP_TORCH_LARGE */
    uint64_t large_segment;                 /* MP_TORCH_LARGE */
    double gc_threshold;                    /* share of the limit; 0: no collection */
    double fraction;                        /* usable share of the device; 0: no limit */
    double reserve;                         /* address space of an expandable segment, as a share of the device */
    bool reserve_in_gib;                    /* `reserve` is in GiB instead. A `reserve` of 0 means 9/8 of the device,
                                             * which is also the most */
    uint32_t divisions[MP_TORCH_DIVISIONS]; /* roundup_power2_divisions: [k] is for 2^k MiB up to twice that */
    bool expandable;
    bool oldest_first; /* depends on PyTorch's version: among free blocks of one size, 2.15 takes the one in the oldest
                        * segment, 2.11 and older the one at the lowest address */
};

void mp_torch_settings_default(struct mp_torch_settings *settings);
/* Changes the options that the text names. MP_INVALID: the error names the option and its form. Options of PyTorch that
 * do not change where memory comes from are accepted. */
enum mp_status mp_torch_settings_parse(struct mp_torch_settings *settings, const char *text, struct mp_error *error);
/* Does the same with a recorded text. Unknown options, and values that PyTorch refuses, change nothing. */
void mp_torch_settings_read(struct mp_torch_settings *settings, const char *text);
/* Does the same with settings that a running program changes: some options that the text does not name return to their
 * defaults. */
void mp_torch_settings_change(struct mp_torch_settings *settings, const char *text);
/* The text of settings that differ from PyTorch's defaults, as every version with these options reads it; "" for
 * none. */
void mp_torch_settings_text(const struct mp_torch_settings *settings, struct mp_buffer *text);
bool mp_torch_settings_same(const struct mp_torch_settings *a, const struct mp_torch_settings *b);

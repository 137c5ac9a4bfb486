#include "analysis/allocator/torch_settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define MIB ((uint64_t)1 << 20)

/* The text of one option's value, up to `end`. */
struct value {
    const char *name; /* for messages */
    const char *at, *end;
    struct mp_error *error;
};

static enum mp_status refuse(const struct value *value, const char *wants)
{
    return mp_fail(value->error, MP_INVALID, "\"%s:%.*s\" is no setting of PyTorch's allocator: %s", value->name,
                   (int)(value->end - value->at > 60 ? 60 : value->end - value->at), value->at, wants);
}

static bool whole_number(const char *at, const char *end, uint64_t *number)
{
    uint64_t sum = 0;
    if (at == end) return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9' || sum > (UINT64_MAX >> 21) / 10) return false;
        sum = sum * 10 + (uint64_t)(*at - '0');
    }
    *number = sum;
    return true;
}

static bool share(const struct value *value, double *number)
{
    char text[32];
    size_t length = (size_t)(value->end - value->at);
    if (!length || length >= sizeof text) return false;
    memcpy(text, value->at, length);
    text[length] = 0;
    char *end;
    *number = strtod(text, &end);
    return !*end && *number > 0 && *number <= 1;
}

static enum mp_status set_max_split(struct mp_torch_settings *settings, const struct value *value)
{
    uint64_t mib;
    if (!whole_number(value->at, value->end, &mib) || mib * MIB < settings->large_segment)
        return refuse(value, "it takes MiB, at least the size of a large segment (20)");
    settings->max_split = mib * MIB;
    return MP_OK;
}

static enum mp_status set_rounding(struct mp_torch_settings *settings, const struct value *value)
{
    uint64_t mib;
    if (!whole_number(value->at, value->end, &mib) || mib * MIB < settings->large_segment)
        return refuse(value, "it takes MiB, at least the size of a large segment (20)");
    settings->max_non_split_rounding = mib * MIB;
    return MP_OK;
}

static enum mp_status set_large_segment(struct mp_torch_settings *settings, const struct value *value)
{
    uint64_t mib;
    if (!whole_number(value->at, value->end, &mib) || mib <= MP_TORCH_OWN_SEGMENT / MIB || mib > 1 << 20)
        return refuse(value, "it takes MiB, more than 10");
    settings->large_segment = mib * MIB;
    return MP_OK;
}

static enum mp_status set_threshold(struct mp_torch_settings *settings, const struct value *value)
{
    double number;
    if (!share(value, &number) || number >= 1) return refuse(value, "it takes a share between 0 and 1");
    settings->gc_threshold = number;
    return MP_OK;
}

static enum mp_status set_fraction(struct mp_torch_settings *settings, const struct value *value)
{
    double number;
    if (!share(value, &number)) return refuse(value, "it takes a share above 0, at most 1");
    settings->fraction = number < 1 ? number : 0;
    return MP_OK;
}

/* A share of the device ("0.5"), or GiB ("40G"). */
static enum mp_status set_reserve(struct mp_torch_settings *settings, const struct value *value)
{
    char text[32];
    size_t length = (size_t)(value->end - value->at);
    double number = 0;
    bool gib = false;
    if (length && length < sizeof text) {
        memcpy(text, value->at, length);
        text[length] = 0;
        char *end;
        number = strtod(text, &end);
        gib = *end == 'G';
        if (end == text || end[gib]) number = 0;
    }
    if (!(number > 0 && isfinite(number))) return refuse(value, "it takes a share such as 0.5, or GiB such as 40G");
    settings->reserve = number;
    settings->reserve_in_gib = gib;
    return MP_OK;
}

static bool is_word(const struct value *value, const char *word)
{
    return (size_t)(value->end - value->at) == strlen(word) && !memcmp(value->at, word, strlen(word));
}

static enum mp_status set_expandable(struct mp_torch_settings *settings, const struct value *value)
{
    settings->expandable = is_word(value, "True");
    return settings->expandable || is_word(value, "False") ? MP_OK : refuse(value, "it takes True or False");
}

static enum mp_status set_backend(struct mp_torch_settings *settings, const struct value *value)
{
    (void)settings;
    return is_word(value, "native") ? MP_OK : refuse(value, "only the native backend can be replayed");
}

static enum mp_status ignore(struct mp_torch_settings *settings, const struct value *value)
{
    (void)settings, (void)value;
    return MP_OK;
}

static bool divisions_of(const char *at, const char *end, uint32_t *divisions)
{
    uint64_t number;
    if (!whole_number(at, end, &number) || number & (number - 1) || number > UINT32_MAX) return false;
    *divisions = (uint32_t)number;
    return true;
}

/* One number for all, or [256:1,512:2,>:4]: boundaries in MiB, and divisions that are powers of two. PyTorch applies
 * the first pair also to sizes below its boundary. Between two other boundaries it rounds nothing. ">" means sizes
 * above the last boundary. */
static enum mp_status set_divisions(struct mp_torch_settings *settings, const struct value *value)
{
    static const char wants[] = "it takes a power of two, or a list such as [256:1,512:2,>:4]";
    uint32_t divisions = 0;
    memset(settings->divisions, 0, sizeof settings->divisions);
    if (value->at < value->end && *value->at != '[') {
        if (!divisions_of(value->at, value->end, &divisions) || !divisions) return refuse(value, wants);
        for (unsigned i = 0; i < MP_TORCH_DIVISIONS; i++)
            settings->divisions[i] = divisions;
        return MP_OK;
    }
    const char *at = value->at + 1, *close = value->end - 1;
    if (close < at || *close != ']') return refuse(value, wants);
    unsigned last = 0;
    for (bool first = true; at < close; first = false) {
        const char *end = memchr(at, ',', (size_t)(close - at));
        if (!end) end = close;
        const char *colon = memchr(at, ':', (size_t)(end - at));
        if (!colon || !divisions_of(colon + 1, end, &divisions)) return refuse(value, wants);
        uint64_t boundary;
        if (*at == '>' && colon == at + 1) {
            for (unsigned i = first ? 0 : last + 1; i < MP_TORCH_DIVISIONS; i++)
                settings->divisions[i] = divisions;
        } else if (whole_number(at, colon, &boundary) && boundary && !(boundary & (boundary - 1))) {
            unsigned log2 = 63 - (unsigned)__builtin_clzll(boundary);
            last = log2 < MP_TORCH_DIVISIONS ? log2 : MP_TORCH_DIVISIONS - 1;
            for (unsigned i = first ? 0 : last; i <= last; i++)
                settings->divisions[i] = divisions;
        } else {
            return refuse(value, wants);
        }
        at = end < close ? end + 1 : close;
    }
    return MP_OK;
}

static const struct {
    const char *name;
    enum mp_status (*set)(struct mp_torch_settings *settings, const struct value *value);
} options[] = {
    {"large_segment_size_mb", set_large_segment}, /* first: other options are checked against it */
    {"max_split_size_mb", set_max_split},
    {"max_non_split_rounding_mb", set_rounding},
    {"garbage_collection_threshold", set_threshold},
    {"per_process_memory_fraction", set_fraction},
    {"roundup_power2_divisions", set_divisions},
    {"expandable_segments", set_expandable},
    {"expandable_segments_reserve", set_reserve},
    {"expandable_segments_reserve_by_class", ignore}, /* C++ alone can put a stream into a class */
    {"backend", set_backend},
    {"release_lock_on_cudamalloc", ignore},
    {"release_lock_on_hipmalloc", ignore},
    {"throw_on_cudamalloc_oom", ignore},
    {"pinned_use_cuda_host_register", ignore},
    {"pinned_use_hip_host_register", ignore},
    {"pinned_num_register_threads", ignore},
    {"pinned_use_background_threads", ignore},
    {"pinned_reserve_segment_size_mb", ignore},
    {"pinned_max_cached_size_mb", ignore},
    {"pinned_max_round_threshold_mb", ignore},
    {"pinned_free_catch_all", ignore},
    {"graph_capture_record_stream_reuse", ignore},
};
#define OPTIONS (sizeof options / sizeof *options)

void mp_torch_settings_default(struct mp_torch_settings *settings)
{
    *settings = (struct mp_torch_settings){
        .max_split = MP_TORCH_UNLIMITED, .max_non_split_rounding = MP_TORCH_LARGE, .large_segment = MP_TORCH_LARGE};
}

/* The end of the value at `at`: a comma outside brackets, or the end of the text. */
static const char *value_end(const char *at)
{
    unsigned depth = 0;
    for (; *at && (depth || *at != ','); at++) {
        if (*at == '[') depth++;
        if (*at == ']' && depth) depth--;
    }
    return at;
}

/* Applies OPTIONS[which] wherever the text has it. `which` OPTIONS only checks that every name is known. */
static enum mp_status apply(struct mp_torch_settings *settings, const char *text, size_t which, struct mp_error *error)
{
    for (const char *at = text; *at;) {
        if (*at == ',') {
            at++;
            continue;
        }
        const char *end = value_end(at), *colon = memchr(at, ':', (size_t)(end - at));
        size_t i = 0, length = colon ? (size_t)(colon - at) : 0;
        while (i < OPTIONS && (strlen(options[i].name) != length || memcmp(options[i].name, at, length)))
            i++;
        if (i == OPTIONS && which == OPTIONS)
            return mp_fail(error, MP_INVALID,
                           "\"%.*s\" is no setting of PyTorch's allocator; they look like "
                           "expandable_segments:True,max_split_size_mb:512",
                           (int)(end - at > 60 ? 60 : end - at), at);
        if (i == which) {
            const struct value value = {options[i].name, colon + 1, end, error};
            enum mp_status status = options[i].set(settings, &value);
            if (status) return status;
        }
        at = end;
    }
    return MP_OK;
}

/* Without spaces, as PyTorch reads it; the caller frees it. */
static char *without_spaces(const char *text)
{
    char *plain = mp_alloc(strlen(text) + 1), *to = plain;
    for (const char *at = text; *at; at++)
        if (*at != ' ' && *at != '\t') *to++ = *at;
    *to = 0;
    return plain;
}

enum mp_status mp_torch_settings_parse(struct mp_torch_settings *settings, const char *text, struct mp_error *error)
{
    char *plain = without_spaces(text);
    struct mp_torch_settings changed = *settings;
    enum mp_status status = apply(&changed, plain, OPTIONS, error);
    for (size_t i = 0; !status && i < OPTIONS; i++)
        status = apply(&changed, plain, i, error);
    if (!status) *settings = changed;
    free(plain);
    return status;
}

void mp_torch_settings_read(struct mp_torch_settings *settings, const char *text)
{
    char *plain = without_spaces(text);
    for (size_t i = 0; i < OPTIONS; i++) {
        struct mp_torch_settings changed = *settings;
        if (!apply(&changed, plain, i, NULL)) *settings = changed;
    }
    free(plain);
}

void mp_torch_settings_change(struct mp_torch_settings *settings, const char *text)
{
    settings->max_split = MP_TORCH_UNLIMITED;
    settings->gc_threshold = 0;
    memset(settings->divisions, 0, sizeof settings->divisions);
    mp_torch_settings_read(settings, text);
}

static void add_option(struct mp_buffer *text, const char *name)
{
    mp_buffer_printf(text, "%s%s:", text->size ? "," : "", name);
}

/* Versions of PyTorch read ">" differently, and some refuse a 0. So the list names each boundary, with 1 for no
 * rounding, and leaves out unset classes. */
static void add_divisions(const uint32_t *divisions, struct mp_buffer *text)
{
    bool same = true, any = false;
    for (unsigned i = 0; i < MP_TORCH_DIVISIONS; i++) {
        same = same && divisions[i] == divisions[0];
        any |= divisions[i] > 1;
    }
    if (!any) return;
    add_option(text, "roundup_power2_divisions");
    if (same) {
        mp_buffer_printf(text, "%u", divisions[0]);
        return;
    }
    unsigned first = 0; /* the first pair holds below its boundary, too */
    while (divisions[first + 1] == divisions[0])
        first++;
    for (unsigned i = first; i < MP_TORCH_DIVISIONS; i++)
        if (i == first || divisions[i])
            mp_buffer_printf(text, "%s%u:%u", i == first ? "[" : ",", 1u << i, divisions[i] ? divisions[i] : 1);
    mp_buffer_append_text(text, "]");
}

void mp_torch_settings_text(const struct mp_torch_settings *settings, struct mp_buffer *text)
{
    if (settings->expandable) {
        add_option(text, "expandable_segments");
        mp_buffer_append_text(text, "True");
    }
    if (settings->reserve > 0) {
        add_option(text, "expandable_segments_reserve");
        mp_buffer_printf(text, "%g%s", settings->reserve, settings->reserve_in_gib ? "G" : "");
    }
    if (settings->large_segment != MP_TORCH_LARGE) {
        add_option(text, "large_segment_size_mb");
        mp_buffer_printf(text, "%" PRIu64, settings->large_segment / MIB);
    }
    if (settings->max_split != MP_TORCH_UNLIMITED) {
        add_option(text, "max_split_size_mb");
        mp_buffer_printf(text, "%" PRIu64, settings->max_split / MIB);
    }
    if (settings->max_non_split_rounding != MP_TORCH_LARGE) {
        add_option(text, "max_non_split_rounding_mb");
        mp_buffer_printf(text, "%" PRIu64, settings->max_non_split_rounding / MIB);
    }
    if (settings->gc_threshold > 0) {
        add_option(text, "garbage_collection_threshold");
        mp_buffer_printf(text, "%g", settings->gc_threshold);
    }
    if (settings->fraction > 0) {
        add_option(text, "per_process_memory_fraction");
        mp_buffer_printf(text, "%g", settings->fraction);
    }
    add_divisions(settings->divisions, text);
}

static uint32_t division_of(uint32_t division)
{
    return division > 1 ? division : 0;
}

bool mp_torch_settings_same(const struct mp_torch_settings *a, const struct mp_torch_settings *b)
{
    for (unsigned i = 0; i < MP_TORCH_DIVISIONS; i++)
        if (division_of(a->divisions[i]) != division_of(b->divisions[i])) return false;
    return a->expandable == b->expandable && a->max_split == b->max_split && a->large_segment == b->large_segment &&
           a->max_non_split_rounding == b->max_non_split_rounding && a->gc_threshold == b->gc_threshold &&
           a->fraction == b->fraction && a->reserve == b->reserve && a->reserve_in_gib == b->reserve_in_gib;
}

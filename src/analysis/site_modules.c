#include "analysis/site_modules.h"

#include <stdlib.h>

#include "base/map.h"
#include "model/module_path.h"

#define PATTERNS_MAX 16 /* of one site; what fits none of them is left out */

/* The bytes of a site's blocks that one module allocated. */
struct share {
    uint32_t site, module;
    uint64_t bytes;
};

struct pattern {
    struct mp_buffer text;
    uint64_t bytes;
};

struct shares {
    struct share *at;
    size_t count, room;
    struct mp_map index;
};

static bool add_share(struct shares *shares, uint32_t site, uint32_t module, uint64_t bytes)
{
    bool fresh;
    uint64_t *at = mp_map_insert(&shares->index, ((uint64_t)site << 32 | module) + 1, &fresh);
    struct share share = {site, module, 0};
    if (!at) return false;
    if (fresh) {
        *at = shares->count;
        if (!mp_vec_push(shares, share)) return false;
    }
    shares->at[*at].bytes += bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
    return true;
}

static int by_site(const void *left, const void *right)
{
    const struct share *a = left, *b = right;
    if (a->site != b->site) return a->site < b->site ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->module < b->module ? -1 : a->module > b->module;
}

static int by_bytes(const void *left, const void *right)
{
    const struct pattern *a = left, *b = right;
    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

/* Takes a module's path into the pattern that it fits, or makes one of it. */
static bool add_path(struct pattern patterns[PATTERNS_MAX], size_t *count, const char *path, uint64_t bytes)
{
    size_t at = 0;
    while (at < *count && !mp_module_pattern_add(&patterns[at].text, path))
        at++;
    if (at == PATTERNS_MAX) return true;
    if (at == *count) {
        patterns[(*count)++] = (struct pattern){.bytes = 0};
        mp_module_pattern_add(&patterns[at].text, path);
    }
    patterns[at].bytes += bytes;
    return !patterns[at].text.failed;
}

/* The patterns of one site's shares, the heaviest first. */
static bool add_patterns(const struct mp_model *model, size_t root, const struct share *shares, size_t count,
                         struct mp_sites *sites)
{
    struct pattern patterns[PATTERNS_MAX];
    struct mp_site *site = &sites->at[shares->site];
    size_t made = 0;
    bool done = true;
    for (size_t i = 0; done && i < count; i++)
        done = add_path(patterns, &made, mp_module_path(model, root, shares[i].module), shares[i].bytes);
    qsort(patterns, made, sizeof *patterns, by_bytes);
    site->first_module = (uint32_t)sites->modules.count;
    for (size_t i = 0; i < made; i++) {
        struct mp_site_module module = {MP_NONE, patterns[i].bytes};
        if (done) module.pattern = mp_intern_text(&sites->groups, (const char *)patterns[i].text.data);
        done = done && module.pattern != MP_INTERN_FAILED && mp_vec_push(&sites->modules, module);
        site->module_count += done;
        mp_buffer_free(&patterns[i].text);
    }
    return done;
}

bool mp_site_modules_find(const struct mp_model *model, const struct mp_live *live, const uint32_t *site_of,
                          struct mp_sites *sites)
{
    struct shares shares = {0};
    size_t root = mp_module_root(model);
    bool done = true;
    for (size_t i = 0; done && i < live->count; i++) {
        uint32_t module = mp_model_module(model, live->at[i].block);
        if (module) done = add_share(&shares, site_of[i], module, live->at[i].bytes);
    }
    if (shares.count) qsort(shares.at, shares.count, sizeof *shares.at, by_site);
    for (size_t i = 0; done && i < shares.count;) {
        size_t end = i + 1;
        while (end < shares.count && shares.at[end].site == shares.at[i].site)
            end++;
        done = add_patterns(model, root, shares.at + i, end - i, sites);
        i = end;
    }
    mp_vec_free(&shares);
    mp_map_free(&shares.index);
    return done;
}

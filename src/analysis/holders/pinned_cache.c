#include "analysis/holders/pinned_cache.h"

#include "base/search.h"
#include "model/stack_facts.h"

static bool is_held(const struct mp_model *model, uint32_t block, uint32_t look)
{
    size_t at = MP_COUNT_BEFORE(model->holders.count, i, model->holders.at[i].block < block);
    return at < model->holders.count && model->holders.at[at].block == block && model->holders.at[at].look == look;
}

void mp_pinned_cache_find(const struct mp_model *model, struct mp_pinned_cache *cache)
{
    const struct mp_stack_facts *facts = mp_stack_facts(model);
    uint32_t look = (uint32_t)model->looks.count - 1;
    bool looked = model->looks.count && model->looks.at[look].complete;
    *cache = (struct mp_pinned_cache){.unused = looked ? 0 : MP_BYTES_UNKNOWN};
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        uint64_t bytes = model->blocks.bytes[block];
        bool lives = model->blocks.free_event[block] == MP_NONE && bytes != MP_BYTES_UNKNOWN;
        if (!lives || model->blocks.kind[block] != MP_KIND_PINNED || /* its first call may also make a context, which
                                                                      * allocates pinned memory */
            !(facts->of_stack[model->blocks.stack[block]] & MP_FACT_PINNED_CACHE))
            continue;
        cache->bytes += bytes;
        cache->blocks++;
        if (bytes > (1 << 20) && !(bytes & (bytes - 1))) cache->rounded += bytes;
        if (looked && !is_held(model, block, look)) cache->unused += bytes;
    }
}

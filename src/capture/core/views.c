#include "capture/core/views.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/kernel.h"

#define VIEWS_MOST 24 /* views of a table; each doubles the last */
#define ANCHORS    (MP_TABLES + MP_SPOOL_RINGS_MAX)

/* One page of each table and each ring, mapped without access: mremap() copies such a page to make a view. Under some
 * tools that run programs (emulators) mremap() makes no copy. `whole` is then a mapping of the whole spool, and views
 * are parts of it. */
static char *anchors, *whole;
static uint64_t page_bytes, whole_bytes;
static struct mp_spool_header *header;

/* A thread may finish a growth late, after another thread has made the same growth. So each growth has its own entry,
 * and the larger view stays. */
static struct mp_view views[MP_TABLES][VIEWS_MOST];
static _Atomic uint32_t made[MP_TABLES];
static const struct mp_view *_Atomic largest[MP_TABLES];
static char *_Atomic rings[MP_SPOOL_RINGS_MAX];

static const struct mp_view nothing;

static uint64_t up_to_page(uint64_t bytes)
{
    return (bytes + page_bytes - 1) & ~(page_bytes - 1);
}

static uint64_t offset_of(uint32_t anchor)
{
    return anchor < MP_TABLES ? header->tables[anchor].offset : mp_ring_offset(anchor - MP_TABLES);
}

/* Leaves a mapping out of children and core dumps. mlockall() then pins only the opened part: the rest has no access,
 * and is unlocked. */
static void keep_apart(void *at, uint64_t bytes)
{
    mp_munlock(at, bytes); /* mlockall(MCL_FUTURE) has locked it */
    mp_madvise(at, bytes, MADV_DONTFORK);
    mp_madvise(at, bytes, MADV_DONTDUMP);
}

static void *map_apart(int descriptor, uint64_t offset, uint64_t bytes)
{
    void *at = mp_mmap(NULL, bytes, PROT_NONE, MAP_SHARED, descriptor, (off_t)offset);
    if (at == MAP_FAILED) return NULL;
    keep_apart(at, bytes);
    return at;
}

static bool map_anchors(int descriptor)
{
    anchors = mp_mmap(NULL, ANCHORS * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (anchors == MAP_FAILED) anchors = NULL;
    if (!anchors) return false;
    for (uint32_t i = 0; i < ANCHORS; i++)
        if (mp_mmap(anchors + i * page_bytes, page_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, descriptor,
                    (off_t)offset_of(i)) == MAP_FAILED)
            return false;
    keep_apart(anchors, ANCHORS * page_bytes);
    return true;
}

/* Makes another mapping of the part of the spool that begins with the anchor's page. NULL with errno. */
static char *copy_anchor(uint32_t anchor, uint64_t bytes)
{
    char *page = anchors + anchor * page_bytes;
    mp_munlock(page, page_bytes); /* mlockall(MCL_CURRENT) has locked the page, and would fill the copy */
    void *at = (void *)mp_syscall(SYS_mremap, page, 0, bytes, MREMAP_MAYMOVE); /* NOLINT */
    return at == MAP_FAILED ? NULL : at;
}

static char *open_part(uint32_t anchor, uint64_t bytes)
{
    bytes = up_to_page(bytes);
    char *at = whole ? whole + offset_of(anchor) : copy_anchor(anchor, bytes);
    if (!at) return NULL;
    if (!mp_mprotect(at, bytes, PROT_READ | PROT_WRITE)) return at;
    int saved = errno;
    if (!whole) mp_munmap(at, bytes);
    errno = saved;
    return NULL;
}

static void forget_views(void)
{
    int saved = errno;
    if (header) mp_munmap(header, MP_SPOOL_HEADER_BYTES);
    if (anchors) mp_munmap(anchors, ANCHORS * page_bytes);
    if (whole) mp_munmap(whole, whole_bytes);
    header = NULL;
    anchors = whole = NULL;
    errno = saved;
}

struct mp_spool_header *mp_views_start(int descriptor, uint64_t file_bytes)
{
    page_bytes = (uint64_t)getauxval(AT_PAGESZ);
    anchors = whole = NULL;
    for (int i = 0; i < MP_TABLES; i++) {
        atomic_store(&made[i], 0);
        atomic_store(&largest[i], &nothing);
    }
    memset(rings, 0, sizeof rings);
    header = map_apart(descriptor, 0, MP_SPOOL_HEADER_BYTES);
    if (!header) return NULL;
    bool opened = !mp_mprotect(header, MP_SPOOL_HEADER_BYTES, PROT_READ | PROT_WRITE);
    bool usable = opened && mp_spool_usable(header);
    if (opened && !usable) errno = 0;
    if (!usable || !map_anchors(descriptor)) {
        forget_views();
        return NULL;
    }
    const struct mp_spool_table *first = &header->tables[MP_TABLE_TRACKS];
    bool copied = mp_view_grow(MP_TABLE_TRACKS, atomic_load(&first->committed) * sizeof(struct mp_wire_track));
    if (!copied && errno != ENOMEM) whole = map_apart(descriptor, 0, whole_bytes = file_bytes);
    if (copied || whole) return header;
    forget_views();
    return NULL;
}

const struct mp_view *mp_view(enum mp_spool_table_id table)
{
    return atomic_load_explicit(&largest[table], memory_order_acquire);
}

bool mp_view_grow(enum mp_spool_table_id table, uint64_t bytes)
{
    uint32_t place = atomic_fetch_add(&made[table], 1);
    if (place >= VIEWS_MOST) errno = ENOMEM;
    if (place >= VIEWS_MOST) return false;
    struct mp_view *view = &views[table][place];
    *view = (struct mp_view){0};
    char *at = open_part(table, bytes);
    if (!at) {
        uint32_t after = place + 1; /* gives the entry back, unless another thread has taken the next one */
        atomic_compare_exchange_strong(&made[table], &after, place);
        return false;
    }
    *view = (struct mp_view){at, bytes};
    const struct mp_view *seen = mp_view(table);
    while (seen->bytes < bytes && !atomic_compare_exchange_weak(&largest[table], &seen, view)) {
    }
    return true;
}

struct mp_record *mp_view_ring(uint32_t ring)
{
    char *known = atomic_load(&rings[ring]);
    if (known) return (struct mp_record *)known;
    char *at = open_part(MP_TABLES + ring, MP_RING_BYTES);
    if (at) atomic_store(&rings[ring], at);
    return (struct mp_record *)at;
}

void mp_view_put_blank(void *at, uint64_t bytes)
{
    if (at)
        mp_mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                -1, 0);
}

void mp_views_blank(void)
{
    mp_view_put_blank(header, header ? MP_SPOOL_HEADER_BYTES : 0);
    if (whole) mp_view_put_blank(whole, whole_bytes);
    if (whole) return;
    for (int table = 0; table < MP_TABLES; table++)
        for (uint32_t i = 0; i < VIEWS_MOST && i < atomic_load(&made[table]); i++)
            mp_view_put_blank(views[table][i].at, up_to_page(views[table][i].bytes));
    for (uint32_t i = 0; i < MP_SPOOL_RINGS_MAX; i++)
        mp_view_put_blank(atomic_load(&rings[i]), MP_RING_BYTES);
}

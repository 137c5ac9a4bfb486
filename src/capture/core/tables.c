#include "capture/core/tables.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "capture/core/front.h"
#include "capture/core/room.h"
#include "capture/core/session.h"
#include "capture/core/views.h"

#define WAIT_FOR_SPACE_NS (20 * MP_NS_PER_MS)

/* A hash table from an entry's content to id + 1, by open addressing; the content itself lies in the spool. The table
 * begins small and doubles when it is half full. Each new entry then moves a few slots from the smaller table, so that
 * no hook moves them all. Until all slots have moved, look-ups search both tables. A thread may leave by a jump while
 * it holds the lock. An entry may then not be found again, and is entered twice.
 *
 * A thread may also continue here after it has lost the lock: it was stopped, or ran a long handler or a coroutine. So
 * slots and their number are one block of memory, which stays mapped until the session ends. Nothing is written beyond
 * the open part of the spool. */
#define FIRST_SLOTS (UINT64_C(1) << 12)
#define MOVED_EACH  16
#define MADE_MOST   32 /* most tables that a look-up makes in its life; each is twice as large as the last */
struct slots {
    uint64_t mask;
    uint32_t at[];
};
static struct lookup {
    uint64_t most;           /* the most slots of a table */
    struct slots *now, *old; /* `old`: the smaller table, until all its entries have moved */
    uint64_t used, moved;    /* entries; slots of `old` that were moved */
    struct slots *empty;     /* a table whose entries have all moved; its memory goes back piece by piece */
    uint64_t given_back;     /* bytes of `empty` that have gone back to the kernel */
    struct {
        void *at;
        size_t bytes;
    } made[MADE_MOST]; /* all tables, for end(): a forked child may lack their memory */
    uint32_t made_count;
} lookups[MP_TABLES] = {
    [MP_TABLE_NODES] = {.most = UINT64_C(1) << 24},
    [MP_TABLE_FRAMES] = {.most = UINT64_C(1) << 21},
    [MP_TABLE_STRINGS] = {.most = UINT64_C(1) << 21},
};

static size_t bytes_of(uint64_t slots)
{
    return sizeof(struct slots) + slots * sizeof(uint32_t);
}

static struct slots *map_slots(struct lookup *lookup, uint64_t count)
{
    uint32_t place = lookup->made_count;
    struct slots *slots = place < MADE_MOST ? mp_room_map(bytes_of(count)) : NULL;
    if (!slots) return NULL;
    slots->mask = count - 1;
    lookup->made[place].at = slots;
    lookup->made[place].bytes = bytes_of(count);
    lookup->made_count = place + 1;
    return slots;
}

static void drop_old(struct lookup *lookup)
{
    struct slots *old = lookup->old;
    lookup->old = NULL;
    lookup->given_back = MP_ROOM_PIECE; /* the first piece has `mask`, so it stays */
    lookup->empty = old != lookup->now ? old : NULL;
}

/* Returns one piece of memory at a time: for a whole large table the kernel takes 2 ms. */
static void give_back_some(struct lookup *lookup)
{
    struct slots *empty = lookup->empty;
    uint64_t from = lookup->given_back, bytes = bytes_of(empty->mask + 1);
    lookup->given_back = from + MP_ROOM_PIECE;
    if (from < bytes)
        mp_room_empty((char *)empty + from, bytes - from < MP_ROOM_PIECE ? bytes - from : MP_ROOM_PIECE);
    else
        lookup->empty = NULL;
}

static void end(void)
{
    for (int i = 0; i < MP_TABLES; i++) {
        struct lookup *lookup = &lookups[i];
        for (uint32_t k = 0; k < lookup->made_count; k++)
            mp_room_unmap(lookup->made[k].at, lookup->made[k].bytes);
        *lookup = (struct lookup){.most = lookup->most};
    }
}

static bool reset(void)
{
    end();
    for (int i = 0; i < MP_TABLES; i++) {
        struct lookup *lookup = &lookups[i];
        if (!lookup->most) continue;
        lookup->now = map_slots(lookup, FIRST_SLOTS);
        if (!lookup->now) return false;
    }
    return true;
}

const struct mp_front mp_tables_front = {
    .reset = reset,
    .end = end,
    .memory = {(void *const *)&lookups[MP_TABLE_NODES].now, (void *const *)&lookups[MP_TABLE_FRAMES].now,
               (void *const *)&lookups[MP_TABLE_STRINGS].now},
};

bool mp_tables_lock(void)
{
    bool taken = mp_lock_take(&mp_session.page->table_lock);
    if (!taken) mp_session_without_lock();
    return taken;
}

void mp_tables_unlock(void)
{
    mp_lock_release(&mp_session.page->table_lock);
}

static struct mp_spool_table *table_of(enum mp_spool_table_id id)
{
    return &mp_session.header->tables[id];
}

/* Waits once for the collector to commit the needed part. After a wait in vain (a full file system, a stopped
 * collector), later calls do not wait until the collector has committed something. This matters because a new path
 * makes hundreds of calls. */
static bool wait_for_space(enum mp_spool_table_id id, uint64_t need)
{
    static uint64_t in_vain[MP_TABLES]; /* the committed size when a wait was in vain; under the table lock */
    struct mp_spool_header *header = mp_session.header;
    struct mp_spool_table *table = table_of(id);
    uint64_t give_up = mp_clock_monotonic_ns() + WAIT_FOR_SPACE_NS, committed;
    for (;;) {
        uint32_t drained = atomic_load(&header->drained);
        committed = atomic_load_explicit(&table->committed, memory_order_acquire);
        if (need <= committed) return true;
        uint64_t now = mp_clock_monotonic_ns();
        if (committed == in_vain[id] || atomic_load(&header->cannot_grow) || now >= give_up ||
            !mp_spool_attended(header))
            break;
        mp_futex_wait(&header->drained, drained, give_up - now);
    }
    in_vain[id] = committed;
    return false;
}

/* True if entries (bytes of strings) up to `end` may be touched. */
static bool is_open(enum mp_spool_table_id id, uint64_t end)
{
    return end * mp_spool_entry_bytes(id) <= mp_view(id)->bytes;
}

/* Maps the committed part of a table in this process. */
static bool open_table(enum mp_spool_table_id id, uint64_t need, uint64_t committed)
{
    int saved = errno;
    bool opened = is_open(id, need) || mp_view_grow(id, committed * mp_spool_entry_bytes(id));
    if (!opened) mp_session_refused("mremap");
    errno = saved;
    return opened;
}

static char *entry_of(enum mp_spool_table_id id, uint64_t number)
{
    return mp_view(id)->at + number * mp_spool_entry_bytes(id);
}

/* True if `more` entries past the end may be touched. If needed, asks the collector for space and waits a little. */
static bool have_space(enum mp_spool_table_id id, uint64_t more)
{
    struct mp_spool_header *header = mp_session.header;
    struct mp_spool_table *table = table_of(id);
    uint64_t need = atomic_load_explicit(&table->count, memory_order_relaxed) + more;
    uint64_t committed = atomic_load_explicit(&table->committed, memory_order_acquire);
    if (need > committed / 2 && committed < table->room) mp_session_ring_doorbell();
    if ((need <= committed || (need <= table->room && wait_for_space(id, need))) &&
        open_table(id, need, atomic_load_explicit(&table->committed, memory_order_acquire)))
        return true;
    if (id != MP_TABLE_TRACKS) /* for tracks, the caller counts the lost events */
        atomic_fetch_add(id == MP_TABLE_STRINGS ? &header->losses.lost_strings : &header->losses.lost_stacks, 1);
    return false;
}

/* True if this thread still holds the lock. Otherwise another thread took it away, and may have written behind the last
 * entry. */
static bool still_ours(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    return mp_lock_is_own(&mp_session.page->table_lock);
}

/* Raises the count of entries. It never goes back, since the collector has read up to it. */
static void publish(enum mp_spool_table_id id, uint64_t count)
{
    _Atomic uint64_t *published = &table_of(id)->count;
    uint64_t seen = atomic_load_explicit(published, memory_order_relaxed);
    while (seen < count && !atomic_compare_exchange_weak_explicit(published, &seen, count, memory_order_release,
                                                                  memory_order_relaxed)) {
    }
}

static const char *text_of(uint32_t id, uint32_t *length)
{
    const struct mp_view *view = mp_view(MP_TABLE_STRINGS);
    const char *strings = view->at;
    uint64_t at = (uint64_t)id * 4, open = view->bytes;
    *length = 0;
    if (at + sizeof *length > open) return strings;
    memcpy(length, strings + at, sizeof *length);
    if (*length > open - at - sizeof *length) *length = 0;
    return strings + at + sizeof *length;
}

static uint64_t hash_of_entry(enum mp_spool_table_id table, uint32_t id)
{
    size_t bytes = mp_spool_entry_bytes(table);
    uint32_t length;
    if (table != MP_TABLE_STRINGS) return mp_hash_bytes(entry_of(table, id), bytes);
    const char *text = text_of(id, &length);
    return mp_hash_bytes(text, length);
}

static bool is_entry(enum mp_spool_table_id table, uint32_t id, const void *content, size_t bytes)
{
    uint32_t length;
    if (table != MP_TABLE_STRINGS) return !memcmp(entry_of(table, id), content, bytes);
    const char *text = text_of(id, &length);
    return length == bytes && !memcmp(text, content, bytes);
}

/* The slot of the entry with that content, or the empty slot where it belongs. NULL: the table is full. */
static uint32_t *find_slot(enum mp_spool_table_id table, struct slots *slots, uint64_t hash, const void *content,
                           size_t bytes)
{
    for (uint64_t tries = 0; tries <= slots->mask; tries++) {
        uint32_t *slot = &slots->at[(hash + tries) & slots->mask];
        if (!*slot || is_entry(table, *slot - 1, content, bytes)) return slot;
    }
    return NULL;
}

static void move_some(enum mp_spool_table_id table, struct lookup *lookup)
{
    const struct slots *old = lookup->old;
    struct slots *now = lookup->now;
    for (int i = 0; i < MOVED_EACH; i++) {
        uint64_t from = lookup->moved;
        if (from > old->mask) break;
        lookup->moved = from + 1;
        uint32_t entry = old->at[from];
        if (!entry) continue;
        uint64_t at = hash_of_entry(table, entry - 1), tries = 0;
        while (now->at[at & now->mask] && tries++ < now->mask)
            at++;
        if (!now->at[at & now->mask]) now->at[at & now->mask] = entry;
    }
    if (lookup->moved > old->mask) drop_old(lookup);
}

static void begin_growth(struct lookup *lookup)
{
    struct slots *now = lookup->now, *larger = map_slots(lookup, 2 * (now->mask + 1));
    if (!larger) return;
    lookup->moved = 0;
    lookup->old = now;
    atomic_signal_fence(memory_order_seq_cst);
    lookup->now = larger;
}

static void fill_slot(enum mp_spool_table_id table, uint32_t *slot, uint32_t id)
{
    struct lookup *lookup = &lookups[table];
    *slot = id + 1;
    lookup->used++;
    if (lookup->old == lookup->now) lookup->old = NULL; /* a jump left the growth just before its begin */
    if (lookup->old)
        move_some(table, lookup);
    else if (lookup->empty)
        give_back_some(lookup);
    else if (2 * lookup->used > lookup->now->mask && lookup->now->mask + 1 < lookup->most)
        begin_growth(lookup);
}

/* Returns the entry's id + 1. 0: the entry does not exist, and *empty is the slot where it belongs (NULL: none). */
static uint32_t look_up(enum mp_spool_table_id table, const void *content, size_t bytes, uint32_t **empty)
{
    struct lookup *lookup = &lookups[table];
    uint64_t hash = mp_hash_bytes(content, bytes);
    *empty = find_slot(table, lookup->now, hash, content, bytes);
    uint32_t entry = *empty ? **empty : 0;
    if (entry) return entry;
    struct slots *old = lookup->old;
    const uint32_t *slot = old ? find_slot(table, old, hash, content, bytes) : NULL;
    return slot ? *slot : 0;
}

/* Finds or appends an entry of fixed size. Returns `none` if there is no room. */
static uint32_t find_or_add(enum mp_spool_table_id id, const void *entry, uint32_t none)
{
    size_t bytes = mp_spool_entry_bytes(id);
    uint32_t *slot, known = look_up(id, entry, bytes, &slot);
    if (known) return known - 1;
    if (!slot || !have_space(id, 1) || !still_ours()) return none;
    uint64_t count = atomic_load_explicit(&table_of(id)->count, memory_order_relaxed);
    if (!is_open(id, count + 1)) return none;
    memcpy(entry_of(id, count), entry, bytes);
    if (!still_ours()) return none;
    publish(id, count + 1);
    fill_slot(id, slot, (uint32_t)count);
    return (uint32_t)count;
}

uint32_t mp_table_frame_locked(const struct mp_wire_frame *frame)
{
    return find_or_add(MP_TABLE_FRAMES, frame, MP_WIRE_FRAME_CUT);
}

uint32_t mp_table_node_locked(uint32_t parent, uint32_t frame)
{
    struct mp_wire_node node = {.parent = parent, .frame = frame};
    return find_or_add(MP_TABLE_NODES, &node, 0);
}

uint32_t mp_table_module_locked(const struct mp_wire_module *module)
{
    uint64_t count = atomic_load_explicit(&table_of(MP_TABLE_MODULES)->count, memory_order_relaxed);
    for (uint64_t i = count; i-- > 1;)
        if (is_entry(MP_TABLE_MODULES, (uint32_t)i, module, sizeof *module)) return (uint32_t)i;
    if (!have_space(MP_TABLE_MODULES, 1) || !still_ours() || !is_open(MP_TABLE_MODULES, count + 1)) return 0;
    memcpy(entry_of(MP_TABLE_MODULES, count), module, sizeof *module);
    publish(MP_TABLE_MODULES, count + 1);
    return (uint32_t)count;
}

uint32_t mp_table_string_locked(const char *text, size_t length)
{
    if (!length) return 0;
    uint32_t *slot, known = look_up(MP_TABLE_STRINGS, text, length, &slot);
    if (known) return known - 1;
    uint64_t bytes = (sizeof(uint32_t) + length + 3) & ~UINT64_C(3);
    if (!slot) atomic_fetch_add(&mp_session.header->losses.lost_strings, 1);
    if (!slot || !have_space(MP_TABLE_STRINGS, bytes) || !still_ours()) return 0;
    uint64_t end = atomic_load_explicit(&table_of(MP_TABLE_STRINGS)->count, memory_order_relaxed);
    if (!is_open(MP_TABLE_STRINGS, end + bytes)) return 0;
    uint32_t stored = (uint32_t)length;
    char *at = entry_of(MP_TABLE_STRINGS, end);
    memcpy(at, &stored, sizeof stored);
    memcpy(at + sizeof stored, text, length);
    if (!still_ours()) return 0;
    publish(MP_TABLE_STRINGS, end + bytes);
    fill_slot(MP_TABLE_STRINGS, slot, (uint32_t)(end / 4));
    return (uint32_t)(end / 4);
}

uint32_t mp_table_string(const char *text, size_t length)
{
    if (!length || !mp_tables_lock()) return 0;
    uint32_t id = mp_table_string_locked(text, length);
    mp_tables_unlock();
    return id;
}

uint16_t mp_table_track(const struct mp_wire_track *track)
{
    if (!mp_tables_lock()) return UINT16_MAX;
    uint64_t count = atomic_load_explicit(&table_of(MP_TABLE_TRACKS)->count, memory_order_relaxed);
    uint64_t i = 0;
    while (i < count && !is_entry(MP_TABLE_TRACKS, (uint32_t)i, track, sizeof *track))
        i++;
    if (i == count) {
        if (have_space(MP_TABLE_TRACKS, 1) && still_ours() && is_open(MP_TABLE_TRACKS, count + 1)) {
            memcpy(entry_of(MP_TABLE_TRACKS, i), track, sizeof *track);
            publish(MP_TABLE_TRACKS, count + 1);
        } else {
            i = UINT16_MAX;
        }
    }
    mp_tables_unlock();
    return (uint16_t)i;
}

#include "capture/tables.h"

#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/hash.h"
#include "capture/session.h"

#define WAIT_FOR_SPACE_NS (20 * MP_NS_PER_MS)

/* Open addressing from content to id + 1; the content itself lies in the spool. It begins small and doubles when it is
 * half full, up to twice the table's room: spread over all of that from the start, it would take every page at once.
 * With n slots it lies at slot n of the mapping, so that the old and the new one never overlap. */
#define FIRST_SLOTS (UINT64_C(1) << 12)
static struct lookup {
    uint32_t *memory, *slots;
    uint64_t mask, used, most; /* `most`: slots that it may ever have */
} lookups[MP_TABLES] = {
    [MP_TABLE_NODES] = {.most = UINT64_C(1) << 24},
    [MP_TABLE_FRAMES] = {.most = UINT64_C(1) << 21},
    [MP_TABLE_STRINGS] = {.most = UINT64_C(1) << 21},
};

static void use_slots(struct lookup *lookup, uint64_t slots)
{
    lookup->slots = lookup->memory + slots;
    lookup->mask = slots - 1;
}

bool mp_tables_start(void)
{
    for (int i = 0; i < MP_TABLES; i++) {
        if (!lookups[i].most) continue;
        size_t bytes = 2 * lookups[i].most * sizeof *lookups[i].slots;
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        madvise(memory, bytes, MADV_DONTDUMP);
        lookups[i].memory = memory;
        use_slots(&lookups[i], FIRST_SLOTS);
    }
    return true;
}

void mp_tables_reset(void)
{
    for (int i = 0; i < MP_TABLES; i++) {
        if (!lookups[i].memory) continue;
        madvise(lookups[i].memory, 2 * lookups[i].most * sizeof *lookups[i].slots, MADV_DONTNEED);
        use_slots(&lookups[i], FIRST_SLOTS);
        lookups[i].used = 0;
    }
}

void mp_tables_lock(void)
{
    mp_lock_take(&mp_session.page->table_lock);
}

void mp_tables_unlock(void)
{
    mp_lock_release(&mp_session.page->table_lock);
}

static struct mp_spool_table *table_of(enum mp_spool_table_id id)
{
    return &mp_session.header->tables[id];
}

/* Waits for the collector to commit what is needed, once: where that was in vain, later calls do not wait until it has
 * committed something (a full file system, a stopped collector). A new path makes hundreds of calls. */
static bool wait_for_space(enum mp_spool_table_id id, uint64_t need)
{
    static uint64_t in_vain[MP_TABLES]; /* what was committed then; under the table lock */
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

/* True where `more` entries may be touched past the end; asks the collector for space and waits a little if need be. */
static bool have_space(enum mp_spool_table_id id, uint64_t more)
{
    struct mp_spool_header *header = mp_session.header;
    struct mp_spool_table *table = table_of(id);
    uint64_t need = atomic_load_explicit(&table->count, memory_order_relaxed) + more;
    uint64_t committed = atomic_load_explicit(&table->committed, memory_order_acquire);
    if (need > committed / 2 && committed < table->room) mp_session_ring_doorbell();
    if (need <= committed || (need <= table->room && wait_for_space(id, need))) return true;
    atomic_fetch_add(&header->lost_stacks, 1);
    return false;
}

static void publish(enum mp_spool_table_id id, uint64_t count)
{
    atomic_store_explicit(&table_of(id)->count, count, memory_order_release);
}

static uint64_t hash_of_entry(enum mp_spool_table_id table, uint32_t id)
{
    const char *entries = mp_spool_entries(mp_session.header, table);
    size_t bytes = mp_spool_entry_bytes(table);
    if (table != MP_TABLE_STRINGS) return mp_hash_bytes(entries + id * bytes, bytes);
    uint32_t length;
    memcpy(&length, entries + (size_t)id * 4, sizeof length);
    return mp_hash_bytes(entries + (size_t)id * 4 + sizeof length, length);
}

static void fill_slot(enum mp_spool_table_id table, uint32_t *slot, uint32_t id)
{
    struct lookup *lookup = &lookups[table];
    *slot = id + 1;
    if (2 * ++lookup->used <= lookup->mask || lookup->mask + 1 == lookup->most) return;
    uint32_t *old = lookup->slots;
    uint64_t old_slots = lookup->mask + 1;
    use_slots(lookup, 2 * old_slots);
    for (uint64_t i = 0; i < old_slots; i++) {
        if (!old[i]) continue;
        uint64_t at = hash_of_entry(table, old[i] - 1);
        while (lookup->slots[at & lookup->mask])
            at++;
        lookup->slots[at & lookup->mask] = old[i];
    }
    madvise(old, old_slots * sizeof *old, MADV_DONTNEED);
}

/* The slot of the entry that equals the `bytes` at entry, or the empty slot where it belongs. NULL: the look-up is
 * full. */
static uint32_t *find_slot(enum mp_spool_table_id id, const void *entry, size_t bytes)
{
    struct lookup *lookup = &lookups[id];
    const char *entries = mp_spool_entries(mp_session.header, id);
    uint64_t at = mp_hash_bytes(entry, bytes);
    for (uint64_t tries = 0; tries <= lookup->mask; tries++, at++) {
        uint32_t *slot = &lookup->slots[at & lookup->mask];
        if (!*slot || !memcmp(entries + (uint64_t)(*slot - 1) * bytes, entry, bytes)) return slot;
    }
    return NULL;
}

/* Finds or appends an entry of fixed size; `none` where that cannot be. */
static uint32_t find_or_add(enum mp_spool_table_id id, const void *entry, uint32_t none)
{
    size_t bytes = mp_spool_entry_bytes(id);
    uint32_t *slot = find_slot(id, entry, bytes);
    if (!slot) return none;
    if (*slot) return *slot - 1;
    if (!have_space(id, 1)) return none;
    uint64_t count = atomic_load_explicit(&table_of(id)->count, memory_order_relaxed);
    memcpy((char *)mp_spool_entries(mp_session.header, id) + count * bytes, entry, bytes);
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
    const struct mp_wire_module *modules = mp_spool_entries(mp_session.header, MP_TABLE_MODULES);
    uint64_t count = atomic_load_explicit(&table_of(MP_TABLE_MODULES)->count, memory_order_relaxed);
    for (uint64_t i = count; i-- > 1;)
        if (!memcmp(&modules[i], module, sizeof *module)) return (uint32_t)i;
    if (!have_space(MP_TABLE_MODULES, 1)) return 0;
    memcpy((char *)mp_spool_entries(mp_session.header, MP_TABLE_MODULES) + count * sizeof *module, module,
           sizeof *module);
    publish(MP_TABLE_MODULES, count + 1);
    return (uint32_t)count;
}

static bool string_equals(const char *strings, uint32_t id, const char *text, size_t length)
{
    uint32_t known;
    memcpy(&known, strings + (size_t)id * 4, sizeof known);
    return known == length && !memcmp(strings + (size_t)id * 4 + sizeof known, text, length);
}

uint32_t mp_table_string_locked(const char *text, size_t length)
{
    if (!length) return 0;
    struct lookup *lookup = &lookups[MP_TABLE_STRINGS];
    char *strings = mp_spool_entries(mp_session.header, MP_TABLE_STRINGS);
    uint64_t at = mp_hash_bytes(text, length), tries = 0;
    uint32_t *slot = &lookup->slots[at & lookup->mask];
    for (; *slot && !string_equals(strings, *slot - 1, text, length); slot = &lookup->slots[++at & lookup->mask])
        if (++tries > lookup->mask) return 0;
    if (*slot) return *slot - 1;

    uint64_t bytes = (sizeof(uint32_t) + length + 3) & ~UINT64_C(3);
    if (!have_space(MP_TABLE_STRINGS, bytes)) return 0;
    uint64_t end = atomic_load_explicit(&table_of(MP_TABLE_STRINGS)->count, memory_order_relaxed);
    uint32_t stored = (uint32_t)length;
    memcpy(strings + end, &stored, sizeof stored);
    memcpy(strings + end + sizeof stored, text, length);
    publish(MP_TABLE_STRINGS, end + bytes);
    fill_slot(MP_TABLE_STRINGS, slot, (uint32_t)(end / 4));
    return (uint32_t)(end / 4);
}

uint32_t mp_table_string(const char *text, size_t length)
{
    mp_tables_lock();
    uint32_t id = mp_table_string_locked(text, length);
    mp_tables_unlock();
    return id;
}

uint16_t mp_table_track(const struct mp_wire_track *track)
{
    mp_tables_lock();
    struct mp_wire_track *tracks = mp_spool_entries(mp_session.header, MP_TABLE_TRACKS);
    uint64_t count = atomic_load_explicit(&table_of(MP_TABLE_TRACKS)->count, memory_order_relaxed);
    uint64_t i = 0;
    while (i < count && memcmp(&tracks[i], track, sizeof *track))
        i++;
    if (i == count) {
        if (have_space(MP_TABLE_TRACKS, 1)) {
            tracks[i] = *track;
            publish(MP_TABLE_TRACKS, count + 1);
        } else {
            i = UINT16_MAX;
        }
    }
    mp_tables_unlock();
    return (uint16_t)i;
}

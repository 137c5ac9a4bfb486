#include "wire/spool.h"

#include <linux/futex.h>

/* The room of a table is a bound, not a cost: only committed space takes memory. The tables span about 220 MiB of the
 * file. */
static const struct {
    size_t entry_bytes;
    uint64_t room;
} shapes[MP_TABLES] = {
    [MP_TABLE_NODES] = {sizeof(struct mp_wire_node), UINT64_C(8) << 20},
    [MP_TABLE_FRAMES] = {sizeof(struct mp_wire_frame), UINT64_C(768) << 10},
    [MP_TABLE_MODULES] = {sizeof(struct mp_wire_module), 16384},
    [MP_TABLE_TRACKS] = {sizeof(struct mp_wire_track), 255},
    [MP_TABLE_STRINGS] = {1, UINT64_C(32) << 20},
};

size_t mp_spool_entry_bytes(enum mp_spool_table_id table)
{
    return shapes[table].entry_bytes;
}

uint64_t mp_spool_table_offset(enum mp_spool_table_id table)
{
    uint64_t offset = mp_ring_offset(MP_SPOOL_RINGS_MAX);
    for (int i = 0; i < (int)table; i++)
        offset += (shapes[i].entry_bytes * shapes[i].room + 0xffff) & ~UINT64_C(0xffff);
    return offset;
}

uint64_t mp_spool_layout(struct mp_spool_table tables[MP_TABLES])
{
    for (int i = 0; i < MP_TABLES; i++) {
        tables[i].offset = mp_spool_table_offset((enum mp_spool_table_id)i);
        tables[i].room = shapes[i].room;
    }
    return mp_spool_table_offset(MP_TABLES);
}

uint64_t mp_spool_table_count(const struct mp_spool_header *header, enum mp_spool_table_id table)
{
    uint64_t count = atomic_load_explicit(&header->tables[table].count, memory_order_acquire);
    uint64_t committed = atomic_load_explicit(&header->tables[table].committed, memory_order_relaxed);
    if (committed > shapes[table].room) committed = shapes[table].room;
    return count < committed ? count : committed;
}

bool mp_spool_usable(const struct mp_spool_header *header)
{
    return header->magic == MP_SPOOL_MAGIC && header->version == MP_SPOOL_VERSION &&
           header->header_bytes == sizeof *header;
}

bool mp_spool_attended(const struct mp_spool_header *header)
{
    uint32_t value = atomic_load_explicit(&header->collector, memory_order_relaxed);
    return (value & FUTEX_TID_MASK) && !(value & FUTEX_OWNER_DIED) &&
           !atomic_load_explicit(&header->collector_left, memory_order_relaxed) &&
           !atomic_load_explicit(&header->written.failed, memory_order_relaxed);
}

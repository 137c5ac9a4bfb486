/* A spool in plain memory for tests of the recorder. The test itself reads the rings in place of a collector. */
#pragma once

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/core/fork.h"
#include "capture/core/front.h"
#include "capture/core/session.h"
#include "capture/core/tables.h"
#include "capture/core/views.h"
#include "unit/suite.h"

static struct mp_doorbell_page doorbell;

static inline void *map(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    return at;
}

/* Each test runs in a process of its own. */
static inline struct mp_spool_header *start(bool wait)
{
    struct mp_spool_table tables[MP_TABLES] = {{0}};
    uint64_t bytes = mp_spool_layout(tables);
    int file = memfd_create("spool", MFD_CLOEXEC);
    ck_assert(file >= 0 && !ftruncate(file, (off_t)bytes));
    struct mp_spool_header *spool = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    ck_assert_ptr_ne(spool, MAP_FAILED);
    madvise(spool, bytes, MADV_DONTFORK);
    spool->magic = MP_SPOOL_MAGIC;
    spool->version = MP_SPOOL_VERSION;
    spool->header_bytes = sizeof *spool;
    memcpy(spool->tables, tables, sizeof tables);
    for (int id = 0; id < MP_TABLES; id++)
        spool->tables[id].committed = tables[id].room;
    spool->tables[MP_TABLE_NODES].count = spool->tables[MP_TABLE_MODULES].count = 1;
    spool->tables[MP_TABLE_STRINGS].count = sizeof(uint32_t);
    spool->rings_committed = MP_SPOOL_RINGS_MAX;
    atomic_store(&spool->collector, (uint32_t)getpid()); /* somebody holds it */

    mp_session.page = map((uint64_t)sysconf(_SC_PAGESIZE));
    ck_assert(!madvise(mp_session.page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK));
    mp_session.header = mp_views_start(file, bytes);
    ck_assert_ptr_nonnull(mp_session.header);
    close(file);
    mp_session.doorbell = &doorbell;
    mp_record_config_defaults(&mp_session.config);
    mp_session.config.native_stacks = mp_session.config.python_stacks = false;
    mp_session.config.wait_when_full = wait;
    ck_assert(mp_fronts_start() && mp_fronts_reset() && mp_thread_start() && mp_fork_start());
    atomic_store(&mp_session.page->generation, 1);
    atomic_store(&mp_session.page->recording, 1);
    return spool;
}

#include "collect/session/doorbell.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/worker.h"
#include "wire/config.h"

static void *listen_for_rings(void *context)
{
    struct mp_doorbell *doorbell = context;
    for (;;) {
        uint32_t seen = atomic_load(&doorbell->page->rings);
        if (atomic_load(&doorbell->leaving)) return NULL;
        syscall(SYS_futex, &doorbell->page->rings, FUTEX_WAIT, seen, NULL, NULL, 0);
        eventfd_write(doorbell->heard, 1);
    }
}

enum mp_status mp_doorbell_open(struct mp_doorbell *doorbell, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    void *page = MAP_FAILED;
    doorbell->memory = memfd_create("memprof-doorbell", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    doorbell->heard = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (doorbell->memory >= 0 && doorbell->heard >= 0 && !ftruncate(doorbell->memory, MP_DOORBELL_BYTES) &&
        !fallocate(doorbell->memory, 0, 0, MP_DOORBELL_BYTES) &&
        !fcntl(doorbell->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
        page = mmap(NULL, MP_DOORBELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, doorbell->memory, 0);
    if (page == MAP_FAILED) {
        status = mp_fail_errno(error, "cannot make shared memory");
    } else {
        doorbell->page = page;
        if (mp_worker_start(&doorbell->listener, listen_for_rings, doorbell)) return MP_OK;
        status = mp_fail_errno(error, "cannot start a thread");
        munmap(page, MP_DOORBELL_BYTES);
    }
    if (doorbell->memory >= 0) close(doorbell->memory);
    if (doorbell->heard >= 0) close(doorbell->heard);
    doorbell->page = NULL;
    return status;
}

void mp_doorbell_hear(struct mp_doorbell *doorbell)
{
    eventfd_t heard;
    (void)eventfd_read(doorbell->heard, &heard);
}

void mp_doorbell_close(struct mp_doorbell *doorbell)
{
    if (!doorbell->page) return;
    atomic_store(&doorbell->leaving, true);
    atomic_fetch_add(&doorbell->page->rings, 1);
    syscall(SYS_futex, &doorbell->page->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    pthread_join(doorbell->listener, NULL);
    munmap(doorbell->page, MP_DOORBELL_BYTES);
    close(doorbell->memory);
    close(doorbell->heard);
    *doorbell = (struct mp_doorbell){.page = NULL};
}

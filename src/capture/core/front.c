#include "capture/core/front.h"

#include "capture/core/read_memory.h"

#define LINE 64
#define PAGE 4096

static size_t thread_bytes = MP_THREAD_OWN;

void mp_fronts_enter(void)
{
    for (const struct mp_front *const *f = mp_fronts.front; *f; f++)
        if ((*f)->enter) (*f)->enter();
}

/* Large parts begin at a page, so that only their used pages are touched. */
static void place_in_threads(const struct mp_front *front)
{
    size_t align = front->thread_bytes < PAGE ? LINE : PAGE;
    if (!front->thread_bytes) return;
    *front->thread_place = (thread_bytes + align - 1) & ~(align - 1);
    thread_bytes = *front->thread_place + front->thread_bytes;
}

bool mp_fronts_start(void)
{
    bool started = true;
    for (const struct mp_front *const *f = mp_fronts.front; *f; f++) {
        place_in_threads(*f);
        started = started && (!(*f)->start || (*f)->start());
    }
    return started;
}

size_t mp_thread_bytes(void)
{
    return thread_bytes;
}

void mp_fronts_forked(bool inside)
{
    for (const struct mp_front *const *f = mp_fronts.front; *f; f++)
        if ((*f)->forked) (*f)->forked(inside);
}

bool mp_is_here(const void *memory)
{
    char byte;
    return !memory || mp_read_memory(&byte, (uintptr_t)memory, sizeof byte);
}

bool mp_fronts_are_here(void)
{
    bool here = true;
    for (const struct mp_front *const *f = mp_fronts.front; *f; f++)
        for (int i = 0; i < MP_FRONT_MEMORY && (*f)->memory[i]; i++)
            here = here && mp_is_here(*(*f)->memory[i]);
    return here;
}

bool mp_fronts_reset(void)
{
    bool reset = true;
    for (const struct mp_front *const *f = mp_fronts.front; *f; f++)
        reset = reset && (!(*f)->reset || (*f)->reset());
    return reset;
}

void mp_fronts_end(void)
{
    for (const struct mp_front *const *f = mp_fronts.front; *f; f++)
        if ((*f)->end) (*f)->end();
}

/*
 * The events of a Chrome trace, as Kineto writes them where it has them, into a sink. Times are nanoseconds on the
 * trace's clock. One thread at a time.
 */
#ifndef MP_EXCHANGE_CHROME_EVENTS_H
#define MP_EXCHANGE_CHROME_EVENTS_H

#include "exchange/sink.h"
#include "model/model.h"

struct mp_chrome {
    struct mp_sink sink;
    bool any_event;
    uint64_t memory_events; /* written so far: Kineto counts them */
};

/* c10's type and number of a device by its name; "cpu" is 0 and -1, as in Kineto. */
void mp_chrome_device(const char *name, unsigned *type, int *index);
/* Whether a device has a row of its own, and whose row its counters stand in: a GPU's number, as Kineto numbers its
 * rows; else the process. */
bool mp_chrome_has_row(const char *device);
uint32_t mp_chrome_row(const char *device, uint32_t pid);

void mp_chrome_name(struct mp_chrome *chrome, const char *what, uint32_t pid, uint32_t tid, const char *key,
                    const char *name);
void mp_chrome_sort(struct mp_chrome *chrome, uint32_t pid, uint32_t place);
void mp_chrome_counter(struct mp_chrome *chrome, uint32_t pid, const char *name, const char *key, uint64_t ns,
                       uint64_t value);
/* A span of PyTorch's kind "user_annotation". */
void mp_chrome_slice(struct mp_chrome *chrome, uint32_t pid, uint32_t tid, uint64_t start_ns, uint64_t end_ns,
                     const char *name);

/* When the recording was on, as the profiler says it of itself. */
void mp_chrome_window(struct mp_chrome *chrome, uint64_t start_ns, uint64_t end_ns);

/* "[memory]", or "[OutOfMemory]", which has no address. */
struct mp_chrome_memory {
    uint64_t ns, address, bytes; /* address 0: not known */
    bool freed, out_of_memory;
    bool totals;                  /* allocated and reserved are known */
    uint64_t allocated, reserved; /* after it; reserved 0 where nobody said */
    unsigned device_type;
    int device;
    uint32_t pid, tid;
};
void mp_chrome_memory(struct mp_chrome *chrome, const struct mp_chrome_memory *memory);

#endif

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "exchange/kineto/kineto_parts.h"

static void note(struct mp_kineto_notes *notes, struct mp_kineto *kineto, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note(struct mp_kineto_notes *notes, struct mp_kineto *kineto, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    uint32_t id = mp_import_text(&kineto->tables, text, strlen(text));
    mp_vec_add(&notes->ids, id);
}

static void note_base(struct mp_kineto_notes *notes, struct mp_kineto *kineto)
{
    char bytes[MP_UNIT_TEXT];
    for (size_t i = 0; i < kineto->devices.count; i++) {
        const struct mp_kineto_device *device = &kineto->devices.at[i];
        char name[64];
        mp_format_device_id(name, sizeof name, (unsigned)device->type, (int)device->id);
        if (device->rest_bytes == MP_BYTES_UNKNOWN)
            note(notes, kineto, "%s: the trace has no totals, so what was live before it began is not known", name);
        else if (device->rest_bytes)
            note(notes, kineto, "%s: %s were live before the trace began; it does not say whose they are", name,
                 mp_format_bytes(bytes, device->rest_bytes));
    }
}

void mp_kineto_note(struct mp_kineto *kineto, int64_t start_ns, struct mp_kineto_notes *notes)
{
    char number[MP_UNIT_TEXT], other[MP_UNIT_TEXT];
    size_t without_stack = 0, with_stack = 0;
    for (size_t i = 0; i < kineto->memory.count; i++) {
        bool alloc = kineto->memory.at[i].type == MP_EVENT_ALLOC;
        with_stack += alloc && kineto->memory.at[i].stack;
        without_stack += alloc && !kineto->memory.at[i].stack;
    }
    note_base(notes, kineto);
    if (kineto->without_address)
        note(notes, kineto,
             "the trace has no addresses: each free was taken as that of the newest live block of its size; frees that "
             "others would have fitted, too: %s",
             mp_format_count(number, kineto->ambiguous));
    if (kineto->corrections)
        note(notes, kineto,
             "times the allocator's total had changed without an event (a thread that was not profiled?): %s; the "
             "difference is in the block of unknown origin",
             mp_format_count(number, kineto->corrections));
    if (without_stack)
        note(notes, kineto, "allocations in no operator that the trace has: %s of %s",
             mp_format_count(number, without_stack), mp_format_count(other, without_stack + with_stack));
    if (kineto->spans_left)
        note(notes, kineto,
             "operators left out, as there were more than 256 around an event on average or 1024 around one: %s",
             mp_format_count(number, kineto->spans_left));
    if (!kineto->has_base && start_ns < MP_KINETO_UNIX_MIN)
        note(notes, kineto, "the trace does not say when it was recorded");
}

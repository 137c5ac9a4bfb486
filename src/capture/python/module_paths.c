#include "capture/python/module_paths.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "capture/core/fork.h"
#include "capture/core/room.h"
#include "capture/core/session.h"
#include "capture/core/tables.h"
#include "capture/python/asker.h"

#define SLOTS      (UINT32_C(1) << 16)
#define PROBES     64
#define TEXT_BYTES (UINT32_C(8) << 20)
#define TEXT_SLOTS (UINT32_C(1) << 16)

/* A hash table of modules, written under a lock and read without one. A used slot never becomes empty again, because
 * readers would not find the slots behind it. But a new module may take the slot of a destroyed one. So a reader checks
 * the address again after it has read the rest. */
struct slot {
    _Atomic uintptr_t module; /* 0: empty */
    _Atomic uint64_t known;   /* the session's generation << 32 | the spool's string id; if the id is 0, use `text` */
    _Atomic uint32_t text;    /* offset in `texts`; 0: unnamed */
    _Atomic uint32_t asked;   /* value of `naming` when its name was last requested */
};

/* The paths: each is a length and its bytes, and is found by a hash of the contents. Offset 0 is unused. */
struct texts {
    uint32_t used;
    uint32_t slots[TEXT_SLOTS]; /* offsets; 0: empty */
    char bytes[TEXT_BYTES];
};

static struct slot *_Atomic slots; /* NULL: no module has a name yet */
static struct texts *texts;
static _Atomic uint32_t naming = 1; /* number of names given so far, and of changes of the function to ask, from 1 on */
static struct mp_asker asker;

/* Maps the table before the first name, under the lock. False: there is no memory. */
static bool have_room(void)
{
    size_t slot_bytes = SLOTS * sizeof(struct slot);
    if (texts) return true;
    void *room = mp_room_map(slot_bytes + sizeof *texts);
    if (!room) return false;
    struct texts *made = (struct texts *)((char *)room + slot_bytes);
    made->used = sizeof(uint32_t);
    atomic_store_explicit(&slots, room, memory_order_release);
    texts = made;
    return true;
}

static uint32_t place_of(uintptr_t module)
{
    return (uint32_t)(mp_hash_mix(module) & (SLOTS - 1));
}

static struct slot *find_slot(uintptr_t module)
{
    uint32_t at = place_of(module);
    struct slot *all = atomic_load_explicit(&slots, memory_order_acquire);
    for (uint32_t probe = 0; all && probe < PROBES; probe++) {
        struct slot *slot = &all[(at + probe) & (SLOTS - 1)];
        uintptr_t there = atomic_load_explicit(&slot->module, memory_order_acquire);
        if (there == module) return slot;
        if (!there) return NULL;
    }
    return NULL;
}

/* The module's slot, or a new slot for it, under the lock. NULL: there is no room near its place. */
static struct slot *take_slot(uintptr_t module)
{
    if (!have_room()) return NULL;
    struct slot *slot = find_slot(module);
    uint32_t at = place_of(module);
    for (uint32_t probe = 0; probe < PROBES && !slot; probe++) {
        struct slot *free = &slots[(at + probe) & (SLOTS - 1)];
        if (!atomic_load(&free->module) || (!atomic_load(&free->text) && !atomic_load(&free->asked))) slot = free;
    }
    if (slot && atomic_load(&slot->module) != module) {
        atomic_store(&slot->known, 0);
        atomic_store(&slot->text, 0);
        atomic_store(&slot->module, module);
    }
    return slot;
}

static uint32_t keep_text(const char *text, uint32_t length)
{
    uint32_t at = (uint32_t)mp_hash_bytes(text, length), stored, *slot;
    for (uint32_t probe = 0;; probe++) {
        slot = &texts->slots[(at + probe) & (TEXT_SLOTS - 1)];
        if (!*slot) break;
        if (probe == PROBES) return 0;
        memcpy(&stored, texts->bytes + *slot, sizeof stored);
        if (stored == length && !memcmp(texts->bytes + *slot + sizeof stored, text, length)) return *slot;
    }
    uint32_t offset = texts->used;
    if (TEXT_BYTES - offset < sizeof length + length) return 0;
    memcpy(texts->bytes + offset, &length, sizeof length);
    memcpy(texts->bytes + offset + sizeof length, text, length);
    texts->used = (offset + (uint32_t)sizeof length + length + 3) & ~UINT32_C(3);
    *slot = offset;
    return offset;
}

static uint32_t length_of(const char *path)
{
    size_t length = strnlen(path, MP_MODULE_PATH + 1);
    if (length > MP_MODULE_PATH)
        for (length = MP_MODULE_PATH; length && (path[length] & 0xc0) == 0x80;)
            length--; /* so that the cut is before a character, not inside one */
    return (uint32_t)length;
}

static void name_module(uintptr_t module, const char *path)
{
    mp_lock *lock = &mp_session.page->module_lock;
    if (!mp_lock_take(lock)) return;
    uint32_t length = path ? length_of(path) : 0, text = length && have_room() ? keep_text(path, length) : 0;
    struct slot *slot = text ? take_slot(module) : find_slot(module);
    if (slot && atomic_load(&slot->text) != text) {
        if (text) atomic_fetch_add(&naming, 1);
        atomic_store_explicit(&slot->text, text, memory_order_release);
        atomic_store(&slot->known, 0);
        atomic_store(&slot->asked, 0);
    }
    mp_lock_release(lock);
}

/* Enters no hook: a module's end must not attach a process that has no events. The guard is for signal handlers of this
 * thread. Their hooks must not wait for the lock that this thread holds, and they may fork. */
void mp_module_name(const void *module, const char *path)
{
    if (!mp_session.page || !module) return;
    int saved = errno;
    bool recording = atomic_load_explicit(&mp_session.page->recording, memory_order_acquire);
    struct mp_thread *thread = recording ? mp_thread_self() : NULL;
    bool guarded = thread && mp_fork_guard(thread);
    if (guarded || !recording) name_module((uintptr_t)module, path);
    if (guarded) thread->inside = 0;
    errno = saved;
}

void mp_module_ask(int (*ask)(void *), void *context)
{
    mp_asker_set(&asker, ask, context);
    atomic_fetch_add(&naming, 1);
}

/* Asks for a module's name once. It asks again after other modules got names, because the address may then belong to
 * another module. */
static void ask_for(struct slot *slot, uintptr_t module, bool may_call_python)
{
    if (!atomic_load_explicit(&asker.ask, memory_order_acquire)) return;
    uint32_t now = atomic_load_explicit(&naming, memory_order_relaxed);
    if (slot && atomic_load_explicit(&slot->asked, memory_order_relaxed) == now) return;
    if (!mp_asker_call_soon(&asker, may_call_python)) return;
    if (!mp_lock_take(&mp_session.page->module_lock)) return;
    slot = take_slot(module);
    if (slot)
        atomic_store(&slot->asked, now);
    else
        atomic_store(&asker.ask, NULL); /* there is no room for more names */
    mp_lock_release(&mp_session.page->module_lock);
}

static uint32_t enter_text(struct slot *slot, uint32_t text, uint32_t generation)
{
    uint32_t length;
    memcpy(&length, texts->bytes + text, sizeof length);
    uint32_t id = mp_table_string(texts->bytes + text + sizeof length, length);
    if (!id || !mp_lock_take(&mp_session.page->module_lock)) return id;
    if (atomic_load(&slot->text) == text) atomic_store(&slot->known, (uint64_t)generation << 32 | id);
    mp_lock_release(&mp_session.page->module_lock);
    return id;
}

bool mp_module_path_id_known(const void *module, uint32_t *path)
{
    uint32_t generation = atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
    const struct slot *slot = find_slot((uintptr_t)module);
    uint64_t known = slot ? atomic_load_explicit(&slot->known, memory_order_acquire) : 0;
    *path = (uint32_t)known;
    return slot && atomic_load_explicit(&slot->module, memory_order_acquire) == (uintptr_t)module &&
           known >> 32 == generation;
}

uint32_t mp_module_path_id(const void *module, bool may_call_python)
{
    uintptr_t address = (uintptr_t)module;
    uint32_t generation = atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
    struct slot *slot = find_slot(address);
    if (slot) {
        uint64_t known = atomic_load_explicit(&slot->known, memory_order_acquire);
        uint32_t text = atomic_load_explicit(&slot->text, memory_order_acquire);
        if (atomic_load_explicit(&slot->module, memory_order_acquire) != address) return 0;
        if (known >> 32 == generation) return (uint32_t)known;
        if (text) return enter_text(slot, text, generation);
    }
    ask_for(slot, address, may_call_python);
    return 0;
}

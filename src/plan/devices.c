#include "plan/devices.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/units.h"
#include "base/vec.h"
#include "cli/messages.h"
#include "cli/text_file.h"

#define OF_BYTES "h100-80gb" /* a device that is given only by its bytes has the other properties of this one */
#define ANY      "any"       /* the section with defaults for all devices */
#define TIB      ((uint64_t)1 << 40)

/* The keys of a device. The driver reads those of its profile from $SOFTGPU_PROFILE (driver/profile.c). */
static const struct key {
    const char *key;
    enum { TEXT, NUMBER, BYTES } kind;
    size_t at, room; /* the member; room of a text */
    uint64_t least, most;
    bool profile;
} keys[] = {
#define MEMBER(name)                  .key = #name, .at = offsetof(struct mp_plan_device, name)
#define A_TEXT(name)                  MEMBER(name), .kind = TEXT, .room = sizeof((struct mp_plan_device *)0)->name
#define IN_BOUNDS(name, of, from, to) MEMBER(name), .kind = of, .least = from, .most = to
    {A_TEXT(name), .profile = true},
    {A_TEXT(also)},
    {A_TEXT(source)},
    {IN_BOUNDS(total, BYTES, 1, TIB)},
    {IN_BOUNDS(context, BYTES, 0, TIB)},
    {IN_BOUNDS(cc, NUMBER, 50, 199), .profile = true},
    {IN_BOUNDS(sms, NUMBER, 1, 4096), .profile = true},
    {IN_BOUNDS(l2, BYTES, 0, 1 << 30), .profile = true},
    {IN_BOUNDS(local_threads, NUMBER, 0, 4096), .profile = true},
    {IN_BOUNDS(graph_node, BYTES, 0, 1 << 30), .profile = true},
    {IN_BOUNDS(cublas, BYTES, 0, 1 << 30), .profile = true},
    {IN_BOUNDS(cudnn, BYTES, 0, 1 << 30), .profile = true},
    {IN_BOUNDS(nccl, BYTES, 0, 1 << 30), .profile = true},
    {IN_BOUNDS(multicast, BYTES, 0, 1 << 30), .profile = true},
#undef MEMBER
#undef A_TEXT
#undef IN_BOUNDS
};

struct device_list {
    struct mp_plan_device *at;
    size_t count, room;
};

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

static bool read_number(const char *text, uint64_t *number)
{
    char *end;
    *number = strtoull(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end;
}

/* Reads one line of a device. */
static enum mp_status take(struct mp_plan_device *device, const char *name, const char *value, const char *where,
                           struct mp_error *error)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct key *key = &keys[i];
        void *member = (char *)device + key->at;
        uint64_t number;
        if (strcmp(name, key->key)) continue;
        if (key->kind == TEXT) {
            if (*value && strlen(value) < key->room && !(key->profile && strchr(value, ';')))
                return (void)strcpy(member, value), MP_OK;
            return mp_fail(error, MP_UNSUPPORTED, "%s: %s is a text of at most %zu bytes, and a name has no semicolon",
                           where, name, key->room - 1);
        }
        if ((key->kind == BYTES ? mp_parse_bytes(value, &number) : read_number(value, &number)) &&
            number >= key->least && number <= key->most) {
            *(uint64_t *)member = number;
            return MP_OK;
        }
        return mp_fail(error, MP_UNSUPPORTED, "%s: %s = %s: give %s from %llu to %llu", where, name, value,
                       key->kind == BYTES ? "bytes, such as 80GiB," : "a number", (unsigned long long)key->least,
                       (unsigned long long)key->most);
    }
    return mp_fail(error, MP_UNSUPPORTED, "%s: what is %s?", where, name);
}

/* Reads the devices of a file. Each begins with the values of `any`, which the file's own section of that name may
 * change. */
static enum mp_status read_devices(const char *path, struct mp_plan_device *any, struct device_list *devices,
                                   struct mp_error *error)
{
    FILE *file;
    char line[1024], where[PATH_MAX + 32];
    enum mp_status status = mp_text_file_open(path, &file, error);
    struct mp_plan_device *at = NULL;
    if (status) return status;
    for (unsigned number = 1; !status && fgets(line, sizeof line, file); number++) {
        char *text = trimmed(line), *end = strchr(text, ']'), *equals = strchr(text, '=');
        snprintf(where, sizeof where, "%s, line %u", path, number);
        if (*text == '#' || !*text) continue;
        if (*text == '[' && end) {
            *end = '\0';
            at = any;
            if (!strcmp(text + 1, ANY)) continue;
            struct mp_plan_device device = *any;
            *device.also = *device.source = '\0';
            snprintf(device.name, sizeof device.name, "NVIDIA GPU");
            snprintf(device.key, sizeof device.key, "%s", text + 1);
            mp_vec_add(devices, device);
            at = &devices->at[devices->count - 1];
        } else if (!equals || !at) {
            status = mp_fail(error, MP_UNSUPPORTED, "%s: write [NAME], and then KEY = VALUE", where);
        } else {
            *equals = '\0';
            status = take(at, trimmed(text), trimmed(equals + 1), where, error);
        }
    }
    fclose(file);
    for (size_t i = 0; !status && i < devices->count; i++)
        if (!devices->at[i].total)
            status = mp_fail(error, MP_UNSUPPORTED, "%s: [%s] has no total", path, devices->at[i].key);
    return status;
}

/* Refuses a device that is too small for its own context: "24MiB" is surely a mistake. */
static enum mp_status check_room(const struct mp_plan_device *device, struct mp_error *error)
{
    char total[MP_UNIT_TEXT], context[MP_UNIT_TEXT];
    if (device->total > device->context) return MP_OK;
    return mp_fail(error, MP_UNSUPPORTED,
                   "%s is too little: the CUDA context alone takes %s; a size needs a unit, as in 24GiB",
                   mp_format_bytes(total, device->total), mp_format_bytes(context, device->context));
}

#define NAME_ROOM 128

/* The letters of a name that matter: "NVIDIA GeForce RTX 4090" is "rtx4090", "a100:40" and "A100-40GB" are "a10040". */
static void reduce(char to[NAME_ROOM], const char *name, size_t length)
{
    static const char *const left_out[] = {"nvidia", "geforce", "tesla"};
    size_t used = 0;
    for (size_t i = 0; i < length && used + 1 < NAME_ROOM; i++)
        if (!strchr(" -_,:/()", name[i])) to[used++] = (char)tolower((unsigned char)name[i]);
    to[used] = '\0';
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        char *found = strstr(to, left_out[i]);
        size_t size = strlen(left_out[i]);
        if (found && found[size]) memmove(found, found + size, strlen(found + size) + 1);
    }
    used = strlen(to);
    if (used > 2 && !strcmp(to + used - 2, "gb") && isdigit((unsigned char)to[used - 3])) to[used - 2] = '\0';
}

/* How far a name is from the nearest one of the device's names; 0: it is one of them. */
static size_t distance(const struct mp_plan_device *device, const char wanted[NAME_ROOM])
{
    size_t best = SIZE_MAX;
    char own[NAME_ROOM];
    const char *names[] = {device->key, device->name, device->also};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (const char *at = names[i]; *at;) {
            size_t length = strcspn(at, ",");
            reduce(own, at, length);
            at += length + (at[length] == ',');
            size_t far = !strcmp(own, wanted)                                          ? 0
                         : strstr(own, wanted)                                         ? 1
                         : strlen(own) < MP_NAME_MOST && strlen(wanted) < MP_NAME_MOST ? 1 + mp_distance(own, wanted)
                                                                                       : SIZE_MAX;
            if (far < best) best = far;
        }
    return best;
}

static enum mp_status refuse(const struct device_list *devices, const char *name, const char *wanted,
                             struct mp_error *error)
{
    enum { NEAREST = 3 };
    const char *near[NEAREST] = {"", "", ""};
    size_t far[NEAREST] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    for (size_t i = 0; i < devices->count; i++) {
        size_t this = distance(&devices->at[i], wanted), rank = NEAREST;
        while (rank && this < far[rank - 1])
            rank--;
        if (rank == NEAREST) continue;
        memmove(&near[rank + 1], &near[rank], (NEAREST - 1 - rank) * sizeof *near);
        memmove(&far[rank + 1], &far[rank], (NEAREST - 1 - rank) * sizeof *far);
        near[rank] = devices->at[i].key;
        far[rank] = this;
    }
    return mp_fail(error, MP_NOT_FOUND,
                   "there is no device %s; the nearest names are %s, %s and %s; or give its bytes, such as 80GiB; "
                   "\"memprof plan --device list\" shows all",
                   name, near[0], near[1], near[2]);
}

static enum mp_status read_list(const char *folder, struct mp_plan_device *any, struct device_list *devices,
                                struct mp_error *error)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/devices", folder);
    return read_devices(path, any, devices, error);
}

static enum mp_status find(struct device_list *devices, struct mp_plan_device *any, const char *name,
                           struct mp_plan_device *device, struct mp_error *error)
{
    char wanted[NAME_ROOM];
    bool is_file = strchr(name, '/') || !access(name, F_OK);
    reduce(wanted, name, strlen(name));
    for (size_t i = 0; !is_file && i < devices->count; i++)
        if (!distance(&devices->at[i], wanted)) return *device = devices->at[i], MP_OK;
    if (is_file) {
        devices->count = 0;
        enum mp_status status = read_devices(name, any, devices, error);
        if (status) return status;
        if (!devices->count) return mp_fail(error, MP_NOT_FOUND, "%s describes no device: [NAME] begins one", name);
        *device = devices->at[0];
        return MP_OK;
    }
    uint64_t bytes = 0;
    if (!mp_parse_bytes(name, &bytes) || (bytes < any->context && isdigit((unsigned char)name[strlen(name) - 1])))
        return refuse(devices, name, wanted, error);
    enum mp_status status = find(devices, any, OF_BYTES, device, error);
    if (status) return status;
    snprintf(device->key, sizeof device->key, "%s", name);
    snprintf(device->name, sizeof device->name, "NVIDIA GPU");
    snprintf(device->source, sizeof device->source, "given by --device; otherwise as an " OF_BYTES);
    device->total = bytes;
    return MP_OK;
}

enum mp_status mp_plan_device_find(const char *folder, const char *wanted, struct mp_plan_device *device,
                                   struct mp_error *error)
{
    struct device_list devices = {0};
    struct mp_plan_device any = {0};
    enum mp_status status = read_list(folder, &any, &devices, error);
    if (!status) status = find(&devices, &any, wanted, device, error);
    mp_vec_free(&devices);
    return status ? status : check_room(device, error);
}

bool mp_plan_device_is_estimate(const struct mp_plan_device *device)
{
    return !strncmp(device->source, "estimate", strlen("estimate"));
}

void mp_plan_device_profile(const struct mp_plan_device *device, struct mp_buffer *text)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const void *member = (const char *)device + keys[i].at;
        if (!keys[i].profile) continue;
        mp_buffer_printf(text, "%s%s=", text->size ? ";" : "", keys[i].key);
        if (keys[i].kind == TEXT)
            mp_buffer_printf(text, "%s", (const char *)member);
        else
            mp_buffer_printf(text, "%llu", (unsigned long long)*(const uint64_t *)member);
    }
}

enum mp_status mp_plan_devices_print(const char *folder, struct mp_error *error)
{
    struct device_list devices = {0};
    struct mp_plan_device any = {0};
    enum mp_status status = read_list(folder, &any, &devices, error);
    for (size_t i = 0; !status && i < devices.count; i++) {
        const struct mp_plan_device *device = &devices.at[i];
        printf("%-15s %7.2f GiB  %s; total: %s\n", device->key, (double)device->total / (1 << 30), device->name,
               device->source);
    }
    mp_vec_free(&devices);
    return status;
}

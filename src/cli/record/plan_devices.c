#include "cli/record/plan_devices.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/text_file.h"

#define OF_BYTES "h100-80gb" /* a device that is given only by its bytes has the other properties of this one */
#define ANY      "any"       /* the section with defaults for all devices */

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

static bool take(struct mp_plan_device *device, const char *key, const char *value)
{
    const struct {
        const char *key;
        char *text;
        size_t room;
    } texts[] = {{"name", device->name, sizeof device->name}, {"source", device->source, sizeof device->source}};
    const struct {
        const char *key;
        unsigned *number;
    } numbers[] = {
        {"cc", &device->cc}, {"sms", &device->sms}, {"l2", &device->l2}, {"local_threads", &device->local_threads}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(key, texts[i].key)) return snprintf(texts[i].text, texts[i].room, "%s", value) > 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(key, numbers[i].key)) return sscanf(value, "%u", numbers[i].number) == 1;
    const struct {
        const char *key;
        uint64_t *bytes;
    } sizes[] = {{"total", &device->total},   {"context", &device->context}, {"graph_node", &device->graph_node},
                 {"cublas", &device->cublas}, {"nccl", &device->nccl},       {"multicast", &device->multicast}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!strcmp(key, sizes[i].key)) return mp_parse_bytes(value, sizes[i].bytes);
    return false;
}

/* Reads the section `wanted` ("": the first); *found is false if there is none. Appends all sections' names to `names`,
 * separated by ", ". */
static enum mp_status read_section(const char *path, const char *wanted, struct mp_plan_device *device, char *names,
                                   size_t room, bool *found, struct mp_error *error)
{
    FILE *file;
    char line[512];
    enum mp_status status = mp_text_file_open(path, &file, error);
    bool inside = false;
    *found = false;
    *names = '\0';
    if (status) return status;
    for (unsigned number = 1; !status && fgets(line, sizeof line, file); number++) {
        char *text = trimmed(line), *end = strchr(text, ']'), *equals = strchr(text, '=');
        if (*text == '#' || !*text) continue;
        if (*text == '[' && end) {
            *end = '\0';
            size_t used = strlen(names);
            if (strcmp(text + 1, ANY)) snprintf(names + used, room - used, "%s%s", used ? ", " : "", text + 1);
            inside = !*found && (!*wanted || !strcasecmp(text + 1, wanted));
            *found |= inside;
            if (inside) snprintf(device->key, sizeof device->key, "%s", text + 1);
        } else if (!equals) {
            status = mp_fail(error, MP_UNSUPPORTED, "%s, line %u: write [NAME] or KEY = VALUE", path, number);
        } else if (inside) {
            *equals = '\0';
            if (!take(device, trimmed(text), trimmed(equals + 1)))
                status = mp_fail(error, MP_UNSUPPORTED, "%s, line %u: what is %s?", path, number, trimmed(text));
        }
    }
    fclose(file);
    if (!status && *found && !device->total && strcmp(wanted, ANY))
        status = mp_fail(error, MP_UNSUPPORTED, "%s: [%s] has no total", path, device->key);
    return status;
}

/* Refuses a device that is too small for its own context: "24" means 24 bytes, which is surely a mistake. */
static enum mp_status check_room(const struct mp_plan_device *device, struct mp_error *error)
{
    char total[MP_UNIT_TEXT], context[MP_UNIT_TEXT];
    if (device->total > device->context) return MP_OK;
    return mp_fail(error, MP_UNSUPPORTED,
                   "%s is too little: the CUDA context alone takes %s; a size needs a unit, as in 24GiB",
                   mp_format_bytes(total, device->total), mp_format_bytes(context, device->context));
}

enum mp_status mp_plan_device_find(const char *folder, const char *wanted, struct mp_plan_device *device,
                                   struct mp_error *error)
{
    char path[PATH_MAX], names[1024];
    bool found;
    uint64_t bytes = 0;
    *device = (struct mp_plan_device){0};
    snprintf(path, sizeof path, "%s/devices", folder);
    enum mp_status status = read_section(path, ANY, device, names, sizeof names, &found, error);
    if (status) return status;
    bool is_file = strchr(wanted, '/') || !access(wanted, F_OK);
    if (!is_file && isdigit((unsigned char)*wanted) && mp_parse_bytes(wanted, &bytes) && bytes) {
        status = read_section(path, OF_BYTES, device, names, sizeof names, &found, error);
        if (status || !found) return status;
        snprintf(device->key, sizeof device->key, "%s", wanted);
        snprintf(device->name, sizeof device->name, "NVIDIA GPU");
        snprintf(device->source, sizeof device->source, "given by --device; otherwise as an " OF_BYTES);
        device->total = bytes;
        return check_room(device, error);
    }
    status = read_section(path, wanted, device, names, sizeof names, &found, error);
    if (status || (found && strcmp(wanted, ANY))) return status ? status : check_room(device, error);
    if (is_file) status = read_section(wanted, "", device, path, sizeof path, &found, error);
    if (status || (is_file && found)) return status ? status : check_room(device, error);
    return is_file ? mp_fail(error, MP_NOT_FOUND, "%s describes no device: [NAME] begins one", wanted)
                   : mp_fail(error, MP_NOT_FOUND,
                             "there is no device %s; known are %s; or give its bytes, such as 80GiB", wanted, names);
}

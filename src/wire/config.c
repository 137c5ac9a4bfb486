#include "wire/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"

enum field_type { FIELD_BOOL, FIELD_U32 };

static const struct field {
    const char *key;
    enum field_type type;
    size_t offset;
} fields[] = {
    {"native", FIELD_BOOL, offsetof(struct mp_record_config, native_stacks)},
    {"python", FIELD_BOOL, offsetof(struct mp_record_config, python_stacks)},
    {"free_stacks", FIELD_BOOL, offsetof(struct mp_record_config, free_stacks)},
    {"libunwind", FIELD_BOOL, offsetof(struct mp_record_config, libunwind)},
    {"torch", FIELD_BOOL, offsetof(struct mp_record_config, torch)},
    {"cpu_tensors", FIELD_BOOL, offsetof(struct mp_record_config, cpu_tensors)},
    {"cupti", FIELD_BOOL, offsetof(struct mp_record_config, cupti)},
    {"hooks", FIELD_BOOL, offsetof(struct mp_record_config, hooks)},
    {"cpu_throughout", FIELD_BOOL, offsetof(struct mp_record_config, cpu_throughout)},
    {"wait", FIELD_BOOL, offsetof(struct mp_record_config, wait_when_full)},
    {"follow", FIELD_BOOL, offsetof(struct mp_record_config, follow)},
    {"attached", FIELD_BOOL, offsetof(struct mp_record_config, attached)},
    {"paused", FIELD_BOOL, offsetof(struct mp_record_config, paused)},
    {"force", FIELD_BOOL, offsetof(struct mp_record_config, force)},
    {"max_events", FIELD_U32, offsetof(struct mp_record_config, max_events)},
    {"shim", FIELD_BOOL, offsetof(struct mp_record_config, shim)},
    {"holders", FIELD_BOOL, offsetof(struct mp_record_config, holders)},
    {"holders_ms", FIELD_U32, offsetof(struct mp_record_config, holders_ms)},
    {"holders_share", FIELD_BOOL, offsetof(struct mp_record_config, holders_share)},
    {"operators", FIELD_BOOL, offsetof(struct mp_record_config, operators)},
    {"operators_from", FIELD_U32, offsetof(struct mp_record_config, operators_from)},
    {"operators_to", FIELD_U32, offsetof(struct mp_record_config, operators_to)},
    {"torch_history", FIELD_BOOL, offsetof(struct mp_record_config, torch_history)},
    {"untried_history", FIELD_BOOL, offsetof(struct mp_record_config, untried_history)},
    {"sample", FIELD_U32, offsetof(struct mp_record_config, sample_bytes)},
    {"host", FIELD_U32, offsetof(struct mp_record_config, host_bytes)},
    {"depth", FIELD_U32, offsetof(struct mp_record_config, depth)},
};
#define FIELDS (sizeof fields / sizeof *fields)

void mp_record_config_defaults(struct mp_record_config *config)
{
    *config = (struct mp_record_config){.native_stacks = true,
                                        .python_stacks = true,
                                        .torch = true,
                                        .cpu_tensors = true,
                                        .cupti = true,
                                        .hooks = true,
                                        .wait_when_full = true,
                                        .follow = true,
                                        .shim = true,
                                        .torch_history = true,
                                        .holders_ms = MP_HOLDERS_MS,
                                        .holders_share = true,
                                        .depth = MP_DEPTH_DEFAULT};
}

/* Appends ";key=value", with %XX for characters that would end or break the text. Appends nothing for an empty
 * value. */
static bool put_text(const char *key, const char *value, char *text, size_t *used, size_t room)
{
    if (!*value) return true;
    int length = snprintf(text + *used, room - *used, ";%s=", key);
    if (length < 0 || (size_t)length >= room - *used) return false;
    *used += (size_t)length;
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        bool plain = c > ' ' && c != ';' && c != '%' && c != 0x7f;
        if (room - *used <= (plain ? 1 : 3)) return false;
        *used += (size_t)snprintf(text + *used, room - *used, plain ? "%c" : "%%%02x", c);
    }
    return true;
}

bool mp_record_config_format(const struct mp_record_config *config, char *text, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        const void *at = (const char *)config + fields[i].offset;
        unsigned value = fields[i].type == FIELD_BOOL ? *(const bool *)at : *(const uint32_t *)at;
        int length = snprintf(text + used, room - used, "%s%s=%u", i ? ";" : "", fields[i].key, value);
        if (length < 0 || (size_t)length >= room - used) return false;
        used += (size_t)length;
    }
    return put_text("step_range", config->step_range, text, &used, room) &&
           put_text("step_at", config->step_at, text, &used, room) && put_text("plan", config->plan, text, &used, room);
}

void mp_record_config_parse(const char *text, struct mp_record_config *config)
{
    for (const char *at = text; at && *at; at = strchr(at, ';')) {
        at += *at == ';';
        for (size_t i = 0; i < FIELDS; i++) {
            size_t length = strlen(fields[i].key);
            if (strncmp(at, fields[i].key, length) || at[length] != '=') continue;
            unsigned long value = strtoul(at + length + 1, NULL, 10);
            void *to = (char *)config + fields[i].offset;
            if (fields[i].type == FIELD_BOOL)
                *(bool *)to = value != 0;
            else
                *(uint32_t *)to = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
        }
    }
    mp_setting(config->step_at, sizeof config->step_at, text, "step_at");
    if (config->depth < 8) config->depth = 8;
    if (config->depth > MP_DEPTH_MAX) config->depth = MP_DEPTH_MAX;
}

#include "format/start.h"

#include <msgpack.h>
#include <string.h>
#include <zlib.h>

#include "format/layout.h"
#include "format/msgpack_bound.h"

#define MAGIC "memprof"
/* The last key is "checksum". Its value is a uint 32: the CRC-32 of everything before the value. */
#define CHECKSUM_BYTES 5

static int append_packed(void *buffer, const char *data, size_t length)
{
    mp_buffer_append(buffer, data, length);
    return 0;
}

static void pack_text(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str_with_body(packer, text, strlen(text));
}

static void pack_number(msgpack_packer *packer, const char *key, uint64_t value)
{
    pack_text(packer, key);
    msgpack_pack_uint64(packer, value);
}

static void pack_pair(msgpack_packer *packer, const char *key, const char *text)
{
    pack_text(packer, key);
    pack_text(packer, text ? text : "");
}

static void pack_command(msgpack_packer *packer, const char *const *command)
{
    size_t count = 0;
    while (command && command[count])
        count++;
    pack_text(packer, "command");
    msgpack_pack_array(packer, count);
    for (size_t i = 0; i < count; i++)
        pack_text(packer, command[i]);
}

static const char *const member_texts[] = {"role", "job"};

/* How many keys of the start a member takes: one for each known fact. */
static uint32_t member_count(const struct mp_member *member)
{
    uint32_t count = (*member->role != '\0') + (*member->job != '\0');
    for (enum mp_member_number i = 0; i < MP_MEMBER_NUMBERS; i++)
        count += mp_member_knows(member, i);
    return count;
}

static void pack_member(msgpack_packer *packer, const struct mp_member *member)
{
    for (enum mp_member_number i = 0; i < MP_MEMBER_NUMBERS; i++)
        if (mp_member_knows(member, i)) pack_number(packer, mp_member_number_name(i), member->number[i]);
    if (*member->role) pack_pair(packer, member_texts[0], member->role);
    if (*member->job) pack_pair(packer, member_texts[1], member->job);
}

enum mp_status mp_start_pack(struct mp_buffer *to, const struct mp_recording_start *start, struct mp_error *error)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, to, append_packed);
    msgpack_pack_map(&packer, 13 + member_count(&start->member));
    pack_pair(&packer, "magic", MAGIC);
    pack_number(&packer, "version", MP_FORMAT_VERSION);
    pack_number(&packer, "min_reader", start->starts_late ? MP_FORMAT_STARTS_LATE : MP_FORMAT_MIN_READER);
    pack_text(&packer, "features");
    msgpack_pack_array(&packer, 0);
    pack_number(&packer, "realtime", start->realtime_ns);
    pack_number(&packer, "monotonic", start->monotonic_ns);
    pack_number(&packer, "pid", start->pid);
    pack_pair(&packer, "host", start->host);
    pack_member(&packer, &start->member);
    pack_command(&packer, start->command);
    pack_pair(&packer, "configuration", start->configuration);
    pack_pair(&packer, "spool", start->spool);
    pack_number(&packer, "spool_id", start->spool_id);
    pack_text(&packer, "checksum");
    unsigned char sum[CHECKSUM_BYTES] = {0xce};
    mp_put_be32(sum + 1, (uint32_t)crc32_z(0, to->data, to->size));
    mp_buffer_append(to, sum, sizeof sum);
    if (to->failed) return mp_fail(error, MP_NO_MEMORY, "no memory for the beginning of the file");
    if (to->size > MP_START_BYTES)
        return mp_fail(error, MP_LIMIT, "command and configuration take %zu bytes, more than %u", to->size,
                       MP_START_BYTES);
    return MP_OK;
}

/* Copies the texts of a start one after the other into one allocation. */
struct copier {
    char *at;
};

static const char *copy_text(struct copier *copier, const msgpack_object *object)
{
    char *copy = copier->at;
    size_t length = 0;
    if (object && object->type == MSGPACK_OBJECT_STR) {
        length = object->via.str.size;
        if (length) memcpy(copy, object->via.str.ptr, length);
    }
    copy[length] = '\0';
    copier->at += length + 1;
    return copy;
}

static size_t command_count(const msgpack_object *command)
{
    return command && command->type == MSGPACK_OBJECT_ARRAY ? command->via.array.size : 0;
}

static bool numbers_of(const msgpack_object *map, struct mp_recording_start *start)
{
    uint64_t pid;
    if (!mp_msgpack_uint(map, "realtime", &start->realtime_ns) ||
        !mp_msgpack_uint(map, "monotonic", &start->monotonic_ns) || !mp_msgpack_uint(map, "pid", &pid) ||
        !mp_msgpack_uint(map, "spool_id", &start->spool_id))
        return false;
    start->pid = (uint32_t)pid;
    return pid <= UINT32_MAX;
}

/* Reads a member. A value that is not a number, or is too large, counts as absent. */
static void read_member(struct mp_member *member, const msgpack_object *map)
{
    char *const texts[] = {member->role, member->job};
    for (enum mp_member_number i = 0; i < MP_MEMBER_NUMBERS; i++) {
        const msgpack_object *value = mp_msgpack_get(map, mp_member_number_name(i));
        if (value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER && value->via.u64 < UINT32_MAX)
            mp_member_set(member, i, (uint32_t)value->via.u64);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const msgpack_object *value = mp_msgpack_get(map, member_texts[i]);
        if (value && value->type == MSGPACK_OBJECT_STR)
            mp_member_text(texts[i], value->via.str.ptr, value->via.str.size);
    }
}

/* Copies the texts. `bytes`, the packed length of the object, is an upper bound of their sum. */
static bool own(struct mp_start_owned *owned, const msgpack_object *map, size_t bytes)
{
    const msgpack_object *command = mp_msgpack_get(map, "command");
    size_t words = command_count(command), pointers = (words + 1) * sizeof(char *);
    const char **list = malloc(pointers + bytes + words + 8);
    if (!list) return false;
    struct copier copier = {(char *)list + pointers};
    for (size_t i = 0; i < words; i++)
        list[i] = copy_text(&copier, &command->via.array.ptr[i]);
    list[words] = NULL;
    owned->texts = list;
    owned->start.command = list;
    owned->start.host = copy_text(&copier, mp_msgpack_get(map, "host"));
    owned->start.configuration = copy_text(&copier, mp_msgpack_get(map, "configuration"));
    owned->start.spool = copy_text(&copier, mp_msgpack_get(map, "spool"));
    return true;
}

static const char *const no_command[] = {NULL};

static void make_empty(struct mp_start_owned *owned)
{
    *owned = (struct mp_start_owned){
        .start = {.host = "", .command = no_command, .configuration = "", .spool = ""},
    };
}

static enum mp_status parse_map(const msgpack_object *map, size_t length, struct mp_start_owned *owned,
                                struct mp_error *error)
{
    uint64_t version, min_reader;
    if (!mp_msgpack_uint(map, "version", &version) || !mp_msgpack_uint(map, "min_reader", &min_reader))
        return mp_fail(error, MP_DAMAGED, "the recording's first object is damaged");
    if (min_reader > MP_FORMAT_VERSION)
        return mp_fail(error, MP_TOO_NEW,
                       "the recording has format version %llu and needs a memprof that reads version %llu; this one "
                       "reads up to version %d",
                       (unsigned long long)version, (unsigned long long)min_reader, MP_FORMAT_VERSION);
    if (!numbers_of(map, &owned->start)) {
        make_empty(owned);
        return mp_fail(error, MP_DAMAGED, "the recording's first object is damaged");
    }
    read_member(&owned->start.member, map);
    owned->start.starts_late = min_reader >= MP_FORMAT_STARTS_LATE;
    if (!own(owned, map, length)) return mp_fail(error, MP_NO_MEMORY, "no memory to open the recording");
    return MP_OK;
}

static bool checksum_holds(const unsigned char *data, size_t length)
{
    if (length <= CHECKSUM_BYTES || data[length - CHECKSUM_BYTES] != 0xce) return false;
    return mp_get_be32(data + length - 4) == (uint32_t)crc32_z(0, data, length - CHECKSUM_BYTES);
}

/* A map of any size whose first key and value are the magic. */
bool mp_start_begins(const unsigned char *data, size_t size)
{
    static const char start[] = "\xa5magic\xa7" MAGIC;
    if (!size) return false;
    size_t head = (data[0] & 0xf0) == 0x80 ? 1 : data[0] == 0xde ? 3 : 0;
    return head && size >= head + sizeof start - 1 && !memcmp(data + head, start, sizeof start - 1);
}

enum mp_status mp_start_parse(const unsigned char *data, size_t size, struct mp_start_owned *owned, size_t *length,
                              struct mp_error *error)
{
    make_empty(owned);
    bool begins = mp_start_begins(data, size);
    *length = mp_msgpack_length(data, size);
    if (!*length || !checksum_holds(data, *length)) {
        *length = 0;
        /* If the magic itself is damaged, the first chunk's sync mark decides. */
        if (begins || (size && memmem(data, size, MP_SYNC, MP_SYNC_BYTES)))
            return mp_fail(error, MP_DAMAGED, "the recording's first object is cut or damaged");
    }
    if (!*length || !begins)
        return mp_fail(error, MP_NOT_A_RECORDING,
                       "not a memprof recording, and no file of another tool that memprof knows (man memprof-formats)");
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    enum mp_status status = MP_OK;
    msgpack_unpack_return got = msgpack_unpack_next(&unpacked, (const char *)data, size, NULL);
    if (got == MSGPACK_UNPACK_NOMEM_ERROR)
        status = mp_fail(error, MP_NO_MEMORY, "no memory to open the recording");
    else if (got < MSGPACK_UNPACK_EXTRA_BYTES)
        status = mp_fail(error, MP_DAMAGED, "the recording's first object is damaged");
    else
        status = parse_map(&unpacked.data, *length, owned, error);
    msgpack_unpacked_destroy(&unpacked);
    return status;
}

void mp_start_free(struct mp_start_owned *owned)
{
    free(owned->texts);
    *owned = (struct mp_start_owned){0};
}

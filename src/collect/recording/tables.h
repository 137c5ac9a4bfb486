/*
 * Copies a spool's tables into a snapshot file: strings, modules, frames and stacks; tracks with their devices;
 * threads. Entries keep their numbers except for strings, which the file renumbers because the collector adds its own.
 * One thread at a time.
 */
#pragma once

#include "base/error.h"
#include "base/intern.h"
#include "base/map.h"
#include "base/vec.h"
#include "format/recording.h"
#include "format/writer.h"
#include "wire/spool.h"

struct mp_tables {
    struct mp_intern strings; /* the file's strings, by the file's ids */
    uint32_t strings_written;
    struct mp_map spool_strings; /* spool id + 1 to file id */
    uint64_t seen[MP_TABLES];    /* per spool table: entries at the last reading (for strings: bytes) */
    uint64_t done[MP_TABLES];    /* per spool table: entries in the file; for strings, bytes read */
    uint64_t mended;             /* references to missing entries in a damaged spool */
    MP_VEC(struct mp_device) devices;
    MP_VEC(uint16_t) device_keys; /* type << 8 | index + 1, per device */
    size_t devices_written;
    MP_VEC(struct mp_thread_info) threads;
    size_t threads_written;
    uint32_t ring_thread[MP_SPOOL_RINGS_MAX]; /* the number + 1 of the thread last seen on each ring */
    MP_VEC(uint32_t) lane_thread;             /* the number + 1 of each lane's thread */
};

/* Identifies a track's device by type and index. No device has the key MP_DEVICE_KEY_NOBODY. */
#define MP_DEVICE_KEY_NOBODY UINT16_MAX
uint16_t mp_tables_device_key(const struct mp_wire_track *track);

/* A device's UUID in the form of NVIDIA's tools, "GPU-6f1c8a3e-..."; "" if the program's driver did not give it. */
#define MP_UUID_TEXT 48
void mp_tables_device_uuid(const struct mp_spool_header *spool, int index, char to[MP_UUID_TEXT]);

/* The number of the thread that now owns the ring. */
enum mp_status mp_tables_thread(struct mp_tables *tables, const struct mp_spool_header *spool, uint32_t ring,
                                uint32_t *thread, struct mp_error *error);
/* Highest number of a lane. mp_tables_lane() gives the number of the thread that represents a lane of regions, from
 * lane 1 on. */
#define MP_LANES_MAX 255
enum mp_status mp_tables_lane(struct mp_tables *tables, uint64_t lane, uint32_t *thread, struct mp_error *error);
/* Sets facts about a device ("" and MP_BYTES_UNKNOWN: unknown). The file gets a further entry for the device. */
enum mp_status mp_tables_device_facts(struct mp_tables *tables, unsigned type, int index, const char *uuid,
                                      const char *model, uint64_t total_bytes, struct mp_error *error);
/* Notes that a thread of the file is a lane; the thread's name says which. */
void mp_tables_known_lane(struct mp_tables *tables, uint32_t thread);
/* The id of a track of the spool, "cuda:0/torch"; "" for one that the tables have not seen yet. */
void mp_tables_track_id(const struct mp_tables *tables, struct mp_spool_header *spool, size_t track,
                        char id[MP_ID_TEXT]);
/* The file's id of a string of the spool (0: unknown), and of a text. */
uint32_t mp_tables_spool_string(const struct mp_tables *tables, uint32_t spool_id);
enum mp_status mp_tables_text(struct mp_tables *tables, const char *text, uint32_t *id, struct mp_error *error);

/* Called for each new module. */
typedef void mp_tables_module_seen(void *context, uint32_t id, const char *path, const struct mp_file_id *file);

/* Reads each table's length, and new strings. Afterwards the tables have all entries to which the records taken so far
 * refer. */
enum mp_status mp_tables_read(struct mp_tables *tables, struct mp_spool_header *spool, mp_tables_module_seen *seen,
                              void *context, struct mp_error *error);
/* Writes the entries that the last reading found. */
enum mp_status mp_tables_write(struct mp_tables *tables, struct mp_spool_header *spool, struct mp_writer *writer,
                               struct mp_error *error);
void mp_tables_free(struct mp_tables *tables);

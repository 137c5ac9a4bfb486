#include "model/load.h"

#include "format/reader.h"
#include "model/builder.h"

/* Counts a chunk that contradicts the others as lost. The rest of the file is still used. */
static enum mp_status add_chunks(struct mp_builder *builder, struct mp_reader *reader, uint64_t *refused,
                                 struct mp_error *error)
{
    struct mp_chunk chunk;
    enum mp_status status;
    while ((status = mp_reader_next(reader, &chunk, error)) == MP_OK) {
        status = mp_builder_add(builder, &chunk, error);
        if (status == MP_DAMAGED)
            ++*refused;
        else if (status != MP_OK)
            return status;
    }
    return status == MP_NOT_FOUND ? MP_OK : status;
}

enum mp_status mp_model_load(const char *path, struct mp_model **model, struct mp_error *error)
{
    struct mp_reader *reader;
    enum mp_status status = mp_reader_open(path, &reader, error);
    if (status != MP_OK) return status;
    struct mp_builder *builder = NULL;
    uint64_t refused = 0;
    mp_builder_new(mp_reader_start(reader), &builder);
    status = add_chunks(builder, reader, &refused, error);
    if (status == MP_OK) {
        struct mp_damage damage = *mp_reader_damage(reader);
        damage.lost_chunks += refused;
        mp_builder_finish(builder, &damage, mp_reader_file_bytes(reader), model);
    } else {
        mp_builder_free(builder);
    }
    mp_reader_close(reader);
    return status;
}

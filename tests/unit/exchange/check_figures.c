/* An anonymised model differs only in names: every figure of a random model stays, and equal names stay equal. No
 * secret is left in the model's own structures. */
#include "exchange/common/anonymize.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exchange/common/save.h"
#include "exchange/load/load.h"
#include "unit/model/scene.h"
#include "unit/suite.h"
#include "unit/whole.h"

#define SECRET "swordfish"

static struct mp_model *copy_of(const struct mp_model *model)
{
    char path[64];
    struct mp_error error = {0};
    struct mp_model *again;
    int fd = memfd_create("saved", MFD_CLOEXEC), kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    ck_assert_int_ge(kept, 0);
    ck_assert_msg(!mp_exchange_save(model, fd, &error), "%s", error.text);
    snprintf(path, sizeof path, "/proc/self/fd/%d", kept);
    ck_assert_msg(!mp_exchange_load(path, &again, &error), "%s", error.text);
    close(kept);
    return again;
}

/* Finds the strings that stay: words of memprof's, or about the machine. */
static bool *kept_strings(const struct mp_model *model)
{
    bool *kept = calloc(model->strings.count + 1, sizeof *kept);
    ck_assert_ptr_nonnull(kept);
    for (size_t i = 0; i < model->devices.count; i++)
        kept[model->devices.at[i].name] = kept[model->devices.at[i].model] = true;
    for (size_t i = 0; i < model->tracks.count; i++)
        if (model->tracks.at[i].layer != MP_LAYER_APP) kept[model->tracks.at[i].name] = true;
    for (size_t i = 0; i < model->samples.count; i++)
        kept[model->samples.at[i].counter] = true;
    for (uint32_t i = 0; i < model->coverage.source_count; i++)
        kept[model->coverage.sources[i]] = true;
    kept[model->how.text] = kept[0] = true;
    return kept;
}

/* Every name that is not kept counts as a secret; some sentences contain them. */
static void make_secret(struct mp_model *model)
{
    struct mp_intern secret = {0};
    struct mp_coverage *coverage = &model->coverage;
    bool *kept = kept_strings(model);
    for (uint32_t id = 0; id < model->strings.count; id++) {
        char text[512];
        const char *old = mp_model_text(model, id);
        if (kept[id])
            snprintf(text, sizeof text, "%s", old);
        else
            snprintf(text, sizeof text, SECRET "%u/%s", id, old);
        ck_assert_uint_eq(mp_intern_text(&secret, text), id);
    }
    free(kept);
    free(coverage->notes);
    free(coverage->limits);
    coverage->note_count = coverage->limit_count = 2;
    coverage->notes = calloc(2, sizeof *coverage->notes);
    coverage->limits = calloc(2, sizeof *coverage->limits);
    for (uint32_t i = 0; i < 2; i++) {
        char text[64];
        snprintf(text, sizeof text, "/home/" SECRET "/%u.py is not looked at", i);
        coverage->notes[i] = mp_intern_text(&secret, text);
        snprintf(text, sizeof text, "nothing of '" SECRET "%u' is kept", i);
        coverage->limits[i] = mp_intern_text(&secret, text);
    }
    mp_intern_free(&model->strings);
    model->strings = secret;
}

/* Equal names stay equal, and different names stay different. */
static void check_renaming(const uint32_t *before, const uint32_t *after, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = i > 40 ? i - 40 : 0; k < i; k++)
            if ((before[i] == before[k]) != (after[i] == after[k])) ck_abort_msg("the names of %zu and %zu", k, i);
}

START_TEST(no_name_is_left_and_all_else)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct scene scene;
        struct mp_error error = {0};
        scene_make(&scene, seed, 600);
        struct mp_model *was = copy_of(scene.model), *is = copy_of(scene.model);
        make_secret(was);
        make_secret(is);
        ck_assert_msg(!mp_anonymize(is, &error), "%s", error.text);
        for (uint32_t id = 0; id < is->strings.count; id++)
            ck_assert_msg(!strstr(mp_model_text(is, id), SECRET), "left: %s", mp_model_text(is, id));
        ck_assert_str_eq(is->start.host, "");
        ck_assert_ptr_null(is->start.command[0]);
        for (uint32_t i = 0; i < is->coverage.limit_count; i++)
            ck_assert_str_eq(mp_model_text(is, is->coverage.limits[i]), "a note was left out: it may hold a name");
        if (was->blocks.module) check_renaming(was->blocks.module, is->blocks.module, was->blocks.count);
        for (size_t i = 0; i < is->blocks.count; i++)
            ck_assert_int_eq(!mp_model_module(is, (uint32_t)i), !mp_model_module(was, (uint32_t)i));
        /* Without texts all the rest is the same. */
        for (size_t i = 0; i < was->modules.count; i++)
            was->modules.at[i].file = is->modules.at[i].file = (struct mp_file_id){0};
        mp_intern_free(&was->strings);
        mp_intern_free(&is->strings);
        was->strings = is->strings = (struct mp_intern){0};
        ck_whole_model_eq(is, was, WHOLE_BUT_START);
        mp_model_free(was);
        mp_model_free(is);
        scene_free(&scene);
    }
}

MP_SUITE("figures", no_name_is_left_and_all_else)

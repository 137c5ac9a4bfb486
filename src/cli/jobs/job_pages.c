#include "cli/jobs/job_pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/intern.h"
#include "base/memory.h"
#include "cli/output_file.h"
#include "cli/page_advice.h"
#include "cli/progress.h"
#include "cli/query.h"
#include "exchange/load/load.h"
#include "model/stack.h"
#include "output/page/page.h"

/* "train.4711" of "run/train.4711.mp"; with a number where that is taken, as by a recording of another folder. */
static char *name_of(struct mp_intern *taken, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    int length = (int)strlen(base) - (mp_path_ends(base, ".mp") ? 3 : 0);
    char *name = mp_text_make("%.*s.html", length, base);
    for (unsigned number = 2; mp_intern_find(taken, name, strlen(name)) != MP_INTERN_FAILED; number++) {
        free(name);
        name = mp_text_make("%.*s-%u.html", length, base, number);
    }
    mp_intern_add_text(taken, name);
    return name;
}

/* As an address: it begins with "./", so that no name is taken for a scheme, and names nothing but a file. */
static char *link_to(const char *folder, const char *name)
{
    const char *slash = strrchr(folder, '/');
    struct mp_buffer link = {0};
    mp_buffer_append_text(&link, "./");
    mp_buffer_append_address(&link, slash ? slash + 1 : folder);
    mp_buffer_append_text(&link, "/");
    mp_buffer_append_address(&link, name);
    mp_buffer_append(&link, "", 1);
    return (char *)link.data;
}

/* MP_EXIT_INCOMPLETE where the recording cannot be read; the others go on. */
static int write_page(const struct mp_invocation *invocation, const char *recording, const char *path)
{
    struct mp_model *model;
    struct mp_error error;
    struct mp_output_file output;
    if (mp_exchange_load(recording, &model, &error)) {
        mp_message_error(&error);
        return MP_EXIT_INCOMPLETE;
    }
    int status = mp_query_skip(invocation, model, &error) ? mp_message_error(&error) : MP_EXIT_DONE;
    if (!status) status = mp_output_open(invocation, path, &output);
    if (!status) {
        struct mp_advise advise;
        struct mp_page_options options = {.track = -1, .title = mp_path_short(recording)};
        if (mp_page_advice(model, MP_TRACK_NONE, &advise)) options.advise = &advise;
        bool written = !mp_page_write(model, &options, output.file, &error);
        if (options.advise) mp_advise_free(&advise);
        if (!written) status = mp_message_error(&error);
        int closed = mp_output_close(&output, written);
        if (!status) status = closed;
    }
    mp_model_free(model);
    return status;
}

bool mp_job_pages_fit(const char *output)
{
    struct stat there;
    return strcmp(output, "-") && (stat(output, &there) || S_ISREG(there.st_mode));
}

int mp_job_pages_write(const struct mp_invocation *invocation, const struct mp_job_view *job, char ***links)
{
    const struct mp_model *model = job->model;
    const char *output = invocation->value[MP_OPT_OUTPUT];
    int length = (int)strlen(output) - (mp_path_ends(output, ".html") ? 5 : 0), status = MP_EXIT_DONE;
    char *folder = mp_text_make("%.*s.pages", length, output);
    struct mp_intern taken = {0};
    *links = mp_alloc_zeroed(model->job.processes.count + 1, sizeof **links);
    if (mkdir(folder, 0777) && (errno != EEXIST || !mp_job_is_folder(folder))) {
        mp_message("cannot make the folder %s: %s", folder, strerror(errno));
        status = MP_EXIT_COULD_NOT;
    }
    mp_progress_start_work(invocation, "writing pages");
    for (size_t i = 0; status != MP_EXIT_COULD_NOT && i < model->job.processes.count; i++) {
        const char *recording = mp_model_text(model, model->job.processes.at[i].path);
        char *name = name_of(&taken, recording), *path = mp_text_make("%s/%s", folder, name);
        int written = write_page(invocation, recording, path);
        if (written)
            status = written == MP_EXIT_INCOMPLETE ? written : MP_EXIT_COULD_NOT;
        else
            (*links)[i] = link_to(folder, name);
        free(path);
        free(name);
        mp_progress_report(NULL, i + 1, model->job.processes.count);
    }
    mp_progress_end();
    mp_intern_free(&taken);
    free(folder);
    return status;
}

void mp_job_pages_free(char **links, const struct mp_job_view *job)
{
    for (size_t i = 0; links && i < job->model->job.processes.count; i++)
        free(links[i]);
    free(links);
}

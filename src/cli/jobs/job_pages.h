/* A page of each recording of a job, beside the job's page: FILE.pages/NAME.html for FILE.html. */
#ifndef MP_CLI_JOB_PAGES_H
#define MP_CLI_JOB_PAGES_H

#include "cli/jobs/job.h"

/* Whether a folder fits beside the output: it is a file, or will be one. */
bool mp_job_pages_fit(const char *output);

/* Writes them, by the options --output and --force. *links: for each process the address from the job's page, NULL
 * where its recording cannot be read, which is said; mp_job_pages_free() takes them. Returns an exit status:
 * MP_EXIT_INCOMPLETE where some are missing. */
int mp_job_pages_write(const struct mp_invocation *invocation, const struct mp_job_view *job, char ***links);
void mp_job_pages_free(char **links, const struct mp_job_view *job);

#endif

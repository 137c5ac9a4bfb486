/*
 * The session of an attached program: answers `memprof top` and questions with --pid as the collector of `memprof
 * snapshot` does. One thread at a time.
 */
#pragma once

#include "collect/session/collector_parts.h"

struct mp_attach_session {
    struct mp_collector_options options;
    struct mp_collector collector; /* serves one process, which it did not start */
};

/* Listens. If this fails, questions get no answer, and the recording goes on. The caller keeps `recording` and `pidfd`,
 * which must outlive the session. */
void mp_attach_session_open(struct mp_attach_session *session, struct mp_recording *recording, int pidfd,
                            const char *output);
/* Answers the questions that have arrived. Waits for nobody. */
void mp_attach_session_serve(struct mp_attach_session *session);
/* Waits for files that are being written, and removes everything of the session. Does nothing if zero-initialised. */
void mp_attach_session_close(struct mp_attach_session *session);

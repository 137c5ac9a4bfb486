/*
 * The session of an attached program: answers `memprof top` and questions with --pid as the collector of `memprof
 * snapshot` does. One thread at a time.
 */
#ifndef MP_ATTACH_SESSION_H
#define MP_ATTACH_SESSION_H

#include "collect/session/collector_parts.h"

struct mp_attach_session {
    struct mp_collector_options options;
    struct mp_collector collector; /* of one process, which it did not start */
};

/* Listens. Where that fails, nobody gets answers, and the recording goes on. `recording` and `pidfd` stay the caller's,
 * and stay open as long as the session. */
void mp_attach_session_open(struct mp_attach_session *session, struct mp_recording *recording, int pidfd,
                            const char *output);
/* Answers who has asked. Waits for nobody. */
void mp_attach_session_serve(struct mp_attach_session *session);
/* Waits for files that are being written, and leaves nothing behind. Ignores a zero-initialised one. */
void mp_attach_session_close(struct mp_attach_session *session);

#endif

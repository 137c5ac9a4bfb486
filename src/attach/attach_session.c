#include "attach/attach_session.h"

void mp_attach_session_open(struct mp_attach_session *session, struct mp_recording *recording, int pidfd,
                            const char *output)
{
    struct mp_collected process = {.recording = recording, .pidfd = pidfd, .pid = recording->pid};
    struct mp_error unused;
    session->options = (struct mp_collector_options){.output = output};
    session->collector = (struct mp_collector){.options = &session->options,
                                               .listener = -1,
                                               .locked = -1,
                                               .snapshots = {.calls = &session->options.snapshot_calls}};
    mp_naming_host(session->collector.host, sizeof session->collector.host);
    if (mp_vec_push(&session->collector.processes, process) && mp_collector_listen(&session->collector, &unused))
        mp_collector_listen_no_more(&session->collector);
}

static void reap(struct mp_attach_session *session, bool wait)
{
    uint64_t recording;
    uint32_t number;
    bool written;
    while (mp_snapshots_reap(&session->collector.snapshots, wait, &recording, &number, &written)) {
    }
}

void mp_attach_session_serve(struct mp_attach_session *session)
{
    if (session->collector.listener >= 0) mp_collector_accept(&session->collector);
    reap(session, false);
}

void mp_attach_session_close(struct mp_attach_session *session)
{
    if (!session->collector.options) return;
    mp_collector_listen_no_more(&session->collector);
    reap(session, true);
    mp_snapshots_free(&session->collector.snapshots);
    mp_vec_free(&session->collector.processes);
    session->collector.options = NULL;
}

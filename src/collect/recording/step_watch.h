/*
 * Steps that the program does not mark, seen as they happen: those of the loop that model/steps_loop.h finds in what
 * happened of late; its line is watched from then on, until it has not been reached for long. Only Python's functions
 * are known while a program runs. One thread at a time.
 */
#ifndef MP_COLLECT_STEP_WATCH_H
#define MP_COLLECT_STEP_WATCH_H

#include "collect/recording/tables.h"
#include "wire/config.h"

struct mp_step_past; /* recent events */

struct mp_step_watch {
    char asked[MP_STEP_AT_ROOM];   /* the function of --step-at, whose calls the recorder tells; "": none */
    uint32_t function, file, line; /* of the watched loop (string ids of the file); line 0: none */
    bool infer;                    /* look for the loop */
    bool by_backward;              /* the loop's line also counts as reached again after nothing but backward */
    MP_VEC(uint32_t) nodes;        /* each stack's class: 1 outside of the function; the line in it, + 2; or beyond */
    MP_VEC(uint32_t)
    threads; /* the class of a thread's last stack, as in `nodes`; for a loop, of its last one inside; 0: none yet */
    struct mp_step_past *past;        /* NULL: not needed */
    uint64_t events;                  /* so far */
    uint64_t last_look, next_look;    /* for the loop: after how many events */
    uint64_t last_step, usual_events; /* events until the last step; events per step */
};

/* `configuration`: the recording's (wire/config.h). */
void mp_step_watch_open(struct mp_step_watch *watch, const char *configuration);
/* Takes an alloc or a free. True where a step begins with it. */
bool mp_step_watch_event(struct mp_step_watch *watch, const struct mp_tables *tables, struct mp_spool_header *spool,
                         const struct mp_event *event);
/* The program marks steps itself: stops looking for a loop. */
void mp_step_watch_marked(struct mp_step_watch *watch);
size_t mp_step_watch_bytes(const struct mp_step_watch *watch); /* of memory */
void mp_step_watch_close(struct mp_step_watch *watch);

#endif

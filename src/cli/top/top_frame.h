/*
 * One picture of what is known: the processes with their devices, and the sites of the chosen process, or the stack of
 * one of them, or the keys. The same for a terminal, with a footer of keys, and for `--once`. One thread at a time.
 */
#ifndef MP_CLI_TOP_FRAME_H
#define MP_CLI_TOP_FRAME_H

#include "base/map.h"
#include "cli/top/top_canvas.h"
#include "cli/top/top_gather.h"

enum mp_top_sort { MP_TOP_BY_HELD, MP_TOP_BY_GROWTH, MP_TOP_BY_BLOCKS, MP_TOP_SORTS };
#define MP_TOP_AT_HEADLINE SIZE_MAX

enum mp_top_screen { MP_TOP_MAIN, MP_TOP_STACK, MP_TOP_KEYS };

struct mp_top_view {
    /* set by the caller */
    unsigned width, height; /* height 0: as high as it becomes, without keys */
    size_t limit;           /* sites, where the height is 0; 0: all */
    bool utf8;
    enum mp_top_screen screen;
    enum mp_top_sort sort;
    uint64_t chosen;     /* recording; 0: the heaviest */
    bool in_processes;   /* the cursor is there, not among the sites */
    bool paused, typing; /* typing: the search is being typed */
    char search[64];
    char message[240]; /* in place of the keys; "": none */
    size_t site;       /* of the cursor, in `rows` */
    size_t scroll;     /* of the stack's lines; MP_TOP_AT_HEADLINE: to the line that a person wants to see first */
    time_t now;
    /* kept between pictures */
    const struct mp_top_blocks *blocks; /* of which the rows are */
    MP_VEC(uint32_t) rows;              /* sites in order, those that the search leaves */
    enum mp_top_sort rows_sort;
    char rows_search[64];
    size_t first_site, first_process; /* the first that are shown */
    size_t page;                      /* sites that were shown */
    struct mp_map text_of;            /* by track and stack: number + 1 of the text of a site */
    MP_VEC(char *) texts;
    uint64_t texts_of; /* recording */
};

/* The process that the view has chosen, or would choose; NULL: there is none. */
const struct mp_top_process *mp_top_chosen(const struct mp_top_view *view, const struct mp_top_state *state);
/* Brings rows and cursor up to the state: the cursor stays on its site. */
void mp_top_view_follow(struct mp_top_view *view, const struct mp_top_state *state);
void mp_top_frame_draw(struct mp_top_view *view, const struct mp_top_state *state, struct mp_top_canvas *canvas);
void mp_top_view_free(struct mp_top_view *view);

#endif

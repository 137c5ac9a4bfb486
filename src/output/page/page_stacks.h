/*
 * The stacks that a page shows, as smaller tables: only used entries, numbered in order of first use. A page's *site*
 * is the stack of a block or a note; the path of its frames is in a tree of nodes.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/vec.h"
#include "model/model.h"
#include "output/page/page_words.h"

struct mp_page_stacks {
    const struct mp_model *model;
    uint32_t *site_of_stack;   /* MP_NONE: not used */
    uint32_t *string_of_model; /* likewise */
    MP_VEC(uint32_t) sites;    /* stack ids of the model */
    MP_VEC(uint32_t) strings;  /* string ids of the model; the first one is "" */
    struct mp_page_words *words;
};

/* The tables as bytes, every entry a varint unless said otherwise. */
struct mp_page_stack_columns {
    struct mp_buffer site;     /* node of each site */
    struct mp_buffer headline; /* by site: the line of its stack that names it, counted from 1; 0: none */
    struct mp_buffer library;  /* by site: string + 1 of the shared object that allocated; 0: unknown */
    struct mp_buffer parent;   /* by node, from 1: the distance back to its parent */
    struct mp_buffer frame;    /* by node, from 1: frame + 1, or 0 if the stack was cut */
    struct mp_buffer language; /* by frame, one byte: enum mp_language */
    struct mp_buffer module;   /* by frame: string */
    struct mp_buffer address;  /* by frame */
    struct mp_buffer graph;    /* by frame: number of the page's text about its node of PyTorch's FX graph; 0: none */
    struct mp_buffer lines;    /* by frame: the number of its lines */
    struct mp_buffer line;     /* by line: function, file (strings), line */
    struct mp_buffer user;     /* by line, one byte: 1 for the user's own Python code */
    struct mp_buffer length;   /* by string: bytes */
    struct mp_buffer text;     /* the strings, one after the other */
    uint64_t nodes, frames, line_count;
};

/* `words`: receives the texts about frames. */
void mp_page_stacks_init(struct mp_page_stacks *stacks, const struct mp_model *model, struct mp_page_words *words);
/* The first gives the page's site for a stack of the model, the second the page's number for a string of the model. */
uint32_t mp_page_stacks_site(struct mp_page_stacks *stacks, uint32_t stack);
uint32_t mp_page_stacks_string(struct mp_page_stacks *stacks, uint32_t string);
/* Fills in the columns, once every site and string is known. The caller frees them. */
void mp_page_stacks_columns(struct mp_page_stacks *stacks, struct mp_page_stack_columns *columns);
void mp_page_stacks_free(struct mp_page_stacks *stacks);

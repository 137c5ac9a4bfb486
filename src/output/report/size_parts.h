/* Parts of the answer of `memprof size` that its text and its page have in common. */
#ifndef MP_OUTPUT_SIZE_PARTS_H
#define MP_OUTPUT_SIZE_PARTS_H

#include "analysis/sizing/size.h"
#include "output/report/columns.h"

#define MP_SIZE_BEST_CHANGES 3
#define MP_SIZE_POINT_TEXT   48

/* "16" or, of two variables, "16x2048"; returns `to`, which has MP_SIZE_POINT_TEXT bytes. */
const char *mp_size_point_text(char *to, bool two, struct mp_size_point at);

/* The answer as tables: what each batch needs, and the probes. */
struct mp_size_view {
    const struct mp_size_answer *answer;
    bool two;
};
struct mp_rows mp_size_needs(const struct mp_size_view *view);
struct mp_rows mp_size_probes(const struct mp_size_view *view);
/* Whether what is needed is only bounded. */
bool mp_size_has_bounds(const struct mp_size_answer *answer);
/* What is compared with the limit. */
uint64_t mp_size_need_bytes(const struct mp_size_need *need);

/* The sites that grow most with the batch, the fastest first, at most `room`; how many. */
size_t mp_size_growing(const struct mp_size_answer *answer, const struct mp_size_site **most, size_t room);

/* Lines: which batch is the largest; and what that rests on. */
void mp_size_answer_text(struct mp_text *text, const struct mp_size_answer *answer, bool two);
void mp_size_grounds_text(struct mp_text *text, const struct mp_size_answer *answer, bool two);
void mp_size_notes_text(struct mp_text *text, const struct mp_size_answer *answer);

#endif

#include "output/report/page_links.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"
#include "model/track.h"

#define ROOM_PART 200 /* of the recording, beside a step: as much as the page itself leaves */
#define PEAK_PART 10

static void link_of(struct mp_document *document, const struct mp_page_links *links, uint16_t track, const char *words)
{
    char id[MP_TRACK_ID_MAX];
    struct mp_buffer name = {0};
    mp_buffer_append_address(&name, mp_track_id(links->model, track, id));
    mp_document_link(document, "track=%.*s&%s", (int)name.size, (const char *)name.data, words);
    mp_buffer_free(&name);
}

/* Imported recordings without times have a place for nothing: the page shows all of them. */
static const struct mp_step_row *step_of(const struct mp_page_links *links, uint32_t number)
{
    if (!links->steps || !number || !links->model->duration_ns) return NULL;
    for (size_t i = 0; i < links->steps->steps.count; i++)
        if (links->steps->steps.at[i].number == number) return &links->steps->steps.at[i];
    return NULL;
}

/* "t=FROM-TO": what the plot shows. */
static void put_sight(struct mp_buffer *words, uint64_t from_ns, uint64_t to_ns, uint64_t room_ns)
{
    mp_buffer_printf(words, "t=%" PRIu64 "-%" PRIu64, from_ns > room_ns ? from_ns - room_ns : 0, to_ns + room_ns);
}

static void put_step_sight(struct mp_buffer *words, const struct mp_page_links *links, const struct mp_step_row *step)
{
    uint64_t part = links->model->duration_ns / ROOM_PART, own = step->end_ns - step->start_ns;
    put_sight(words, step->start_ns, step->end_ns, own > part ? own : part);
}

void mp_link_peak(struct mp_document *document, const struct mp_page_links *links, const struct mp_peak *peak)
{
    struct mp_buffer words = {0};
    const struct mp_step_row *step = step_of(links, peak->step);
    if (!document || !document->page) return;
    mp_buffer_append_text(&words, "of=peak&v=sites&");
    if (step)
        put_step_sight(&words, links, step);
    else if (links->model->duration_ns && !peak->in_past)
        put_sight(&words, peak->ns, peak->ns, links->model->duration_ns / PEAK_PART);
    mp_buffer_append(&words, "", 1);
    link_of(document, links, peak->track, (const char *)words.data);
    mp_buffer_free(&words);
}

void mp_link_step(struct mp_document *document, const struct mp_page_links *links, uint16_t track, uint32_t number)
{
    struct mp_buffer words = {0};
    const struct mp_step_row *step = document && document->page ? step_of(links, number) : NULL;
    if (!step) return;
    mp_buffer_printf(&words, "v=steps&of=window&w=%" PRIu64 "-%" PRIu64 "&", step->start_ns, step->end_ns);
    put_step_sight(&words, links, step);
    mp_buffer_append(&words, "", 1);
    link_of(document, links, track, (const char *)words.data);
    mp_buffer_free(&words);
}

void mp_link_site(struct mp_document *document, const struct mp_page_links *links, uint16_t track, uint32_t stack,
                  const char *words)
{
    char all[128];
    if (!document || !document->page || stack >= links->model->stacks.count) return;
    if (links->site_of_stack[stack] == MP_NONE) return;
    snprintf(all, sizeof all, "%s&s=%" PRIu32, words, links->site_of_stack[stack]);
    link_of(document, links, track, all);
}

#include "export/pytorch.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analysis/device/device_free.h"
#include "analysis/sites/placement.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "base/words.h"
#include "export/pytorch_layout.h"
#include "export/value_out.h"
#include "model/spans.h"
#include "model/stack.h"
#include "model/track.h"

/* ---- the choice of a device's track ---- */

/* The track that a snapshot shows for a device: in the uppermost layer with events, the track with the highest peak.
 * MP_TRACK_NONE: no track has events. */
static uint16_t pytorch_main_track(const struct mp_model *model, uint32_t device)
{
    uint16_t best = MP_TRACK_NONE;
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_model_track_sum *sum = &model->sums.at[i];
        const char *name = mp_model_text(model, model->tracks.at[i].name);
        if (model->tracks.at[i].device != device || (!sum->events && !sum->peak_bytes)) continue;
        if (!mp_track_holds_memory(model->tracks.at[i].layer, name)) continue;
        bool higher = best != MP_TRACK_NONE && model->tracks.at[i].layer == model->tracks.at[best].layer
                          ? sum->peak_bytes > model->sums.at[best].peak_bytes
                          : best == MP_TRACK_NONE || model->tracks.at[i].layer > model->tracks.at[best].layer;
        if (higher) best = (uint16_t)i;
    }
    return best;
}

/* ---- stacks as lists of frames: {"name", "filename", "line"}, innermost first. A pickle holds each line and each
 * stack once. ---- */

#define PLACE_TEXT 4096

struct stack_out {
    const struct mp_model *model;
    struct mp_value_out *value;
    uint32_t *line_memos, *frame_memos, *stack_memos; /* memo numbers of written objects, by line, frame, stack */
    uint32_t cut_memo;
};

static void stack_out_init(struct stack_out *out, const struct mp_model *model, struct mp_value_out *value)
{
    *out = (struct stack_out){.model = model, .value = value};
    out->line_memos = mp_alloc_zeroed(model->lines.count + 1, sizeof *out->line_memos);
    out->frame_memos = mp_alloc_zeroed(model->frames.count + 1, sizeof *out->frame_memos);
    out->stack_memos = mp_alloc_zeroed(model->stacks.count + 1, sizeof *out->stack_memos);
}

static void stack_out_free(struct stack_out *out)
{
    free(out->line_memos);
    free(out->frame_memos);
    free(out->stack_memos);
}

/* Writes a frame. `more` is the string id of the graph's node that the frame belongs to; 0: none. */
static void put_frame(struct stack_out *out, uint32_t *memo, const char *name, const char *file, uint32_t line,
                      uint32_t more)
{
    struct mp_value_out *value = out->value;
    struct mp_buffer text = {0};
    if (mp_value_again(value, NULL, memo)) return;
    mp_value_dict(value, NULL);
    mp_value_text(value, "name", name);
    mp_value_text(value, "filename", file);
    mp_value_number(value, "line", line);
    for (unsigned part = 0; more && part < MP_GRAPH_NODE_PARTS; part++) {
        mp_buffer_clear(&text);
        if (!mp_graph_node_part(out->model, more, part, &text)) continue;
        mp_value_text(value, mp_graph_node_keys[part], mp_buffer_text(&text));
    }
    mp_buffer_free(&text);
    mp_value_end_dict(value);
}

/* PyTorch's name for a function or file that it does not know. */
#define NAMELESS "??"

static const char *function_name(const struct mp_model *model, uint32_t text)
{
    return text ? mp_model_text(model, text) : NAMELESS;
}

/* "libc10.so+0x1b1f8", as far as known. `to` has PLACE_TEXT bytes. */
static const char *place_in(const char *module, uint64_t address, char *to)
{
    snprintf(to, PLACE_TEXT, "%s%s0x%llx", module, *module ? "+" : "", (unsigned long long)address);
    return to;
}

static void put_frames_of(struct stack_out *out, uint32_t index)
{
    char place[PLACE_TEXT];
    const struct mp_model *model = out->model;
    const struct mp_model_frame *frame = &model->frames.at[index];
    const char *module = mp_model_text(model, frame->raw.module ? model->modules.at[frame->raw.module].path : 0);
    const char *nowhere = *module ? module : NAMELESS;
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct mp_model_line *line = &model->lines.at[frame->first_line + i];
        put_frame(out, &out->line_memos[frame->first_line + i], function_name(model, line->function),
                  line->file ? mp_model_text(model, line->file) : nowhere, line->line, frame->raw.more);
    }
    if (frame->line_count) return;
    const char *at = frame->raw.address ? place_in(module, frame->raw.address, place) : nowhere;
    put_frame(out, &out->frame_memos[index], NAMELESS, at, 0, frame->raw.more);
}

/* Frames are written innermost first, from the stack's node to the root. */
static void stack_out_put(struct stack_out *out, uint32_t stack)
{
    const struct mp_model *model = out->model;
    if (mp_value_again(out->value, "frames", &out->stack_memos[stack])) return;
    mp_value_list(out->value, "frames");
    for (; stack && stack < model->stacks.count; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT)
            put_frame(out, &out->cut_memo, "(frames left out)", "", 0, 0);
        else
            put_frames_of(out, frame);
    }
    mp_value_end_list(out->value);
}

/* ---- the snapshot ---- */

#define ROUNDING    UINT64_C(512) /* of PyTorch's allocator */
#define SMALL_BYTES (2u << 20)    /* size of the allocator's segments for small blocks */

/* A text about a live block, from some moment on. It is written before the first event from event `from` on that is not
 * earlier than time_ns. */
struct annotation {
    uint64_t time_ns, address;
    const struct mp_model_metadata *said;
    uint32_t from;
};

struct writer {
    const struct mp_model *model;
    struct mp_value_out value;
    struct mp_layout layouts[MP_DEVICES_MAX];
    uint16_t tracks[MP_DEVICES_MAX]; /* per device of the snapshot; MP_TRACK_NONE: none */
    struct mp_track_memory memory[MP_DEVICES_MAX];
    size_t device_count;
    struct stack_out stacks;
    struct mp_steps steps;
    struct mp_placements placements;
    MP_VEC(struct annotation) annotations; /* a trace's annotations, in its order */
    bool free_stacks;                      /* frees of the trace have stacks of their own */
    struct mp_map pending;                 /* set of life + 1: lives whose free was requested, but whose memory other
                                            * streams still use at the end */
    struct mp_pytorch_exported *exported;
};

/* "cuda:3" is 3; -1 for the CPU. */
static int ordinal(const char *device)
{
    const char *colon = strchr(device, ':');
    if (!colon || !strncmp(device, "cpu", 3)) return -1;
    long number = strtol(colon + 1, NULL, 10);
    return number >= 0 && number < MP_DEVICES_MAX ? (int)number : -1;
}

static void put_device(struct writer *writer, size_t at, uint16_t track)
{
    writer->tracks[at] = track;
    writer->memory[at] = mp_track_memory_of(writer->model, track);
    if (at >= writer->device_count) writer->device_count = at + 1;
}

static bool choose_tracks(struct writer *writer)
{
    const struct mp_model *model = writer->model;
    memset(writer->tracks, 0xff, sizeof writer->tracks);
    for (uint32_t i = 0; i < model->devices.count; i++) {
        uint16_t track = pytorch_main_track(model, i);
        int at = ordinal(mp_model_text(model, model->devices.at[i].name));
        if (track != MP_TRACK_NONE && at >= 0 && writer->tracks[at] == MP_TRACK_NONE)
            put_device(writer, (size_t)at, track);
    }
    if (writer->device_count) return true;
    uint16_t track = mp_track_default(model);
    writer->exported->moved = track;
    if (track != MP_TRACK_NONE) put_device(writer, 0, track);
    return track != MP_TRACK_NONE;
}

static void count_left_out(struct writer *writer)
{
    const struct mp_model *model = writer->model;
    for (size_t track = 0; track < model->tracks.count; track++) {
        bool shown = !model->sums.at[track].events && !model->sums.at[track].peak_bytes;
        for (size_t i = 0; !shown && i < writer->device_count; i++)
            shown =
                writer->tracks[i] == track || (writer->layouts[i].ranges.all.count &&
                                               (writer->memory[i].below == track || writer->memory[i].mapped == track));
        writer->exported->left_out += !shown;
    }
}

static void make_layouts(struct writer *writer)
{
    for (size_t i = 0; i < writer->device_count; i++) {
        struct mp_layout *layout = &writer->layouts[i];
        if (writer->tracks[i] == MP_TRACK_NONE) continue;
        mp_layout_make(writer->model, writer->tracks[i], &writer->memory[i], layout);
        writer->exported->unknown_sizes += layout->lives.unknown_sizes;
        writer->exported->moved_blocks += layout->moved_blocks;
    }
    count_left_out(writer);
}

static uint64_t unix_us(const struct mp_model *model, uint64_t ns)
{
    return (model->start.realtime_ns + ns) / 1000;
}

/* True if the recording has the allocator's own list of its segments at the end. */
static bool has_segments(const struct writer *writer, size_t device)
{
    const struct mp_model *model = writer->model;
    bool any = false;
    for (size_t i = 0; i < model->segments.count && writer->tracks[device] != MP_TRACK_NONE; i++)
        any |= model->segments.at[i].track == writer->tracks[device];
    return any && !writer->layouts[device].moved_blocks;
}

/* A block's stream or pool; 0, the default, if unknown. */
static uint64_t known_or_default(uint64_t place)
{
    return place == MP_PLACE_UNKNOWN ? 0 : place;
}

/* The requested bytes of a block at its birth, if known. */
static uint64_t requested_of(const struct writer *writer, const struct mp_pytorch_life *life)
{
    bool whole = writer->model->blocks.bytes[life->block] == life->bytes;
    uint64_t requested = mp_placed(writer->placements.requested, life->block);
    return whole && requested && requested <= life->bytes ? requested : life->bytes;
}

/* Writes the first text of each kind among `count` texts about one block. */
static void put_said(struct writer *writer, const struct mp_model_metadata *said, size_t count)
{
    static const char *const keys[MP_METADATA_KINDS] = {
        [MP_METADATA_USER] = "user_metadata",
        [MP_METADATA_ANNOTATION] = "user_metadata",
        [MP_METADATA_INTERNAL] = "internal_metadata",
    };
    unsigned written = 0;
    for (size_t i = 0; i < count; i++) {
        if (written >> said[i].kind & 1 || (count > 1 && said[i].kind == MP_METADATA_ANNOTATION)) continue;
        written |= 1u << said[i].kind;
        mp_value_text(&writer->value, keys[said[i].kind], mp_model_text(writer->model, said[i].text));
    }
}

/* Writes an entry of the trace. `block` gives the entry's stream and pool; MP_NONE: none. */
static void put_entry_at(struct writer *writer, const char *action, const char *address_key, uint64_t address,
                         uint64_t bytes, uint32_t stack, uint64_t ns, uint32_t block,
                         const struct mp_model_metadata *said, size_t said_count)
{
    struct mp_value_out *value = &writer->value;
    uint64_t stream = block == MP_NONE ? 0 : mp_placed(writer->placements.stream, block);
    uint64_t pool = block == MP_NONE ? MP_PLACE_UNKNOWN : mp_placed(writer->placements.pool, block);
    mp_value_dict(value, NULL);
    mp_value_text(value, "action", action);
    mp_value_number(value, address_key, address);
    mp_value_number(value, "size", bytes);
    mp_value_signed(value, "stream", (int64_t)known_or_default(stream));
    mp_value_number(value, "time_us", unix_us(writer->model, ns));
    if (pool != MP_PLACE_UNKNOWN) mp_value_pair(value, "pool_id", pool >> 32, pool & UINT32_MAX);
    if (stack) stack_out_put(&writer->stacks, stack);
    put_said(writer, said, said_count);
    mp_value_end_dict(value);
}

static void put_entry(struct writer *writer, const char *action, const char *address_key, uint64_t address,
                      uint64_t bytes, uint32_t stack, uint32_t event, uint32_t block)
{
    put_entry_at(writer, action, address_key, address, bytes, stack, writer->model->events.time_ns[event], block, NULL,
                 0);
}

/* Texts that a block had at its allocation are written with that entry. */
static void put_alloc(struct writer *writer, const struct mp_pytorch_life *life, uint32_t event)
{
    size_t count;
    const struct mp_model_metadata *said = mp_model_metadata_of(writer->model, life->block, &count);
    bool annotated_alone = count == 1 && said->kind == MP_METADATA_ANNOTATION;
    put_entry_at(writer, "alloc", "addr", life->address, requested_of(writer, life), life->stack,
                 writer->model->events.time_ns[event], life->block, said, annotated_alone ? 0 : count);
}

MP_ORDER(by_time_then_event, struct annotation, MP_RISING(time_ns) ?: MP_RISING(from) ?: MP_RISING(said))

/* Collects the texts that become entries of their own. Each entry gets a time within its block's life. */
static void find_annotations(struct writer *writer, const struct mp_pytorch_lives *lives)
{
    const struct mp_model *model = writer->model;
    writer->annotations.count = 0;
    for (size_t i = 0, next; i < lives->all.count; i = next) {
        const struct mp_pytorch_life *all = lives->all.at;
        size_t count, life = i;
        const struct mp_model_metadata *said = mp_model_metadata_of(model, all[i].block, &count);
        for (next = i + 1; next < lives->all.count && all[next].block == all[i].block; next++)
            ;
        for (size_t k = 0; k < count; k++) {
            if (said[k].kind != MP_METADATA_ANNOTATION) continue;
            while (life + 1 < next && model->events.time_ns[all[life + 1].begin] <= said[k].time_ns)
                life++;
            uint32_t begin = all[life].begin;
            uint64_t born_ns = begin == MP_NONE ? 0 : model->events.time_ns[begin];
            const struct annotation annotation = {said[k].time_ns < born_ns ? born_ns : said[k].time_ns,
                                                  all[life].address, &said[k], begin == MP_NONE ? 0 : begin + 1};
            mp_vec_add(&writer->annotations, annotation);
        }
    }
    if (writer->annotations.count)
        qsort(writer->annotations.at, writer->annotations.count, sizeof *writer->annotations.at, by_time_then_event);
}

/* Writes the annotations that are due before an event. *next is the first one not yet written. */
static void put_annotations_until(struct writer *writer, uint64_t ns, uint32_t event, size_t *next)
{
    for (; *next < writer->annotations.count; ++*next) {
        const struct annotation *annotation = &writer->annotations.at[*next];
        if (annotation->time_ns > ns || annotation->from > event) return;
        put_entry_at(writer, "annotate", "addr", annotation->address,
                     writer->model->blocks.bytes[annotation->said->block], 0, annotation->time_ns,
                     annotation->said->block, annotation->said, 1);
    }
}

/* Writes the free and the alloc of an event. free_requested and free_completed follow at once: the viewer merges
 * adjacent ones. If no free has a stack, each free gets the stack of its alloc, as in PyTorch's traces without stacks
 * of frees. */
static void put_lives(struct writer *writer, const struct mp_pytorch_lives *lives, uint32_t ended, uint32_t begun,
                      uint32_t event)
{
    if (ended != MP_NONE) {
        const struct mp_pytorch_life *life = &lives->all.at[ended];
        uint64_t requested = requested_of(writer, life);
        uint32_t freed_at = begun == MP_NONE ? mp_model_freed_at(writer->model, life->block) : 0;
        uint32_t stack = writer->free_stacks ? freed_at : life->stack;
        put_entry(writer, "free_requested", "addr", life->address, requested, stack, event, life->block);
        if (!writer->pending.count || !mp_map_find(&writer->pending, (uint64_t)ended + 1))
            put_entry(writer, "free_completed", "addr", life->address, requested, stack, event, life->block);
    }
    if (begun != MP_NONE) {
        const struct mp_pytorch_life *life = &lives->all.at[begun];
        put_alloc(writer, life, event);
    }
}

/* Adjacent pages of an expandable segment that were mapped or unmapped one after the other. The recording has an event
 * for each call of the driver. PyTorch's trace has one entry for all these calls. */
struct pages {
    const char *action;
    uint64_t address, bytes; /* 0: none */
    uint32_t stack, event, block;
};

static void put_pages(struct writer *writer, struct pages *pages)
{
    if (pages->bytes)
        put_entry(writer, pages->action, "addr", pages->address, pages->bytes, pages->stack, pages->event,
                  pages->block);
    pages->bytes = 0;
}

static void put_range(struct writer *writer, struct pages *pages, const struct pages *range, bool expandable)
{
    if (expandable && pages->bytes && pages->action == range->action &&
        pages->address + pages->bytes == range->address) {
        pages->bytes += range->bytes;
        return;
    }
    put_pages(writer, pages);
    *pages = *range;
    if (!expandable) put_pages(writer, pages);
}

/* An entry's stream and pool are those of the blocks in the segment. */
static void put_ranges(struct writer *writer, const struct mp_layout *layout, uint32_t ended, uint32_t begun,
                       uint32_t event, struct pages *pages)
{
    static const char *const actions[] = {"segment_free", "segment_alloc", "segment_unmap", "segment_map"};
    const struct mp_model *model = writer->model;
    for (int begins = 0; begins < 2; begins++) {
        uint32_t index = begins ? begun : ended;
        if (index == MP_NONE || layout->first_in.at[index] == MP_NONE) continue;
        const struct mp_pytorch_life *range = &layout->ranges.all.at[index];
        bool expandable = model->blocks.kind[range->block] == MP_KIND_VMM;
        struct pages found = {.action = actions[2 * expandable + begins],
                              .address = range->address,
                              .bytes = range->bytes,
                              .stack = range->stack,
                              .event = event,
                              .block = layout->first_in.at[index]};
        put_range(writer, pages, &found, expandable);
    }
}

/* Finds the lives whose memory still waits for streams at the end: for each part that the allocator lists as pending,
 * the last life at the part's address. */
static void find_pending(struct writer *writer, size_t device)
{
    const struct mp_model *model = writer->model;
    const struct mp_pytorch_lives *lives = &writer->layouts[device].lives;
    struct mp_map last = {0}; /* address to life + 1; 0: none yet */
    uint64_t address = 0;
    for (size_t i = 0; i < model->parts.count; address += model->parts.at[i++].bytes) {
        const struct mp_segment *segment = &model->segments.at[model->parts.at[i].segment];
        if (!i || model->parts.at[i - 1].segment != model->parts.at[i].segment) address = segment->address;
        if (segment->track == writer->tracks[device] && model->parts.at[i].state == MP_TORCH_PENDING && address)
            mp_map_at(&last, address, NULL);
    }
    for (size_t i = 0; last.count && i < lives->all.count; i++) {
        const struct mp_pytorch_life *life = &lives->all.at[i];
        uint64_t *slot = life->end == MP_NONE || !life->address ? NULL : mp_map_find(&last, life->address);
        if (slot && (!*slot || lives->all.at[*slot - 1].end < life->end)) *slot = i + 1;
    }
    mp_map_clear(&writer->pending);
    for (size_t i = 0; i < last.room; i++)
        if (last.slots[i].key && last.slots[i].value) mp_map_at(&writer->pending, last.slots[i].value, NULL);
    mp_map_free(&last);
}

static void put_trace(struct writer *writer, size_t device)
{
    const struct mp_model *model = writer->model;
    const struct mp_model_events *events = &model->events;
    struct mp_layout *layout = &writer->layouts[device];
    uint16_t track = writer->tracks[device];
    const struct mp_track_memory *memory = &writer->memory[device];
    struct mp_device_free room;
    struct pages pages = {0};
    uint32_t ended, begun;
    mp_device_free_start(&room, model, memory->below);
    size_t annotation = 0;
    if (track != MP_TRACK_NONE && has_segments(writer, device)) find_pending(writer, device);
    find_annotations(writer, &layout->lives);
    writer->free_stacks = false;
    for (size_t i = 0; i < layout->lives.all.count; i++)
        writer->free_stacks |= mp_model_freed_at(model, layout->lives.all.at[i].block);
    for (uint32_t event = 0; track != MP_TRACK_NONE && event < events->count; event++) {
        unsigned type = events->type[event];
        uint16_t of = events->track[event];
        put_annotations_until(writer, events->time_ns[event], event, &annotation);
        bool about_block = type == MP_EVENT_ALLOC || type == MP_EVENT_FREE || type == MP_EVENT_RESIZE;
        mp_device_free_follow(&room, event);
        if (about_block && of == track) {
            mp_pytorch_lives_follow(&layout->lives, events->subject[event], event, &ended, &begun);
            put_pages(writer, &pages);
            put_lives(writer, &layout->lives, ended, begun, event);
        } else if (about_block && (of == memory->below || of == memory->mapped) && layout->ranges.all.count) {
            mp_pytorch_lives_follow(&layout->ranges, events->subject[event], event, &ended, &begun);
            put_ranges(writer, layout, ended, begun, event, &pages);
        } else if (type == MP_EVENT_OOM && of == track) {
            const struct mp_model_note *note = &model->notes.at[events->subject[event]];
            uint64_t left = mp_device_free_now(&room);
            put_pages(writer, &pages);
            put_entry(writer, "oom", "device_free", left == MP_BYTES_UNKNOWN ? 0 : left, note->bytes, note->stack,
                      event, MP_NONE);
        }
    }
    put_pages(writer, &pages);
    put_annotations_until(writer, UINT64_MAX, UINT32_MAX, &annotation);
}

/* Sums of a segment's parts, in PyTorch's terms. */
struct sums {
    uint64_t allocated, active, requested;
};

static void add_part(struct sums *sums, unsigned state, uint64_t bytes, uint64_t requested)
{
    if (state == MP_TORCH_ALLOCATED) sums->allocated += bytes;
    if (state == MP_TORCH_FREE || state == MP_TORCH_UNMAPPED) return;
    sums->active += bytes;
    sums->requested += requested;
}

static void put_block(struct writer *writer, uint64_t address, uint64_t bytes, uint64_t requested, const char *state,
                      uint32_t stack)
{
    struct mp_value_out *value = &writer->value;
    mp_value_dict(value, NULL);
    mp_value_number(value, "address", address);
    mp_value_number(value, "size", bytes);
    mp_value_number(value, "requested_size", requested);
    mp_value_text(value, "state", state);
    stack_out_put(&writer->stacks, stack);
    mp_value_end_dict(value);
}

static uint64_t room_of(const struct mp_layout *layout, size_t held, uint64_t end)
{
    const struct mp_pytorch_life *life = &layout->lives.all.at[layout->held.at[held]];
    const struct mp_pytorch_life *next =
        held + 1 < layout->held.count ? &layout->lives.all.at[layout->held.at[held + 1]] : NULL;
    uint64_t room = (life->bytes + ROUNDING - 1) / ROUNDING * ROUNDING;
    uint64_t most = next && next->address < end ? next->address - life->address : end - life->address;
    return room < most ? room : most;
}

/* Writes the segment's parts: the blocks in it, from *held on, and the free parts between them. With `write` false they
 * are only counted. */
static struct sums put_blocks(struct writer *writer, const struct mp_layout *layout,
                              const struct mp_layout_segment *segment, size_t *held, bool write)
{
    uint64_t at = segment->address, end = segment->address + segment->bytes;
    struct sums sums = {0};
    for (; *held < layout->held.count; ++*held) {
        const struct mp_pytorch_life *life = &layout->lives.all.at[layout->held.at[*held]];
        if (life->address >= end) break;
        uint64_t room = room_of(layout, *held, end);
        add_part(&sums, MP_TORCH_ALLOCATED, room, requested_of(writer, life));
        if (write && life->address > at) put_block(writer, at, life->address - at, 0, "inactive", 0);
        if (write) put_block(writer, life->address, room, requested_of(writer, life), "active_allocated", life->stack);
        at = life->address + room;
    }
    if (write && at < end) put_block(writer, at, end - at, 0, "inactive", 0);
    return sums;
}

/* The beginning of a segment, up to its list of blocks. */
static void begin_segment(struct writer *writer, size_t device, const struct mp_segment *segment,
                          const struct sums *sums)
{
    struct mp_value_out *value = &writer->value;
    mp_value_dict(value, NULL);
    mp_value_number(value, "device", device);
    mp_value_number(value, "address", segment->address);
    mp_value_number(value, "total_size", segment->bytes);
    mp_value_number(value, "allocated_size", sums->allocated);
    mp_value_number(value, "active_size", sums->active);
    mp_value_number(value, "requested_size", sums->requested);
    mp_value_signed(value, "stream", (int64_t)segment->stream);
    mp_value_text(value, "segment_type", segment->small ? "small" : "large");
    mp_value_pair(value, "segment_pool_id", segment->pool >> 32, segment->pool & UINT32_MAX);
    mp_value_bool(value, "is_expandable", segment->expandable);
    stack_out_put(&writer->stacks, segment->stack);
    mp_value_list(value, "blocks");
}

static void end_segment(struct writer *writer)
{
    mp_value_end_list(&writer->value);
    mp_value_end_dict(&writer->value);
}

/* Writes segments from the ranges of the layer below, or made-up segments. Parts without a live block are free. */
static void put_laid_segments(struct writer *writer, size_t device)
{
    const struct mp_layout *layout = &writer->layouts[device];
    size_t held = 0;
    for (size_t i = 0; i < layout->segments.count; i++) {
        const struct mp_layout_segment *from = &layout->segments.at[i];
        const struct mp_segment segment = {.address = from->address,
                                           .bytes = from->bytes,
                                           .small = from->bytes <= SMALL_BYTES,
                                           .expandable = from->expandable,
                                           .stack = from->stack};
        size_t counted = held;
        const struct sums sums = put_blocks(writer, layout, from, &counted, false);
        begin_segment(writer, device, &segment, &sums);
        put_blocks(writer, layout, from, &held, true);
        end_segment(writer);
    }
}

/* The block that is live at that address at the end; NULL: none. */
static const struct mp_pytorch_life *held_at(const struct mp_layout *layout, uint64_t address)
{
    const struct mp_pytorch_life *lives = layout->lives.all.at;
    size_t at = MP_COUNT_BEFORE(layout->held.count, i, lives[layout->held.at[i]].address < address);
    bool found = at < layout->held.count && lives[layout->held.at[at]].address == address;
    return found ? &lives[layout->held.at[at]] : NULL;
}

/* The stack of a segment's memory, or of its first part. */
static uint32_t segment_stack(const struct mp_layout *layout, uint64_t address)
{
    size_t after = MP_COUNT_BEFORE(layout->segments.count, i, layout->segments.at[i].address <= address);
    const struct mp_layout_segment *found = after ? &layout->segments.at[after - 1] : NULL;
    return found && address - found->address < found->bytes ? found->stack : 0;
}

/* Writes the segments as the allocator listed them, block by block. */
static void put_recorded_segments(struct writer *writer, size_t device)
{
    static const char *const states[MP_TORCH_STATES] = {"inactive", "active_allocated", "active_pending_free",
                                                        "inactive"};
    const struct mp_model *model = writer->model;
    const struct mp_layout *layout = &writer->layouts[device];
    size_t part = 0;
    for (size_t i = 0; i < model->segments.count; i++) {
        struct mp_segment segment = model->segments.at[i];
        struct sums sums = {0};
        uint64_t address = segment.address;
        while (part < model->parts.count && model->parts.at[part].segment < i)
            part++;
        if (segment.track != writer->tracks[device] || (segment.keys & MP_ROW_OVERLAPS)) continue;
        for (size_t k = part; k < model->parts.count && model->parts.at[k].segment == i; k++)
            add_part(&sums, model->parts.at[k].state, model->parts.at[k].bytes, model->parts.at[k].requested);
        if (!segment.stack) segment.stack = segment_stack(layout, segment.address);
        begin_segment(writer, device, &segment, &sums);
        for (; part < model->parts.count && model->parts.at[part].segment == i; part++) {
            const struct mp_segment_part *from = &model->parts.at[part];
            const struct mp_pytorch_life *life = from->state == MP_TORCH_FREE ? NULL : held_at(layout, address);
            put_block(writer, address, from->bytes, from->requested, states[from->state], life ? life->stack : 0);
            address += from->bytes;
        }
        end_segment(writer);
    }
}

static void put_segments(struct writer *writer, size_t device)
{
    (has_segments(writer, device) ? put_recorded_segments : put_laid_segments)(writer, device);
}

static void put_annotation(struct writer *writer, const char *stage, const char *name, uint64_t ns)
{
    size_t device = 0;
    while (writer->tracks[device] == MP_TRACK_NONE)
        device++;
    mp_value_dict(&writer->value, NULL);
    mp_value_text(&writer->value, "stage", stage);
    mp_value_text(&writer->value, "name", name);
    mp_value_number(&writer->value, "device", device);
    mp_value_number(&writer->value, "time_us", unix_us(writer->model, ns));
    mp_value_end_dict(&writer->value);
}

/* Steps get the profiler's name, which other programs recognise. */
static void put_step(struct writer *writer, const char *stage, size_t index, uint64_t ns)
{
    const char *own = mp_model_text(writer->model, writer->steps.at[index].name);
    char name[40];
    snprintf(name, sizeof name, MP_PROFILER_STEP "%zu", writer->steps.before + index + 1);
    put_annotation(writer, stage, strncmp(own, MP_PROFILER_STEP, strlen(MP_PROFILER_STEP)) ? name : own, ns);
}

/* Writes the ends and begins of steps up to an event. Steps that are regions are left out. *at is the next step to
 * begin. */
static void put_steps(struct writer *writer, uint32_t event, size_t *at)
{
    const struct mp_steps *steps = &writer->steps;
    if (steps->count && mp_step_is_region(writer->model, steps->at)) return;
    for (; *at <= steps->count; ++*at) {
        bool begins = *at < steps->count;
        if (!steps->count || (begins ? steps->at[*at].first : steps->at[*at - 1].end) > event) return;
        if (*at) put_step(writer, "END", *at - 1, steps->at[*at - 1].end_ns);
        if (begins) put_step(writer, "START", *at, steps->at[*at].start_ns);
    }
}

/* Writes steps and regions. Every end is written with its region's name. An end may have no name in the recording, and
 * also closes the regions inside. */
static void put_annotations(struct writer *writer)
{
    const struct mp_model *model = writer->model;
    struct mp_open_regions open = {0}, closed = {0};
    size_t step = 0;
    for (size_t i = 0; i < model->noted.count; i++) {
        uint32_t event = model->noted.at[i];
        uint64_t ns = model->events.time_ns[event];
        put_steps(writer, event, &step);
        closed.count = 0;
        mp_regions_follow(model, event, &open, &closed);
        for (size_t k = closed.count; k--;)
            put_annotation(writer, "END", mp_model_text(model, closed.at[k].name), ns);
        if (model->events.type[event] == MP_EVENT_REGION_BEGIN)
            put_annotation(writer, "START", mp_model_text(model, model->notes.at[model->events.subject[event]].name),
                           ns);
    }
    put_steps(writer, UINT32_MAX, &step);
    mp_open_regions_free(&open);
    mp_open_regions_free(&closed);
}

/* "[1:0,2:4]" as {"1": 0, "2": 4}. */
static void put_divisions(struct mp_value_out *value, const char *setting, char *text)
{
    char *rest = text;
    mp_value_dict(value, setting);
    for (char *part; (part = strtok_r(rest, "[,]", &rest));) {
        char *divisions = strchr(part, ':');
        if (!divisions) continue;
        *divisions++ = '\0';
        mp_value_signed(value, part, strtoll(divisions, NULL, 10));
    }
    mp_value_end_dict(value);
}

/* One of the allocator's settings, "max_split_size=-1", as the value that Python would have. */
static void put_setting(struct mp_value_out *value, char *setting)
{
    char *text = strchr(setting, '='), *end;
    *text++ = '\0';
    bool is_true = !strcasecmp(text, "true"), is_number = *text && strspn(text, "+-.0123456789eE") == strlen(text);
    double real = strtod(text, &end);
    is_number = is_number && !*end;
    /* The recording has 0 for what was 0.0. */
    bool is_real = strpbrk(text, ".eE") || !strcmp(setting, "garbage_collection_threshold");
    if (*text == '[')
        put_divisions(value, setting, text);
    else if (is_true || !strcasecmp(text, "false"))
        mp_value_bool(value, setting, is_true);
    else if (is_number && !is_real)
        mp_value_signed(value, setting, strtoll(text, NULL, 10));
    else if (is_number)
        mp_value_float(value, setting, real);
    else
        mp_value_text(value, setting, text);
}

/* The length of the first setting of "key=value,key=value": values may have commas, keys do not. */
static size_t setting_length(const char *settings)
{
    size_t length = strcspn(settings, ",");
    while (settings[length]) {
        const char *next = settings + length + 1;
        size_t key = strspn(next, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
        if (key && next[key] == '=') break;
        length += 1 + strcspn(next, ",");
    }
    return length;
}

/* Writes the allocator's settings: the last ones of the program, or those of an imported file. */
static void put_settings(struct writer *writer)
{
    const struct mp_model *model = writer->model;
    const char *configured = strchr(model->start.configuration, ';') ? "" : model->start.configuration;
    for (size_t i = 0; i < model->asides.count; i++)
        configured = mp_model_text(model, model->asides.at[i].text);
    if (!*configured) return;
    mp_value_dict(&writer->value, "allocator_settings");
    while (*configured) {
        size_t length = setting_length(configured);
        char *setting = mp_text_copy_part(configured, length);
        if (strchr(setting, '=')) put_setting(&writer->value, setting);
        free(setting);
        configured += length + (configured[length] == ',');
    }
    mp_value_end_dict(&writer->value);
}

static void put_snapshot(struct writer *writer)
{
    struct mp_value_out *value = &writer->value;
    mp_value_dict(value, NULL);
    mp_value_list(value, "segments");
    for (size_t i = 0; i < writer->device_count; i++)
        put_segments(writer, i);
    mp_value_end_list(value);
    mp_value_list(value, "device_traces");
    for (size_t i = 0; i < writer->device_count; i++) {
        mp_value_list(value, NULL);
        put_trace(writer, i);
        mp_value_end_list(value);
    }
    mp_value_end_list(value);
    mp_value_list(value, "external_annotations");
    put_annotations(writer);
    mp_value_end_list(value);
    put_settings(writer);
    mp_value_end_dict(value);
}

static void free_writer(struct writer *writer)
{
    for (size_t i = 0; i < writer->device_count; i++)
        mp_layout_free(&writer->layouts[i]);
    stack_out_free(&writer->stacks);
    mp_steps_free(&writer->steps);
    mp_placements_free(&writer->placements);
    mp_map_free(&writer->pending);
    mp_vec_free(&writer->annotations);
    free(writer);
}

static void put_all(struct writer *writer)
{
    make_layouts(writer);
    mp_steps_marked(writer->model, &writer->steps);
    mp_placements_find(writer->model, &writer->placements);
    put_snapshot(writer);
}

enum mp_status mp_pytorch_export(const struct mp_model *model, bool as_json, FILE *out,
                                 struct mp_pytorch_exported *exported, struct mp_error *error)
{
    *exported = (struct mp_pytorch_exported){.moved = MP_TRACK_NONE};
    if (model->sample_bytes)
        return mp_fail(error, MP_UNSUPPORTED,
                       "the recording has a sample of its blocks (--sample): a memory snapshot needs all blocks");
    struct writer *writer = mp_alloc_zeroed(1, sizeof *writer);
    writer->model = model;
    writer->exported = exported;
    enum mp_status status = MP_OK;
    if (!choose_tracks(writer)) {
        status = mp_fail(error, MP_NOT_FOUND, "the recording has no track: there is nothing to write");
    } else {
        mp_value_out_start(&writer->value, out, as_json);
        stack_out_init(&writer->stacks, model, &writer->value);
        put_all(writer);
        status = mp_value_out_finish(&writer->value, error);
    }
    free_writer(writer);
    return status;
}

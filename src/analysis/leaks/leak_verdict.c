#include "analysis/leaks/leak_verdict.h"

#include <stdio.h>
#include <string.h>

#include "analysis/device/plan.h"
#include "analysis/leaks/leak_limits.h"
#include "base/units.h"
#include "model/stack.h"
#include "model/steps_loop.h"
#include "model/track.h"

#define SAY(...) snprintf(reason, size, __VA_ARGS__)

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static void tell_unsure_growth(const struct mp_model *model, const struct mp_leak_finding *growth, char *reason,
                               size_t size)
{
    char grown[MP_UNIT_TEXT], each[MP_UNIT_TEXT];
    SAY("the process grew by %s, %s a step, outside of recorded blocks (NumPy, Python objects, malloc%s); %s, a "
        "longer recording whether it goes on",
        mp_format_bytes(grown, growth->bytes), mp_format_bytes(each, (uint64_t)growth->bytes_per_step),
        growth->track == MP_TRACK_NONE ? ", tensors on the CPU" : "",
        mp_plan_made(model) ? "plan --capture torch,cpu records tensors on the CPU"
                            : "snapshot --host records what keeps it");
}

static void tell_caches(const struct mp_model *model, const struct mp_leak_signs *signs, char *reason, size_t size)
{
    struct mp_stack_lines lines = {0};
    struct mp_buffer site = {0};
    mp_stack_resolve(model, signs->cache, &lines);
    mp_frame_headline(&site, &lines);
    SAY("%zu site%s one buffer anew, larger, in round after round, as a cache does within one request: %.*s; "
        "record more rounds or requests to tell",
        signs->caches, signs->caches == 1 ? " makes" : "s make", (int)(site.size < 80 ? site.size : 80),
        (const char *)site.data);
    mp_buffer_free(&site);
    mp_stack_lines_free(&lines);
}

/* Bytes of the program's files in /dev/shm at the end, if they never took more; else 0. */
static uint64_t shm_left(const struct mp_model *model)
{
    uint64_t last = 0, most = 0;
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        if (strcmp(mp_model_text(model, sample->counter), "cpu/shm") != 0) continue;
        last = sample->value;
        if (last > most) most = last;
    }
    return last == most && last >= MP_LEAK_GROWN_MIN ? last : 0;
}

/* True if the steps are inferred from a sample of the blocks, which shows only some of a loop's rounds. */
static bool is_of_sample(const struct mp_model *model, const struct mp_steps *steps)
{
    bool sampled = false;
    for (uint16_t track = 0; track < model->tracks.count; track++)
        sampled |= mp_model_sample_of(model, track) != 0;
    return sampled && steps->source && !strcmp(steps->source, "inferred");
}

enum mp_verdict mp_leak_verdict(const struct mp_model *model, const struct mp_steps *steps,
                                const struct mp_leak_signs *signs, char *reason, size_t size)
{
    bool native = model->stacks.count > 1 && mp_loop_language(model) == MP_NATIVE,
         enough = signs->steps >= signs->needed;
    *reason = '\0';
    if (signs->leaks) return MP_VERDICT_LEAK;
    if (!model->blocks.count && mp_plan_made(model))
        SAY("the program used no GPU, so nothing was planned; memprof snapshot records tensors on the CPU");
    else if (!steps->count)
        SAY("%s", steps->running
                      ? "the program marks no steps; memprof snapshot --pid PID writes a file in which leaks "
                        "looks for its loop"
                  : !mp_model_was_recorded(model) ? "the file shows no loop, and growth is measured from one step to "
                                                    "the next"
                  : native ? "no steps were found; call memprof_step() in the loop (memprof.h), or mark it by NVTX and "
                             "record with --step-range NAME"
                           : "no steps were found; call libmemprof.step() in the loop, or record with --step-at "
                             "FUNCTION");
    else if (signs->built)
        SAY("%zu site%s make%s the parts of a model, and no module ran yet", signs->built, plural(signs->built),
            signs->built == 1 ? "s" : "");
    else if (!enough && is_of_sample(model, steps))
        SAY("too few steps: %u inferred from a sample of the heap, %u needed; call %s in the loop", signs->steps,
            signs->needed, native ? "memprof_step()" : "libmemprof.step()");
    else if (!enough)
        SAY("too few steps: %u%s, %u needed", signs->steps,
            steps->guessed ? " inferred from the order of allocations" : "", signs->needed);
    else if (signs->few)
        SAY("%zu site%s grew, but in fewer than %d steps; record longer to tell", signs->few, plural(signs->few),
            MP_LEAK_BIRTHS);
    else if (signs->filling)
        SAY("%zu site%s growing, may be bounded; record longer to tell", signs->filling,
            signs->filling == 1 ? " is" : "s are");
    else if (signs->kept)
        SAY("%zu site%s collect%s what code behind the loop reads, and would fill the device in a longer run",
            signs->kept, plural(signs->kept), signs->kept == 1 ? "s" : "");
    else if (signs->garbage)
        SAY("garbage of %zu site%s waits for Python's collector, which has freed none of it so far; record longer to "
            "tell",
            signs->garbage, plural(signs->garbage));
    else if (signs->behind)
        SAY("%zu site%s kept blocks again and again behind the last step, as an evaluation does that keeps its outputs",
            signs->behind, plural(signs->behind));
    else if (signs->paused)
        SAY("%zu site%s grew until shortly before the end and may be full; record longer to tell", signs->paused,
            plural(signs->paused));
    else if (signs->unsure_growth.bytes)
        tell_unsure_growth(model, &signs->unsure_growth, reason, size);
    else if (signs->caches)
        tell_caches(model, signs, reason, size);
    else if (mp_damage_any(&model->file.damage))
        SAY("nothing keeps growing in the part of the file that could be read");
    else if (signs->grows && !signs->findings && steps->guessed)
        SAY("memory grew, but no site in most of %u steps inferred from the order of allocations; call %s in the loop",
            signs->steps, native ? "memprof_step()" : "libmemprof.step()");
    else if (signs->grows && !signs->findings)
        SAY("memory grew until the end, but no site in most of %u steps; several may replace each other's blocks by "
            "larger ones, as a cache does",
            signs->steps);
    char left[MP_UNIT_TEXT];
    size_t length = strlen(reason);
    uint64_t in_shm = !steps->count || !enough ? shm_left(model) : 0;
    if (in_shm)
        snprintf(reason + length, size - length, "; files in /dev/shm took %s at the end, more than ever before",
                 mp_format_bytes(left, in_shm));
    return *reason ? MP_VERDICT_UNKNOWN : MP_VERDICT_CLEAN;
}

const char *mp_verdict_name(enum mp_verdict verdict)
{
    static const char *const names[] = {"leak", "clean", "unknown"};
    return names[verdict];
}

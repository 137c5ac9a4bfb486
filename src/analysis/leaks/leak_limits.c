#include "analysis/leaks/leak_limits.h"

#define LIMIT(name, unit, meaning, source)                                                                             \
    {                                                                                                                  \
#        name, MP_LEAK_##name, unit, meaning, source                                                                   \
    }
#define TUNED "tuning set of tests/leakbench, not measured one by one"
#define BENCH "without it, filling rings and curricula of tests/leakbench are called leaks"

static const struct mp_leak_limit limits[] = {
    LIMIT(BIRTHS, "steps", "fewer steps that left blocks prove nothing", "aim: fewer are unknown"),
    LIMIT(SUSPECT_BIRTHS, "steps", "fewer are not looked at", "the least number with a widest pause"),
    LIMIT(WARM_UP, "steps", "make lasting blocks in every program", TUNED),
    LIMIT(OLD, "steps", "no pipeline keeps a block longer", TUNED),
    LIMIT(SIGNIFICANT, "z", "Mann-Kendall's test: the live blocks rise", "normal distribution: one-sided p < 0.001"),
    LIMIT(STOPPED, "pauses", "a pause longer than this many of the widest is a stop", BENCH),
    LIMIT(PAUSED, "pauses", "a longer one leaves the verdict unknown", BENCH),
    LIMIT(EXCEPTIONS, "", "one in so many blocks, or bytes, may be an exception", TUNED),
    LIMIT(BACKLOG, "times", "as old become blocks in all steps as in the first half: they wait for slow work", TUNED),
    LIMIT(SLOWER_ERRORS, "errors", "below half of the earlier births, growth slows down", "Poisson: p < 0.03"),
    LIMIT(STEPS, "steps", "fewer are unknown", "BIRTHS after WARM_UP, and one more boundary"),
    LIMIT(GUESSED_STEPS, "steps", "likewise for steps guessed by the period", "more layers than most networks have"),
    LIMIT(WORTH_BYTES, "bytes", "less that stays once is not told", "aim: nothing that nobody would mend"),
    LIMIT(LEVEL_PARTS, "parts", "of the steps, for the level between them",
          "twice PARTS_PROOF: the later half decides"),
    LIMIT(SEGMENTS_USED, "part", "of reserved memory that blocks once filled: they need it", "PyTorch's rounding"),
    LIMIT(RISES, "steps", "in which reserved memory must rise to be fragmented", TUNED),
    LIMIT(LATE_RISES, "steps", "of them in the later half", "LATE_MIN"),
    LIMIT(RISE_PART, "", "part by which it must rise, and of its rise by which allocated memory may follow", TUNED),
    LIMIT(TWINS, "repetitions", "that left the same blocks are enough",
          "aim: five engines; no clean trace of tests/leakbench"),
    LIMIT(TWINS_APART, "steps", "from one repetition to the next", "else a start-up is a repetition"),
    LIMIT(TWINS_DIFFER, "", "part of the bytes by which twins may differ", "PyTorch rounds blocks up by 1 MiB at most"),
    LIMIT(EACH_STEP, "part", "of the steps must leave blocks for the word certain",
          "tests/leakbench/calibrate.py: all findings said to be certain were right"),
    LIMIT(SEEN_PART, "", "of so many blocks, one must have been seen by the look", "looks come at doubling steps"),
    LIMIT(KEPT_STEPS, "steps", "to a full device are far: what grows so slowly is small",
          "longer than nearly all runs"),
    LIMIT(MAPPED_FROM, "bytes", "larger blocks leave no holes, and free() returns them: malloc() maps each",
          "glibc's DEFAULT_MMAP_THRESHOLD_MAX"),
    LIMIT(REGROWN_STEPS, "steps", "a buffer that grows in fewer is a warm-up or a schedule", TUNED),
    LIMIT(REGROWN_MOST, "blocks", "one buffer has no more", TUNED),
    LIMIT(PARTS, "parts", "of the steps, for the process's memory", "496 pairs for Theil and Sen's slope"),
    LIMIT(PARTS_PROOF, "parts", "fewer are no proof", "BIRTHS"),
    LIMIT(PARTS_LEAST, "parts", "fewer say nothing", "by chance, three of four parts rise one time in eight"),
    LIMIT(SAMPLES_A_PART, "readings", "fewer have no lowest value", "the lowest of two is chance"),
    LIMIT(READ_WITHIN_MS, "ms", "a growing process is read at least so often", "the recorder's interval"),
    LIMIT(HOST_S, "s", "of steps before the host's growth is a proof: a C library's heap settles first",
          "one_cache of programs/users.py: 27 MiB of freed blocks kept in 0.8 s"),
    LIMIT(GROWN_MIN, "bytes", "heaps and interpreters grow by less on their own", "clean programs of tests/leakbench"),
    LIMIT(GROWN_SOME, "bytes", "less is not worth a note", "clean programs of tests/leakbench"),
    LIMIT(GROWN_PLAN, "bytes", "a plan itself grows by less", "clean programs under plan: 40 MiB in 90 steps"),
    LIMIT(SHARE_MIN, "part", "of the first value, at least", "clean programs of tests/leakbench"),
    LIMIT(BYTES_A_BLOCK, "bytes", "of the host that a block costs beyond its own",
          "objects and graph nodes of PyTorch"),
    LIMIT(FEW_STEPS, "steps", "blocks from no more are no growth", "WARM_UP"),
    LIMIT(LATE_MIN, "steps", "of the later half must leave blocks", TUNED),
    LIMIT(RATE_PART, "part", "by which a rate must change to have a trend", "programs/rates.py"),
    LIMIT(OFF_PART, "part", "by which a line may be off", "programs/rates.py"),
    LIMIT(TRENDS, "errors", "of the trend's standard error", "normal distribution: p < 0.0001"),
    LIMIT(OFF_PARTS, "parts", "whose means the line must meet", "programs/rates.py"),
};

const struct mp_leak_limit *mp_leak_limits(size_t *count)
{
    *count = sizeof limits / sizeof *limits;
    return limits;
}

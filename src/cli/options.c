#include "cli/options.h"

#include <string.h>

const struct mp_option_row mp_option_rows[MP_OPTIONS] = {
    [MP_OPT_HELP] = {"help", 'h', NULL, "show this help"},
    [MP_OPT_CONFIG] = {"config", '\0', "FILE", "take settings from FILE: one \"option = value\" a line", MP_OPTS_RARE},
    [MP_OPT_OUTPUT] = {"output", 'o', "FILE", "write to FILE; - is stdout"},
    [MP_OPT_FORCE] = {"force", '\0', NULL, "overwrite FILE even if it is a recording"},
    [MP_OPT_JSON] = {"json", '\0', NULL, "print one JSON object"},
    [MP_OPT_TRACK] = {"track", '\0', "TRACK", "use this track, such as cuda:0/torch; `memprof info` lists them"},
    [MP_OPT_FROM] = {"from", '\0', "TIME", "begin at TIME: 1.5s, step:10 or 50%"},
    [MP_OPT_TO] = {"to", '\0', "TIME", "end at TIME: 1.5s, step:10 or 50%"},
    [MP_OPT_LIMIT] = {"limit", 'n', "N", "show N rows; 0 shows all (text: 10, JSON: all)"},
    [MP_OPT_GROUP] = {"group", '\0', "WHAT",
                      "a row for each stack, stack:N, function, file, library, module, region, category, dtype, "
                      "shape, operator, idle, metadata, size, stream, pool or thread (stack)"},
    [MP_OPT_SORT] = {"sort", '\0', "BY", "sort rows by bytes, blocks, peak or growth (bytes)"},
    [MP_OPT_FILTER] =
        {"filter", '\0', "EXPR",
         "only blocks that match: size>1MiB, step=3..9, fn~NAME, file~NAME, module~NAME, region~NAME, label~NAME, "
         "dtype=float32, shape~REGEX, operator~NAME, category=NAME, role=NAME (parameter, gradient, optimizer_state, "
         "buffer, input, kv_cache, none), layer=NAME "
         "(app, "
         "torch, "
         "driver), kind=NAME (device, pinned, managed, array, pool, vmm, graph, host, handle); joined by commas, all "
         "must hold"},
    [MP_OPT_RULES] = {"rules", '\0', "FILE",
                      "name categories by lines `NAME = REGEX` of FILE, before the built-in ones", MP_OPTS_RARE},
    [MP_OPT_SKIP_FRAMES] =
        {"skip-frames", '\0', "REGEX",
         "leave out frames whose function, file or library matches, such as those of your own framework", MP_OPTS_RARE},
    [MP_OPT_FULL_STACKS] = {"full-stacks", '\0', NULL, "show every frame of a stack"},
    [MP_OPT_COLOR] = {"color", '\0', "WHEN", "auto, always or never (auto)", MP_OPTS_RARE},
    [MP_OPT_PROGRESS] = {"progress", '\0', "WHEN",
                         "auto or never: a line on the terminal while a file is read for long (auto)", MP_OPTS_RARE},
    [MP_OPT_OUTSTANDING] = {"outstanding", '\0', NULL, "list blocks that were never freed"},
    [MP_OPT_SIZES] = {"sizes", '\0', NULL, "show the file's bytes by purpose"},
    [MP_OPT_SITE] = {"site", '\0', "N", "only the site of that number, with all of its holders"},
    [MP_OPT_FAIL] = {"fail", '\0', NULL, "exit with 3 if the command finds what it looks for"},
    [MP_OPT_SUPPRESSIONS] = {"suppressions", '\0', "FILE", "leave out sites that match lines `leak:PATTERN` of FILE",
                             MP_OPTS_RARE},
    [MP_OPT_PID] = {"pid", '\0', "PID", "a running program that another memprof records, instead of FILE"},
    [MP_OPT_REPLAY] = {"replay", '\0', "SETTINGS",
                       "replay under these settings of PyTorch's allocator, such as expandable_segments:True, or "
                       "`recorded`: a snapshot's own trace"},
    [MP_OPT_KIND] = {"kind", '\0', "LIST", "only changes of these kinds: allocator, checkpoint, lifetime"},
    [MP_OPT_ADVISE] = {"advise", '\0', NULL, "also the three best changes for the last probe"},
    [MP_OPT_STACKS] = {"stacks", '\0', "WHICH", "native,python, native, python or none (native,python)",
                       MP_OPTS_RECORDED},
    [MP_OPT_FREE_STACKS] = {"free-stacks", '\0', NULL, "also record where blocks are freed", MP_OPTS_RECORDED},
    [MP_OPT_HOLDERS] = {"holders", '\0', NULL,
                        "find holders also during the run (after 8, 16, 32, ... steps, and when a leak is suspected)"},
    [MP_OPT_OPERATORS] =
        {"operators", '\0', "[step:N..M]",
         "log PyTorch's operators, so that blocks have shapes, types and times of use; of steps N to M "
         "alone"},
    [MP_OPT_BUDGET] = {"budget", '\0', "TIME",
                       "the time that a look for holders may take of the program, up to 2s (200ms; 2s in a plan, if a "
                       "leak is suspected, and at the end)",
                       MP_OPTS_RARE},
    [MP_OPT_DEPTH] = {"depth", '\0', "N",
                      "keep N frames of a stack, 8 to 4096, three quarters of them inner ones (256)", MP_OPTS_RECORDED},
    [MP_OPT_CAPTURE] = {"capture", '\0', "WHAT",
                        "auto, or a list of cupti, hooks (the CUDA driver, without CUPTI), torch, cpu (auto: CPU "
                        "tensors until another device is used)",
                        MP_OPTS_RECORDED},
    [MP_OPT_PAUSED] = {"paused", '\0', NULL, "record nothing until the program says start", MP_OPTS_LONG_RUNS},
    [MP_OPT_SCHEDULE] =
        {"schedule", '\0', "CYCLES",
         "keep only some steps, for instance wait=1,warmup=1,active=3,repeat=2: each cycle skips wait and warmup "
         "steps and keeps active ones (needed); repeat=N cycles (endless), one every=N steps, "
         "unit=REGEX: count regions instead of steps",
         MP_OPTS_LONG_RUNS},
    [MP_OPT_FOR] = {"for", '\0', "TIME",
                    "detach after TIME, such as 60s or 5min; else at Ctrl-C, or when the program ends"},
    [MP_OPT_MAX_EVENTS] =
        {"max-events", '\0', "N",
         "keep the newest N events; from older ones only the live blocks, and the peak with its sites",
         MP_OPTS_LONG_RUNS},
    [MP_OPT_SAMPLE] =
        {"sample", '\0', "BYTES",
         "record a sample of the blocks of PyTorch and of the program's own allocators, about one in BYTES, such as "
         "512KiB: sums are then estimates with a known error; all blocks of the driver are recorded",
         MP_OPTS_RECORDED},
    [MP_OPT_HOST] = {"host", '\0', NULL,
                     "also record a sample of the C allocator's blocks, one in 512 KiB, with their stacks: where the "
                     "host's memory grows outside of tensors (track cpu/malloc)",
                     MP_OPTS_RECORDED},
    [MP_OPT_MAX_OVERHEAD] = {"max-overhead", '\0', "PERCENT",
                             "record a sample of PyTorch's blocks if recording all would take more of the program's "
                             "time than this, such as 5%: sums are then estimates with a known error"},
    [MP_OPT_UNWIND] =
        {"unwind", '\0', "HOW",
         "own or libunwind: unwind native stacks by memprof's own rules or, more slowly, by libunwind (own)"},
    [MP_OPT_CHILDREN] = {"children", '\0', NULL,
                         "also record processes that the program starts, once they have PyTorch or CUDA: each gets a "
                         "file of its own, NAME.PID.mp"},
    [MP_OPT_ON_OOM] = {"on-oom", '\0', "WHAT",
                       "snapshot or none: when memory runs out, write a file and say why (snapshot)", MP_OPTS_RECORDED},
    [MP_OPT_AT_SIGNAL] =
        {"at-signal", '\0', "SIGNAL",
         "write a snapshot of now when memprof gets SIGNAL: USR1, USR2 or another one that memprof does not use",
         MP_OPTS_LONG_RUNS},
    [MP_OPT_WAIT] = {"wait", '\0', NULL,
                     "record until all processes of the session have ended, not only the command; Ctrl-C ends it"},
    [MP_OPT_PRINT_ENV] = {"print-env", '\0', NULL,
                          "print the variables with which a worker of an engine that runs already belongs to this "
                          "recording, or to that of --pid: NAME=VALUE lines, for env, export and an engine's own place",
                          MP_OPTS_RARE},
    [MP_OPT_ON_FULL] = {"on-full", '\0', "HOW", "wait or drop if the program is faster than the collector (wait)",
                        MP_OPTS_RARE},
    [MP_OPT_FOLLOW] = {"follow", '\0', "WHETHER",
                       "record child processes and exec'ed programs too: yes, no, all, or the SIZE from which a "
                       "process gets a file (yes: 1MiB)",
                       MP_OPTS_RECORDED},
    [MP_OPT_STEP_RANGE] = {"step-range", '\0', "REGEX",
                           "regions and NVTX ranges whose names match are steps (ProfilerStep#N and step...)",
                           MP_OPTS_STEPS},
    [MP_OPT_STEP_AT] = {"step-at", '\0', "FUNCTION",
                        "calls of this Python function are steps, such as Optimizer.step or train.py:Trainer.fit",
                        MP_OPTS_STEPS},
    [MP_OPT_NO_SHIM] = {"no-shim", '\0', NULL,
                        "leave PyTorch alone: no module names, record_function regions, steps of optimizers, roles",
                        MP_OPTS_RARE},
    [MP_OPT_TORCH_HISTORY] = {"torch-history", '\0', NULL,
                              "read PyTorch's own history on CUDA (requested sizes, streams, pools) on any version, as "
                              "often as its ring fills (else: now and then, on tested versions)",
                              MP_OPTS_RARE},
    [MP_OPT_NO_TORCH_HISTORY] = {"no-torch-history", '\0', NULL,
                                 "leave PyTorch's own history off: no requested sizes, streams, pools on CUDA",
                                 MP_OPTS_RARE},
    [MP_OPT_NO_SYMBOLS] = {"no-symbols", '\0', NULL, "leave native frames as addresses", MP_OPTS_RARE},
    [MP_OPT_NO_COMMAND] = {"no-command", '\0', NULL, "leave the command line out of the file (else: secrets masked)",
                           MP_OPTS_RARE},
    [MP_OPT_QUIET] = {"quiet", '\0', NULL, "print nothing at the end unless something is wrong"},
    [MP_OPT_VERBOSE] = {"verbose", '\0', NULL, "print at the end how much memory memprof itself took", MP_OPTS_RARE},
    [MP_OPT_STRICT] = {"strict", '\0', NULL, "exit with 4 if the command exits with 0 but the recording is incomplete",
                       MP_OPTS_RARE},
    [MP_OPT_FORMAT] = {"format", '\0', "FORMAT",
                       "text, markdown, html or csv (as -o FILE ends: .md, .html, .csv; else text)"},
    [MP_OPT_COLUMNS] = {"columns", '\0', "LIST", "show these columns, in this order: bytes,blocks,site"},
    [MP_OPT_OF] = {"of", '\0', "WHAT", "peak, outstanding, allocated or at:TIME (peak)"},
    [MP_OPT_CAPACITY] = {"capacity", '\0', "BYTES", "the memory to fit into, such as 24GiB; auto: the device's"},
    [MP_OPT_MARGIN] = {"margin", '\0', "PART", "keep this part of it free: 5% or 512MiB (5%)", MP_OPTS_RARE},
    [MP_OPT_PREDICT] = {"predict", '\0', "LIST", "also predict these: 16,32,64"},
    [MP_OPT_PROBE] = {"probe", '\0', "LIST", "run the command with each of these values for {batch}: 4,8,12"},
    [MP_OPT_NO_VERIFY] = {"no-verify", '\0', NULL, "do not run the command once more at the answer", MP_OPTS_RARE},
    [MP_OPT_MAX_GROWTH] = {"max-growth", '\0', "HOW_MUCH", "the growth that --fail lets pass: 5% or 10MiB (5%)"},
    [MP_OPT_MERGE] = {"merge", '\0', "TRACE",
                      "write a copy of this trace of PyTorch's profiler with the counters in it"},
    [MP_OPT_METRICS] = {"metrics", '\0', "FILE",
                        "write live metrics (OpenMetrics) to FILE every five seconds, and remove it at the end",
                        MP_OPTS_LONG_RUNS},
    [MP_OPT_TENSORBOARD] = {"tensorboard", '\0', "DIR", "write to DIR, under a name that TensorBoard finds"},
    [MP_OPT_DEVICE] =
        {"device", '\0', "NAME",
         "the GPU to plan for: a name, such as t4, rtx4090, l40s, a100-40gb, h100-80gb or b200-180gb (list shows all), "
         "its bytes, such as 80GiB, or a file that describes it (h100-80gb)"},
    [MP_OPT_DEVICES] = {"devices", '\0', "N", "the number of these GPUs, 1 to 8 (1)"},
    [MP_OPT_VALUES] = {"values", '\0', "WHAT",
                       "values read back from the device: zeros, ones, or host (the data last copied there); with "
                       ",random also big random tensors on the CPU get values (zeros)"},
    [MP_OPT_SELECTED] = {"selected", '\0', "SHARE",
                         "the share of elements that a condition selects (nonzero, a mask, unique): 0 to 1 (0.5)"},
    [MP_OPT_SIZE] = {"size", '\0', "NAME=N",
                     "find the largest number that fits in place of {NAME} in the command, or of N, starting at N"},
    [MP_OPT_TRY] = {"try", '\0', "KEY=VALUE,...",
                    "also plan a server with each of these settings alone, and with all, in a table"},
    [MP_OPT_READY_WITHIN] = {"ready-within", '\0', "TIME", "end a server that is not ready by then (15m)"},
    [MP_OPT_TRY_CHANGES] = {"try", '\0', NULL,
                            "run the command as it is, and with each advised change that can be made from outside"},
    [MP_OPT_WORLD_SIZE] = {"world-size", '\0', "N", "the command is one rank of N; collectives return at once"},
    [MP_OPT_RANK] = {"rank", '\0', "K", "number of the rank, from 0; all: one rank of each stage of a pipeline (0)"},
    [MP_OPT_ONCE] = {"once", '\0', NULL, "print one picture as text, without a terminal"},
    [MP_OPT_INTERVAL] = {"interval", '\0', "TIME", "time between two questions, from 100ms to 1h (1s)"},
    [MP_OPT_MAN] = {"man", '\0', NULL, "print the source of the manual page: of memprof, or of the command"},
};

enum mp_option mp_option_named(const char *name, size_t length)
{
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++)
        if (strlen(mp_option_rows[i].name) == length && !strncmp(mp_option_rows[i].name, name, length)) return i;
    return MP_OPT_NONE;
}

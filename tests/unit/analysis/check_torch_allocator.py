#!/usr/bin/env python3
"""The model of PyTorch's caching allocator compared with cases derived by hand from PyTorch's sources, and, on random
calls, with a second model that is naive and slow. Run in the build folder."""
import collections
import json
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import asserted
import naive_allocator

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
STATS = ("allocated reserved active requested inactive_split peak_allocated peak_reserved segment_count alloc_retries "
         "ooms peak_active peak_requested").split()


def settings_of(config):
    """A configuration of the cases as PyTorch's setting string."""
    parts = []
    for key, name in (("max_split_size", "max_split_size_mb"), ("large_segment_size", "large_segment_size_mb"),
                      ("max_non_split_rounding", "max_non_split_rounding_mb")):
        if key in config:
            assert config[key] % MIB == 0
            parts.append(f"{name}:{config[key] // MIB}")
    if "gc_threshold" in config:
        parts.append(f"garbage_collection_threshold:{config['gc_threshold']}")
    if "fraction" in config:
        parts.append(f"per_process_memory_fraction:{config['fraction']}")
    if "expandable_segments" in config:
        parts.append(f"expandable_segments:{config['expandable_segments']}")
    if "reserve" in config:
        parts.append(f"expandable_segments_reserve:{config['reserve']}")
    roundup = config.get("roundup")
    if isinstance(roundup, int):
        parts.append(f"roundup_power2_divisions:{roundup}")
    elif roundup:
        parts.append("roundup_power2_divisions:[" + ",".join(f"{1 << i}:{d}" for i, d in enumerate(roundup)) + "]")
    return ",".join(parts)


class Model:
    """Passes many calls at once to the C model in torch_calls.c, and parses the answers."""

    def __init__(self, program):
        self.program = program
        self.lines = []

    def say(self, *words):
        self.lines.append(" ".join(str(word) for word in words))

    def run(self):
        """The answers to all lines: lists of lists of words."""
        done = subprocess.run([self.program], input="\n".join(self.lines) + "\n", capture_output=True, text=True,
                              timeout=300, check=True)
        answers, answer = [], []
        for line in done.stdout.splitlines():
            if line == ".":
                answers.append(answer)
                answer = []
            else:
                answer.append(line.split())
        asserted.held(len(answers) == len(self.lines), (len(answers), len(self.lines)))
        return answers


def say_op(model, op, names):
    action, name, size, stream = op
    named = names.setdefault(name, len(names)) if name is not None else 0
    if action == "malloc":
        model.say("malloc", named, size, stream)
    elif action == "free":
        model.say("free", named)
    elif action == "record_stream":
        model.say("use", named, stream)
    elif action == "stream_done":
        model.say("done", stream)
    elif action == "empty_cache":
        model.say("empty")
    elif action == "begin_pool":
        model.say("begin", name, stream)
    elif action == "end_pool":
        model.say("end", name)
    elif action == "release_pool":
        model.say("release", name)
    elif action in ("no_split", "use_on_oom"):
        model.say("pool", name, int(action == "no_split"), int(action == "use_on_oom"))
    elif action == "set":
        model.say("set", settings_of({name: size}))
    else:
        raise ValueError(action)


def state_of(answer):
    """The output of a `list`: the statistics, and the segments with their blocks."""
    stats, segments = {}, []
    for words in answer:
        if words[0] == "stats":
            stats = dict(zip(STATS, map(int, words[1:])))
        elif words[0] == "segment":
            address, size, stream, pool, small, expandable = map(int, words[1:])
            segments.append({"address": address, "size": size, "stream": stream, "pool_id": pool,
                             "pool": "small" if small else "large", "expandable": bool(expandable), "blocks": []})
        else:
            address, size, requested = map(int, words[1:4])
            segments[-1]["blocks"].append([address - segments[-1]["address"], size, words[4], requested])
    return stats, segments


def differences_of_case(case, answers):
    """The differences between the answers to a case's calls, and to the `list` after them, and the expected ones."""
    expect = case["expect"]
    stats, segments = state_of(answers[-1])
    found = {"trace": [words[1] for answer in answers for words in answer if words[0] == "event"],
             "oom": [op[1] for op, answer in zip(case["ops"], answers) if ["oom"] in answer], **stats}
    for key, value in expect.items():
        if key != "segments" and found[key] != value:
            yield f"{key} is {found[key]}, not {value}"
    if "segments" not in expect:
        return
    if len(segments) != len(expect["segments"]):
        yield f"{len(segments)} segments, not {len(expect['segments'])}"
    for have, want in zip(segments, expect["segments"]):
        have = dict(have, blocks=[block[:3] for block in have["blocks"]])
        for key, value in want.items():
            if have[key] != value:
                yield f"{key} of a segment is {have[key]}, not {value}"


def check_cases(program):
    with open(os.path.join(HERE, "torch_allocator_cases.json"), encoding="utf-8") as file:
        cases = json.load(file)
    failed = 0
    model, spans = Model(program), []
    for case in cases:
        total = case["config"].get("device_total", 80 << 30)
        model.say("new", case["config"].get("capacity", total), total, settings_of(case["config"]))
        first, names = len(model.lines), {}
        for op in case["ops"]:
            say_op(model, op, names)
        model.say("list")
        spans.append((first, len(model.lines)))
    answers = model.run()
    for case, (first, last) in zip(cases, spans):
        for difference in differences_of_case(case, answers[first:last]):
            print(f"{case['name']}: {difference}   ({case['why']})")
            failed += 1
    print(f"{len(cases)} cases, {failed} differences")
    asserted.held(len(cases) == 85, "cases are missing")
    return failed == 0


SETTINGS = [
    {}, {}, {"expandable_segments": True}, {"expandable_segments": True}, {"max_split_size": 40 * MIB},
    {"max_split_size": 20 * MIB, "max_non_split_rounding": 32 * MIB}, {"fraction": 0.5, "gc_threshold": 0.6},
    {"fraction": 0.4, "gc_threshold": 0.3, "max_split_size": 24 * MIB}, {"roundup": 4},
    {"roundup": [1, 2, 4, 8, 0, 16, 0, 2, 0, 0, 0, 0, 0, 0, 0, 4]}, {"large_segment_size": 12 * MIB}, {"fraction": 0.7},
    {"expandable_segments": True, "max_split_size": 64 * MIB}, {"expandable_segments": True, "fraction": 0.6},
    {"expandable_segments": True, "large_segment_size": 32 * MIB, "roundup": 8},
    {"expandable_segments": True, "reserve": 0.3}, {"expandable_segments": True, "reserve": 7},
]


class Random:
    """Random calls to both models; `lines` are the calls of the C model, `expected` the naive model's answers."""

    def __init__(self, seed, calls):
        self.random = random.Random(seed)
        self.settings = dict(self.random.choice(SETTINGS))
        total = self.random.choice([64, 150, 400, 4000]) * MIB
        capacity = total - self.random.choice([0, 0, 7 * MIB])
        self.naive = naive_allocator.Allocator(capacity, total, self.settings)
        self.streams = [0, 0, 0, 1, 7][:self.random.choice([1, 3, 5])]
        self.pools = self.random.random() < 0.4
        self.largest = self.random.choice([20, 23, 26])
        self.calls = calls
        self.live, self.free_names, self.begun = {}, list(range(4000)), []
        self.expected = [[]]
        self.lines = [f"new {capacity} {total} {settings_of(self.settings)}"]

    def call(self, line, function, *arguments):
        before = len(self.naive.trace)
        answer = []
        try:
            result = function(*arguments)
            if line.startswith("malloc"):
                answer = [["got", *(map(str, (result[1].address, result[1].size)) if result else "00")]]
        except naive_allocator.OutOfMemory:
            result = None
            answer = [["oom"]]
        events = [["event", *map(str, (entry[0], 0, *entry[2:]) if entry[0] == "oom" else entry)]
                  for entry in self.naive.trace[before:]]
        self.lines.append(line)
        self.expected.append(events + answer)
        return result

    def malloc(self):
        name = self.free_names.pop()
        size = int(2 ** self.random.uniform(0, self.largest))
        if self.random.random() < 0.3:
            size = self.random.choice([512, 513, MIB, MIB + 1, 2 * MIB, 10 * MIB - 512, 10 * MIB, 11 * MIB, 20 * MIB, 0])
        stream = self.random.choice(self.streams)
        handle = self.call(f"malloc {name} {size} {stream}", self.naive.malloc, size, stream)
        if handle:
            self.live[name] = handle
        else:
            self.free_names.append(name)

    def free(self):
        if not self.live:
            return
        name = self.random.choice(list(self.live))
        self.call(f"free {name}", self.naive.free, self.live.pop(name))
        self.free_names.append(name)

    def use(self):
        if self.live:
            name, stream = self.random.choice(list(self.live)), self.random.choice([1, 2, 7])
            self.call(f"use {name} {stream}", self.naive.record_stream, self.live[name], stream)

    def done(self):
        stream = self.random.choice([1, 2, 7])
        self.call(f"done {stream}", self.naive.stream_done, stream)

    def empty(self):
        self.call("empty", self.naive.release_all)

    def pool(self):
        if not self.pools:
            return
        if self.begun and self.random.random() < 0.7:
            pool = self.begun.pop()
            self.call(f"end {pool}", self.naive.end, pool)
            return
        pool = self.random.choice([1, 2, 3])
        if pool in self.begun:
            return
        if self.naive.pools.get(pool) and self.naive.pools[pool].users and self.random.random() < 0.5:
            self.call(f"release {pool}", self.naive.release, pool)
            return
        stream = self.random.choice([0, 1, naive_allocator.ANY_STREAM])
        self.begun.append(pool)
        self.call(f"begin {pool} {stream}", self.naive.begin, pool, stream)
        if self.random.random() < 0.2:
            flags = self.random.random() < 0.5, self.random.random() < 0.5

            def options():
                self.naive.pools[pool].no_split, self.naive.pools[pool].use_on_oom = flags
            self.call(f"pool {pool} {int(flags[0])} {int(flags[1])}", options)

    def toggle(self):
        if self.random.random() < 0.2:
            self.settings["expandable_segments"] = not self.settings.get("expandable_segments", False)
            self.call(f"set expandable_segments:{self.settings['expandable_segments']}", self.naive.set, self.settings)

    def run(self):
        kinds = [self.malloc] * 10 + [self.free] * 9 + [self.use, self.done, self.empty, self.pool, self.toggle]
        for _ in range(self.calls):
            self.random.choice(kinds)()
        self.lines.append("list")


def differences_of_run(run, answers):
    for line, want, have in zip(run.lines, run.expected, answers):
        if sorted(want) != sorted(have):  # streams are looked at in no particular order
            yield f"{line}: {have}, not {want}"
            return
    stats, segments = state_of(answers[-1])
    naive = run.naive
    want = {"allocated": naive.allocated(), "reserved": naive.reserved(), "active": naive.active(),
            "requested": naive.requested(), "inactive_split": naive.inactive_split(), "ooms": naive.ooms,
            "alloc_retries": naive.retries, "peak_reserved": naive.peak_reserved,
            "peak_allocated": naive.peak_allocated,
            "segment_count": sum(1 for segment in naive.segments if not segment.page)}
    for key, value in want.items():
        if stats[key] != value:
            yield f"{key} is {stats[key]}, not {value}"
    if segments != naive.listing():
        yield f"segments {segments}, not {naive.listing()}"


def check_random(program, runs, calls):
    model, made = Model(program), []
    for seed in range(runs):
        run = Random(seed, calls)
        run.run()
        made.append((run, len(model.lines)))
        model.lines += run.lines
    answers, failed = model.run(), 0
    seen = collections.Counter(entry[0] for run, _ in made for entry in run.naive.trace)
    for seed, (run, first) in enumerate(made):
        for difference in differences_of_run(run, answers[first:first + len(run.lines)]):
            print(f"seed {seed}, {run.settings}: {difference[:1000]}")
            failed += 1
    print(f"{runs} random runs, {failed} differences; {dict(seen)}")
    asserted.held(all(seen[action] > 20 for action in ("segment_free", "segment_map", "segment_unmap", "oom")), seen)
    return failed == 0


def main():
    program = os.path.join(os.getcwd(), "tests/unit/analysis/torch_calls")
    runs = int(os.environ.get("MEMPROF_ALLOCATOR_RUNS", "150"))
    if not all([check_cases(program), check_random(program, runs, 150)]):
        sys.exit(1)


if __name__ == "__main__":
    asserted.script(main)

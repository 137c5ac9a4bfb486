#!/usr/bin/env python3
"""The model of PyTorch's caching allocator against cases that were derived by hand from PyTorch's sources, and against
a second model, naive and slow, on random calls. Run in the build folder."""
import json
import os
import subprocess
import sys

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
    roundup = config.get("roundup")
    if isinstance(roundup, int):
        parts.append(f"roundup_power2_divisions:{roundup}")
    elif roundup:
        parts.append("roundup_power2_divisions:[" + ",".join(f"{1 << i}:{d}" for i, d in enumerate(roundup)) + "]")
    return ",".join(parts)


class Model:
    """The C model, as torch_calls.c lets it be called: gives many calls at once, and parses what comes back."""

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
        assert len(answers) == len(self.lines), (len(answers), len(self.lines))
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
    """What a `list` printed: the statistics, and the segments with their blocks."""
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
    """Where the answers to a case's calls and to the `list` after them are not what it expects."""
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
    assert len(cases) == 85
    return failed == 0


def main():
    if not check_cases(os.path.join(os.getcwd(), "tests/unit/analysis/torch_calls")):
        sys.exit(1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares what read_mp.py reads from a recording with what write_mp wrote, as a test that docs/FORMAT.md is complete
and right."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import asserted
import read_mp

MEMBERS = {
    "devices": ["name", "uuid", "model", "total_bytes"],
    "tracks": ["device", "layer", "size_basis", "name"],
    "threads": ["tid", "name"],
    "modules": ["path", "start", "end", "bias", "size", "inode", "mtime", "build_id_size", "build_id"],
    "frames": ["language", "module", "address", "function", "file", "line", "more"],
    "stacks": ["parent", "frame"],
    "symbols": ["frame", "function", "file", "line"],
    "base": ["block", "address", "bytes", "birth", "stack", "track", "kind", "module", "role", "label",
             "requested", "stream", "pool"],
    "samples": ["time", "counter", "value"],
    "coverage": ["events", "dropped", "truncated_stacks", "unmatched_stacks", "totals_checked", "totals_wrong",
                 "unknown_frees", "missed_frees"],
    "segments": ["address", "bytes", "stream", "pool", "track", "small", "expandable", "keys", "stack"],
    "segment parts": ["bytes", "requested", "segment", "state"],
    "calls": ["address", "bytes", "stream", "pool", "track", "action", "keys"],
    "asides": ["text", "kind"],
    "labels": ["time", "block", "role", "name"],
    "uses": ["time", "block", "operator", "node", "shape", "module", "how"],
    "holders": ["time", "block", "kind", "certain", "path", "file", "line"],
    "metadata": ["time", "block", "kind", "text"],
    "requests": ["block", "requested", "stream", "pool"],
    "past": ["events", "steps", "time"],
    "past peaks": ["bytes", "blocks", "time", "step", "reserved", "track"],
    "past sites": ["bytes", "blocks", "stack", "module", "track", "kind"],
    "exit": ["known", "by_signal", "status", "time", "text"],
}
TOLD = ("keys", "stack")
OPTIONAL = {"base": ("module", "role", "label", "requested", "stream", "pool"), "frames": ("more",), "segments": TOLD,
            "calls": TOLD}  # left out where all values are 0
EVENT = ["time", "address", "bytes", "block", "stack", "name", "thread", "track", "type", "kind"]


def rows_of(kind, meta, columns):
    """The rows of a chunk as write_mp prints them."""
    count = meta["count"]
    if kind == "strings":
        text, at = columns.get("text", b""), 0
        for length in columns["length"]:
            yield "x" + text[at:at + length].hex()
            at += length
    elif kind == "events":
        for event in read_mp.events_of(meta, columns):
            yield " ".join(str(event.get(member, 0)) for member in EVENT)
    elif kind == "coverage":
        yield " ".join(str(columns[member][0]) for member in MEMBERS[kind]) + "".join(
            f" {identity}" for name in ("sources", "notes", "limits") for identity in columns.get(name, []))
    else:
        for i in range(count):
            yield " ".join("x" + columns[member][32 * i:32 * i + 32].hex() if member == "build_id"
                           else "0" if member in OPTIONAL.get(kind, ()) and member not in columns
                           else str(columns[member][i]) for member in MEMBERS[kind])


def main():
    zstd = read_mp.load_zstd()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sample.mp")
        printed = subprocess.run(["tests/unit/format/write_mp", path], check=True, stdout=subprocess.PIPE, text=True)
        with open(path, "rb") as file:
            start, chunks, end = read_mp.walk(zstd, file.read())
    read_mp.check_index(chunks, end)
    asserted.held(start["command"] == ["python3", "train.py", "--epochs", "3", ""] and start["pid"] == 4242, start)
    asserted.held(start["spool_id"] == 0xfedcba9876543210 and start["monotonic"] == 987654321012345, start)
    found = []
    numbers = {kind: number for number, kind in read_mp.KINDS.items()}
    for _, _, kind, meta, columns in chunks:
        if kind == "index":
            continue
        time = meta.get("time", 0)
        found.append(f"chunk {numbers[kind]} {meta['count']} {time}")
        found.extend(rows_of(kind, meta, columns))
    expected = [line.strip() for line in printed.stdout.splitlines()]
    for i, (left, right) in enumerate(zip(found, expected)):
        asserted.held(left == right, f"line {i}: {left!r} is not {right!r}")
    asserted.held(len(found) == len(expected), "lines are missing")
    print(f"{len(chunks)} chunks, {len(found)} lines agree")


if __name__ == "__main__":
    asserted.script(main)

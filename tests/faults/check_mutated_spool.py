#!/usr/bin/env python3
"""Recovery after a kill from a damaged spool and file of a real program. Bits are flipped, pages zeroed, parts
exchanged, ends cut. `memprof recover` makes a readable recording, or fails with a message. If events are missing, it
says so. `check_mutated_spool.py [ROUNDS [SEED]]`; tools/test --long: 600 rounds with new seeds."""

import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness
from harness import asserted

HOSTILE = harness.BUILD / "tests" / "faults" / "hostile"
WATCHDOG = 60  # far beyond what it takes: what it ends was stuck
PAGE = 4096
RINGS, RING, RECORD = 64 << 10, 1 << 20, 64  # src/wire/spool.h


def until(condition):
    deadline = time.monotonic() + WATCHDOG
    while not condition():
        asserted.held(time.monotonic() < deadline, "it did not come to that")
        time.sleep(0.01)


def unread_of(spool, thread):
    """How many records of a thread the collector has not written yet: struct mp_ring has its head, at 28 its number,
    its name, and at 64 its tail."""
    with open(spool, "rb") as file:
        header = file.read(RINGS)
    for at in range(0, RINGS - 128, 64):
        if struct.unpack_from("<I7s", header, at + 28) == (thread, b"hostile"):
            return struct.unpack_from("<Q", header, at)[0] - struct.unpack_from("<Q", header, at + 64)[0]
    return 0


def leave(folder):
    """Kills a program and its collector in the middle, when the collector has much to read. Returns what is left in
    `folder`."""
    file, env = folder / "x.mp", os.environ | {"XDG_RUNTIME_DIR": str(folder)}
    recording = subprocess.Popen([harness.MEMPROF, "snapshot", "--quiet", "--force", "-o", file, "--", HOSTILE,
                                  "jumps-out", "3", "600"], env=env, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: file.exists() and file.stat().st_size >= 20000)
        program = harness.first_child(recording.pid)
        os.kill(recording.pid, signal.SIGSTOP)
        spool, = folder.rglob("*.spool")
        until(lambda: unread_of(spool, program) >= 4096)
    finally:
        os.killpg(recording.pid, signal.SIGKILL)
        recording.wait()
    until(lambda: harness.is_gone(program))
    return file, env


def parts_of(path):
    """The contents of a file with holes: [(at, bytes)]."""
    parts, at, end = [], 0, path.stat().st_size
    with open(path, "rb") as file:
        while at < end:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            hole = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            parts.append((at, os.pread(file.fileno(), hole - at, at)))
            at = hole
    return parts, end


def put(path, parts, end, mode):
    with open(path, "wb") as file:
        file.truncate(end)
        for at, data in parts:
            file.seek(at)
            file.write(data)
    path.chmod(mode)


def harm(dice, path):
    """Damages a file in one of the ways in which memory and files go bad. Returns a description."""
    parts, end = parts_of(path)
    if not parts:
        return "nothing"
    at, data = dice.choice(parts + [parts[0]] * 3)  # the header is at the beginning
    within = dice.randrange(len(data))
    with open(path, "r+b") as file:
        how = dice.randrange(8)
        if how == 0:
            for _ in range(dice.choice((1, 10, 1000))):
                place = dice.randrange(len(data))
                file.seek(at + place)
                file.write(bytes([data[place] ^ 1 << dice.randrange(8)]))
        elif how == 1:
            file.seek(at + within // PAGE * PAGE)
            file.write(bytes(PAGE * dice.choice((1, 16))))
        elif how == 2:
            file.truncate(dice.choice((0, 1, at, at + within, end - 1, end + PAGE)))
        elif how == 3:
            file.seek(at + within // 8 * 8)
            file.write(dice.choice((b"\xff" * 8, b"\0" * 8, (1 << 63).to_bytes(8, "little"),
                                    dice.randrange(1 << 32).to_bytes(8, "little"))))
        elif how == 4:
            other_at, other = dice.choice(parts)
            length = min(len(other), PAGE)
            file.seek(at + within // PAGE * PAGE)
            file.write(other[:length])
            file.seek(other_at)
            file.write(data[within // PAGE * PAGE:][:length])
        elif how == 5:
            file.seek(at + within // 64 * 64)
            file.write(dice.randbytes(64))
        elif how == 6:
            file.seek(at + dice.randrange(min(len(data), 16 * PAGE)) // 4 * 4)
            file.write(dice.randrange(1 << 32).to_bytes(4, "little"))
        else:
            file.seek(at)
            file.write(dice.randbytes(len(data)))
    return f"{path.name}: way {how} at {at + within}"


def recovered(file, whole, env):
    """Recovers. Returns the result, or a sentence about its fault."""
    whole.unlink(missing_ok=True)
    try:
        result = subprocess.run([harness.MEMPROF, "recover", file, "-o", whole], capture_output=True, text=True, env=env,
                                timeout=WATCHDOG)
    except subprocess.TimeoutExpired:
        return None, "it was stuck"
    if result.returncode not in (0, 1, 4) or not result.stderr.startswith("memprof: "):
        return None, f"it ended with {result.returncode}: {result.stderr}"
    if not whole.exists():
        return None, None if result.returncode == 1 else f"no file, and {result.returncode}: {result.stderr}"
    info = subprocess.run([harness.MEMPROF, "info", whole, "--json"], capture_output=True, text=True, timeout=WATCHDOG)
    if info.returncode not in (0, 4):
        return None, f"what it made cannot be read: {info.stderr}"
    return (result, json.loads(info.stdout)["coverage"]), None


def round_of(seed, left, folder, most):
    dice, whole = random.Random(seed), folder / "whole.mp"
    for path, parts, end, mode in left["files"]:
        put(path, parts, end, mode)
    done = [harm(dice, dice.choice(left["files"])[0]) for _ in range(dice.choice((1, 1, 1, 3)))]
    made, wrong = recovered(left["file"], whole, left["env"])
    if made:
        result, coverage = made
        said = result.returncode == 4 or coverage["notes"] or not coverage["complete"]
        if coverage["events"] < most and not said:
            wrong = f"{coverage['events']} of {most} events, and nothing is said: {result.stderr}"
    return wrong and f"seed {seed}: {done}: {wrong}"


WRONG = ((48, 2, 200), (48, 2, 40000), (40, 4, 0x7fffffff), (40, 4, 0xffffffff))  # track, stack: such as there are none
LANE = ((52, 4, 2), (16, 8, 1 << 40))


def wrong_records(left, folder, most):
    """Records that refer to missing entries are lost and counted, without affecting others."""
    spool, parts, end, mode = next(file for file in left["files"] if file[0].suffix == ".spool")
    blocks = [at + i for at, data in parts for i in range(0, len(data), RECORD)
              if RINGS <= at + i < RINGS + 96 * RING and data[i + 50] in (1, 2)]  # allocs and frees
    dice, lost = random.Random(7), 0
    for how in [(one,) for one in WRONG] * 3 + [LANE] * 3:
        for path, *rest in left["files"]:
            put(path, *rest)
        with open(spool, "r+b") as file:
            for at in dice.sample(blocks, 40):
                for offset, size, value in how:
                    file.seek(at + offset)
                    file.write(value.to_bytes(size, "little"))
        made, wrong = recovered(left["file"], folder / "whole.mp", left["env"])
        asserted.held(made and not wrong, (how, wrong))
        coverage = made[1]
        gone = most["events"] - coverage["events"]
        asserted.held(gone == coverage["dropped"] - most["dropped"] and gone <= 40, (how, most, coverage))
        asserted.held(not gone or "had written over" in " ".join(coverage["notes"]), (how, coverage))
        lost += gone
    asserted.held(lost, "no record was harmed that was still to be read")


def begun_files(top):
    """The collector dies after it has made the file, before writing to it. The spool is found by each name of the
    file."""
    for number, name in enumerate(("run.mp", "run.%p.mp", "a-%h-%p.mp")):
        (folder := top / str(number)).mkdir()
        env = os.environ | {"XDG_RUNTIME_DIR": str(folder), "MEMPROF_FAULT_POINT": "any:1:before:9",
                            "LD_PRELOAD": str(harness.BUILD / "tests/faults/fault_point.so")}
        subprocess.run([harness.MEMPROF, "snapshot", "--quiet", "-o", folder / name, "--", HOSTILE, "asks-for-errors"],
                       env=env, stdout=subprocess.DEVNULL)
        file, = folder.glob("*.mp")
        asserted.held(not file.stat().st_size, file)
        deadline = time.monotonic() + WATCHDOG
        while True:
            made, wrong = recovered(file, folder / "whole", os.environ | {"XDG_RUNTIME_DIR": str(folder)})
            if made or time.monotonic() > deadline:
                break
            time.sleep(0.05)  # the program has not ended
        asserted.held(made and not wrong, (name, wrong))
        asserted.held(made[1]["events"] + made[1]["dropped"] >= 9000, (name, made[1]))


def main():
    long = asserted.LONG
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 600 if long else 40
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 30) if long else 1
    print(f"mutated spools: {rounds} from seed {first}", flush=True)
    with tempfile.TemporaryDirectory(prefix="memprof-mutated-") as name:
        folder = pathlib.Path(name)
        file, env = leave(folder)
        files = [(path, *parts_of(path), path.stat().st_mode & 0o777) for path in sorted(folder.rglob("*")) if path.is_file()]
        asserted.held(len(files) >= 2, files)
        left = {"file": file, "env": env, "files": files}
        made, wrong = recovered(file, folder / "whole.mp", env)
        asserted.held(made and not wrong, wrong)
        most = made[1]["events"]
        wrong_records(left, folder, made[1])
        with tempfile.TemporaryDirectory(prefix="memprof-begun-") as begun:
            begun_files(pathlib.Path(begun))
        asserted.held(most > 1000, most)
        found = [wrong for wrong in (round_of(first + i, left, folder, most) for i in range(rounds)) if wrong]
    for wrong in found:
        print(wrong)
    print(f"mutated spools: {len(found)} of {rounds} went wrong, from {most} events")
    return bool(found)


if __name__ == "__main__":
    asserted.script(main)

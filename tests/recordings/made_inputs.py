"""What other programs write, made by chance from a seed, for the golden answers: as much of each format in one file as
there is."""
import json
import pathlib
import random
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit/exchange"))
from check_kineto import memory, span  # noqa: E402
from check_logs import NEW, PID, UTC, pid_of  # noqa: E402

START = 1_763_620_000_123_456_789  # of the recordings that tests/unit/cli/make_recording makes: a trace of that time


def lives(draw, count, keep=0.3):
    """("alloc" or "free", address, bytes) as a program makes them, an address used again now and then."""
    live = []
    for _ in range(count):
        if live and draw.random() > 0.5 + keep / 2:
            yield "free", *live.pop(draw.randrange(len(live)))
        else:
            address = 0x7F0000000000 + 512 * draw.randrange(4000)
            if address in (known for known, _ in live):
                continue
            live.append((address, draw.choice([512, 2048, 70_000, 3 << 20, draw.randrange(1, 1 << 22)])))
            yield "alloc", *live[-1]


def kineto(path):
    """Steps with operators, Python frames and modules on two threads; blocks of two GPUs and of the CPU; counters."""
    draw, events, now = random.Random(11), [], 1000.0
    totals = {(1, 0): 0, (1, 1): 0, (0, -1): 0}
    streams = {device: lives(random.Random(repr(device)), 160) for device in totals}
    for step in range(6):
        begin, identity = now, 100 * step
        for operator in range(8):
            tid, start = draw.choice([7, 7, 8]), now
            for _ in range(draw.randrange(1, 6)):
                device = draw.choice(list(totals))
                what, address, size = next(streams[device])
                totals[device] += size if what == "alloc" else -size
                now += draw.randrange(1, 9)
                if draw.random() < 0.05:
                    continue  # on a thread that the profiler does not follow
                events.append(memory(now, size if what == "alloc" else -size, address, totals[device],
                                     totals[device] + (4 << 20), device, tid))
            now += 5
            events.append(span(f"aten::op{operator % 3}", start, now - start - 1, tid=tid))
            events.append(span(f"model.py({10 + operator}): forward", start - 0.4, now - start, "python_function", tid,
                               **{"Python id": identity + operator, "Python parent id": None if operator else identity}))
            events.append(span(f"nn.Module: Linear_{operator % 2}", start - 0.3, now - start - 0.2, "python_function", tid,
                               **{"Python id": identity + 50 + operator, "Python parent id": identity + operator}))
        events.append(span("backward" if step % 2 else "forward <&>", begin + 1, now - begin - 3, "user_annotation"))
        events.append(span(f"ProfilerStep#{step}", begin - 0.5, now - begin, "user_annotation"))
        now += 20
    events.append(memory(now, 1 << 40, None, totals[1, 0], totals[1, 0], name="[OutOfMemory]"))
    draw.shuffle(events)
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": START, "deviceProperties": [
        {"id": 0, "name": "A made GPU", "totalGlobalMem": 8 << 30}], "traceEvents": events}, indent=1))


def rmm(path):
    draw, lines, now = random.Random(12), ["Thread,Time,Action,Pointer,Size,Stream"], 86_390_000_000
    for number, (what, address, size) in enumerate(lives(draw, 300)):
        now += draw.randrange(1, 90_000)
        clock = f"{now // 3_600_000_000 % 24:02}:{now // 60_000_000 % 60:02}:{now // 1_000_000 % 60:02}:{now % 1_000_000:06}"
        lines.append(f"{draw.choice((11, 12, 13))},{clock},{'allocate' if what == 'alloc' else 'free'},{address:#x},{size},"
                     f"{draw.choice(('0x0', '0x2'))}")
        if number % 97 == 96:
            lines.append(f"11,{clock},allocate failure,(nil),{size},0x0")
    path.write_text("\n".join(lines) + "\n")


def nsys(path):
    """Two processes' memory, pools, stacks and ranges, in the newer schema."""
    draw, now = random.Random(13), 1_000_000
    with sqlite3.connect(path) as database:
        database.executescript(NEW)
        put = lambda table, *row: database.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)  # noqa: E731
        for number, text in enumerate(("", "libtorch.so", "at::empty", "main", "train.py", "step 1", "epoch")):
            put("StringIds", number, text)
        put("TARGET_INFO_SESSION_START_TIME", UTC, "", "")
        put("TARGET_INFO_GPU", 0, "A made GPU", 8 << 30, "GPU-1", 0)
        put("PROCESSES", pid_of(PID), PID, "python3")
        for chain in range(1, 5):
            for depth in range(chain):
                put("CUDA_CALLCHAINS", chain, 2 + depth % 2, 1, 0, 4096 + depth, depth)
        for step in range(5):
            put("NVTX_EVENTS", now, now + 90_000, 59, f"step {step}", pid_of(PID) | 7, None)
            put("NVTX_EVENTS", now + 10, now + 80_000, 59, None, pid_of(PID) | 8, 6)
            now += 100_000
        now = 1_000_000
        for correlation, (what, address, size) in enumerate(lives(draw, 250)):
            now += draw.randrange(1, 4000)
            kind, pool = draw.choice([(2, None), (2, 0xD000), (1, None), (3, None)])
            put("CUPTI_ACTIVITY_KIND_RUNTIME", now - 3, now + 3, 0, pid_of(PID) | draw.choice((7, 8)), correlation, 0, 0,
                draw.randrange(5))
            put("CUDA_GPU_MEMORY_USAGE_EVENTS", now, pid_of(PID), 0, 1, address, 0, size, kind, 0 if what == "alloc" else 1,
                None, correlation, draw.choice((7, 9)), pool, 32 << 20 if pool else None, size if pool else None)


def make(folder):
    kineto(folder / "profiled.pt.trace.json")
    rmm(folder / "rmm.log.dev1")
    nsys(folder / "systems.sqlite")

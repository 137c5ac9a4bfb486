#!/usr/bin/env python3
"""Cost of `memprof attach` for the program: processor time of its threads while attached, and while not, in turns, in one
run. In build/:

    python3 ../tests/bench/attached.py EVENTS_A_SECOND PAIRS
"""

import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

WINDOW_S = 2
EVENTS_A_ROUND = 4.2  # two threads: each an allocation and a free, and each tenth time another allocation
HERE = pathlib.Path(__file__).resolve().parents[1] / "attach"


def used_ns(pid):
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def window(pid):
    before, begun = used_ns(pid), time.monotonic()
    time.sleep(WINDOW_S)
    return (used_ns(pid) - before) / (time.monotonic() - begun)  # ns of a second


def main():
    events, pairs = float(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cc", "-g", "-O1", "-shared", "-fPIC", "-o", f"{folder}/libc10.so", HERE / "c10.c"], check=True)
        subprocess.run(["cc", "-g", "-O1", "-o", f"{folder}/service", HERE / "service.c", "-ldl", "-lpthread"], check=True)
        service = subprocess.Popen([f"{folder}/service", f"{folder}/libc10.so", "c10", "99999999",
                                    str(max(1, round(events / EVENTS_A_ROUND)))], stdout=subprocess.PIPE)
        service.stdout.readline()
        costs, own = [], []
        for _ in range(pairs):
            alone = window(service.pid)
            attach = subprocess.Popen(["./memprof", "attach", str(service.pid), "-o", f"{folder}/now.mp", "--force"],
                                      stderr=subprocess.PIPE, text=True)
            while "attached to process" not in attach.stderr.readline():
                pass
            before = used_ns(attach.pid)
            costs.append((window(service.pid) - alone) / 1e9)
            own.append((used_ns(attach.pid) - before) / WINDOW_S / 1e9)
            attach.send_signal(signal.SIGINT)
            attach.communicate()
        service.kill()
    cost = statistics.median(costs)
    print(f"{events:.0f} events/s: {cost:.2%} of a processor in the program ({min(costs):.2%} to {max(costs):.2%}), "
          f"{cost / max(events, 1) * 1e6:.1f} µs an event; memprof's own {statistics.median(own):.2%}")


main()

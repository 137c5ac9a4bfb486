#!/usr/bin/env python3
"""Cost of `memprof top` for a busy program: events a second of programs/churn with a running top, and with that top
stopped, in turns, in one run. In build/:

    python3 ../tests/bench/top_cost.py INTERVAL PAIRS
"""

import os
import pty
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

WINDOW_S = 2


def handed_over(counters):
    with open(counters, "rb") as file:
        data = file.read()
    return sum(sum(struct.unpack_from("<QQ", data, 64 * i)) for i in range(1, len(data) // 64))


def drain(terminal):
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass


def main():
    interval, pairs = sys.argv[1], int(sys.argv[2])
    memprof = os.path.abspath("memprof")
    with tempfile.TemporaryDirectory() as folder:
        counters = os.path.join(folder, "counters")
        collector = subprocess.Popen([memprof, "snapshot", "--quiet", "--max-events", "1000000", "-o", folder + "/run.mp",
                                      "--", "tests/e2e/programs/churn", counters, "2", "-1", "0"])
        time.sleep(3)
        with open(f"/proc/{collector.pid}/task/{collector.pid}/children") as children:
            program = int(children.read().split()[0])
        top, terminal = pty.fork()
        if not top:
            os.environ["TERM"] = "xterm"
            os.execv(memprof, ["memprof", "top", str(program), "--interval", interval])
        threading.Thread(target=drain, args=(terminal,), daemon=True).start()
        time.sleep(1)
        rates = {False: [], True: []}
        for pair in range(pairs):
            for beside in ((False, True) if pair % 2 else (True, False)):
                os.kill(top, signal.SIGCONT if beside else signal.SIGSTOP)
                time.sleep(0.1)
                before, since = handed_over(counters), time.monotonic()
                time.sleep(WINDOW_S)
                rates[beside].append((handed_over(counters) - before) / (time.monotonic() - since))
        os.kill(top, signal.SIGKILL)
        os.kill(program, signal.SIGKILL)
        collector.wait()
    without, beside = (statistics.median(rates[which]) for which in (False, True))
    print(f"without {without:.0f} events/s, with top {beside:.0f}, ratio of medians {beside / without:.3f}, "
          f"median of the pairs' ratios {statistics.median(b / a for a, b in zip(rates[False], rates[True])):.3f}; "
          f"single windows {min(rates[False]):.0f} to {max(rates[False]):.0f}")


main()

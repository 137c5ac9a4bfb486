#!/usr/bin/env python3
"""The cost of `snapshot --host`: the ratio of a program's processor time with the option to the time without, in pairs
of runs. In build/:

    python3 ../tests/bench/host.py PAIRS

`json` reads and writes JSON in Python. `pairs` does nothing but malloc() and free(), which no real program does.
"""

import os
import statistics
import subprocess
import sys
import tempfile

JSON = """import json, time
text = json.dumps([{"a": list(range(200)), "b": "x" * 600, "c": {str(i): [1.5] * 20 for i in range(30)}}] * 60)
for _ in range(200):
    json.dumps(json.loads(text)).split(",")
print(time.process_time())
"""
PAIRS = """#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void *volatile blocks[4096];
int main(void)
{
    for (unsigned i = 0, random = 1; i < 30000000; i++) {
        random = random * 1103515245 + 12345;
        unsigned k = random >> 16 & 4095;
        free(blocks[k]);
        blocks[k] = malloc(16 + (random >> 8) % 900);
    }
    printf("%g\\n", (double)clock() / CLOCKS_PER_SEC);
}
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        pairs = os.path.join(folder, "pairs")
        subprocess.run(["cc", "-O2", "-x", "c", "-o", pairs, "-"], input=PAIRS, text=True, check=True)
        memprof = [os.path.abspath("memprof"), "snapshot", "--quiet", "--force", "-o", folder + "/run.mp"]
        for name, command in (("json", [sys.executable, "-c", JSON]), ("pairs", [pairs])):
            ratios = []
            for pair in range(int(sys.argv[1])):
                took = {}
                for host in ((False, True) if pair % 2 else (True, False)):
                    result = subprocess.run(memprof + ["--host"] * host + ["--"] + command, capture_output=True, text=True)
                    took[host] = float(result.stdout)
                ratios.append(took[True] / took[False])
            print(f"{name}: median of the pairs' ratios {statistics.median(ratios):.3f}; {min(ratios):.3f} to "
                  f"{max(ratios):.3f}")


main()

"""Draws the memory of each module over time.

    memprof snapshot -o run.mp -- python3 examples/train.py
    python3 examples/reading/plot_modules.py run.mp modules.png
"""

import sys

import matplotlib.pyplot as plt
import memprof
import numpy as np

run = memprof.open(sys.argv[1])
blocks, tracks = run.blocks(), run.tracks()
wanted = blocks["track_id"] == int(tracks["is_default"].argmax())
modules = np.array([(module or "no module").split(".")[0] for module in blocks["module"]])
end = int(run.table("recording")["duration_ns"][0])
born = np.where(blocks.known("alloc_ns"), blocks["alloc_ns"], 0)
died = np.where(blocks.known("free_ns"), blocks["free_ns"], end)
times = np.linspace(0, end, 800)

curves = {}
for module in np.unique(modules[wanted]):
    mine = wanted & (modules == module)
    change = np.zeros(len(times) + 1)
    np.add.at(change, np.searchsorted(times, born[mine]), blocks["bytes"][mine].astype(float))
    np.add.at(change, np.searchsorted(times, died[mine]), -blocks["bytes"][mine].astype(float))
    curves[module] = np.cumsum(change)[:-1] / 2**20
plt.stackplot(times / 1e9, curves.values(), labels=curves)
plt.xlabel("seconds")
plt.ylabel("MiB")
plt.legend(loc="upper left")
plt.savefig(sys.argv[2], dpi=120)

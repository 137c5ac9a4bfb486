#!/usr/bin/python3
"""measure_job_page.py PAGE...: opens pages of jobs from disk in a Chromium without a GPU. Prints the costs as one JSON
object per page. Milliseconds are those to the first picture and of the longest task while the page opens. Then come
those of a redraw when another process is chosen (curves, heat map), of the heat map's first drawing, and of its
differences from the median. Bytes are the JavaScript heap with all buffers. For `tools/bench jobpage`. As in
measure_page.py, each number is the least of several runs."""

import json
import pathlib
import sys

from measure_page import TIMES, browser, opened, part

REDRAW = """
const done = arguments[1], { page, job } = window.memprof;
const frame = () => new Promise((go) => requestAnimationFrame(go));
const work = [];
(async () => {
  page.set({ view: arguments[0], process: -1, other: -1 });
  await frame(); await frame();
  for (let i = 0; i < 30; i++) {
    page.set({ process: page.shown[Math.floor(page.shown.length * i / 30)] });
    await frame(); await frame();
    work.push(page.timings.draw);
  }
  done(work);
})();
"""
# The time of a change of view, including its first drawing.
SWITCH = """
const done = arguments[0], { page } = window.memprof;
const frame = () => new Promise((go) => requestAnimationFrame(go));
(async () => {
  page.set({ view: 'sites', differences: false });
  await frame(); await frame();
  page.set({ view: 'heat' });
  await frame(); await frame();
  const first = page.timings.draw;
  page.set({ differences: true });
  await frame(); await frame();
  done([first, page.timings.draw]);
})();
"""


def measure(page):
    with browser() as driver:
        firsts, longest = opened(driver, page)
        driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        usage = driver.execute_cdp_cmd("Runtime.getHeapUsage", {})
        redraws = {view: [sorted(driver.execute_async_script(REDRAW, view)) for _ in range(TIMES)]
                   for view in ("curves", "heat")}
        switches = [driver.execute_async_script(SWITCH) for _ in range(TIMES)]
        count = driver.execute_script("return window.memprof.job.count")
    return {"page": page, "processes": count, "bytes": pathlib.Path(page).stat().st_size, "first_ms": min(firsts),
            "longest_ms": min(longest), "heap_bytes": usage["usedSize"] + usage.get("backingStorageSize", 0),
            "curves_p95_ms": min(part(one, 0.95) for one in redraws["curves"]),
            "heat_p95_ms": min(part(one, 0.95) for one in redraws["heat"]),
            "heat_first_ms": min(first for first, _ in switches), "differences_ms": min(second for _, second in switches)}


def main():
    for page in sys.argv[1:]:
        print(json.dumps(measure(page)), flush=True)


if __name__ == "__main__":
    main()

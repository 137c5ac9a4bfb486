#!/usr/bin/python3
"""measure_page.py PAGE...: opens pages from disk in a Chromium without a GPU. Prints the costs as one JSON object per
page. Milliseconds are those to the first picture, of the longest task while the page opens, of a redraw while zooming
(p50, p95) and of a hover. Then come the processor time of the page's thread for opening and for a redraw, and the
JavaScript heap with all buffers, the worker's included.

For `tools/bench viz`. Each page is opened in a new browser, as by a user. Everything is measured several times, and the
least is printed, since the machine may be busy with other things."""

import contextlib
import json
import pathlib
import shutil
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

TIMES = 4
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND",
         "--window-size=1600,1000", "--enable-precise-memory-info"]

# Time from the navigation's start until the frame with the picture was submitted.
FIRST = "return window.memprof && window.memprof.page.firstFrame"

# The longest task of the page's thread since it was opened; the browser does not report tasks under 50 ms.
LONGEST = """
const done = arguments[0];
new PerformanceObserver((list) => {
  done(Math.max(0, ...list.getEntries().map((one) => one.duration)));
}).observe({ type: 'longtask', buffered: true });
setTimeout(() => done(0), 200);
"""

ZOOM = """
const done = arguments[0], { page, store } = window.memprof, { timeline, controls } = page;
const frame = () => new Promise((go) => requestAnimationFrame(go));
const work = [];
(async () => {
  for (let i = 0; i < 60; i++) {
    const factor = i % 20 < 10 ? 1 / 1.4 : 1.4;
    controls.zoomTime(factor, page.track.time[Math.floor(page.track.count * (0.2 + 0.01 * i))]);
    await frame(); await frame();
    const { layout, paint, over } = timeline.timings;
    work.push(layout + paint + over);
  }
  controls.fit();
  await frame(); await frame();
  done(work);
})();
"""

HOVER = """
const done = arguments[0], over = document.getElementById('over'), box = over.getBoundingClientRect();
const frame = () => new Promise((go) => requestAnimationFrame(go));
const work = [];
(async () => {
  for (let i = 0; i < 40; i++) {
    const at = { clientX: box.left + box.width * (0.1 + 0.02 * i), clientY: box.bottom - 60 - i, bubbles: true };
    const before = performance.now();
    over.dispatchEvent(new PointerEvent('pointermove', at));
    work.push(performance.now() - before);
    await frame();
  }
  done(work);
})();
"""


def thread_ms(driver):
    """Processor time of the page's own thread since it was opened."""
    metrics = {one["name"]: one["value"] for one in driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
    return metrics["TaskDuration"] * 1000


def part(values, share):
    return values[int(len(values) * share)]


@contextlib.contextmanager
def browser():
    profile = tempfile.mkdtemp()
    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    for flag in FLAGS + [f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    try:
        driver.set_script_timeout(120)
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        yield driver
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)


def opened(driver, page, fragment=""):
    """Opens the page TIMES times. Returns the times to the first picture, and of the longest task. Fails if the page
    does not open."""
    firsts, longest = [], []
    for _ in range(TIMES):
        driver.get("about:blank")
        driver.get(pathlib.Path(page).resolve().as_uri() + fragment)
        deadline = time.monotonic() + 120
        while not driver.execute_script(FIRST):
            if time.monotonic() > deadline:
                sys.exit(f"{page} does not open: " + driver.execute_script("return document.body.innerText.slice(0, 300)"))
            time.sleep(0.01)
        firsts.append(driver.execute_script(FIRST))
        time.sleep(0.3)
        longest.append(driver.execute_async_script(LONGEST))
    return firsts, longest


def measure(page):
    with browser() as driver:
        firsts, longest = opened(driver, page)
        opening = thread_ms(driver)
        driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        usage = driver.execute_cdp_cmd("Runtime.getHeapUsage", {})
        heap = usage["usedSize"] + usage.get("backingStorageSize", 0)
        heap += driver.execute_script("const { archive } = window.memprof.recording; "
                                      "return archive.inWorker ? archive.header.bytes : 0")
        before = thread_ms(driver)
        zooms = [sorted(driver.execute_async_script(ZOOM)) for _ in range(TIMES)]
        zooming = thread_ms(driver) - before
        hovers = [sorted(driver.execute_async_script(HOVER)) for _ in range(TIMES)]
        track = driver.execute_script("const { track, timeline } = window.memprof.page; "
                                      "return [track.info.events, track.info.blocks, timeline.inView]")
    return {"page": page, "events": track[0], "blocks": track[1], "drawn_blocks": track[2],
            "bytes": pathlib.Path(page).stat().st_size, "first_ms": min(firsts), "longest_ms": min(longest),
            "open_cpu_ms": opening, "redraw_cpu_ms": zooming / sum(map(len, zooms)),
            "redraw_p50_ms": min(part(zoom, 0.5) for zoom in zooms),
            "redraw_p95_ms": min(part(zoom, 0.95) for zoom in zooms),
            "hover_ms": min(part(hover, 0.95) for hover in hovers), "heap_bytes": heap}


def main():
    for page in sys.argv[1:]:
        print(json.dumps(measure(page)), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""measure_opening.py [--rounds N] PAGE...: the time until the eye sees a page's whole picture. Counted are milliseconds
from the navigation's start to the first frame after which Chromium's screen (plot, tables, panel) no longer changes.
Also prints the same time of a page with a single canvas, as the least for this browser, and the page's own
`firstFrame`. One JSON object per page, with medians over all openings.

For `tools/bench viz`, and to compare pages: they take turns, and in each round a new browser opens a page several
times. Needs only Chromium, which it controls through a pipe."""

import argparse
import base64
import json
import os
import pathlib
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

OPENINGS = 3  # of a page in one browser
QUIET_S = 0.8  # without a new frame: the picture stands
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND",
         "--window-size=1600,1000", "--remote-debugging-pipe"]
CANVAS = """<!doctype html><meta charset="utf-8"><canvas id="one" width="1500" height="900"></canvas><script>
const context = document.getElementById("one").getContext("2d");
context.fillStyle = "#36c";
context.fillRect(10, 10, 1400, 800);
</script>
"""


FINISHED = """document.readyState === "complete" &&
  (!document.getElementById("header") || "ready" in document.documentElement.dataset)"""


class Browser:
    """A Chromium with one page, by the DevTools protocol."""

    def __init__(self, profile):
        chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if not chromium:
            sys.exit("measure_opening: needs Chromium")
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        for end in (commands, answers):
            os.set_inheritable(end, True)
        # Chromium reads from descriptor 3 and writes to 4.
        shell = ["sh", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "sh"]
        self.process = subprocess.Popen([*shell, chromium, *FLAGS, f"--user-data-dir={profile}"], pass_fds=(commands, answers),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.rest, self.sent, self.session, self.frames = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def send(self, method, values):
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        return self.sent

    def next(self, timeout_s):
        """The next message, or None if none comes in that time."""
        while b"\0" not in self.rest:
            if not select.select([self.answers], [], [], timeout_s)[0]:
                return None
            got = os.read(self.answers, 1 << 20)
            if not got:
                sys.exit("measure_opening: Chromium has ended")
            self.rest += got
        one, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(one)
        if message.get("method") == "Page.screencastFrame":
            frame = message["params"]
            self.frames.append((frame["metadata"]["timestamp"], frame["data"]))
            self.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})
        return message

    def call(self, method, **values):
        asked = self.send(method, values)
        while True:
            message = self.next(60)
            if message is None:
                sys.exit(f"measure_opening: no answer to {method}")
            if message.get("id") == asked:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]

    def until_quiet(self, seconds):
        while self.next(seconds):
            pass

    def evaluate(self, code):
        return self.call("Runtime.evaluate", expression=code, returnByValue=True)["result"].get("value")

    def watch(self):
        """Receives frames of the screen from now on. No frames come for a moment while the browser leaves a page."""
        for _ in range(50):
            try:
                return self.call("Page.startScreencast", format="jpeg", quality=60, everyNthFrame=1)
            except RuntimeError:
                time.sleep(0.05)
        sys.exit("measure_opening: Chromium shows no frames")

    def open(self, path):
        """Opens a page. Returns the times from the navigation's start to the whole picture (`stands_ms`), to the first
        frame (`shown_ms`) and to the page's own mark (`first_ms`), and the number of `frames`."""
        self.call("Page.navigate", url="about:blank")
        self.until_quiet(0.3)
        self.watch()
        self.until_quiet(0.3)
        self.frames.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        for _ in range(60):
            self.until_quiet(QUIET_S)
            if self.frames and self.evaluate(FINISHED):
                break
        self.until_quiet(QUIET_S)
        self.call("Page.stopScreencast")
        origin = self.evaluate("performance.timeOrigin") / 1000
        error = self.evaluate("document.documentElement.dataset.ready === 'error'")
        frames = [(stamp - origin, data) for stamp, data in self.frames if stamp > origin]
        if error or not frames:
            sys.exit(f"measure_opening: {path} does not open")
        last = len(frames) - 1
        while last and frames[last - 1][1] == frames[-1][1]:
            last -= 1
        self.seen = frames
        return {"stands_ms": frames[last][0] * 1000, "shown_ms": frames[0][0] * 1000, "frames": last + 1,
                "first_ms": self.evaluate("window.memprof?.page.firstFrame")}

    def close(self):
        self.send("Browser.close", {})
        self.process.wait(20)
        os.close(self.commands)
        os.close(self.answers)


def keep(frames, folder, name):
    for i, (seconds, data) in enumerate(frames):
        (folder / f"{name}-{i}-{seconds * 1000:.0f}ms.jpg").write_bytes(base64.b64decode(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=pathlib.Path, metavar="FOLDER", help="keep what the last opening showed, as pictures")
    parser.add_argument("pages", nargs="+", type=pathlib.Path, metavar="PAGE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        canvas = pathlib.Path(folder) / "canvas.html"
        canvas.write_text(CANVAS)
        seen = {page: [] for page in [canvas, *options.pages]}
        for one in range(options.rounds):
            for page, openings in seen.items():
                browser = Browser(f"{folder}/profile-{one}-{len(openings)}-{page.stem}")
                browser.open(canvas)  # what a browser does for the first page of all is not the page's
                openings += [browser.open(page) for _ in range(OPENINGS)]
                if options.frames:
                    keep(browser.seen, options.frames, page.stem)
                browser.close()
    least = statistics.median(opening["stands_ms"] for opening in seen[canvas])
    for page in options.pages:
        each = [opening["stands_ms"] for opening in seen[page]]
        print(json.dumps({
            "page": str(page), "stands_ms": statistics.median(each), "each_ms": each, "canvas_ms": least,
            "canvas_each_ms": [opening["stands_ms"] for opening in seen[canvas]],
            "shown_ms": statistics.median(opening["shown_ms"] for opening in seen[page]),
            "first_ms": statistics.median(opening["first_ms"] or 0 for opening in seen[page])}), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Things that a page must do in every browser, in a real Firefox without a network. It is opened from disk and driven
by WebDriver BiDi, which Firefox speaks by itself."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted

try:
    import trio
    import trio_websocket
except ImportError:
    print("needs python3-trio-websocket")
    sys.exit(77)

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
if not FIREFOX:
    print("needs firefox-esr")
    sys.exit(77)

MAKE_PAGE = os.path.abspath("tests/viz/make_page")
LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
VIEWS = ("flame", "sites", "steps", "growth", "segments", "summary")


async def address_of(process, log):
    """Waits for the browser, and returns the address at which it listens."""
    with trio.fail_after(60):
        while not (found := LISTENING.search(log.read_text())):
            if process.poll() is not None:
                raise OSError(f"Firefox ended: {log.read_text()[-500:]}")
            await trio.sleep(0.05)
    return found[1]


@contextlib.asynccontextmanager
async def firefox_in(folder):
    log = folder / "firefox.log"
    environment = dict(os.environ, HOME=str(folder), MOZ_CRASHREPORTER_DISABLE="1")
    with open(log, "w") as out:
        process = subprocess.Popen(
            [FIREFOX, "--headless", "--no-remote", "--profile", folder / "profile", "--remote-debugging-port=0",
             "--width=1500", "--height=1200"], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)
    try:
        url = await address_of(process, log) + "/session"
        async with trio_websocket.open_websocket_url(url, message_queue_size=1000) as socket:
            firefox = Firefox(socket)
            await firefox.begin()
            yield firefox
    finally:
        process.kill()
        process.wait()


class Firefox:
    """One browser with one tab. Errors that pages log are kept in `problems`."""

    def __init__(self, socket):
        self.socket = socket
        self.problems = []
        self.next = 0

    async def begin(self):
        await self.ask("session.new", capabilities={})
        await self.ask("session.subscribe", events=["log.entryAdded"])
        tree = await self.ask("browsingContext.getTree")
        self.tab = tree["contexts"][0]["context"]

    async def ask(self, method, **parameters):
        self.next += 1
        await self.socket.send_message(json.dumps({"id": self.next, "method": method, "params": parameters}))
        with trio.fail_after(60):
            while True:
                answer = json.loads(await self.socket.get_message())
                if answer.get("method") == "log.entryAdded" and answer["params"]["level"] in ("error", "warn"):
                    # This error comes from a machine too busy for a frame.
                    if not answer["params"]["text"].startswith("ResizeObserver loop"):
                        self.problems.append(answer["params"]["text"])
                if answer.get("id") == self.next:
                    if answer["type"] != "success":
                        raise AssertionError(answer)
                    return answer["result"]

    async def js(self, code):
        """The value of an expression; it must be representable in JSON."""
        answer = await self.ask("script.evaluate", expression=f"(async () => JSON.stringify(await ({code})))()",
                                target={"context": self.tab}, awaitPromise=True)
        if answer["type"] != "success":
            raise AssertionError(answer["exceptionDetails"]["text"])
        return json.loads(answer["result"].get("value", "null"))

    async def navigate(self, url, ready):
        """Goes to a page, waits until the expression `ready` has a value there, and returns it. (Waiting for "complete"
        hangs now and then.)"""
        await self.ask("browsingContext.navigate", context=self.tab, url=url, wait="none")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if value := await self.js(ready):
                    return value
            except AssertionError:
                pass  # the page before went away under the question
            await trio.sleep(0.02)
        raise AssertionError(f"{url} is not ready")

    async def open(self, page, fragment=""):
        await self.navigate("about:blank", "location.href === 'about:blank'")
        ready = await self.navigate(page.as_uri() + fragment, "document.documentElement.dataset.ready ?? null")
        if ready != "true":
            raise AssertionError(await self.js("document.getElementById('error').textContent"))

    async def settle(self):
        await self.js("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => go(1))))")

    async def until(self, expression):
        """Waits until an expression is true, and returns its value."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if value := await self.js(expression):
                return value
            await trio.sleep(0.02)
        raise AssertionError(f"never true: {expression}")

    async def press(self, keys):
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        await self.ask("input.performActions", context=self.tab,
                       actions=[{"type": "key", "id": "keys", "actions": actions}])
        await self.settle()

    async def point(self, x, y, click=False):
        actions = [{"type": "pointerMove", "x": int(x), "y": int(y)}]
        if click:
            actions += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        await self.ask("input.performActions", context=self.tab,
                       actions=[{"type": "pointer", "id": "mouse", "actions": actions}])
        await self.settle()


class FirefoxTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        (self.folder / "profile").mkdir()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def page(self, what):
        page, truth = self.folder / f"{what}.html", self.folder / f"{what}.json"
        subprocess.run([MAKE_PAGE, what, page, truth], check=True, stdout=subprocess.DEVNULL)
        return page, json.loads(truth.read_text())

    def test_essentials(self):
        trio.run(self.essentials)

    async def essentials(self):
        page, truth = self.page("small")
        large, truth_of_large = self.page("2200000")
        async with firefox_in(self.folder) as firefox:
            await firefox.open(page)
            self.assertEqual(await firefox.js("window.memprof.page.track.peak.bytes"), truth["peaks"][0])
            await self.every_view_draws(firefox, page)
            await self.the_pointer_finds_the_block(firefox, page, truth)
            await self.keys_move_and_choose(firefox, page)
            await firefox.open(large)
            self.assertTrue(await firefox.js("window.memprof.recording.archive.inWorker"))
            self.assertEqual(await firefox.js("window.memprof.page.track.peak.bytes"), truth_of_large["peaks"][0])
            self.assertEqual(firefox.problems, [])
            await self.sizes_that_wait_are_no_failure(firefox, page)

    async def every_view_draws(self, firefox, page):
        for view in VIEWS:
            await firefox.open(page, f"#v={view}&x=events&all")
            shown = await firefox.js("""[...document.querySelectorAll('.view:not([hidden])')].map((one) =>
                [one.classList[1], one.textContent.length + one.querySelectorAll('canvas').length])""")
            self.assertEqual(len(shown), 1)
            if view != "segments":  # the made recording has none
                self.assertEqual(shown[0][0], view)
            self.assertGreater(shown[0][1], 100 if view != "segments" else 0)
            colours = await firefox.js("""(() => {
                const c = document.getElementById('picture'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height);
                return new Set(new Uint32Array(d.data.buffer)).size })()""")
            self.assertGreater(colours, 6)
        self.assertNotEqual(await firefox.js("document.title"), "broken")

    async def the_pointer_finds_the_block(self, firefox, page, truth):
        await firefox.open(page)
        for share in (0.2, 0.5, 0.8):
            x, y = await firefox.js(f"""(() => {{
                const t = window.memprof.page.timeline, b = document.getElementById('over').getBoundingClientRect();
                return [b.left + 74 + t.width * {share}, b.top + t.top + t.height * 0.9] }})()""")
            await firefox.point(x, y)
            panel = await firefox.js("document.getElementById('block').textContent")
            address = re.search(r"0x[0-9a-f]{9,12}", panel)[0]
            sizes = [f"{block['bytes']:,}".replace(",", "\u202f") + " B" for block in truth["blocks"]
                     if block["address"] == address]
            self.assertTrue(any(size in panel for size in sizes), (sizes, panel))
        await firefox.point(x, y, click=True)
        self.assertGreaterEqual(await firefox.js("window.memprof.store.state.pinned"), 0)

    async def keys_move_and_choose(self, firefox, page):
        await firefox.open(page)
        whole = await firefox.js("window.memprof.store.state.end - window.memprof.store.state.start")
        await firefox.press("ww")
        self.assertLess(await firefox.js("window.memprof.store.state.end - window.memprof.store.state.start"), whole)
        await firefox.press("f3")
        self.assertEqual(await firefox.js("window.memprof.store.state.view"), "steps")
        await firefox.press("?")
        self.assertTrue(await firefox.js("document.getElementById('help').open"))
        await firefox.press("\ue00c")  # Escape
        self.assertFalse(await firefox.js("document.getElementById('help').open"))
        await firefox.press("/made_3")
        await firefox.until("document.getElementById('search-said').textContent.includes('blocks')")

    async def sizes_that_wait_are_no_failure(self, firefox, page):
        """A box grows whenever its size was observed, which the browser reports as an error: the page ignores that, but
        still shows real errors."""
        await firefox.open(page)
        for failed, code in (("", """await new Promise((go) => {
                addEventListener("error", go, { once: true });
                const box = document.body.appendChild(document.createElement("div"));
                const look = new ResizeObserver(() => { box.style.height = box.clientHeight + 1 + "px" });
                look.observe(box);
                addEventListener("error", () => look.disconnect(), { once: true });
            })"""), ("cannot show its recording. made", 'setTimeout(() => { throw new Error("made") })')):
            await firefox.js(f"(async () => {{ {code} }})()")
            await firefox.settle()
            said = await firefox.js("document.getElementById('error').textContent")
            self.assertTrue(failed in said if failed else not said, said)
            self.assertEqual(bool(failed), await firefox.js("!document.getElementById('error').hidden"))


if __name__ == "__main__":
    asserted.main()

"""A Chromium without network access, for tests of the page. Exits with 77 if Chromium is missing."""

import pathlib
import shutil
import sys
import tempfile
import time
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    print("needs python3-selenium")
    sys.exit(77)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
if not CHROMIUM or not CHROMEDRIVER:
    print("needs chromium and chromedriver")
    sys.exit(77)

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND",
         "--window-size=1500,1200"]


class BrowserTest(unittest.TestCase):
    # A subclass has make_page(), which writes the page that open() opens.

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.page = cls.make_page()
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in FLAGS + [f"--user-data-dir={cls.folder / 'profile'}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        cls.driver = webdriver.Chrome(service=Service(CHROMEDRIVER), options=options)

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def tearDown(self):
        problems = [entry for entry in self.driver.get_log("browser")
                    if entry["level"] in ("SEVERE", "WARNING") and "favicon" not in entry["message"]]
        self.assertEqual(problems if self.quiet else [], [])

    def setUp(self):
        self.quiet = True

    def open(self, page=None, fragment="", ready="true"):
        self.driver.get("about:blank")
        self.driver.get((page or self.page).as_uri() + fragment)
        self.wait("return document.documentElement.dataset.ready === arguments[0]", ready)

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def wait(self, code, *arguments):
        deadline = time.monotonic() + 60
        while not self.js(code, *arguments):
            self.assertLess(time.monotonic(), deadline, code)
            time.sleep(0.02)

    def settle(self):
        """Waits until the page has drawn everything."""
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def press(self, keys):
        ActionChains(self.driver).send_keys(keys).perform()
        self.settle()

    def pointer(self, x, y, click=False):
        """Moves the mouse to a place of the viewport."""
        chain = ActionChains(self.driver, duration=0)
        chain.w3c_actions.pointer_action.move_to_location(int(x), int(y))
        if click:
            chain.w3c_actions.pointer_action.click()
        chain.perform()
        self.settle()

    def state(self):
        return self.js("const s = window.memprof.store.state; return { ...s }")

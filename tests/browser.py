"""Chromium for the tests of the page: one for all of them, without a network."""
import functools
import os
import subprocess
import sys
import time

from harness import ROOT

READY_MS = 120000


@functools.lru_cache(None)
def packages():
    folder = subprocess.run([os.path.join(ROOT, "tests", "page-env.sh")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    sys.path.append(folder)
    return folder


@functools.lru_cache(None)
def chromium():
    packages()
    from playwright.sync_api import sync_playwright
    driver = sync_playwright().start()
    browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
    import atexit
    atexit.register(lambda: (browser.close(), driver.stop()))
    return browser


class Page:
    """A page that is opened from disk. `errors`: of the page and its console, and requests for anything but the file."""

    def __init__(self, path, fragment="", **context):
        self.errors = []
        self.context = chromium().new_context(offline=True, viewport={"width": 1360, "height": 1000}, **context)
        self.page = self.context.new_page()
        address = "file://" + path
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("request", lambda r: self.errors.append(r.url) if not r.url.startswith((address, "data:")) else None)
        self.page.goto(address + fragment)
        self.page.wait_for_selector("body[data-ready]", timeout=READY_MS)

    def run(self, script, argument=None):
        return self.page.evaluate(script, argument)

    def facts(self):
        """The table of figures, by key."""
        return self.run('Object.fromEntries([...document.querySelectorAll("#facts [data-key]")].map((e) => [e.dataset.key, e.textContent]))')

    def wait(self, script, seconds=60):
        """Waits until the script is true. playwright's own wait needs eval(), which the page forbids."""
        until = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < until, script
            self.page.wait_for_timeout(20)

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def shot(self, path, **options):
        self.page.screenshot(path=path, **options)

    def close(self):
        self.context.close()

"""Memory limits for tests, checked by memprof. A plugin of pytest:

    memprof snapshot -o tests.mp -- python3 -m pytest -p pytest_memprof

    @pytest.mark.limit_memory("100 MB")       # the most that may be live in the test, beyond what lived before
    @pytest.mark.limit_leaks("1 MB")          # what may stay when the test and a collection of cycles are over
    @pytest.mark.limit_memory("2 GiB", track="cuda:0/torch")

Without `track`, the limit is for the track that reports show. Each test is a region of the recording, so `memprof steps
tests.mp` lists its memory. Without a recording, tests run and limits are not checked; if a test has a limit, a line at
the top says so.
"""

import gc
import re

import pytest

import libmemprof

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "k": 10**3, "m": 10**6, "g": 10**9,
          "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_MARKS = {"limit_memory": "limit_memory(size, track=None): the test may have at most this much memory live at once",
          "limit_leaks": "limit_leaks(size, track=None): the test may leave at most this much memory behind"}


def parse_size(size):
    """Bytes of 1048576, "100 MB" or "1.5GiB"."""
    if isinstance(size, (int, float)):
        return int(size)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", str(size))
    if not found or found[2].lower() not in _UNITS:
        raise ValueError(f"{size!r} is not a size such as '100 MB' or '1.5 GiB'")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def _text(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024


class _Limit:
    def __init__(self, name, size, track=None):
        self.name, self.size, self.track = name, parse_size(size), track

    def begin(self):
        libmemprof.reset_peak(self.track)
        stats = libmemprof.stats(self.track)
        self.before = stats.live_bytes if stats else 0

    def end(self):
        """The failure as a sentence; None: all is well."""
        stats = libmemprof.stats(self.track)
        if stats is None:
            return None  # nothing was allocated there
        took = (stats.peak_bytes if self.name == "limit_memory" else stats.live_bytes) - self.before
        if took <= self.size:
            return None
        what = "was live at once" if self.name == "limit_memory" else "stayed"
        where = f" on {self.track}" if self.track else ""
        return f"{_text(took)} {what}{where}, more than {_text(self.size)} ({self.name})"


def pytest_configure(config):
    for line in _MARKS.values():
        config.addinivalue_line("markers", line)


def pytest_report_collectionfinish(items):
    """Does nothing if no test has a limit: an installed plugin is in every run of pytest."""
    if not any(item.get_closest_marker(name) for item in items for name in _MARKS):
        return None
    if not libmemprof.active():
        return "memprof: nothing is recorded, limits of memory are not checked; run under memprof snapshot --"
    return "memprof: limits of memory are checked"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    limits = [_Limit(mark.name, *mark.args, **mark.kwargs) for name in _MARKS for mark in item.iter_markers(name)]
    recorded = libmemprof.active()
    if recorded and limits:
        gc.collect()
        for limit in limits:
            limit.begin()
    with libmemprof.region(item.nodeid):
        yield
    if recorded and limits:
        peaks = [limit.end() for limit in limits if limit.name == "limit_memory"]
        gc.collect()
        left = [limit.end() for limit in limits if limit.name == "limit_leaks"]
        item.memprof_problems = [problem for problem in peaks + left if problem]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    problems = getattr(item, "memprof_problems", [])
    if call.when == "call" and report.passed and problems:
        report.outcome = "failed"
        report.longrepr = "\n".join(problems + [f"`memprof steps` shows the test as region {item.nodeid}"])

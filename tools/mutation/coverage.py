"""Which lines each test reaches, and how long it takes: C by gcov, JavaScript by V8 in node, Python by calls
put in front of each statement. Lines of the page that only tests in a browser reach are not covered, although these
tests may notice a mutant there."""

import ast
import difflib
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

# The mark is a built-in, since functions of the libraries may run with other modules' globals.
HIT = """
import builtins as _mutate_builtins, os as _mutate_os
def _mutate_hit(path, line, seen=set()):
    if (path, line) not in seen and "MUTATE_HITS" in _mutate_os.environ:
        seen.add((path, line))
        try:
            file = _mutate_os.open(_mutate_os.environ["MUTATE_HITS"], _mutate_os.O_WRONLY | _mutate_os.O_APPEND | _mutate_os.O_CREAT)
            _mutate_os.write(file, (path + " %d\\n" % line).encode())
            _mutate_os.close(file)
        except OSError:
            pass
if not hasattr(_mutate_builtins, "_mutate_hit"):
    _mutate_builtins._mutate_hit = _mutate_hit
del _mutate_builtins, _mutate_hit
"""


class Marker(ast.NodeTransformer):
    """Puts a call in front of each statement."""

    def __init__(self, path):
        self.path = path

    def generic_visit(self, node):
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list) and not isinstance(node, (ast.ClassDef, ast.Module)):
                marked = []
                for statement in statements:
                    marked += ast.parse(f"_mutate_hit({self.path!r}, {statement.lineno})").body + [statement]
                setattr(node, name, marked)
        return node


def marked_python(path, text):
    tree = Marker(path).visit(ast.parse(text))
    first = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    while first < len(tree.body) and isinstance(tree.body[first], ast.ImportFrom) and tree.body[first].module == "__future__":
        first += 1
    tree.body[first:first] = ast.parse(HIT).body
    return ast.unparse(ast.fix_missing_locations(tree))


def hash_of(path):
    return hashlib.sha1(path.read_bytes()).hexdigest()


class Coverage:
    """{test: {"seconds", "used", "result", "hash", "lines": {file: [text, [line]]}}}. `text` is the hash of the file's
    text."""

    def __init__(self, copy):
        self.copy = copy
        self.path = copy.folder / "coverage.json.gz"
        self.tests, self.texts = {}, {}
        if self.path.exists():
            with gzip.open(self.path, "rt") as file:
                stored = json.load(file)
            self.tests, self.texts = stored["tests"], stored["texts"]

    def save(self):
        with gzip.open(self.path, "wt", compresslevel=1) as file:
            json.dump({"tests": self.tests, "texts": self.texts}, file)

    def test_hash(self, test):
        source = self.copy.tree / test
        return hash_of(source if source.exists() else source.with_name(source.name + ".c"))

    def refresh(self, wanted, say):
        """Runs the wanted tests that are new, or have changed since they were covered."""
        stale = [t for t in wanted if self.tests.get(t, {}).get("hash") != self.test_hash(t)]
        if not stale:
            return
        copy = self.copy
        copy.configure(copy.covered, "--enable-coverage", "CFLAGS=-g0 -O0")
        recorder = "-std=gnu11 -fPIC -fvisibility=hidden -ftls-model=initial-exec --coverage -O0"
        copy.make_all(copy.covered, f"libmemprof_so_CFLAGS={recorder}", f"libmemprof_hooks_so_CFLAGS={recorder}",
                      "STAND_IN_CFLAGS=-std=gnu11 -fPIC -fvisibility=hidden --coverage -O0")
        self.plain = {str(p.relative_to(copy.tree)): p.read_text() for p in (copy.tree / "python").rglob("*.py")}
        try:
            for name, text in self.plain.items():
                (copy.tree / name).write_text(marked_python(name, text))
            for done, test in enumerate(stale):
                self.cover(test)
                found = self.tests[test]
                say(f"coverage {done + 1}/{len(stale)}: {test}: {found['result']}, {found['seconds']:.1f} s")
                if done % 10 == 9:
                    self.save()
        finally:
            for name, text in self.plain.items():
                (copy.tree / name).write_text(text)
        self.save()

    def cover(self, test):
        copy, hits = self.copy, self.copy.folder / "hits"
        for path in copy.covered.rglob("*.gcda"):
            path.unlink()
        hits.unlink(missing_ok=True)
        v8 = copy.folder / "v8"
        shutil.rmtree(v8, ignore_errors=True)
        word, seconds, used = copy.run(copy.covered, test, 900, whole=True, MUTATE_HITS=str(hits), NODE_V8_COVERAGE=str(v8))
        lines = {}
        for path in v8.glob("*.json"):
            self.read_v8(json.loads(path.read_text())["result"], lines)
        self.read_gcov(lines)
        if hits.exists():
            for line in hits.read_text().splitlines():
                name, _, number = line.rpartition(" ")
                lines.setdefault(name, set()).add(int(number))
        self.tests[test] = {"seconds": seconds, "used": used, "result": word, "hash": self.test_hash(test),
                            "lines": {name: [self.keep(name), sorted(found)] for name, found in lines.items()}}

    def read_v8(self, scripts, lines):
        """Reads V8's coverage, in which an inner range comes after the ranges around it. A line counts if its first
        letter ran."""
        for script in scripts:
            path = pathlib.Path(script["url"].removeprefix("file://"))
            if not path.is_relative_to(self.copy.tree / "viz/src"):
                continue
            name, text = str(path.relative_to(self.copy.tree)), path.read_text()
            ran = bytearray(len(text))
            for found in (r for function in script["functions"] for r in function["ranges"]):
                first, last = found["startOffset"], min(found["endOffset"], len(text))
                ran[first:last] = bytes([found["count"] > 0]) * (last - first)
            at = 0
            for number, line in enumerate(text.splitlines(keepends=True), 1):
                first = at + len(line) - len(line.lstrip())
                if line.strip() and ran[first]:
                    lines.setdefault(name, set()).add(number)
                at += len(line)

    def keep(self, name):
        text = self.plain.get(name) or (self.copy.tree / name).read_text()
        key = hashlib.sha1(text.encode()).hexdigest()
        self.texts[key] = text
        return key

    def read_gcov(self, lines):
        copy = self.copy
        files = [str(p) for p in copy.covered.glob("src/**/*.gcda")]
        for first in range(0, len(files), 50):
            said = subprocess.run(["gcov", "--json-format", "--stdout", *files[first:first + 50]], cwd=copy.covered,
                                  capture_output=True, check=False).stdout
            for document in said.splitlines():
                if not document.startswith(b"{"):
                    continue
                for file in json.loads(document)["files"]:
                    path = pathlib.Path(os.path.normpath(copy.covered / file["file"]))
                    if not path.is_relative_to(copy.tree / "src"):
                        continue
                    reached = {line["line_number"] for line in file["lines"] if line["count"]}
                    if reached:
                        lines.setdefault(str(path.relative_to(copy.tree)), set()).update(reached)

    def reaching(self):
        """{file: {line: [test]}}, with the present line numbers."""
        moved, result = {}, {}
        for test, found in self.tests.items():
            if found["result"] == "skipped":
                continue
            for name, (text, lines) in found["lines"].items():
                if (name, text) not in moved:
                    moved[name, text] = self.moved(name, text)
                for line in lines:
                    new = moved[name, text].get(line)
                    if new:
                        result.setdefault(name, {}).setdefault(new, []).append(test)
        browsers = [test for test in self.tests if test.endswith("_in_chromium.py")]
        for name in (name for name in result if name.endswith(".js")):
            for found in result[name].values():
                found += browsers
        return result

    def moved(self, name, text):
        """{line number when covered: present line number} of unchanged lines."""
        path = self.copy.tree / name
        if not path.exists():
            return {}
        old, new = self.texts[text].splitlines(), path.read_text().splitlines()
        if old == new:
            return {i + 1: i + 1 for i in range(len(new))}
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        return {a + i + 1: b + i + 1 for a, b, size in blocks for i in range(size)}

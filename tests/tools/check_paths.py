#!/usr/bin/env python3
"""Every path of this tree that the documents name is there, and what their links lead to."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import asserted

TREE = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "examples/README.md", "viz/FORMAT.md",
             *sorted(str(path.relative_to(TREE)) for path in (TREE / "docs").rglob("*.md"))]
# A path begins at one of these folders; `tests/` in `build/tests/...` is none.
NAMED = re.compile(r"(?<![\w/.-])(?:(?:src|tests|tools|examples|python|include|viz|docs|m4|\.ci)/[\w*./-]*[\w*]"
                   r"|Makefile\.am|configure\.ac|[A-Z]+\.md)")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PLACEHOLDER = re.compile(r"NAME|FOLDER|FILE")


def is_there(path):
    """There, or built from a source that is."""
    return any(TREE.glob(path)) or (TREE / f"{path}.c").is_file()


def missing(text, folder=TREE):
    """Paths that TEXT names or links to, and that exist neither in the tree nor from the document's FOLDER."""
    text, links = LINK.sub("]", text), LINK.findall(text)
    return [path for path in NAMED.findall(text)
            if not PLACEHOLDER.search(path) and not is_there(path) and not (folder / path).exists()
            ] + [link for link in links if "://" not in link and not (folder / link).exists()]


def main():
    asserted.held(missing("see `src/base/no_such.c`, tools/nothing and `NONE.md`") == [
        "src/base/no_such.c", "tools/nothing", "NONE.md"])
    asserted.held(missing("[a](../LICENSE) [b](LICENSE#c) [d](https://e.f/g) [h](#i)", TREE / "docs") == ["LICENSE"])
    asserted.held(missing("`src/base/vec.h`, src/*/Makefile.inc, build/tests/what, src/NAME.c, tests/fuzz/fuzz_reader.")
                  == [])
    wrong = 0
    for name in DOCUMENTS:
        for path in missing((TREE / name).read_text(encoding="utf-8"), (TREE / name).parent):
            print(f"{name}: there is no {path}")
            wrong += 1
    sys.exit(1 if wrong else 0)


asserted.script(main)

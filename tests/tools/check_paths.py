#!/usr/bin/env python3
"""Every path and file of this tree that documents and comments name is there, and what links lead to."""

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
# A file by its name or by a folder within src: `recorder.c`, analysis/sites/site.h.
FILE = re.compile(r"(?<![\w./<-])(?:(\w+)/)?(?:[\w-]+/)*([a-z][\w-]*\.(?:c|h|js))\b")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
OF_OTHERS = re.compile(r"torch/csrc/.*|cu(da|pti)\w*\.h|generated_cuda_meta\.h|nv(ml|Tools)\w*\.h")


def is_there(path):
    """There, or built from a source that is."""
    return any(TREE.glob(path)) or (TREE / f"{path}.c").is_file()


def missing(text, folder=TREE):
    """Paths that TEXT names or links to, and that exist neither in the tree nor from the document's FOLDER."""
    text, links = LINK.sub("]", text), LINK.findall(text)
    return [path for path in NAMED.findall(text)
            if not PLACEHOLDER.search(path) and not is_there(path) and not (folder / path).exists()
            ] + [link for link in links if "://" not in link and not (folder / link).exists()]


def unknown_files(text, files):
    """Files that TEXT names without their whole path, and that are not among FILES."""
    folders = {part for path in files for part in path.split("/")[:-1]}
    return [found[0] for found in FILE.finditer(text)
            if (not found[1] or found[1] in folders) and not OF_OTHERS.fullmatch(found[0])
            and not PLACEHOLDER.search(found[0]) and not any(("/" + path).endswith("/" + found[0]) for path in files)]


def comments(path):
    return "\n".join(COMMENT.findall(path.read_text(encoding="utf-8")))


def main():
    files = [str(path.relative_to(TREE)) for folder in ("src", "viz", "tests", "include", "examples")
             for path in (TREE / folder).rglob("*") if path.suffix in (".c", ".h", ".js", ".in")]
    asserted.held(unknown_files("`recorder.c`, sites/site.h, sites/vec.h, no_such.c, ATen/no_such.h, <no_such.h>",
                                files) == ["sites/vec.h", "no_such.c"])
    asserted.held(comments(TREE / "src/base/search.h").startswith("/*"))
    asserted.held(missing("see `src/base/no_such.c`, tools/nothing and `NONE.md`") == [
        "src/base/no_such.c", "tools/nothing", "NONE.md"])
    asserted.held(missing("[a](../LICENSE) [b](LICENSE#c) [d](https://e.f/g) [h](#i)", TREE / "docs") == ["LICENSE"])
    asserted.held(missing("`src/base/vec.h`, src/*/Makefile.inc, build/tests/what, src/NAME.c, tests/fuzz/fuzz_reader.")
                  == [])
    wrong = [(name, path) for name in DOCUMENTS
             for path in missing((TREE / name).read_text(encoding="utf-8"), (TREE / name).parent)]
    wrong += [(name, path) for name in DOCUMENTS
              for path in unknown_files((TREE / name).read_text(encoding="utf-8"), files)]
    wrong += [(name, path) for name in files if name.startswith(("src/", "viz/src/"))
              for path in unknown_files(comments(TREE / name), files)]
    for name, path in wrong:
        print(f"{name}: there is no {path}")
    sys.exit(1 if wrong else 0)


asserted.script(main)

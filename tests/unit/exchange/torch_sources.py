"""Facts about snapshots from the Python sources of the PyTorch versions on this machine. They are read, never
imported."""
import ast
import glob
import importlib.util
import os
import pathlib
import re


def folders():
    """The folders of torch, each once: this Python's and the system's."""
    spec = importlib.util.find_spec("torch")
    found = [os.path.dirname(spec.origin)] if spec and spec.origin else []
    for place in ("/usr/lib/python3*/dist-packages", "/usr/local/lib/python3*/dist-packages"):
        found += sorted(glob.glob(f"{place}/torch"))
    return list(dict.fromkeys(os.path.realpath(folder) for folder in found))


def text_of(folder, name):
    path = pathlib.Path(folder, name)
    return path.read_text() if path.exists() else ""


def typed(classes):
    """{class: {field}} and the literals of TypedDicts."""
    fields, literals = {}, set()
    for node in classes:
        if isinstance(node, ast.ClassDef) and any("TypedDict" in ast.unparse(base) for base in node.bases):
            fields[node.name.lstrip("_")] = {line.target.id for line in node.body if isinstance(line, ast.AnnAssign)}
            for literal in ast.walk(node):
                if isinstance(literal, ast.Subscript) and ast.unparse(literal.value) == "Literal":
                    literals |= set(re.findall(r"['\"](\w+)['\"]", ast.unparse(literal.slice)))
    return fields, literals


def documented(folder):
    """({class: {field}}, {literal}) of the TypedDicts in torch/_utils.py and on the page of torch.cuda.memory._snapshot()."""
    fields, literals = typed(ast.parse(text_of(folder, "_utils.py")).body)
    page = re.search(r"^def _snapshot\(.*?\"\"\"(.*?)\"\"\"", text_of(folder, "cuda/memory.py"), re.S | re.M)
    lines = page[1].splitlines() if page else []
    begin = next((i for i, line in enumerate(lines) if re.match(r"\s+class \w+\(TypedDict\)", line)), None)
    if begin is None:
        return fields, literals
    depth = len(lines[begin]) - len(lines[begin].lstrip())
    code = []
    for line in lines[begin:]:
        if line.strip() and len(line) - len(line.lstrip()) < depth:
            break
        code.append(re.sub(r"""^(\s*)["'](\w+)["']\s*(#.*)?$""", r'\1"\2",', line[depth:]))  # "alloc" lacks its comma
    more, also = typed(ast.parse("\n".join(code)).body)
    for name, those in more.items():
        fields.setdefault(name, set()).update(those)
    return fields, literals | also


def subscripts(folder):
    """Keys that torch/cuda/_memory_viz.py, PyTorch's viewer in Python, asks for or makes."""
    keys = set()
    for node in ast.walk(ast.parse(text_of(folder, "cuda/_memory_viz.py"))):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            keys.add(node.slice.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            keys |= {one.value for one in node.args[:1] if isinstance(one, ast.Constant)}
        elif isinstance(node, ast.Dict):
            keys |= {key.value for key in node.keys if isinstance(key, ast.Constant)}
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In) and isinstance(node.left, ast.Constant):
            keys.add(node.left.value)
    return {key for key in keys if isinstance(key, str)}


def version_of(folder):
    found = re.search(r"__version__ = '(\d+)\.(\d+)", text_of(folder, "version.py"))
    return tuple(map(int, found.groups())) if found else (0, 0)


def viewer(folder):
    """torch/cuda/_memory_viz.py as a module, without importing torch."""
    spec = importlib.util.spec_from_file_location("memory_viz_" + "_".join(map(str, version_of(folder))),
                                                  os.path.join(folder, "cuda", "_memory_viz.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""Declarations of C headers, to compare ours with NVIDIA's: structs with their members, enumerators, functions with
their parameters. They are found in our preprocessed text, and asked of the compiler in both."""
import collections
import re
import subprocess

Headers = collections.namedtuple("Headers", "includes options")  # a header's name, options for the compiler


def preprocessed(compiler, headers):
    text = "".join(f"#include <{name}>\n" for name in headers.includes)
    return subprocess.run([*compiler, "-D_GNU_SOURCE", *headers.options, "-E", "-P", "-x", "c", "-"], input=text,
                          capture_output=True, text=True, check=True).stdout


def _members(body):
    """Names of the members at the top of a struct's body, those of unnamed unions inside left out."""
    flat, before = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", body), None
    while flat != before:
        before, flat = flat, re.sub(r"(struct|union)(\s+\w+)?\s*\{[^{}]*\}", "int", flat)
    for declaration in flat.split(";"):
        names = [re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*$", part.strip()) for part in declaration.split(",")]
        yield from (found.group(1) for found in names if found and declaration.strip() not in ("", "int"))


def _bodies(text):
    """(what stands before the brace, the body, what follows until the semicolon)"""
    for found in re.finditer(r"((?:typedef\s+)?struct(?:\s+\w+)?)\s*\{", text):
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield found.group(1), text[found.end():end - 1], text[end:text.index(";", end)].strip()


def structs(text):
    """{type: members} of all that have a name."""
    found = {}
    for before, body, after in _bodies(text):
        if before.startswith("typedef"):
            found[after] = list(_members(body))
        elif before != "struct" and not after:
            found[before] = list(_members(body))
    return found


def enumerators(text):
    return [part.split("=")[0].strip() for body in re.findall(r"\benum(?:\s+\w+)?\s*\{([^}]*)\}", text)
            for part in body.split(",") if part.strip()]


def _ask(compiler, headers, folder, questions):
    """{name: the values of its expressions, which the compiler knows}: nothing is linked or run."""
    source, made = folder / "ask.c", folder / "ask.s"
    lines = [f'__asm__("#ask {name}{" %c".join(["", *map(str, range(len(values)))])}" :: '
             + ", ".join(f'"i"({value})' for value in values) + ");" for name, values in questions.items()]
    source.write_text("#include <stddef.h>\n" + "".join(f"#include <{name}>\n" for name in headers.includes)
                      + "void ask(void);\nvoid ask(void)\n{\n" + "\n".join(lines) + "\n}\n")
    result = subprocess.run([*compiler, "-D_GNU_SOURCE", *headers.options, "-S", "-o", made, source], capture_output=True,
                            text=True)
    assert result.returncode == 0, result.stderr
    rows = [line.strip().split()[1:] for line in made.read_text().splitlines() if line.strip().startswith("#ask ")]
    assert len(rows) == len(questions)
    return {name: list(map(int, values)) for name, *values in rows}


def layout(compiler, headers, folder, types, names, called=None):
    """{"size:TYPE", "TYPE.member", "enumerator": number}; `called`: what a type is called there."""
    questions = {name: [name] for name in names}
    for type_name, members in types.items():
        there, key = (called or {}).get(type_name, type_name), type_name.replace(" ", "_")
        questions["size:" + key] = [f"sizeof({there})"]
        questions |= {f"{key}.{member}": [f"offsetof({there}, {member})"] for member in members}
    return {key: value for key, (value,) in _ask(compiler, headers, folder, questions).items()}


def functions(compiler, headers, folder, defined=False):
    """{name: (result, parameters)} as types, of what the headers declare; `defined`: of what they define."""
    source, told, found = folder / "declared.c", folder / "told", {}
    source.write_text("".join(f"#include <{name}>\n" for name in headers.includes))
    subprocess.run([*compiler, "-D_GNU_SOURCE", *headers.options, "-aux-info", told, "-S", "-o", "/dev/null", source],
                   check=True, capture_output=True)
    for line in told.read_text().splitlines():
        declared = re.match(r"/\* .*:\d+:\w([CF]) \*/ extern (.*?)(\w+) \((.*?)\);", line)
        if declared and (declared.group(1) == "F" or not defined):
            kind, result, name, parameters = declared.groups()
            parameters = "void" if parameters == "/* ??? */" else parameters  # declared with "()"
            found[name] = [result.strip(), *(_type(one, kind == "F") for one in _split(parameters))]
    return found


def _split(parameters):
    """At commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip() not in ("", "void")]


def _type(parameter, has_name):
    if "*" in parameter or "[" in parameter:
        return "void *"
    return parameter.rsplit(" ", 1)[0] if has_name else parameter


def passed(compiler, headers, folder, declared):
    """{name: how many bytes the result and each parameter have}."""
    return _ask(compiler, headers, folder, {
        name: [f"sizeof({'int' if one == 'void' else one})" for one in types] for name, types in declared.items()})

"""Finds the places where a source could be wrong in a small way: every such change of a file is an Edit with a kind of
bug.

C and JavaScript are read as tokens: the edits look alike in both, and C has macros. The caller drops edits that do not
compile. Python is read by its own parser.
"""

import ast
import collections
import re

# `line` counts from 1; `start` and `end` are offsets in the text.
Edit = collections.namedtuple("Edit", "kind line start end new")
Token = collections.namedtuple("Token", "kind text start end line")

OPERATORS = [">>>=", "===", "!==", "**=", "<<=", ">>=", ">>>", "...", "&&=", "||=", "??=", "=>", "==", "!=", "<=", ">=",
             "&&", "||", "??", "?.", "->", "++", "--", "<<", ">>", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "**"]
LEXER = re.compile(r"""
    (?P<space>\s+)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<number>(?:0[xX][0-9a-fA-F_]+|\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[uUlLnfF]*)
  | (?P<name>[A-Za-z_$][\w$]*)
  | (?P<operator>""" + "|".join(re.escape(o) for o in OPERATORS) + r"""|.)
""", re.X | re.S)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.M | re.S)
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
BEFORE_A_REGEX = set("(,=:[!&|?{};+-*%<>~^") | {"return", "=>", "&&", "||", "??", "===", "!==", "==", "!="}

SWAPS = {
    "boundary": {"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    "condition": {"==": "!=", "!=": "==", "===": "!==", "!==": "===", "&&": "||", "||": "&&"},
    "sign": {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++", "*": "/", "/": "*", "<<": ">>",
             ">>": "<<", "&": "|", "|": "&", "|=": "&=", "&=": "|=", "%": "/"},
}
# Kinds of tokens after which an operator is binary.
VALUES = {"name", "number", "string"}
NOT_VALUES = {"return", "case", "sizeof", "typeof", "in", "of", "else", "do", "await", "yield"}
NOT_CALLS = {"if", "for", "while", "switch", "return", "sizeof", "catch", "function", "_Static_assert", "assert"}


def template_end(text, at):
    """The end of a template literal whose opening backtick is at `at`."""
    at += 1
    while at < len(text) and text[at] != "`":
        if text[at] == "\\":
            at += 1
        elif text.startswith("${", at):
            depth, at = 1, at + 2
            while at < len(text) and depth:
                if text[at] == "`":
                    at = template_end(text, at) - 1
                depth += {"{": 1, "}": -1}.get(text[at], 0)
                at += 1
            continue
        at += 1
    return at + 1


REGEX = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*")


def tokens_of(text, javascript):
    """The tokens of a text, without space, comments and preprocessor lines."""
    skipped = {} if javascript else {m.start(): m.end() for m in PREPROCESSOR.finditer(text)}
    result, at, line = [], 0, 1
    while at < len(text):
        match = LEXER.match(text, at)
        kind, end = match.lastgroup, match.end()
        if at in skipped:
            kind, end = "comment", skipped[at]
        elif javascript and text[at] == "`":
            kind, end = "string", template_end(text, at)
        elif javascript and text[at] == "/" and kind == "operator" and (not result or result[-1].text in BEFORE_A_REGEX):
            regex = REGEX.match(text, at)
            if regex:
                kind, end = "string", regex.end()
        elif kind == "space" and not javascript:
            # a preprocessor line may be indented
            end = at + 1
        if kind not in ("space", "comment"):
            result.append(Token(kind, text[at:end], at, end, line))
        line += text.count("\n", at, end)
        at = end
    return result


def closers(tokens):
    """By index of a bracket: the index of its partner."""
    partner, open_ = {}, []
    for i, token in enumerate(tokens):
        if token.text in OPENING and token.kind == "operator":
            open_.append(i)
        elif token.text in CLOSING and token.kind == "operator" and open_:
            partner[i] = open_.pop()
            partner[partner[i]] = i
    return partner


class Source:
    """The tokens of a C or JavaScript file, and the brackets around each."""

    def __init__(self, text, javascript):
        self.text, self.javascript = text, javascript
        self.tokens = tokens_of(text, javascript)
        self.partner = closers(self.tokens)
        self.around, self.body = [], []
        open_ = []
        for i, token in enumerate(self.tokens):
            if i in self.partner and token.text in CLOSING:
                open_.pop()
            self.around.append(open_[-1] if open_ else None)
            # Only in C: a function's body is an outermost brace after a closing parenthesis.
            outermost = open_[0] if open_ and not javascript else None
            self.body.append(outermost if outermost is not None and self.at(outermost - 1).text == ")" else None)
            if i in self.partner and token.text in OPENING:
                open_.append(i)

    def at(self, i):
        return self.tokens[i] if 0 <= i < len(self.tokens) else Token("end", "", 0, 0, 0)

    def is_value(self, i):
        token = self.at(i)
        return token.text in (")", "]") or (token.kind in VALUES and token.text not in NOT_VALUES)

    def operand_end(self, i, stops):
        """The index after the operand that begins at i."""
        while i < len(self.tokens):
            if self.tokens[i].text in OPENING and i in self.partner:
                i = self.partner[i]
            elif self.tokens[i].text in stops or self.tokens[i].text in CLOSING:
                break
            i += 1
        return i

    def statement_starts(self):
        for i, token in enumerate(self.tokens):
            around, before = self.around[i], self.at(i - 1)
            if around is not None and self.tokens[around].text != "{":
                continue
            after_head = before.text == ")" and i - 1 in self.partner \
                and self.at(self.partner[i - 1] - 1).text in ("if", "for", "while")
            if (before.text in (";", "{", "}", "else", "do") or after_head) and token.text not in CLOSING:
                yield i


def swapped_operators(source):
    for i, token in enumerate(source.tokens):
        if token.kind != "operator":
            continue
        for kind, swaps in SWAPS.items():
            if token.text not in swaps:
                continue
            binary = source.is_value(i - 1) and token.text not in ("++", "--")
            counts = token.text in ("++", "--") and (source.is_value(i - 1) or source.is_value(i + 1))
            # After a type, a star or an ampersand is no binary operator.
            pointer = token.text in ("*", "&") and not source.javascript and source.at(i + 1).start == token.end
            if (binary and not pointer) or counts:
                yield Edit(kind, token.line, token.start, token.end, swaps[token.text])
        if token.text == "!" and source.at(i + 1).text != "!":
            yield Edit("condition", token.line, token.start, token.end, "")
        if token.text == "-" and not source.is_value(i - 1):
            yield Edit("sign", token.line, token.start, token.end, "")


def changed_constants(source):
    for i, token in enumerate(source.tokens):
        before = source.at(i - 1).text
        if token.kind == "number" and before != "case" and source.body[i] is not None or \
                token.kind == "number" and source.javascript:
            number = re.match(r"(0[xX][0-9a-fA-F]+|\d+)([uUlLn]*)$", token.text)
            if number:
                value = int(number[1], 0) if not re.match(r"0\d", number[1]) else int(number[1], 8)
                for new in {value + 1, abs(value - 1)} - {value}:
                    yield Edit("constant", token.line, token.start, token.end, str(new) + number[2])
        elif token.text in ("true", "false"):
            yield Edit("constant", token.line, token.start, token.end, "false" if token.text == "true" else "true")
        elif token.text == "?" and source.text[token.end:token.end + 1] != ".":
            colon = source.operand_end(i + 1, {":", ";", ","})
            if source.at(colon).text == ":":
                end = source.operand_end(colon + 1, {";", ",", ":", "?"})
                first = source.text[source.at(i + 1).start:source.at(colon - 1).end]
                last = source.text[source.at(colon + 1).start:source.at(end - 1).end]
                yield Edit("condition", token.line, source.at(i + 1).start, source.at(end - 1).end, f"{last} : {first}")


def dropped_operands(source):
    """Edits that forget one of several conditions."""
    for i, token in enumerate(source.tokens):
        if token.text in ("&&", "||") and token.kind == "operator":
            end = source.operand_end(i + 1, {"&&", "||", ";", ",", "?", ":", "="})
            yield Edit("dropped check", token.line, token.start, source.at(end - 1).end, "")


def checks(source):
    for i, token in enumerate(source.tokens):
        if token.text != "if" or source.at(i + 1).text != "(" or i + 1 not in source.partner:
            continue
        close = source.partner[i + 1]
        inner = source.text[source.at(i + 1).end:source.at(close).start]
        yield Edit("condition", token.line, source.at(i + 1).end, source.at(close).start, f"!({inner})")
        yield Edit("dropped check", token.line, source.at(i + 1).end, source.at(close).start, f"false && ({inner})")


def statements(source):
    nothing = ";"
    for i in source.statement_starts():
        token = source.at(i)
        end = source.operand_end(i, {";"})
        if end == i or source.at(end).text != ";":
            continue
        words = source.tokens[i:end]
        texts = [w.text for w in words]
        first, last = token.start, source.at(end).end
        if texts[0] in ("break", "continue") and len(texts) == 1:
            yield Edit("early return", token.line, first, last, "continue;" if texts[0] == "break" else "break;")
            continue
        if texts[0] == "return":
            if len(texts) > 1 and texts[1:] not in (["0"], ["NULL"], ["false"], ["null"], ["MP_OK"]):
                yield Edit("early return", token.line, first, last, "return null;" if source.javascript else "return 0;")
            continue
        if texts[0] in ("case", "default"):
            continue
        declares = any(a.kind == b.kind == "name" for a, b in zip(words, words[1:]))
        if declares or token.kind != "name" and token.text != "*":
            continue
        path = source.operand_end(i, {"=", "+=", "-=", "|=", "&=", "^=", "<<=", ">>=", "*=", "/=", "++", "--", ";"})
        if source.at(path).text not in (";",) and path < end:
            yield Edit("dropped assignment", token.line, first, last, nothing)
        elif texts[-1] == ")" and texts[0] not in NOT_CALLS and len(texts) > 2:
            yield Edit("dropped call", token.line, first, last, nothing)
        if source.body[i] is not None:
            returned = "return;" if is_void(source, source.body[i]) else "return 0;"
            yield Edit("early return", token.line, first, first, returned + " ")


def is_void(source, body):
    """True if the function of a body returns nothing."""
    name = source.partner.get(body - 1, 0) - 1
    return source.at(name - 1).text == "void"


def fields(source):
    """Edits that drop `.name = value,` of an initializer."""
    for i, token in enumerate(source.tokens):
        if token.text == "." and source.at(i - 1).text in ("{", ",") and source.at(i + 1).kind == "name" \
                and source.at(i + 2).text == "=":
            end = source.operand_end(i, {","})
            around = source.at(end).end if source.at(end).text == "," else source.at(end - 1).end
            yield Edit("dropped assignment", token.line, token.start, around, "")


def swapped_arguments(source):
    for i, token in enumerate(source.tokens):
        if token.text != "(" or i not in source.partner or source.at(i - 1).kind != "name":
            continue
        if source.at(i - 1).text in NOT_CALLS or source.at(i - 2).kind == "name" and source.at(i - 2).text not in NOT_VALUES \
                or source.at(i - 2).text == "*" or not source.javascript and source.body[i] is None:
            continue
        begins, at, close = [i + 1], i + 1, source.partner[i]
        while True:
            at = source.operand_end(at, {","})
            if at >= close:
                break
            at += 1
            begins.append(at)
        ends = [b - 2 for b in begins[1:]] + [close - 1]
        for left, right in zip(range(len(begins)), range(1, len(begins))):
            one = source.text[source.at(begins[left]).start:source.at(ends[left]).end]
            other = source.text[source.at(begins[right]).start:source.at(ends[right]).end]
            between = source.text[source.at(ends[left]).end:source.at(begins[right]).start]
            if one != other and '"' not in one + other:
                yield Edit("swapped arguments", source.at(begins[left]).line, source.at(begins[left]).start,
                           source.at(ends[right]).end, other + between + one)


def edits_of_tokens(text, javascript):
    source = Source(text, javascript)
    for maker in (swapped_operators, changed_constants, dropped_operands, checks, statements, fields, swapped_arguments):
        yield from maker(source)


COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
               ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
SIGNS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*", ast.Mod: "*", ast.LShift: ">>", ast.RShift: "<<",
         ast.BitAnd: "|", ast.BitOr: "&"}
NAMES = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
         ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.Add: "+", ast.Sub: "-", ast.Mult: "*",
         ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|"}


class PythonEdits(ast.NodeVisitor):
    def __init__(self, text):
        self.text, self.edits = text, []
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.lines = text.splitlines()
        self.visit(ast.parse(text))

    def offset(self, line, column):
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node):
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def source(self, node):
        start, end = self.span(node)
        return self.text[start:end]

    def add(self, kind, node, new, start=None, end=None):
        first, last = self.span(node)
        self.edits.append(Edit(kind, node.lineno, first if start is None else start, last if end is None else end, new))

    def between(self, kind, left, right, old, new):
        """Replaces the operator between two operands, each of which may be in parentheses."""
        at = self.text.find(old, self.span(left)[1], self.span(right)[0])
        if at >= 0:
            self.add(kind, left, new, at, at + len(old))

    def visit_Compare(self, node):
        left = node.left
        for operator, right in zip(node.ops, node.comparators):
            new = COMPARISONS[type(operator)]
            kind = "boundary" if new[0] in "<>" else "condition"
            self.between(kind, left, right, NAMES[type(operator)], new)
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        for value in node.values:
            self.add("dropped check", node, self.source(value))
        self.generic_visit(node)

    def visit_BinOp(self, node):
        if type(node.op) in SIGNS and not isinstance(node.left, ast.JoinedStr) \
                and not (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)):
            self.between("sign", node.left, node.right, NAMES[type(node.op)], SIGNS[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.Not):
            self.add("condition", node, self.source(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            self.add("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            self.add("constant", node, str(node.value + 1))
            self.add("constant", node, str(abs(node.value - 1)))

    def visit_JoinedStr(self, node):
        pass

    def visit_If(self, node):
        self.add("condition", node.test, f"not ({self.source(node.test)})")
        self.add("dropped check", node.test, f"False and ({self.source(node.test)})")
        self.generic_visit(node)

    def visit_IfExp(self, node):
        self.add("condition", node, f"{self.source(node.orelse)} if {self.source(node.test)} else {self.source(node.body)}")
        self.generic_visit(node)

    def visit_Return(self, node):
        if node.value and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.add("early return", node, "return None")
        self.generic_visit(node)

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call):
            self.add("dropped call", node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node):
        if any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets):
            self.add("dropped assignment", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        self.add("dropped assignment", node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node):
        self.add("dropped check", node, "pass")
        self.generic_visit(node)

    def visit_Continue(self, node):
        self.add("early return", node, "break")

    def visit_Break(self, node):
        self.add("early return", node, "continue")

    def visit_Call(self, node):
        for left, right in zip(node.args, node.args[1:]):
            if self.source(left) != self.source(right) and not isinstance(left, ast.Starred) \
                    and not isinstance(right, ast.Starred):
                between = self.text[self.span(left)[1]:self.span(right)[0]]
                self.add("swapped arguments", left, self.source(right) + between + self.source(left), None, self.span(right)[1])
        self.generic_visit(node)


def edits_of(path, text):
    """All edits of a file, each once."""
    if path.endswith(".py"):
        found = PythonEdits(text).edits
    else:
        found = edits_of_tokens(text, path.endswith(".js"))
    return sorted({e for e in found if text[e.start:e.end] != e.new})

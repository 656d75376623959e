"""Rules of style that older code breaks: what ratchet.py counts.

Each rule_* is a function from a tree to (path, line, complaint) for each place that breaks the
rule.  C and C++ are read without a compiler: comments, literals and directives are blanked, then
braces are followed.  .ci/README.md explains the rules and how to fix a complaint.
"""

import ast
import os
import re
from collections import defaultdict
from fnmatch import fnmatch

from tidy import C, CPP, Tree, write_tree

RETIRED = ".ci/retired_words.txt"
MAX_WIDTH = 100
MAX_FUNCTION_LINES = 70
MAX_PARAMETERS = 5
CODE = CPP + C + (".py", ".pl", ".pm", ".sh", ".sql", ".spec", ".def")
TEXT = CODE + (".md", ".toml", ".control")
GENERATED = {"docs/performance.md"}  # by bench/report


def is_script(path, text):
    return "." not in os.path.basename(path) and text.startswith("#!")


def files_of(tree, suffixes):
    for path, text in tree.text.items():
        if path not in GENERATED and (path.endswith(suffixes) or is_script(path, text)):
            yield path, text


def line_of(text, position):
    return text.count("\n", 0, position) + 1


# --- What a file consists of ---

C_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)
LINE_COMMENT = {".sql": r"--[^\n]*"}
HASH_COMMENT = r'(?:^|(?<=\s))#(?!!)[^\n]*|"""(?:.*?)"""'


def comments(path, text):
    """Yields (position, comment) for each comment of a source file."""
    if path.endswith(CPP + C + (".def",)):
        for token in C_TOKEN.finditer(text):
            if token[0][0] == "/":
                yield token.start(), token[0]
    else:
        pattern = LINE_COMMENT.get(os.path.splitext(path)[1], HASH_COMMENT)
        for comment in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
            yield comment.start(), comment[0]


def bare_code(text):
    """C or C++ without comments, literals and directives; lines stay where they are."""
    def blank(token):
        return ('""' if token[0][0] in "R\"'" else " ") + "\n" * token[0].count("\n")

    text = C_TOKEN.sub(blank, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda directive: "\n" * directive[0].count("\n"), text, flags=re.MULTILINE)


NESTED = re.compile(r"\([^()]*\)|<[^<>]*>|\[[^][]*\]|\{[^{}]*\}")
OPERATOR = re.compile(r"\boperator\s*(?:\(\)|(?:new|delete)\[\]|[^\s\w(),]+)")
NO_FUNCTION = {"alignas", "decltype", "noexcept", "requires", "__attribute__"}


def without_nested(text):
    while (shorter := NESTED.sub("", text)) != text:
        text = shorter
    return text


def parameters(head):
    """(number of parameters, what follows them) of a function's head; None: it is none."""
    head = OPERATOR.sub("operator", head)
    depth = start = 0
    for bracket in re.finditer(r"[()=]", head):
        at = bracket.start()
        if bracket[0] == "=":
            if depth == 0:
                return None
        elif bracket[0] == "(":
            if depth == 0:
                start = at
            depth += 1
        else:
            depth -= 1
            name = re.search(r"(\w+)\s*$", head[:start])
            if depth == 0 and name and name[1] not in NO_FUNCTION:
                inside = without_nested(head[start + 1:at]).strip()
                count = 0 if inside in ("", "void") else inside.count(",") + 1
                return count, head[at + 1:]
    return None


def c_functions(text):
    """Yields (first line, last line, number of parameters) of each function of C or C++."""
    code = bare_code(text)
    head = parens = depth = 0  # where the statement begins; open parentheses; open braces of a body
    first = count = None       # of the function whose body is open; None: of an initializer
    for token in re.finditer(r"[(){};]", code):
        at = token.start()
        if token[0] in "()":
            parens += 1 if token[0] == "(" else -1
        elif parens:
            continue
        elif depth:
            depth += (token[0] == "{") - (token[0] == "}")
            if depth == 0 and token[0] == "}" and first is not None:
                yield first, line_of(code, at), count
                head = at + 1
        elif token[0] == "{":
            before = re.sub(r"^(?:\s|\w+\s*:(?!:))+", "", code[head:at])
            found = parameters(before)
            in_list = (found and found[1].lstrip().startswith(":")
                       and before.rstrip()[-1] not in ")}")  # A(int b) : b_{
            if found and not in_list:
                depth, count, first = 1, found[0], line_of(code, at - len(before))
            elif in_list or re.search(r"=\s*$", before):
                depth, first = 1, None
            else:
                head = at + 1
        else:
            head = at + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            names = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            yield node.lineno, node.end_lineno, sum(a.arg not in ("self", "cls") for a in names)


def perl_functions(text):
    for sub in re.finditer(r"^([ \t]*)sub \w+.*?^\1\}", text, re.DOTALL | re.MULTILINE):
        taken = re.search(r"my\s*\(([^)]*)\)\s*=\s*@_", sub[0])
        count = taken[1].count(",") + 1 if taken else len(re.findall(r"\bshift;", sub[0]))
        first = line_of(text, sub.start())
        yield first, first + sub[0].count("\n"), count


def functions(tree):
    for path, text in files_of(tree, CPP + C + (".py", ".pl", ".pm")):
        if path.endswith(CPP + C):
            found = c_functions(text)
        elif path.endswith((".pl", ".pm")):
            found = perl_functions(text)
        elif path.endswith(".py") or "python" in text.split("\n")[0]:
            found = python_functions(text)
        else:
            continue
        for function in found:
            yield path, *function


# --- Rules: each yields (path, line, complaint) ---

def rule_width(tree):
    """no line is wider than 100 columns, but in tables and generated files"""
    for path, text in files_of(tree, TEXT + ("Makefile",)):
        for number, line in enumerate(text.split("\n"), 1):
            width = len(line.expandtabs(4))
            if width > MAX_WIDTH and not (path.endswith(".md") and line.startswith(("|", "!"))):
                yield path, number, f"{width} columns"


def rule_function_length(tree):
    """no function has more than 70 lines"""
    for path, first, last, _ in functions(tree):
        if last - first + 1 > MAX_FUNCTION_LINES:
            yield path, first, f"a function of {last - first + 1} lines"


def rule_parameters(tree):
    """no function has more than 5 parameters"""
    for path, first, _, count in functions(tree):
        if count > MAX_PARAMETERS:
            yield path, first, f"a function of {count} parameters"


def rule_heads(tree):
    """each source file begins with a comment that says what it is for"""
    for path, text in files_of(tree, CODE):
        text = re.sub(r"\A(?:#!.*|#pragma once|\s+)*", "", text)
        if not re.match(r'//|/\*|#\s|--|"""', text):
            yield path, 1, "does not begin with a comment"


def words_of(text):
    """A text in small letters, names taken apart: TearGuard and tear_guard are tear guard."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ").replace("-", " ").lower()


def retired(tree):
    """The retired words, and what to say instead."""
    for line in tree.text.get(RETIRED, "").split("\n"):
        if line and not line.startswith("#"):
            old, new = line.split(" = ")
            yield words_of(old), new


def rule_retired_words(tree):
    """no retired word is used (.ci/retired_words.txt)"""
    instead = dict(retired(tree))
    if not instead:
        return
    gap = r"(?:[ /*#]|\n)+"
    pattern = re.compile(
        r"\b(?:" + "|".join(re.escape(old).replace("\\ ", gap) for old in instead) + r")(?=s?\b)")
    for path, text in files_of(tree, TEXT + ("Makefile",)):
        if path == "CHANGELOG.md" or path.startswith("docs/decisions/"):
            continue
        for line, place in ((1, words_of(path)), (None, words_of(text))):
            for use in pattern.finditer(place):
                word = " ".join(re.findall(r"[^\s/*#]+", use[0]))
                yield path, line or line_of(place, use.start()), f'"{word}": say {instead[word]}'


ACTOR = re.compile(r"\b(?:who|whose|whom|whoever|nobody|somebody|everybody|anybody|we)\b", re.I)


def rule_actors(tree):
    """comments and READMEs of code name the actor: no who, whose, nobody, somebody, we"""
    for path, text in files_of(tree, CODE):
        for position, comment in comments(path, text):
            for word in ACTOR.finditer(comment):
                yield path, line_of(text, position + word.start()), f'"{word[0]}" names no actor'
    for path, text in tree.files(("engine", "src", "accel", "leap"), ("README.md",)):
        for word in ACTOR.finditer(text):
            yield path, line_of(text, word.start()), f'"{word[0]}" names no actor'


QUOTED = re.compile(r"`([\w./,{}*-]+)`|\]\(([\w./-]+)\)")
FILE_NAME = re.compile(r"[a-z0-9_./-]+\.(?:cpp|hpp|[ch]|py|p[lm]|sh|sql|spec|def|md|toml)")


def names_in(text):
    """Yields (line, name) of what is in backquotes or linked; `a.{cpp,hpp}` are two names."""
    for number, line in enumerate(text.split("\n"), 1):
        for quoted, linked in QUOTED.findall(line):
            before, _, rest = (quoted or linked).partition("{")
            choices, _, after = rest.partition("}")
            for choice in choices.split(","):
                yield number, before + choice + after


def endings(path):
    """A path, and what is left of it without its first folders."""
    return {path[at:] for at in [0] + [slash.end() for slash in re.finditer("/", path)]}


def rule_readmes(tree):
    """a folder's README.md names each of the folder's files, and none that is not there"""
    folders = defaultdict(set)
    for path in tree.text:
        folders[os.path.dirname(path)].add(path)
    there = set().union(*map(endings, tree.text))
    for folder, files in folders.items():
        readme = os.path.join(folder, "README.md")
        if readme not in files:
            continue
        names = list(names_in(tree.text[readme]))
        told = {name for _, name in names}
        for path in sorted(files - {readme}):
            name = os.path.basename(path)
            by_pattern = any("*" in other and fnmatch(name, other) for other in told)
            if not (name[0] == "." or by_pattern or told & (endings(path) | {name.split(".")[0]})):
                yield readme, 1, f"does not name {name}"
        for number, name in names:
            if FILE_NAME.fullmatch(name) and re.sub(r"^(?:\.\./)+", "", name) not in there:
                yield readme, number, f"there is no {name}"


# LOG-1 at the beginning of a line of a comment, or of a README's list, is told there.
INVARIANT = re.compile(r"^(?:(?://\s+([A-Z]+-\d+)  |\s*\*\s+([A-Z]+-\d+): )(?=\S)|"
                       r"- ([A-Z]+-\d+) (?=[A-Z`]))", re.M)
UNNAMED_INVARIANT = re.compile(r"^//\s+[A-Z]\d{1,2}  (?=\S)", re.M)
CHECKED = re.compile(r"\bLS_(?:CHECK|ASSERT)\(|\bAssert\(")


def rule_invariants(tree):
    """an invariant has its area's prefix, is told once, and is named by a check or a test"""
    told = {}
    cited = set()
    names = re.compile(r"\b[A-Z]+-\d+\b")
    for path, text in tree.files(("engine", "src", "leap"), CODE + ("README.md",)):
        for match in UNNAMED_INVARIANT.finditer(text):
            yield path, line_of(text, match.start()), "an invariant without its area's prefix"
        for match in INVARIANT.finditer(text):
            name = match[1] or match[2] or match[3]
            if name in told:
                yield path, line_of(text, match.start()), f"{name} is told elsewhere, too"
            else:
                told[name] = (path, line_of(text, match.start()))
        for line in text.split("\n"):
            if CHECKED.search(line):
                cited.update(names.findall(line))
    for _, text in tree.files(("test",), CODE + ("README.md",)):
        cited.update(names.findall(text))
    for name, (path, line) in told.items():
        if name not in cited:
            yield path, line, f"no check and no test names {name}"


RULES = {name[len("rule_"):]: value for name, value in list(globals().items())
         if name.startswith("rule_")}

LONG_BODY = "\n" * MAX_FUNCTION_LINES
SIX = "int a, std::map<int, int> b, int (*c)(int, int), int d, int e = f(1, 2), int g"
FIVE = SIX.replace("int a, ", "")

# rule, number of faults, files with so many
CANARIES = [
    ("width", 1, {"engine/a.cpp": "a" * 101 + "\n" + "b" * 100}),
    ("width", 1, {"src/ls_a.c": "\t" * 25 + "a\n" + "\t" * 25}),
    ("width", 1, {"docs/a.md": "a" * 101 + "\n| " + "b" * 101}),
    ("function_length", 1, {"src/ls_a.c": f"static int\nls_a(void)\n{{{LONG_BODY}}}\n"}),
    ("function_length", 0, {"src/ls_a.c": f"static int\nls_a(void)\n{{{LONG_BODY[3:]}}}\n"}),
    ("function_length", 0, {"src/ls_a.c": f"static int a[] = {{{LONG_BODY}}};\n"}),
    ("function_length", 0, {"engine/a.cpp": f"namespace ls {{\nclass A {{{LONG_BODY}}};\n}}\n"}),
    ("function_length", 1, {"engine/a.cpp": f"A::A(int a) : b_(a), c_{{a}} {{{LONG_BODY}}}\n"}),
    ("function_length", 0, {"engine/a.cpp": f"A a(f([] {{\n  if (b) {{{LONG_BODY}}}\n}}));\n"}),
    ("function_length", 1, {
        "engine/a.hpp": f"class A {{\n public:\n  int operator==(A) const {{{LONG_BODY}}}\n}};\n"}),
    ("function_length", 1, {"engine/a.cpp": f"void f() {{\n  g([&] {{{LONG_BODY}}});\n}}\n"
                                            "void h() { char c = '{'; } // {\n"}),
    ("function_length", 1, {"bench/run.py": f"def f():\n    return [{LONG_BODY}]\n"}),
    ("function_length", 1, {"test/tap/A.pm": f"sub a\n{{{LONG_BODY}}}\n"}),
    ("parameters", 1, {"engine/a.cpp": f"namespace ls {{\nvoid f({SIX}) {{}}\n}}\n"}),
    ("parameters", 0, {"engine/a.cpp": f"void f({FIVE}) {{}}\n"}),
    ("parameters", 1, {"engine/a.hpp": f"struct A {{\n  void operator()({SIX}) {{}}\n}};\n"}),
    ("parameters", 1, {"engine/a.hpp": f"struct alignas(8) A {{\n  int f({SIX}) const {{}}\n}};"}),
    ("parameters", 0, {"src/ls_a.c": f"static A a[] = {{\n\t{{B({SIX}), {{1}}}}\n}};\n"}),
    ("parameters", 1, {"bench/run.py": "def f(self, a, b, c, d, e): 0\n"
                                       "def g(a, b, c, d, e, *, f): 0\n"}),
    ("parameters", 1, {"test/tap/A.pm": "sub a\n{\n\tmy ($b, $c, $d, $e, $f, %g) = @_;\n}\n"}),
    ("heads", 1, {"engine/a.cpp": '#include "a.hpp"\n', "engine/a.hpp": "#pragma once\n// A.\n"}),
    ("heads", 1, {"bench/run": "#!/usr/bin/python3\nimport os\n", "test/run": "#!/bin/sh\n# A.\n"}),
    ("retired_words", 4, {
        RETIRED: "# a remark\ntear guard = doublewrite buffer\nb c = d\n",
        "engine/a.hpp": "// A tear\n//  guard, LS_TEAR_GUARD, TearGuards, tear_guard_a\n"
                        "// start guard, tear guarded\n",
        "docs/decisions/0001-a.md": "tear guard\n"}),
    ("retired_words", 1, {RETIRED: "tear guard = doublewrite buffer\n", "test/tear_guard.hpp": ""}),
    ("actors", 2, {"engine/a.cpp": '// Who?\nauto a = "// who";\nint who;  /* we\n * do */\n'}),
    ("actors", 1, {"src/a/README.md": "whose\n", "docs/a.md": "for those who read\n"}),
    ("actors", 2, {"sql/a.sql": "-- nobody\nSELECT 'who';\n", "test/a.pl": "$#who; # somebody\n"}),
    ("invariants", 2, {"engine/a.hpp": "// A.\n// LOG-1  a\n//   LOG-2  b\n", "engine/b.cpp":
                       "// LOG-1  c\nLS_CHECK(d, e);   // LOG-2\n", "test/a.cpp": "// f\n"}),
    ("invariants", 1, {"engine/a.hpp": "// R1  a\n", "test/a.cpp": "// R1\n"}),
    ("readmes", 2, {"src/a/README.md": "`b.{c,h}`, [d](d.c), `../e/f.h`, `g_*.c`, `h`, `a/i.c`",
                    "src/e/f.h": "", **{f"src/a/{name}": "" for name in
                                        "b.c b.h c.c g_1.c h.c i.c".split()}}),
]


def run_canary(name, faults, files):
    with write_tree(files) as root:
        return len(list(RULES[name](Tree(root)))) == faults

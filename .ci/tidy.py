#!/usr/bin/env python3
"""Checks the rules of style that a machine can check.

Each rule is a function that yields its complaints.  Prints one "ok" or
"not ok" line for each rule and each self-test.  .ci/README.md explains the
rules and how to fix a complaint.
"""

import contextlib
import json
import os
import re
import sys
import tempfile

MAX_LINES = 1200
HEAD_LINES = 60
CPP = (".cpp", ".hpp")
C = (".c", ".h")
SCRIPT = (".py", ".pl", ".pm", ".sh", ".sql", ".spec", ".def", ".md", ".control")
SKIP = {".git", "build", "__pycache__"}
# Written so that this file does not complain about itself.
TO_DO, FIX_ME = "TO" + "DO", "FIX" + "ME"


class Tree:
    """The text files of a tree, read once."""

    def __init__(self, root):
        self.root = root
        self.text = {}
        for path, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if f not in SKIP)
            for name in sorted(set(names) - SKIP):
                full = os.path.join(path, name)
                if os.path.islink(full):
                    continue
                with open(full, "rb") as file:
                    data = file.read()
                if b"\0" not in data:
                    relative = os.path.relpath(full, root)
                    self.text[relative] = data.decode("utf-8", "replace")

    def files(self, folders, suffixes):
        for path, text in self.text.items():
            if path.split(os.sep)[0] in folders and path.endswith(suffixes):
                yield path, text

    def names(self, folder, suffix):
        """Base names, without suffix, of the files directly in a folder."""
        prefix = folder + os.sep
        return {path[len(prefix):-len(suffix)] for path in self.text
                if path.startswith(prefix) and path.endswith(suffix)
                and os.sep not in path[len(prefix):]}


def lines_matching(text, pattern):
    for number, line in enumerate(text.split("\n"), 1):
        if pattern.search(line):
            yield number


def rule_cpp_whitespace(tree):
    """C++ files have no tabs, no CRLF, no space at line ends"""
    for path, text in tree.files(("engine", "test"), CPP + (".h",)):
        for number in lines_matching(text, re.compile(r"[\t\r]|[ ]$")):
            yield f"{path}:{number}: tab, carriage return or space at the end"


def rule_c_whitespace(tree):
    """C files in src/, accel/ and leap/ are indented by tabs, have no CRLF, no space at line ends"""
    for path, text in tree.files(("src", "accel", "leap"), C):
        for number in lines_matching(text, re.compile(r"^    |\r|[ \t]$")):
            yield f"{path}:{number}: indented by spaces, carriage return or space at the end"


def rule_file_length(tree):
    """no source file is longer than 1200 lines unless its head says it is one thing"""
    for path, text in tree.files(("engine", "src", "accel", "leap", "test", "bench"),
                                 CPP + C + (".pm", ".pl")):
        lines = text.split("\n")
        head = " ".join("\n".join(lines[:HEAD_LINES]).split()).lower()
        if len(lines) > MAX_LINES and "one thing" not in head:
            yield f"{path}: {len(lines)} lines, and its head does not say why it is one thing"


def rule_open_ends(tree):
    """every to-do names its issue, nothing asks to be fixed"""
    for path, text in tree.text.items():
        if not path.endswith(CPP + C + SCRIPT):
            continue
        for number in lines_matching(text, re.compile(rf"\b{TO_DO}\b(?!\(#\d+\))")):
            yield f"{path}:{number}: {TO_DO} without an issue number, as in {TO_DO}(#12)"
        for number in lines_matching(text, re.compile(rf"\b{FIX_ME}\b")):
            yield f"{path}:{number}: {FIX_ME}"


def rule_host_paths(tree):
    """no file names a directory of one machine"""
    pattern = re.compile(r"(?<![\w.$)}\]/*-])/(work|root|home)/\w")
    for path, text in tree.text.items():
        for number in lines_matching(text, pattern):
            yield f"{path}:{number}: path of a certain machine"


def expected_mismatches(tests, outputs, test_dir, output_dir):
    for name in sorted(tests - outputs):
        yield f"{test_dir}/{name}: no {output_dir}/{name}.out"
    for name in sorted(outputs - tests):
        yield f"{output_dir}/{name}.out: belongs to no test (alternative outputs are not used)"


def rule_regress_outputs(tree):
    """every regression test has exactly one expected output, and the reverse"""
    tests = {name for name in tree.names("sql", ".sql") if "--" not in name}
    yield from expected_mismatches(tests, tree.names("expected", ".out"), "sql", "expected")


def rule_isolation_outputs(tree):
    """every isolation test has exactly one expected output, and the reverse"""
    yield from expected_mismatches(
        tree.names("test/isolation/specs", ".spec"), tree.names("test/isolation/expected", ".out"),
        "test/isolation/specs", "test/isolation/expected")


SETTING = re.compile(r'"(leanstore(?:_accel)?\.\w+)"')
WAIT_EVENT = re.compile(r'WaitEventExtensionNew\("(\w+)"\)')
VIEW = re.compile(r"CREATE VIEW (\w+) AS\s+SELECT (.*?)\bFROM ", re.DOTALL)


def rule_settings_page(tree):
    """docs/settings.md has a row for each setting that the code defines, and for no other"""
    defined = set()
    for _, text in tree.files(("src", "accel"), C):
        for call in re.finditer(r"DefineCustom\w+Variable\((.*?)\);", text, re.DOTALL):
            defined |= set(SETTING.findall(call.group(1))[:1])
    page = tree.text.get("docs/settings.md", "")
    told = set(re.findall(r"^\| `(leanstore(?:_accel)?\.\w+)` \|", page, re.MULTILINE))
    for name in sorted(defined ^ told):
        where = "docs/settings.md has no row for it" if name in defined else "no such setting"
        yield f"{name}: {where}"


def view_columns(selected):
    """The names of a SELECT list's columns."""
    depth, column, columns = 0, "", []
    for letter in selected + ",":
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            columns.append(re.findall(r"\w+", column)[-1])
            column = ""
        else:
            column += letter
    return columns


def rule_monitoring_page(tree):
    """docs/monitoring.md names each view of the extension with its columns, and each wait event"""
    page = tree.text.get("docs/monitoring.md", "")
    for path, text in tree.files(("sql", "accel"), (".sql",)):
        for view, selected in VIEW.findall(text) if "--" in path else ():
            for name in [view] + view_columns(selected):
                if f"`{name}`" not in page:
                    yield f"{view}: {name} is not in docs/monitoring.md"
    for path, text in tree.files(("src", "accel"), C):
        for name in WAIT_EVENT.findall(text):
            if f"`{name}`" not in page:
                yield f"{path}: wait event {name} is not in docs/monitoring.md"


PUBLIC_FUNCTION = re.compile(r"CREATE FUNCTION (\w+)\((?!internal\))")
DEFINED_SETTING = re.compile(
    r'DefineCustom\w+Variable\("([\w.]+)"(?:(?!PGC_).)*?(PGC_\w+)', re.DOTALL)


def rule_security_page(tree):
    """docs/security.md names each function, view and setting that sessions can change"""
    page = tree.text.get("docs/security.md", "")
    for path, text in tree.files(("sql", "accel"), (".sql",)):
        if "--" not in path:
            continue
        views = re.findall(r"CREATE VIEW (\w+)", text)
        # a function that is called as its view is told of there
        functions = [f"{name}()" for name in PUBLIC_FUNCTION.findall(text) if name not in views]
        for name in views + functions:
            if f"`{name}`" not in page:
                yield f"{path}: {name} is not in docs/security.md"
    for path, text in tree.files(("src", "accel"), C):
        for name, context in DEFINED_SETTING.findall(text):
            if context in ("PGC_USERSET", "PGC_SUSET") and f"`{name}`" not in page:
                yield f"{path}: {name} is not in docs/security.md"


LEAP_SETTING = re.compile(r'DefineCustom\w+Variable\("(leap\.\w+)"')
LEAP_FUNCTION = re.compile(r'^CREATE (?:FUNCTION|VIEW) "?(\w+)', re.MULTILINE)


def rule_leap_page(tree):
    """leap/README.md names each setting, function, view, column and wait event of leanstore_leap"""
    page = tree.text.get("leap/README.md", "")
    for path, text in tree.files(("leap",), (".sql",) + C):
        names = WAIT_EVENT.findall(text) + LEAP_SETTING.findall(text)
        if path.endswith(".sql"):
            names += [f"leap.{name}" for name in LEAP_FUNCTION.findall(text)]
            for _, selected in VIEW.findall(text):
                names += view_columns(selected)
        for name in names:
            if not re.search(rf"`{re.escape(name)}[`(]", page):
                yield f"{path}: {name} is not in leap/README.md"


def rule_readme(tree):
    """README.md has at most 130 lines"""
    if tree.text.get("README.md", "").count("\n") > 130:
        yield "README.md has more than 130 lines"


SEMANTIC_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")
META_TEXTS = ("name", "version", "abstract", "license", "maintainer")


def versions_from(tree, name, script):
    """those of an extension to which its script, and the scripts for updates, lead"""
    versions = set(re.findall(rf"{name}--([^-/]+)\.sql$", script))
    updates = re.findall(rf"/{name}--([^-/]+)--([^-/]+)\.sql$", "\n".join(tree.text), re.MULTILINE)
    for _ in updates:
        versions |= {new for old, new in updates if old in versions}
    return versions


def rule_meta(tree):
    """META.json is what PGXN's specification 1.0.0 asks for, and agrees with the control files"""
    try:
        meta = json.loads(tree.text.get("META.json", "{}"))
    except ValueError as error:
        yield f"META.json: {error}"
        return
    for path, text in tree.text.items():
        if not path.endswith(".control"):
            continue
        name = os.path.basename(path).removesuffix(".control")
        version = re.search(r"^default_version = '(.*)'$", text, re.MULTILINE)[1]
        provided = meta.get("provides", {}).get(name, {})
        if provided.get("version") != version + ".0" * (2 - version.count(".")):
            yield f"META.json: {name} has another version than {path}, {version}, or none"
        script = provided.get("file", "")
        if version not in versions_from(tree, name, script):
            yield f"META.json: no scripts lead from {script} to {version}, which {path} names"
    if not meta:
        return
    for key in META_TEXTS:
        if not isinstance(meta.get(key), str) or not meta[key].strip():
            yield f"META.json: no {key}"
    if re.search(r"[\s/\\]", meta.get("name", "")) or len(meta.get("name", "")) < 2:
        yield "META.json: the name is no term"
    if meta.get("meta-spec", {}).get("version") != "1.0.0":
        yield "META.json: not of version 1.0.0 of the specification"
    versions = [meta.get("version", "")]
    for provided in meta.get("provides", {}).values():
        versions.append(provided.get("version", ""))
        for key in {"file", "docfile"} & set(provided):
            if provided[key] not in tree.text:
                yield f"META.json: {provided[key]} is not in the tree"
    for needed in meta.get("prereqs", {}).values():
        versions += [version for names in needed.values() for version in names.values()]
    for version in versions:
        if not SEMANTIC_VERSION.fullmatch(version):
            yield f"META.json: {version} is no semantic version"


LOCK_TYPE = r"(?:FutexMutex(?:<[\w:]+>)?|std::mutex|HybridLatch|LWLock|slock_t|BiasedLatch<.*>)"
LOCK = re.compile(
    r"^(\s+)(?:mutable |alignas\(\w+\) )*"
    rf"(?:std::atomic<u32>\s+(mutex|\w+_mutex)\b|{LOCK_TYPE}\s+(\w+)(?:\[\w+\])?;)")
STRUCT = re.compile(r"^(\s*)(?:typedef )?(?:struct|class)(?: alignas\(\w+\))? (\w+)[^;]*$")


def locks(text):
    """Struct::name of each mutex and latch that is a member; what encloses it is indented less."""
    structs = []
    for line in text.split("\n"):
        if found := STRUCT.match(line):
            structs.append((len(found.group(1)), found.group(2)))
        elif found := LOCK.match(line):
            around = [name for indent, name in structs if indent < len(found.group(1))]
            yield f"{around[-1] if around else ''}::{found.group(2) or found.group(3)}"


def rule_locks_page(tree):
    """docs/concurrency.md names each mutex and latch of the engine and of src/"""
    page = tree.text.get("docs/concurrency.md", "")
    for path, text in tree.files(("engine", "src", "accel", "leap"), CPP + C):
        for name in locks(text):
            if f"`{name}`" not in page:
                yield f"{path}: {name} is not in docs/concurrency.md"


WAYS = "docs/images/ways.py"


def rule_ways(tree):
    """docs/architecture.md and its pictures name functions and files that exist"""
    sources = dict(tree.files(("engine", "src", "accel", "leap"), CPP + C))
    files = {os.path.basename(path) for path in sources}
    words = {word for text in sources.values() for word in re.findall(r"\w+", text)}
    page = "docs/architecture.md"
    told = [(page, name) for name in
            re.findall(r"`((?:\w|::)+\(\)|[\w/.]+\.(?:c|h|cpp|hpp))`", tree.text.get(page, ""))]
    way = {"WAYS": {}}
    exec(compile(tree.text.get(WAYS, ""), WAYS, "exec"), way)
    for name, (title, lanes, steps) in way["WAYS"].items():
        if tree.text.get(f"docs/images/{name}.svg") != way["draw"](title, lanes, steps):
            yield f"docs/images/{name}.svg: not what {WAYS} draws; run it"
        ours = [step for step in steps if lanes[step[0]] != "PostgreSQL"]
        told += [(WAYS, name) for step in ours for name in step[1:3]]
    for where, name in told:
        is_file = name.endswith(CPP + C)
        last = os.path.basename(name) if is_file else name.split("::")[-1].removesuffix("()")
        if last not in (files if is_file else words):
            yield f"{where}: {name} is not in the tree"


DECISION = re.compile(r"docs/decisions/(\d{4})-[a-z0-9-]+\.md")
DECISION_HEADS = ["Context", "Decision", "Consequences", "Measured"]


def rule_decisions(tree):
    """each decision has its number, and heads Context, Decision, Consequences, Measured"""
    for path, text in tree.text.items():
        if not path.startswith("docs/decisions/"):
            continue
        name = DECISION.fullmatch(path)
        if not name:
            yield f"{path}: not named NNNN-name.md"
        elif not text.startswith(f"# {name.group(1)}: "):
            yield f"{path}: its first line is not '# {name.group(1)}: ' and a title"
        if re.findall(r"^## (.*)$", text, re.MULTILINE) != DECISION_HEADS:
            yield f"{path}: its '## ' heads are not {', '.join(DECISION_HEADS)}, in this order"
        if re.search(r"^## .*\n+(?:## |\Z)", text, re.MULTILINE):
            yield f"{path}: a head without text; say in a line what was not measured"


def rule_hooks(tree):
    """hooks are installed by src/server/ls_hooks.c alone"""
    for path, text in tree.files(("src",), (".c",)):
        if path == "src/server/ls_hooks.c":
            continue
        for number in lines_matching(text, re.compile(r"\b\w+_hook = ")):
            yield f"{path}:{number}: installs a hook"


FAILPOINTS = "engine/base/failpoints.def"
FAILPOINT_PLACE = re.compile(r"\bLS_FAILPOINT\((\w+)\)")
NO_CODE = re.compile(r"//.*|^#.*", re.MULTILINE)


def rule_failpoints(tree):
    """each failpoint is listed in failpoints.def, has one place in engine/ and a test"""
    listed = re.findall(r"^LS_FAILPOINT_ENTRY\((\w+),", tree.text.get(FAILPOINTS, ""), re.MULTILINE)
    places, named = [], set()
    for path, text in tree.files(("engine", "src", "accel", "test", "bench"), CPP + C):
        found = FAILPOINT_PLACE.findall(NO_CODE.sub("", text))
        places += found if path.startswith("engine" + os.sep) else []
        for name in found:
            if name not in listed:
                yield f"{path}: failpoint {name} is not in {FAILPOINTS}"
        if path.startswith("test" + os.sep):
            named |= set(re.findall(r"\bFailpoint::(\w+)", text))
    for name in sorted(set(listed)):
        if listed.count(name) != 1:
            yield f"{FAILPOINTS}: {name} is listed {listed.count(name)} times"
        if places.count(name) != 1:
            yield f"{FAILPOINTS}: {name} has {places.count(name)} places in engine/, not one"
        if name not in named:
            yield f"{FAILPOINTS}: {name} is named by no test"


RULES = [value for name, value in list(globals().items()) if name.startswith("rule_")]

SOUND_DECISION = "# 0001: a\n" + "".join(f"\n## {head}\n\nb\n" for head in DECISION_HEADS)

SOUND_FAILPOINT = {
    FAILPOINTS: 'LS_FAILPOINT_ENTRY(a_b, "worker", "c")\n',
    "engine/base/a.hpp": "// LS_FAILPOINT(b)\n#define LS_FAILPOINT(name) f(name)\n",
    "engine/base/a.cpp": "void f() {\n  LS_FAILPOINT(a_b);\n}\n",
    "test/unit/a_test.cpp": "OnceAt point(Failpoint::a_b, [] {});\n",
}

SOUND_META = {
    "a.control": "comment = 'b'\ndefault_version = '1.0'\n",
    "sql/a--1.0.sql": "-- b\n",
    "META.json": """{"name": "a_m", "version": "1.0.0", "abstract": "b", "license": "c",
        "maintainer": "d", "provides": {"a": {"file": "sql/a--1.0.sql", "version": "1.0.0"}},
        "meta-spec": {"version": "1.0.0"}}""",
}

SOUND_WAY = """\
WAYS = {"a": ("A", ("PostgreSQL", "engine/"), [(0, "p()", "p.c", "b"), (1, "f()", "a.cpp", "b")])}
def draw(*way):
    return "new"
"""

# rule, files with one fault: the rule must complain exactly once.
CANARIES = [
    (rule_cpp_whitespace, {"engine/base/a.hpp": "int a;\n\tint b;\n"}),
    (rule_c_whitespace, {"src/ls_a.c": "int a;\r\n"}),
    (rule_c_whitespace, {"src/ls_a.c": "    int a;\n"}),
    (rule_file_length, {"engine/base/a.cpp": "// A file.\n" + "\n" * MAX_LINES}),
    (rule_open_ends, {"src/ls_a.c": f"/* {TO_DO}: more */\n/* {TO_DO}(#7): fine */\n"}),
    (rule_open_ends, {"sql/a_b.sql": f"-- {FIX_ME}\n"}),
    (rule_host_paths, {"README.md": "see /" + "root/notes and build/" + "work/x\n"}),
    (rule_regress_outputs, {"sql/a_b.sql": "", "sql/leanstore_am--1.0.sql": ""}),
    (rule_regress_outputs, {"sql/a_b.sql": "", "expected/a_b.out": "", "expected/a_b_1.out": ""}),
    (rule_settings_page, {
        "src/ls_a.c": 'DefineCustomIntVariable("leanstore.a",\n"b", &x);\n'}),
    (rule_settings_page, {
        "accel/ls_a.c": 'DefineCustomBoolVariable("leanstore_accel.a",\n"b", &x);\n'}),
    (rule_settings_page, {"docs/settings.md": "| `leanstore.gone` | 1 | start | it |\n"}),
    (rule_monitoring_page, {
        "sql/a--1.sql": "CREATE VIEW a AS\n  SELECT b, round(c, d) AS e FROM f();\n",
        "docs/monitoring.md": "`a`: `b`\n"}),
    (rule_monitoring_page, {"src/ls_a.c": 'WaitEventExtensionNew("LeanstoreA");\n'}),
    (rule_security_page, {"sql/a--1.sql": "CREATE FUNCTION a(int)\nCREATE FUNCTION h(internal)\n"}),
    (rule_security_page, {"sql/a--1.sql": "CREATE VIEW a AS\n", "docs/security.md": "`a()`\n"}),
    (rule_security_page, {"src/ls_a.c": 'DefineCustomIntVariable("l.a", PGC_POSTMASTER, NULL);\n'
                                        'DefineCustomIntVariable("l.b", PGC_USERSET, NULL);\n'}),
    (rule_leap_page, {"leap/a--1.sql": "CREATE FUNCTION a(int)\nCREATE FUNCTION b()\n",
                      "leap/README.md": "`leap.a(table)`\n"}),
    (rule_leap_page, {"leap/a.c": 'WaitEventExtensionNew("LeapA");\n'}),
    (rule_leap_page, {"leap/a.c": 'DefineCustomIntVariable("leap.a",\n'}),
    (rule_readme, {"README.md": "\n" * 131}),
    (rule_hooks, {"src/row/ls_a.c": "void\nf(void)\n{\n\tplanner_hook = g;\n}\n",
                  "src/server/ls_hooks.c": "\tfmgr_hook = g;\n"}),
    (rule_locks_page, {"engine/base/a.hpp": "struct A {\n  int b;\n  FutexMutex mutex;\n};\n"}),
    (rule_locks_page, {
        "engine/base/a.hpp": "class alignas(kLine) A {\n  std::atomic<u32> a_mutex{0};   // b\n"
                             "  std::mutex named[kMany];\n",
        "docs/concurrency.md": "`A::named`\n"}),
    (rule_locks_page, {
        "engine/base/a.hpp": "struct A {\n  struct B {\n    int b;\n  };\n  HybridLatch latch;\n",
        "docs/concurrency.md": "`B::latch`\n"}),
    (rule_locks_page, {"src/ls_a.c": "typedef struct A\n{\n\tslock_t\t\tmutex;\n} A;\n"}),
    (rule_ways, {"engine/a.cpp": "f\n", "docs/architecture.md": "`f()`, `a.cpp`, `A::g()`\n"}),
    (rule_ways, {"engine/a.cpp": "f\n", "docs/architecture.md": "`f()` in `base/b.cpp`\n"}),
    (rule_ways, {"engine/a.cpp": "f\n", "docs/images/a.svg": "old", WAYS: SOUND_WAY}),
    (rule_ways, {"engine/b.cpp": "f\n", "docs/images/a.svg": "new", WAYS: SOUND_WAY}),
    (rule_decisions, {"docs/decisions/0001-a.md": SOUND_DECISION.replace("## Measured\n", "")}),
    (rule_decisions, {"docs/decisions/0001-a.md": SOUND_DECISION + "\n## More\n\nc\n"}),
    (rule_decisions, {"docs/decisions/0001-a.md": SOUND_DECISION.removesuffix("b\n")}),
    (rule_decisions, {"docs/decisions/0002-a.md": SOUND_DECISION}),
    (rule_decisions, {"docs/decisions/a.md": SOUND_DECISION}),
    (rule_meta, {**SOUND_META, "a.control": "default_version = '1.1'\n",
                 "META.json": SOUND_META["META.json"].replace("a--1.0", "a--1.1"),
                 "sql/a--1.1.sql": "-- b\n"}),
    (rule_meta, {**SOUND_META, "META.json": SOUND_META["META.json"].replace('"license"', '"l"')}),
    (rule_meta, {**SOUND_META, "META.json": SOUND_META["META.json"] + "}"}),
    (rule_meta, {path: text for path, text in SOUND_META.items() if not path.startswith("sql")}),
    (rule_isolation_outputs, {"test/isolation/specs/race_a.spec": ""}),
    (rule_failpoints, {**SOUND_FAILPOINT, "engine/base/a.cpp": "void f() {}\n"}),
    (rule_failpoints, {**SOUND_FAILPOINT, "engine/base/b.cpp": "  LS_FAILPOINT(a_b);\n"}),
    (rule_failpoints, {**SOUND_FAILPOINT, "engine/base/b.cpp": "  LS_FAILPOINT(a_c);\n"}),
    (rule_failpoints, {**SOUND_FAILPOINT, "src/row/ls_a.c": "\tLS_FAILPOINT(a_c);\n"}),
    (rule_failpoints, {**SOUND_FAILPOINT, "test/unit/a_test.cpp": "Failpoint::a_bc\n"}),
    (rule_failpoints, {**SOUND_FAILPOINT, FAILPOINTS: SOUND_FAILPOINT[FAILPOINTS] * 2}),
]


@contextlib.contextmanager
def write_tree(files):
    """A scratch folder with these files."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8", newline="") as file:
                file.write(text)
        yield root


def run_canary(rule, files):
    with write_tree(files) as root:
        return len(list(rule(Tree(root)))) == 1


def main():
    good = True
    for rule, files in CANARIES:
        passed = run_canary(rule, files)
        good = good and passed
        print(f"{'ok' if passed else 'not ok'} - self-test: {rule.__name__} finds a fault in "
              f"{', '.join(files)}")
    tree = Tree(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for rule in RULES:
        complaints = list(rule(tree))
        good = good and not complaints
        print(f"{'not ok' if complaints else 'ok'} - {rule.__doc__}")
        for complaint in complaints:
            print("# " + complaint)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks that every #include points the way the layout says.

L1: an engine folder includes only itself and folders to its left in LAYERS;
    version and vlog do not include each other.
L2: the engine includes no PostgreSQL header, and no quoted header that is not
    in the tree.
L3: src/ includes from the engine only its C API (leanstore/), and nothing from accel/.
L4: accel/ includes from src/ only ls_module.h, and nothing from the engine.
L5: a file of src/ lies in a folder of FLOORS, and includes of others only the public
    header of a folder on a lower floor.
L6: a header of src/ declares only what its own folder defines, and a C file declares
    nothing: what a file calls is below it, then, as well as what it includes.
L7: leap/ includes nothing of the rest, and the rest nothing of leap/.

Prints one "ok" or "not ok" line for each folder and each self-test.
"""

import os
import re
import sys
import tempfile

LAYERS = ("base os sync range wal buffer btree version vlog txn index "
          "recovery store capi").split()
STRANGERS = {("version", "vlog"), ("vlog", "version")}
C_API = ("leanstore/engine.h", "leanstore/standby.h", "leanstore/values.h")
MODULE = os.path.join("src", "server", "ls_module.h")
# Folders of src/, from the ground up; those on one floor do not include each other.
FLOORS = ["key pg session", "relation", "txn", "row", "index", "planner table", "ddl inspect",
          "server"]
FLOOR_OF = {folder: floor for floor, folders in enumerate(FLOORS) for folder in folders.split()}
SOURCE = (".h", ".hpp", ".c", ".cpp", ".def")

# Names by which a PostgreSQL header can be reached.
POSTGRES = re.compile(
    r"^(postgres(_fe|_ext)?|c|fmgr|miscadmin|pg_config\w*|libpq-fe|pgstat|funcapi)\.h$"
    r"|^(server|postgresql|access|catalog|commands|common|executor|lib|libpq|mb|nodes"
    r"|optimizer|parser|partitioning|port|portability|postmaster|replication|rewrite"
    r"|statistics|storage|tcop|tsearch|utils)/")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def includes(path):
    """Yields (line number, is quoted, name) for each #include of a file."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE.match(line)
            if match:
                yield number, match[1] == '"', match[2]


def sources(root, folder):
    for path, _, names in os.walk(os.path.join(root, folder)):
        for name in sorted(names):
            if name.endswith(SOURCE):
                yield os.path.relpath(os.path.join(path, name), root)


def resolve(root, path, name):
    """The tree's file that a quoted include means, relative to root."""
    for base in (os.path.dirname(path), "engine", "engine/include", "src", "accel", "leap"):
        candidate = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def check_engine_file(root, path):
    parts = path.split(os.sep)
    folder = parts[1] if len(parts) > 2 else None
    if folder != "include" and folder not in LAYERS:
        yield f"{path}: is in no known layer folder of engine/"
        return
    for line, quoted, name in includes(os.path.join(root, path)):
        where = f"{path}:{line}"
        target = resolve(root, path, name)
        if target is None:
            if quoted:
                yield f'{where}: "{name}" is not in the tree (L2)'
            elif POSTGRES.search(name):
                yield f"{where}: <{name}> is a PostgreSQL header (L2)"
            continue
        if not target.startswith("engine" + os.sep):
            yield f'{where}: "{name}" lies outside the engine (L2)'
            continue
        other = target.split(os.sep)[1]
        if other == "include" or other == folder:
            continue
        if folder == "include":
            yield f'{where}: the public header includes "{name}" (L1)'
        elif other not in LAYERS or LAYERS.index(other) > LAYERS.index(folder):
            yield f'{where}: {folder} includes "{name}", which lies above it (L1)'
        elif (folder, other) in STRANGERS:
            yield f"{where}: {folder} and {other} do not include each other (L1)"


def check_src_file(root, path):
    for line, _, name in includes(os.path.join(root, path)):
        if name in C_API:
            continue
        target = resolve(root, path, name)
        if target is not None and target.startswith(("accel" + os.sep, "leap" + os.sep)):
            yield f'{path}:{line}: src includes "{name}" of another module (L3)'
        in_engine = target is not None and target.startswith("engine" + os.sep)
        if in_engine and not target.startswith(os.path.join("engine", "include")):
            # A PostgreSQL header may share a name with an engine file; ours
            # cannot be reached, as the engine is not on the include path.
            if not POSTGRES.search(name):
                yield f'{path}:{line}: src includes "{name}" of the engine (L3)'
        elif in_engine or name.endswith(".hpp"):
            yield f'{path}:{line}: src includes "{name}"; allowed is {C_API} (L3)'


def public_header(folder):
    """What other folders may include of one of src/."""
    return MODULE if folder == "server" else os.path.join("src", folder, f"ls_{folder}.h")


def check_floors(root, path):
    folder = path.split(os.sep)[1]
    if folder not in FLOOR_OF:
        yield f"{path}: is in no known folder of src/ (L5)"
        return
    for line, _, name in includes(os.path.join(root, path)):
        target = resolve(root, path, name)
        if target is None or not target.startswith("src" + os.sep):
            continue
        other = target.split(os.sep)[1]
        if other == folder:
            continue
        if FLOOR_OF.get(other, len(FLOORS)) >= FLOOR_OF[folder]:
            yield f'{path}:{line}: {folder} includes "{name}", which is not below it (L5)'
        elif target != public_header(other):
            yield f'{path}:{line}: "{name}" is for {other} alone; take {public_header(other)} (L5)'


COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DECLARED = re.compile(r"^(?:PGDLLEXPORT |pg_noreturn )*extern\b[^;(]*?\b(\w+)\s*[(;\[]",
                      re.MULTILINE)
DEFINED = r"^{0}\(|^(?!extern\b)\w[^\n()=]*\b{0}\b(?:\[\w*\])?(?: =|;)"


def check_declarations(root, folder):
    """What the files of a folder of src/ declare, and others define."""
    text = {}
    for path in sources(root, os.path.join("src", folder)):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text[path] = COMMENT.sub("", file.read())
    code = "\n".join(t for path, t in text.items() if path.endswith(".c"))
    for path, t in text.items():
        for name in DECLARED.findall(t):
            if path.endswith(".c"):
                yield f"{path}: declares {name}, which is for a header (L6)"
            elif not re.search(DEFINED.format(name), code, re.MULTILINE):
                yield f"{path}: declares {name}, which no file beside it defines (L6)"


def check_accel_file(root, path):
    for line, quoted, name in includes(os.path.join(root, path)):
        target = resolve(root, path, name)
        if target is None or not quoted and POSTGRES.search(name):
            continue
        if target != MODULE and not target.startswith("accel" + os.sep):
            yield f'{path}:{line}: accel includes "{name}"; of the rest only {MODULE} is allowed (L4)'


def check_leap_file(root, path):
    for line, quoted, name in includes(os.path.join(root, path)):
        target = resolve(root, path, name)
        if target is None or not quoted and POSTGRES.search(name):
            continue
        if not target.startswith("leap" + os.sep):
            yield f'{path}:{line}: leap includes "{name}" of the rest (L7)'


def check(root):
    """Returns a list of (folder, errors)."""
    result = []
    folders = []
    if os.path.isdir(os.path.join(root, "engine")):
        folders = sorted(os.listdir(os.path.join(root, "engine")))
    loose = [name for name in folders if name.endswith(SOURCE)]
    if loose:
        result.append(("engine", [f"engine/{name}: belongs into a folder" for name in loose]))
    for folder in folders:
        paths = list(sources(root, os.path.join("engine", folder)))
        if paths:
            errors = [e for path in paths for e in check_engine_file(root, path)]
            result.append(("engine/" + folder, errors))
    folders = []
    if os.path.isdir(os.path.join(root, "src")):
        folders = sorted(os.listdir(os.path.join(root, "src")))
    loose = [name for name in folders if name.endswith(SOURCE)]
    if loose:
        result.append(("src", [f"src/{name}: belongs into a folder (L5)" for name in loose]))
    for folder in folders:
        paths = list(sources(root, os.path.join("src", folder)))
        if paths:
            errors = [e for path in paths for rule in (check_src_file, check_floors)
                      for e in rule(root, path)]
            result.append(("src/" + folder, errors + list(check_declarations(root, folder))))
    paths = list(sources(root, "accel"))
    if paths:
        result.append(("accel", [e for path in paths for e in check_accel_file(root, path)]))
    paths = list(sources(root, "leap"))
    if paths:
        result.append(("leap", [e for path in paths for e in check_leap_file(root, path)]))
    return result


# Trees with one fault each; the check must find it.  None: no fault.
CANARIES = [
    ("a correct tree passes", None, {
        "engine/base/types.hpp": "#include <atomic>\n",
        "engine/btree/node.hpp": '#include "base/types.hpp"\n#include "node_search.hpp"\n',
        "engine/btree/node_search.hpp": "",
        "engine/include/leanstore/engine.h": "#include <stdint.h>\n",
        "src/session/ls_session.h": '#include "leanstore/engine.h"\n'
                                    'extern ls_worker *ls_reader(void);\nextern bool ls_on;\n',
        "src/session/ls_session.c": '#include "postgres.h"\n#include "ls_session.h"\n'
                                    'bool\t\tls_on = false;\n\n'
                                    'ls_worker *\nls_reader(void)\n{\n}\n',
        "src/row/ls_row.h": '#include "session/ls_session.h"\n',
        "src/row/ls_row_internal.h": '#include "ls_row.h"\n',
        "src/row/ls_row.c": '#include "postgres.h"\n#include "ls_row_internal.h"\n',
        "src/server/ls_module.h": '#include "optimizer/planner.h"\n',
        "accel/ls_plan.h": '#include "postgres.h"\n#include "server/ls_module.h"\n',
        "accel/ls_plan.c": '#include "ls_plan.h"\n',
    }),
    ("an include upwards is found", "L1", {
        "engine/base/types.hpp": '#include "btree/node.hpp"\n',
        "engine/btree/node.hpp": "",
    }),
    ("version and vlog are kept apart", "L1", {
        "engine/vlog/segment.hpp": '#include "version/snapshot.hpp"\n',
        "engine/version/snapshot.hpp": "",
    }),
    ("a PostgreSQL header in the engine is found", "L2", {
        "engine/base/types.hpp": "#include <postgres.h>\n",
    }),
    ("a quoted PostgreSQL header in the engine is found", "L2", {
        "engine/base/types.hpp": '#include "storage/bufmgr.h"\n',
    }),
    ("an engine header in src is found", "L3", {
        "engine/btree/node.hpp": "",
        "src/row/ls_row.c": '#include "btree/node.hpp"\n',
    }),
    ("a path around the C API is found", "L3", {
        "engine/base/types.hpp": "",
        "src/row/ls_row.c": '#include "../../engine/base/types.hpp"\n',
    }),
    ("the other module in src is found", "L3", {
        "accel/ls_plan.h": "",
        "src/row/ls_row.c": '#include "ls_plan.h"\n',
    }),
    ("the other module in the engine is found", "L2", {
        "accel/ls_plan.h": "",
        "engine/base/types.hpp": '#include "../../accel/ls_plan.h"\n',
    }),
    ("more of src in accel is found", "L4", {
        "src/row/ls_row.h": "",
        "accel/ls_plan.c": '#include "row/ls_row.h"\n',
    }),
    ("the engine in accel is found", "L4", {
        "engine/include/leanstore/engine.h": "",
        "accel/ls_plan.c": '#include "leanstore/engine.h"\n',
    }),
    ("the rest in leap is found", "L7", {
        "src/server/ls_module.h": "",
        "leap/ls_leap.c": '#include "server/ls_module.h"\n',
    }),
    ("leap in src is found", "L3", {
        "leap/ls_leap.h": "",
        "src/row/ls_row.c": '#include "ls_leap.h"\n',
    }),
    ("an include of a higher floor is found", "L5", {
        "src/row/ls_row.h": "",
        "src/session/ls_session.h": '#include "row/ls_row.h"\n',
    }),
    ("an include of the same floor is found", "L5", {
        "src/key/ls_key.h": "",
        "src/session/ls_session.c": '#include "key/ls_key.h"\n',
    }),
    ("an include of what is for another folder is found", "L5", {
        "src/session/ls_session_internal.h": "",
        "src/row/ls_row.c": '#include "session/ls_session_internal.h"\n',
    }),
    ("a file of src outside of the folders is found", "L5", {
        "src/ls_row.c": "",
    }),
    ("a folder of src on no floor is found", "L5", {
        "src/misc/ls_things.c": "",
    }),
    ("a function of a higher floor, declared below, is found", "L6", {
        "src/session/ls_session.h": "extern void ls_fetch(void);\n",
        "src/row/ls_fetch.c": "void\nls_fetch(void)\n{\n}\n",
    }),
    ("a variable of a higher floor, declared below, is found", "L6", {
        "src/session/ls_session.h": "extern const Routine ls_routine;\n",
        "src/table/ls_table.c": "const Routine ls_routine = {\n};\n",
    }),
    ("a declaration in a C file is found", "L6", {
        "src/session/ls_session.c": "extern void ls_fetch(void);\n",
    }),
    ("a file in an unknown folder is found", "layer folder", {
        "engine/misc/things.hpp": "",
    }),
]


def run_canary(fault, files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        errors = [e for _, found in check(root) for e in found]
    return not errors if fault is None else len(errors) == 1 and fault in errors[0]


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    good = True
    for name, fault, files in CANARIES:
        passed = run_canary(fault, files)
        good = good and passed
        print(f"{'ok' if passed else 'not ok'} - self-test: {name}")
    for folder, errors in check(root):
        good = good and not errors
        print(f"{'not ok' if errors else 'ok'} - {folder} includes only what it may")
        for error in errors:
            print("# " + error)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

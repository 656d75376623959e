#!/usr/bin/env python3
"""A script of SQL in which each query is planned before it is executed: planned.py FUNCTION FILE.

FUNCTION is plans.note or plans.judge (judge.sql).  Queries of the server's own scripts
(--suite) are only planned, and only those that change nothing.
"""
import re
import sys

QUOTED = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"[^"]*"|(\$\w*\$).*?\1|;"""
                    r"""|\\[a-z!?][^\n]*""", re.S)
READS = re.compile(r"\s*(select|with|values|table|execute)\b", re.I)
CHANGING = re.compile(r"\b(into|nextval|insert|update|delete|merge)\b", re.I)
PARAMETER = re.compile(r":['\"]?\w+")
CHANGES = re.compile(r"\s*(update|delete)\b", re.I)


def statements(text):
    """Statements with their semicolon, and lines that are psql's own."""
    start = 0
    for token in QUOTED.finditer(text):
        if token.group() == ";":
            yield text[start:token.end()]
            start = token.end()
        elif token.group().startswith("\\"):
            # \gset and the like end a query that is not ours to plan
            yield text[start:token.end()] + "\n"
            start = token.end()
    yield text[start:]


def without_comments(statement):
    return re.sub(r"\A(?:\s+|--[^\n]*\n|/\*.*?\*/)*", "", statement, flags=re.S)


def main():
    suite = "--suite" in sys.argv
    function, path = [a for a in sys.argv[1:] if not a.startswith("--")]
    name = re.sub(r".*/|\.sql$", "", path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for n, statement in enumerate(statements(text)):
        query = without_comments(statement)
        plain = re.sub(r"::|'[^']*'", "", query)
        reads = READS.match(query) and query.endswith(";") and not PARAMETER.search(plain)
        if suite and CHANGING.search(query):
            reads = None
        if reads or (CHANGES.match(query) and not suite):
            print(f"SELECT {function}('{name} {n}', $query${query[:-1]}$query$);")
        if not (reads and suite):
            print(statement)


main()

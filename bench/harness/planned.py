"""A script of SQL in which each query is planned before it is executed."""
import re

QUOTED = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"[^"]*"|(\$\w*\$).*?\1|;"""
    r"""|\\[a-z!?][^\n]*""", re.S)
READS = re.compile(r'\s*(select|with|values|table|execute)\b', re.I)
CHANGING = re.compile(r'\b(into|nextval|insert|update|delete|merge)\b', re.I)
CHANGES = re.compile(r'\s*(update|delete)\b', re.I)
PARAMETER = re.compile(r""":['"]?\w+""")
COMMENTS = re.compile(r'\A(?:\s+|--[^\n]*\n|/\*.*?\*/)*', re.S)


def statements(text):
    """Statements with their semicolon, and lines that are psql's own."""
    start = 0
    for token in QUOTED.finditer(text):
        if token.group() == ';':
            yield text[start:token.end()]
            start = token.end()
        elif token.group().startswith('\\'):
            # \gset and the like end a query that is psql's to execute
            yield text[start:token.end()] + '\n'
            start = token.end()
    yield text[start:]


def planned(text, function, suite=False):
    """The script with calls of `function` (of judge.sql), each for the query behind it.

    Of the server's own tests (suite) only queries that change nothing are planned, and these are
    not executed besides.
    """
    result = []
    for number, statement in enumerate(statements(text)):
        query = COMMENTS.sub('', statement)
        plain = re.sub(r"::|'[^']*'", '', query)
        reads = READS.match(query) and query.endswith(';') and not PARAMETER.search(plain)
        if suite and CHANGING.search(query):
            reads = None
        if reads or (CHANGES.match(query) and not suite):
            result.append(f"SELECT {function}('{number}', $query${query[:-1]}$query$);\n")
        if not (reads and suite):
            result.append(statement)
    return ''.join(result)

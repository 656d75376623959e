"""Takes apart what psql and isolationtester print: which statement gave which lines.

Every line of an output goes to exactly one step, so a comparison of all steps
overlooks nothing, even where a line was taken for the echo of a statement that
is none.
"""
import bisect
import re
from dataclasses import dataclass, field


@dataclass
class Step:
    where: str  # the same for the same statement of two runs
    statement: str
    result: list = field(default_factory=list)


# ---- psql -a ------------------------------------------------------------------

DOLLAR_QUOTE = re.compile(r'\$(?:[A-Za-z_]\w*)?\$')
COPY_FROM_STDIN = re.compile(r'\bcopy\b.*\bfrom\s+stdin\b', re.I | re.S)


class StatementText:
    """Collects the lines of a statement; knows roughly where it ends."""

    def __init__(self):
        self.lines = []
        self.quote = None
        self.complete = False

    def add(self, line):
        if self.complete:
            self.lines = []
        self.lines.append(line)
        for tag in DOLLAR_QUOTE.findall(line):
            if self.quote is None:
                self.quote = tag
            elif self.quote == tag:
                self.quote = None
        code = line.split('--')[0].strip().replace('\\;', '')
        self.complete = self.quote is None and (code.endswith(';') or '\\' in code)

    def text(self):
        return '\n'.join(self.lines)


def split_psql(script, output):
    """Steps of a regression test: one for each line of the script with an output behind it."""
    positions = {}
    for number, line in enumerate(output):
        positions.setdefault(line, []).append(number)

    def find(line, start):
        found = positions.get(line, [])
        at = bisect.bisect_left(found, start)
        return found[at] if at < len(found) else None

    steps = []
    step = Step('start', '')
    at = 0
    statement = StatementText()
    skip_until = -1  # the script's line with the end of COPY data
    for number, line in enumerate(script):
        if number <= skip_until or not line.strip():
            continue
        echo = find(line, at)
        if echo is None:
            continue
        step.result = output[at:echo]
        if step.result:
            steps.append(step)
        at = echo + 1
        statement.add(line)
        step = Step(f'line {number + 1}', statement.text())
        if statement.complete and COPY_FROM_STDIN.search(statement.text()):
            skip_until = copy_data_end(script, number, output, at)
    step.result = output[at:]
    if step.result:
        steps.append(step)
    return steps


def copy_data_end(script, number, output, at):
    """The script's line that ends the COPY data behind `number`.

    `number` when there are none: psql does not echo them.
    """
    if number + 1 < len(script) and at < len(output) and script[number + 1] == output[at]:
        return number
    try:
        return script.index('\\.', number)
    except ValueError:
        return number


# ---- isolationtester ----------------------------------------------------------

STEP = re.compile(r'step (\S+): ')


def split_isolation(output):
    """Steps of an isolation spec: one for each event of each permutation."""
    steps = [Step('setup', 'setup')]
    permutations = events = 0
    for line in output:
        if line.startswith('starting permutation: '):
            permutations, events = permutations + 1, 0
            steps.append(Step(f'permutation {permutations}', line))
        elif STEP.match(line):
            events += 1
            steps.append(Step(f'permutation {permutations}, event {events}', ''))
        steps[-1].result.append(line)
    name_statements(steps)
    return steps


def name_statements(steps):
    """An event is about the query before its first table, or before the step's beginning."""
    permutation, queries = '', {}
    for step in steps:
        if step.statement:
            permutation, queries = step.statement, {}
            continue
        name = STEP.match(step.result[0]).group(1)
        if '<... completed>' not in step.result[0]:
            tables = [at for at in range(1, len(step.result)) if RULE.match(step.result[at])]
            queries[name] = '\n'.join(step.result[:tables[0] - 1] if tables else step.result)
        step.statement = f'{permutation}\n{queries.get(name, name)}'


# ---- tables in results --------------------------------------------------------

RULE = re.compile(r' ?-+(\+-+)*-?$')
FOOTER = re.compile(r'\((\d+) rows?\)$')


@dataclass
class Table:
    columns: list
    rows: list


def cells(row):
    return tuple(cell.strip() for cell in row.split('|'))


def parse_result(lines):
    """What a statement has printed: tables, and all other lines."""
    parts, at = [], 0
    while at < len(lines):
        if (at + 1 < len(lines) and RULE.match(lines[at + 1]) and
                table_end(lines, at + 2) is not None):
            end = table_end(lines, at + 2)
            parts.append(Table(list(cells(lines[at])), table_rows(lines[at + 2:end])))
            at = end + 1
        else:
            parts.append(lines[at])
            at += 1
    return parts


def table_end(lines, at):
    while at < len(lines):
        if FOOTER.match(lines[at]):
            return at
        at += 1
    return None


def table_rows(lines):
    """Rows as tuples of cells; a line with a cell that ends with psql's + goes on in the next."""
    rows, row = [], []
    for line in lines:
        row.append(line)
        if not re.search(r'\+( ?\||$)', line):
            rows.append(row)
            row = []
    if row:
        rows.append(row)
    return [tuple(part for line in row for part in cells(line)) for row in rows]

"""Compares two outputs of a test and says of what kind each difference is.

A difference is one of:

  order      rows in another order, where the statement guarantees none
  plan       plan text or sizes: EXPLAIN, relation sizes, block counters, ctid
  listed     an exception from the list, with its reason
  real       everything else
"""
import re
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase

import outputs

KINDS = ('order', 'plan', 'listed', 'real')

PLAN = re.compile(r'explain', re.I)
SIZE = re.compile(r'pg_(total_|table_|indexes_)?(relation|table|indexes)_size|pg_size_pretty|'
                  r'\brelpages\b|\bblks_|_blks\b|_blks_|\brelallvisible\b|\brelallfrozen\b', re.I)
TID = re.compile(r'\(\d+,\d+\)')
MESSAGE = re.compile(r'\b(ERROR|FATAL|PANIC|WARNING):')
ACCESS_METHOD = re.compile(r'\b(leanstore_index|leanstore|btree|heap)\b')


@dataclass
class Difference:
    kind: str
    test: str
    where: str
    statement: str
    expected: list
    result: list
    reason: str = ''


# ---- exceptions ---------------------------------------------------------------

class Exceptions:
    """The list of exceptions: paragraphs of a reason and, indented, what it is for.

    That is SUITE/TEST[: PATTERN].
    """

    def __init__(self, path):
        self.entries = []
        self.used = set()
        reason, complete = '', True
        with open(path, encoding='utf-8') as lines:
            for number, line in enumerate(lines, 1):
                text = line.strip()
                if not text or text.startswith('#'):
                    continue
                if line[0].isspace():
                    test, _, pattern = text.partition(': ')
                    self.entries.append(
                        (number, text, test, re.compile(pattern, re.I | re.S), reason))
                    complete = True
                else:
                    reason = text if complete else f'{reason} {text}'
                    complete = False

    def reason(self, test, step):
        text = step.statement + '\n' + '\n'.join(step.result)
        for number, _, name, pattern, reason in self.entries:
            if fnmatchcase(test, name) and pattern.search(text):
                self.used.add(number)
                return reason
        return None

    def unused(self, tests):
        return [text for number, text, name, _, _ in self.entries
                if number not in self.used and any(fnmatchcase(test, name) for test in tests)]


# ---- one statement ------------------------------------------------------------

def without_names(lines):
    """The names of access methods do not count, nor the width that they give to a column.

    Nor the width that a value gives to one.
    """
    return [re.sub(r'-+', '-', re.sub(r'\s+', ' ', ACCESS_METHOD.sub('am', line))).rstrip()
            for line in lines]


def top_level_order_by(statement):
    """The sort keys of the outermost ORDER BY; None when there is none."""
    text = re.sub(r'--[^\n]*', ' ', statement)
    text = re.sub(r"'[^']*'", "''", text)
    while True:
        shorter = re.sub(r'\([^()]*\)', ' () ', text.replace(' () ', ' '))
        if shorter == text:
            break
        text = shorter
    found = re.search(r'\border\s+by\b(.*)', text, re.I | re.S)
    if not found:
        return None
    keys = re.split(r'\b(?:limit|offset|fetch|for)\b|;', found.group(1), flags=re.I)[0]
    return [re.sub(r'\b(asc|desc|nulls|first|last)\b|\busing\b.*', '', key, flags=re.I).strip()
            for key in keys.split(',')]


def keys_of(table, order_by):
    """The sort keys of each row; None when they are not among the columns."""
    indexes = []
    for key in order_by:
        name = key.split('.')[-1].strip('"')
        if key.isdigit() and 0 < int(key) <= len(table.columns):
            indexes.append(int(key) - 1)
        elif table.columns.count(name) == 1:
            indexes.append(table.columns.index(name))
        else:
            return None
    if any(len(row) != len(table.columns) for row in table.rows):
        return None
    return [tuple(row[i] for i in indexes) for row in table.rows]


def is_notice(part):
    """What a function says about the rows it is called for, before they are sorted."""
    return isinstance(part, str) and 'NOTICE:' in part


def same_but_for_order(expected, result, statement):
    order_by = top_level_order_by(statement)
    ours, theirs = outputs.parse_result(result), outputs.parse_result(expected)

    def bag(parts):
        return Counter(
            line for part in parts
            for line in ([part] if isinstance(part, str) else [tuple(part.columns)] + part.rows))

    if bag(ours) != bag(theirs):
        return False
    if order_by is None:
        return True
    for mine, other in zip(*[[part for part in parts if not is_notice(part)]
                             for parts in (ours, theirs)]):
        if isinstance(mine, str) or isinstance(other, str):
            if mine != other:
                return False
        elif mine.rows != other.rows:
            keys = keys_of(mine, order_by)
            if keys is None or keys != keys_of(other, order_by):
                return False
    return True


def without_tids(lines):
    return without_names(TID.sub('(tid)', line) for line in lines)


def messages(lines):
    return [line for line in lines if MESSAGE.search(line)]


def kind_of(expected, step):
    """The kind of difference between what heap has printed and a step; None when there is none."""
    result = step.result
    if expected == result or without_names(expected) == without_names(result):
        return None
    if same_but_for_order(expected, result, step.statement):
        return 'order'
    if messages(expected) == messages(result):
        if PLAN.search(step.statement) or any('QUERY PLAN' in line for line in result):
            return 'plan'
        if SIZE.search(step.statement) or same_but_for_order(
                without_tids(expected), without_tids(result), step.statement):
            return 'plan'
    return 'real'


# ---- one test -----------------------------------------------------------------

def compare_steps(test, heap, leanstore, exceptions):
    """All differences between the steps of two runs; and the number of steps."""
    differences = []
    of_heap = {step.where: step for step in heap}
    of_leanstore = {step.where: step for step in leanstore}
    where = list(dict.fromkeys(step.where for run in (heap, leanstore) for step in run))
    for place in where:
        theirs, ours = of_heap.get(place), of_leanstore.get(place)
        step = outputs.Step(place, (ours or theirs).statement, ours.result if ours else [])
        expected = theirs.result if theirs else []
        if theirs and ours and theirs.statement != ours.statement:
            kind = 'real'  # another event
        else:
            kind = kind_of(expected, step)
        if kind is None:
            continue
        reason = exceptions.reason(test, step) if kind == 'real' else None
        differences.append(Difference('listed' if reason else kind, test, place, step.statement,
                                      expected, step.result, reason or ''))
    return differences, len(where)

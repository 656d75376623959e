"""bench/results/WORKLOAD.tsv: one line for each case, side and round.

The columns before the figures are the same in all files.  A file gets a new column when a figure
is new; lines from before have none there.
"""
import os
from pathlib import Path

COLUMNS = ('run', 'time', 'commit', 'cpu', 'cpus', 'memory', 'kernel', 'load', 'settings',
           'parameters', 'workload', 'case', 'side', 'round', 'measure', 'unit', 'better')


def text_of(value):
    if isinstance(value, float):
        value = f'{value:.6g}'
    return ' '.join(str('' if value is None else value).split())


def read(path):
    lines = Path(path).read_text(encoding='utf-8').splitlines()
    if not lines:
        return [], []
    columns = lines[0].split('\t')
    return columns, [dict(zip(columns, line.split('\t'))) for line in lines[1:]]


def write(path, columns, rows):
    lines = ['\t'.join(text_of(row.get(column)) for column in columns) for row in rows]
    new = Path(f'{path}.new')
    new.write_text('\n'.join(['\t'.join(columns), *lines]) + '\n', encoding='utf-8')
    os.replace(new, path)


def append(path, row):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    columns, rows = read(path) if path.exists() else (list(COLUMNS), [])
    fresh = [column for column in row if column not in columns]
    if fresh or not path.exists():
        write(path, columns + fresh, rows + [row])
        return
    with open(path, 'a', encoding='utf-8') as file:
        file.write('\t'.join(text_of(row.get(column)) for column in columns) + '\n')


def read_all(directory):
    rows = []
    for path in sorted(Path(directory).glob('*.tsv')):
        rows += read(path)[1]
    return rows


def newest(rows):
    """Of each workload's case the rows of its last run."""
    last = {}
    for row in rows:
        key = row['workload'], row['case']
        last[key] = max(last.get(key, ''), row['run'])
    return [row for row in rows if row['run'] == last[row['workload'], row['case']]]

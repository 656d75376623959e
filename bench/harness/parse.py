"""Figures out of what other programs print.  Nothing here runs a program."""
import re

from .errors import BenchError

PROGRESS = re.compile(r'^progress: ([\d.]+) s, ([\d.]+) tps', re.M)
TIME = re.compile(r'^Time: ([\d.]+) ms')


def find(pattern, text, what):
    match = re.search(pattern, text, re.M)
    if match is None:
        raise BenchError(f'{what}: no "{pattern}" in\n{text[-2000:]}')
    return float(match[1])


def pgbench(text):
    """The end of pgbench's output."""
    transactions = find(r'actually processed: (\d+)', text, 'pgbench')
    retries = re.search(r'^total number of retries: (\d+)', text, re.M)
    return {
        'transactions': transactions,
        'tps': find(r'^tps = ([\d.]+)', text, 'pgbench'),
        'latency_ms': find(r'^latency average = ([\d.]+)', text, 'pgbench'),
        'retries': float(retries[1]) / max(transactions, 1) if retries else 0,
        'failed': find(r'^number of failed transactions: (\d+)', text, 'pgbench'),
    }


def pgbench_progress(text):
    """[(second, transactions per second in it)] of pgbench -P."""
    return [(float(at), float(tps)) for at, tps in PROGRESS.findall(text)]


def psql_times(lines):
    """Milliseconds of the statements of a psql session with \\timing on."""
    return [float(match[1]) for match in map(TIME.match, lines) if match]


def sysbench(text):
    return {
        'transactions': find(r'^\s+transactions:\s+(\d+)', text, 'sysbench'),
        'tps': find(r'^\s+transactions:\s+\d+\s+\(([\d.]+)', text, 'sysbench'),
        'latency_p95_ms': find(r'^\s+95th percentile:\s+([\d.]+)', text, 'sysbench'),
    }


def go_tpc(text):
    """All transactions of the summary; those that failed; New-Orders per minute."""
    counts = re.findall(r'^\[Summary\] (\w+) - .*?Count: (\d+)', text, re.M)
    return {
        'transactions': sum(int(n) for name, n in counts if not name.endswith('_ERR')),
        'failed': sum(int(n) for name, n in counts if name.endswith('_ERR')),
        'tpmc': find(r'^tpmC: ([\d.]+)', text, 'go-tpc'),
    }


def hammerdb(text):
    """New orders, and commits and rollbacks of the server, a minute."""
    return {
        'nopm': find(r'System achieved (\d+) NOPM', text, 'HammerDB'),
        'tpm': find(r'NOPM from (\d+) PostgreSQL TPM', text, 'HammerDB'),
    }


def turns(text):
    """[(workload, threads, name, [rate, ...])] of programs in bench/engine and bench/range_lock."""
    result = []
    for line in text.splitlines():
        workload, threads, name, *rates = line.split('\t')
        result.append((workload, int(threads), name, [float(rate) for rate in rates]))
    return result


def process_stat(text):
    """(parent, clock ticks of it and of its children that have ended) of /proc/PID/stat."""
    fields = text[text.rindex(')') + 2:].split()
    return int(fields[1]), sum(int(field) for field in fields[11:15])


def busy_ticks(text):
    """Clock ticks of all processors that were not idle, stolen ones included, of /proc/stat."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int,
                                                                text.split('\n', 1)[0].split()[1:9])
    return user + nice + system + irq + softirq + steal


def disk_sectors(text, major, minor):
    """(sectors read, written) of a device, of /proc/diskstats; None if it is not there."""
    for line in text.splitlines():
        fields = line.split()
        if fields[:2] == [str(major), str(minor)]:
            return int(fields[5]), int(fields[9])
    return None


def statements(text):
    """[{name, timed, reset, with}] of a file of statements.

    A line `--- NAME` begins one.  Within it `-- reset` stands before what is done untimed before
    each run, `-- timed` before what is measured, and `-- with SETTING = VALUE, ...` is set for it.
    """
    result = []
    part = None
    for line in text.splitlines():
        if line.startswith('--- '):
            result.append({'name': line[4:].strip(), 'timed': '', 'reset': '', 'with': []})
            part = 'timed'
        elif line.startswith('-- with '):
            result[-1]['with'] += [setting.strip() for setting in line[8:].split(',')]
        elif line in ('-- reset', '-- timed'):
            part = line[3:]
        elif part is not None:
            result[-1][part] += line + '\n'
        elif line.strip() and not line.startswith('--'):
            raise BenchError(f'a statement without a name: {line}')
    for statement in result:
        if not statement['timed'].strip():
            raise BenchError(f"{statement['name']}: nothing to measure")
    return result

"""The machine that measures, the tree that is measured, and what else uses the machine."""
import os
import re
import resource
import subprocess
import time
from pathlib import Path

from . import parse

TICKS = os.sysconf('SC_CLK_TCK')
SECTOR = 512


def cpus():
    return len(os.sched_getaffinity(0))


def description():
    text = Path('/proc/cpuinfo').read_text(encoding='utf-8')
    model = re.search(r'^model name\s*: (.*)$', text, re.M)
    memory = re.search(r'^MemTotal:\s+(\d+) kB', Path('/proc/meminfo').read_text(encoding='utf-8'))
    return {
        'cpu': model[1] if model else os.uname().machine,
        'cpus': cpus(),
        'memory': f'{int(memory[1]) / 1024 / 1024:.1f} GiB',
        'kernel': os.uname().release.split('-')[0],
    }


def commit(top):
    """The commit, and whether more than results differs from it."""
    git = ['git', '-c', 'safe.directory=*', '-C', str(top)]
    try:
        name = subprocess.run([*git, 'rev-parse', '--short=10', 'HEAD'], check=True, text=True,
                              capture_output=True).stdout.strip()
        changed = subprocess.run(
            [*git, 'status', '--porcelain', '-uno', '--', '.', ':!bench/results', ':!docs'],
            check=True, text=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 'unknown'
    return name + ('-dirty' if changed.strip() else '')


def load():
    return os.getloadavg()[0]


def own_seconds():
    """Processor time of this program and of the ones that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def busy_seconds():
    return parse.busy_ticks(Path('/proc/stat').read_text(encoding='ascii')) / TICKS


def disk_bytes(path):
    """(read, written) by the device below a path; None where it cannot be told."""
    device = os.stat(path).st_dev
    sectors = parse.disk_sectors(
        Path('/proc/diskstats').read_text(encoding='utf-8'), os.major(device), os.minor(device))
    return sectors and tuple(SECTOR * n for n in sectors)


def sync(path):
    """Everything of the file system below a path is on the device."""
    subprocess.run(['sync', '-f', str(path)], check=True)


class Gauge:
    """Counters of a server and of the machine, read at both ends of a measurement."""

    def __init__(self, cluster, counters=None):
        self.cluster = cluster
        self.counters = counters or {}
        self.begin = self.read()

    def read(self):
        disk = disk_bytes(self.cluster.data)
        result = {'wal': self.cluster.wal_bytes(), 'log': self.cluster.log_bytes()}
        for name, query in self.counters.items():
            result[name] = float(self.cluster.sql(query))
        if disk:
            result['read'], result['written'] = disk
        result.update(self.cluster.cpu_and_time(), busy=busy_seconds(), own=own_seconds())
        return result

    def figures(self, transactions):
        """What has been used since, for each transaction."""
        end = self.read()
        used = {name: end[name] - self.begin[name] for name in end}
        each = max(transactions, 1)
        others = used['busy'] - used['cpu'] - used['own']
        result = {
            'cpu_us': used['cpu'] * 1e6 / each,
            'wal_bytes': used['wal'] / each,
            'log_bytes': used['log'] / each,
        }
        if 'read' in used:
            result['device_read_bytes'] = used['read'] / each
            result['device_written_bytes'] = used['written'] / each
        for name in self.counters:
            result[name] = used[name] / each
        result['others_percent'] = 100 * max(0, others) / (used['time'] * cpus())
        return result


def now():
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())

"""pgbench on each side: built-in scripts or the workload's own.

Of a workload: pgbench_scale fills pgbench's tables, setup is SQL behind that; memory_limit puts
each server into a memory cgroup (limit.py); counters are queries, and how much each of them grows
by transaction is noted on leanstore's sides.  Of a case: builtin or scripts (texts, or
{script, weight});
protocol, options (settings of the sessions), clients, rate, max_tries, warm (seconds before),
checkpoint (true: one at the begin and one at the end, within what is counted).
"""
import os
import time

from .. import machine, parse, summary
from ..limit import MemoryLimit
from .base import Driver

MIB = 1024 * 1024


def size_case(name, figure, unit):
    return {'name': name, 'measure': {'figure': figure, 'unit': unit, 'better': 'lower'}}


LOADED = size_case('filling the tables', 'load_seconds', 's')
SIZE_LOADED = size_case('tables and indexes when filled', 'size_mib', 'MiB')
SIZE_END = size_case('tables and indexes at the end', 'size_mib', 'MiB')


class Load(Driver):
    KEYS = {'pgbench_scale', 'memory_limit', 'counters'}
    CASE_KEYS = {
        'builtin', 'scripts', 'protocol', 'options', 'clients', 'rate', 'max_tries', 'warm',
        'checkpoint'
    }
    MEASURE = {'figure': 'tps', 'unit': 'transactions/s', 'better': 'higher'}

    def __init__(self, workload, options):
        super().__init__(workload, options)
        limit = workload.content.get('memory_limit')
        self.limit = MemoryLimit(limit) if limit else None

    def require(self):
        if self.limit:
            self.limit.require()

    # ---- data ----------------------------------------------------------------

    def setup(self, cluster):
        if not self.workload.setup and 'pgbench_scale' not in self.workload.content:
            return  # the cases make their tables
        begin = time.monotonic()
        self.fill(cluster)
        yield LOADED, {'load_seconds': time.monotonic() - begin}
        cluster.sql('VACUUM ANALYZE')
        cluster.checkpoint()
        yield SIZE_LOADED, {'size_mib': cluster.table_bytes() / MIB}

    def fill(self, cluster):
        scale = self.workload.content.get('pgbench_scale')
        if scale:
            self.client(cluster, ['-i', '-q', '-s', scale], {'client_min_messages': 'error'})
        if self.workload.setup:
            self.sql(cluster, self.workload.setup)

    def prepare(self, field):
        if self.limit:
            self.limit.apply(field)

    def run(self, record):
        try:
            super().run(record)
        finally:
            if self.limit:
                self.limit.remove()

    def finish(self, cluster):
        yield SIZE_END, {'size_mib': cluster.table_bytes() / MIB}

    # ---- runs ----------------------------------------------------------------

    def client(self, cluster, arguments, settings):
        """What pgbench prints."""
        return cluster.client([cluster.bindir / 'pgbench', *arguments], ['aborted'], settings)

    def arguments(self, cluster, case, seconds):
        clients = case.get('clients', self.parameters['clients'])
        words = [
            '-n', '-M',
            case.get('protocol', 'prepared'), '-c', clients, '-j',
            min(int(clients), machine.cpus()), '-T', seconds, '-P', 1
        ]
        if float(case.get('rate', 0)):
            words += ['-R', case['rate']]
        if 'max_tries' in case:
            words += ['--max-tries', case['max_tries']]
        if 'builtin' in case:
            return [*words, '-b', case['builtin']]
        for number, script in enumerate(case['scripts']):
            script = {'script': script, 'weight': 1} if isinstance(script, str) else script
            path = cluster.home / f'script{number}.sql'
            path.write_text(script['script'], encoding='utf-8')
            words += ['-f', f"{path}@{script['weight']}"]
        return words

    def measure(self, cluster, case):
        settings = case.get('options', {})
        cluster.checkpoint()
        warm = int(case.get('warm', 0))
        if warm:
            self.client(cluster, self.arguments(cluster, case, warm), settings)
        counters = self.workload.content.get('counters', {}) if cluster.is_leanstore else {}
        gauge = machine.Gauge(cluster, counters)
        output, progress = self.client(cluster,
                                       self.arguments(cluster, case, self.parameters['seconds']),
                                       settings)
        figures = parse.pgbench(output)
        if case.get('checkpoint'):
            cluster.checkpoint()
            os.sync()
        figures.update(gauge.figures(figures['transactions']))
        figures.update(summary.evenness(parse.pgbench_progress(progress)))
        yield case['name'], figures

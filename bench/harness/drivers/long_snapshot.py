"""What an open REPEATABLE READ transaction costs the writers, itself, and in space.

Under one load, phases without the reader and with it take turns, and neighbours are compared: the
machine's speed may drift.  `scan` is what the reader reads, at the begin of its transaction and at
its end; a fresh transaction reads the same right after.
"""
import time
from pathlib import Path

from .. import summary
from ..errors import BenchError
from .background import Background
from .load import MIB, Load

SKIP_SECONDS = 3  # the begin of a phase belongs to the change


class LongSnapshot(Load):
    KEYS = Load.KEYS | {'scan'}
    MEASURE = {'figure': 'open_share', 'unit': 'of the speed without it', 'better': 'higher'}

    def measure(self, cluster, case):
        with Background(self, cluster, case) as load, cluster.session() as reader, \
                cluster.session() as fresh:
            time.sleep(self.parameters['warm'])
            for pair in range(1, self.parameters['pairs'] + 1):
                figures = self.measure_pair(cluster, load, reader, fresh)
                yield f"{case['name']}, phase {pair}", figures

    def measure_pair(self, cluster, load, reader, fresh):
        phase = self.parameters['phase']
        scan = self.workload.content['scan'] + ';'
        begin = time.time()
        time.sleep(phase)
        middle = time.time()
        reader.run('BEGIN ISOLATION LEVEL REPEATABLE READ;')
        first = reader.run(scan)
        time.sleep(max(0, phase - (time.time() - middle)))
        sizes = self.sizes(cluster)
        end = time.time()
        reader_ms, last = reader.timed(scan)
        reader.run('COMMIT;')
        if first != last:
            raise BenchError(
                f'{cluster.side.name}: the reader saw {first} first and {last} at the end')
        fresh_ms, _ = fresh.timed(scan)
        progress = load.progress()
        closed = summary.mean_between(progress, begin + SKIP_SECONDS, middle)
        opened = summary.mean_between(progress, middle + SKIP_SECONDS, end)
        return {
            'closed_tps': closed,
            'open_tps': opened,
            'open_share': opened / closed,
            'reader_scan_ms': reader_ms,
            'fresh_scan_ms': fresh_ms,
            **sizes
        }

    @staticmethod
    def sizes(cluster):
        """While the reader is open."""
        result = {
            'size_mib': cluster.table_bytes() / MIB,
            'updated_mib': cluster.table_bytes("relname <> 'pgbench_history'") / MIB
        }
        if cluster.is_leanstore:
            worker = cluster.sql("""SELECT pid FROM pg_stat_activity
                WHERE backend_type = 'leanstore engine worker'""")
            result['versions_mib'] = cluster.version_bytes() / MIB
            result['worker_mib'] = private_mib(worker)
        return result


def private_mib(pid):
    """Memory of a process beside shared memory."""
    for line in Path(f'/proc/{pid}/status').read_text(encoding='utf-8').splitlines():
        if line.startswith('RssAnon:'):
            return int(line.split()[1]) / 1024
    raise BenchError(f'process {pid} has no RssAnon')

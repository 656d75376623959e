"""What a REPEATABLE READ transaction on a hot standby costs the primary, and whether it lives.

The primary has a load all the time: first without the reader (`phase` seconds), then with it
(`open` seconds).  Of a case beside those of a load: standby, settings of the standby.  The reader
reads `scan` every `look` seconds, which must be what it has read first.  Where it is cancelled the
phase with it ends, but not before it has lasted as long as the one without.
"""
import time

from .. import summary
from ..errors import BenchError
from ..standby import Standby
from .background import Background
from .load import MIB, Load

SKIP_SECONDS = 3  # the begin of a phase belongs to the change
CANCELLED = 'conflict with recovery'


class StandbyReader(Load):
    KEYS = Load.KEYS | {'scan'}
    CASE_KEYS = Load.CASE_KEYS | {'standby'}
    MEASURE = {'figure': 'open_share', 'unit': 'of the speed without it', 'better': 'higher'}

    def measure(self, cluster, case):
        with Standby(cluster, 'standby', case.get('standby', {})) as standby, \
                Background(self, cluster, case) as load:
            time.sleep(self.parameters['warm'])
            closed = self.phase(cluster, standby, load, self.parameters['phase'])
            reader = Reader(standby, self.workload.content['scan'])
            opened = self.phase(cluster, standby, load, self.parameters['open'], reader)
            figures = {f'closed_{name}': value for name, value in closed.items()}
            figures.update({f'open_{name}': value for name, value in opened.items()})
            figures.update(open_share=opened['tps'] / closed['tps'], conflicts=standby.conflicts(),
                           **reader.figures())
        yield case['name'], figures

    def phase(self, cluster, standby, load, seconds, reader=None):
        begin = time.time()
        cpu = [server.cpu_and_time()['cpu'] for server in (cluster, standby)]
        behind = 0
        shortest = min(seconds, self.parameters['phase'])
        while time.time() < begin + (shortest if reader and reader.cancelled else seconds):
            time.sleep(min(self.parameters['look'], max(0, begin + seconds - time.time())))
            if reader:
                reader.look()
            behind = max(behind, standby.behind_bytes())
        end = time.time()
        cpu = [server.cpu_and_time()['cpu'] - before
               for server, before in zip((cluster, standby), cpu)]
        rate = summary.mean_between(load.progress(), begin + SKIP_SECONDS, end)
        transactions = rate * (end - begin)
        figures = {
            'tps': rate,
            'cpu_us': cpu[0] / transactions * 1e6,
            'standby_cpu_us': cpu[1] / transactions * 1e6,
            'most_behind_mib': behind / MIB,
            'behind_mib': standby.behind_bytes() / MIB,
            'updated_mib': cluster.table_bytes("relname <> 'pgbench_history'") / MIB,
        }
        if cluster.is_leanstore:
            figures['versions_mib'] = cluster.version_bytes() / MIB
            figures['standby_versions_mib'] = standby.version_bytes() / MIB
        return figures


class Reader:

    def __init__(self, standby, scan):
        self.side = standby.side.name
        self.session = standby.session()
        self.scan = scan + ';'
        self.session.run('BEGIN ISOLATION LEVEL REPEATABLE READ;')
        self.begin = time.time()
        self.first = self.session.run(self.scan)
        self.milliseconds = []
        self.lived = 0
        self.cancelled = False

    def look(self):
        if self.cancelled:
            return
        try:
            milliseconds, lines = self.session.timed(self.scan)
        except BenchError as error:
            if CANCELLED not in str(error):
                raise
            self.cancelled = True
            return
        if lines != self.first:
            raise BenchError(f'{self.side}: the reader saw {self.first} first and {lines} later')
        self.milliseconds.append(milliseconds)
        self.lived = time.time() - self.begin

    def figures(self):
        return {
            'reader_seconds': self.lived,
            'cancelled': int(self.cancelled),
            'first_scan_ms': self.milliseconds[0] if self.milliseconds else 0,
            'last_scan_ms': self.milliseconds[-1] if self.milliseconds else 0,
        }

"""A long load with a look at it every `interval` seconds: do speed and size stay what they are?

Of a workload: length, a query that says the same before and after.  Of a case beside those of the
load: init, SQL that makes its tables; reader, a query in a REPEATABLE READ transaction that stays
open meanwhile; sizes, {figure: query of bytes}; timed, {figure: query of which the least time
counts}.
"""
import time

from .. import machine, summary
from ..errors import BenchError
from .background import Background
from .load import MIB, Load

TIMES = 5


class Sampled(Load):
    KEYS = Load.KEYS | {'length'}
    CASE_KEYS = Load.CASE_KEYS | {'init', 'reader', 'sizes', 'timed'}

    def measure(self, cluster, case):
        self.sql(cluster, case['init'])
        cluster.checkpoint()
        length = self.workload.content['length']
        before = cluster.sql(length)
        with cluster.session() as reader, cluster.session() as observer:
            seen = None
            if 'reader' in case:
                reader.run('BEGIN ISOLATION LEVEL REPEATABLE READ;')
                seen = reader.run(case['reader'] + ';')
            with Background(self, cluster, case) as load:
                yield from self.samples(cluster, case, load, observer)
            if seen is not None and reader.run(case['reader'] + ';') != seen:
                raise BenchError(f'{cluster.side.name}: the reader does not see what it saw first')
        after = cluster.sql(length)
        if before != after:
            raise BenchError(f'{cluster.side.name}: {length}: {before} before, {after} after')

    def samples(self, cluster, case, load, observer):
        interval = self.parameters['interval']
        begin = time.time()
        for number in range(1, self.parameters['seconds'] // interval + 1):
            before = cluster.cpu_and_time()
            time.sleep(max(0, begin + number * interval - time.time()))
            used = cluster.cpu_and_time()['cpu'] - before['cpu']
            now = time.time()
            tps = summary.mean_between(load.progress(), now - interval, now)
            yield f"{case['name']}, after {number * interval} s", {
                'tps': tps,
                'cpu_us': used * 1e6 / max(1, tps * interval),
                **self.sizes(cluster, case),
                **self.times(case, observer), 'load': machine.load()
            }

    @staticmethod
    def sizes(cluster, case):
        result = {
            figure: float(cluster.sql(query.replace('pg_total_relation_size', cluster.side.size)))
            / MIB
            for figure, query in case['sizes'].items()
        }
        if cluster.side.versions:
            result['versions_mib'] = cluster.version_bytes() / MIB
        return {**result, 'total_mib': sum(result.values())}

    @staticmethod
    def times(case, observer):
        return {
            figure: min(observer.timed(query + ';')[0] for _ in range(TIMES))
            for figure, query in case['timed'].items()
        }

"""How long a restart takes after a kill in full load.

Of a case beside those of the load: open, SQL of a transaction that is still open at the kill.
Measured is the time until a new server has answered `answer`, a query of the tables.
"""
import time

from ..errors import BenchError
from .background import Background
from .load import Load


class Restart(Load):
    KEYS = Load.KEYS | {'answer'}
    CASE_KEYS = Load.CASE_KEYS | {'open'}
    MEASURE = {'figure': 'restart_seconds', 'unit': 's', 'better': 'lower'}

    def measure(self, cluster, case):
        answer = self.workload.content['answer']
        expected = cluster.sql(answer)
        cluster.checkpoint()
        before = cluster.wal_bytes() + cluster.log_bytes()
        if 'open' in case:
            cluster.session().run('BEGIN;\n' + case['open'])
        with Background(self, cluster, case) as load:
            time.sleep(self.parameters['seconds'])
            rates = load.progress()
            log = cluster.wal_bytes() + cluster.log_bytes() - before
            cluster.kill()
        begin = time.monotonic()
        cluster.start()
        first = cluster.sql(answer)
        seconds = time.monotonic() - begin
        if first != expected:
            raise BenchError(f'{cluster.side.name}: {answer}: {expected} before, {first} after')
        self.check(cluster)
        yield case['name'], {
            'restart_seconds': seconds,
            'log_mib': log / 1024 / 1024,
            'transactions': sum(rate for _, rate in rates)
        }

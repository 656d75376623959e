"""sysbench's OLTP tests, where it is installed.  Of a case: test."""
import shutil

from .. import machine, parse
from ..errors import Missing
from .base import Driver


class Sysbench(Driver):
    CASE_KEYS = {'test'}
    MEASURE = {'figure': 'tps', 'unit': 'transactions/s', 'better': 'higher'}

    def require(self):
        if not shutil.which('sysbench'):
            raise Missing('sysbench is not installed (Debian package sysbench)')

    def client(self, cluster, test, action):
        parameters = self.parameters
        command = [
            'sysbench', test, '--db-driver=pgsql', f'--pgsql-host={cluster.home}',
            '--pgsql-user=postgres', '--pgsql-db=bench', f"--tables={parameters['tables']}",
            f"--table-size={parameters['rows']}", f"--threads={parameters['clients']}",
            f"--time={parameters['seconds']}", action
        ]
        return cluster.client(command)[0]

    def setup(self, cluster):
        self.client(cluster, 'oltp_read_write', 'prepare')
        cluster.sql('VACUUM ANALYZE')
        yield from ()

    def measure(self, cluster, case):
        cluster.checkpoint()
        gauge = machine.Gauge(cluster)
        figures = parse.sysbench(self.client(cluster, case['test'], 'run'))
        figures.update(gauge.figures(figures['transactions']))
        yield case['name'], figures

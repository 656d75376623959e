"""sysbench's OLTP tests, where it is installed.  Of a case: test."""
import shutil
import subprocess

from .. import machine, parse
from ..errors import BenchError, Missing
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
        run = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                             env=cluster.client_environment())
        if run.returncode != 0:
            raise BenchError(f'{cluster.side.name}: sysbench {test} {action} fails\n'
                             f'{(run.stdout + run.stderr)[-3000:]}\n{cluster.log_end()}')
        return run.stdout

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

"""TPC-C of go-tpc, where it is built, and its check of the data.  Of a case: isolation."""
import os
import shutil

from .. import machine, parse
from ..errors import BenchError, Missing
from ..sides import CACHE
from .base import Driver

REPEATABLE_READ = 4  # from this level on failures of serialization are answers


class Tpcc(Driver):
    CASE_KEYS = {'isolation'}
    MEASURE = {'figure': 'tpmc', 'unit': 'tpmC', 'better': 'higher'}

    def program(self):
        return self.parameters['go_tpc'] or shutil.which('go-tpc') or str(CACHE / 'go/bin/go-tpc')

    def require(self):
        if not os.access(self.program(), os.X_OK):
            raise Missing('no go-tpc: `go install github.com/pingcap/go-tpc/cmd/go-tpc@v1.0.12`, '
                          'and put it into PATH or name it: -D go_tpc=PATH')

    def client(self, cluster, action, *arguments):
        # a host with an empty name: the socket directory in PGHOST
        command = [
            self.program(), 'tpcc', action, '-d', 'postgres', '-H', '""', '-P', 5432, '-U',
            'postgres', '-p', 'postgres', '-D', 'bench', '--conn-params', 'sslmode=disable',
            '--warehouses', self.parameters['warehouses'], *arguments
        ]
        return cluster.client(command, ['check failed'])[0]

    def setup(self, cluster):
        self.client(cluster, 'prepare', '-T', 4, '--no-check')
        cluster.sql('VACUUM ANALYZE')
        yield from ()

    def measure(self, cluster, case):
        isolation = case.get('isolation', 0)
        cluster.checkpoint()
        gauge = machine.Gauge(cluster)
        output = self.client(cluster, 'run', '-T', self.parameters['clients'], '--time',
                             f"{self.parameters['seconds']}s", '--isolation', isolation,
                             *(['--ignore-error'] if isolation >= REPEATABLE_READ else []))
        figures = parse.go_tpc(output)
        # the end of the time cancels what each connection is at
        if isolation < REPEATABLE_READ and figures['failed'] > self.parameters['clients']:
            raise BenchError(f"{cluster.side.name}: {figures['failed']} transactions failed")
        figures.update(gauge.figures(figures['transactions']))
        yield case['name'], figures

    def finish(self, cluster):
        # it looks up each customer's payments, which the benchmark has no index for
        cluster.sql('CREATE INDEX ON history (h_c_w_id, h_c_d_id, h_c_id)')
        self.client(cluster, 'check')
        yield from ()

"""TPC-C of HammerDB, by its stored procedures, where it is unpacked somewhere beside this tree."""
import os
from pathlib import Path

from .. import machine, parse
from ..cluster import DATABASE
from ..errors import Missing
from .base import Driver

SETTINGS = """\
dbset db pg
dbset bm TPC-C
diset connection pg_host {host}
diset connection pg_port 5432
diset connection pg_sslmode disable
diset tpcc pg_defaultdbase postgres
diset tpcc pg_dbase {database}
diset tpcc pg_count_ware {warehouses}
diset tpcc pg_num_vu {builders}
diset tpcc pg_storedprocs true
diset tpcc pg_driver timed
diset tpcc pg_rampup 0
diset tpcc pg_duration {minutes}
"""
BUILD = 'buildschema\n'
RUN = """\
loadscript
vuset vu {clients}
vucreate
vurun
vudestroy
"""
# One was filled in less than a minute; threads that have failed leave others waiting.
SECONDS_FOR_WAREHOUSE = 300
FAILED = ('finished failed', 'error in virtual user')


class Hammerdb(Driver):
    MEASURE = {'figure': 'nopm', 'unit': 'new orders/min', 'better': 'higher'}

    def folder(self):
        return Path(self.parameters['hammerdb'] or os.environ.get('HAMMERDB', ''))

    def require(self):
        if not os.access(self.folder() / 'hammerdbcli', os.X_OK):
            raise Missing('no HammerDB: unpack one (4.x), and name its folder: '
                          '-D hammerdb=FOLDER, or HAMMERDB')

    def client(self, cluster, script):
        path = cluster.home / 'hammerdb.tcl'
        words = {
            **self.parameters, 'host': cluster.home,
            'database': DATABASE,
            'builders': min(machine.cpus(), self.parameters['warehouses'])
        }
        path.write_text((SETTINGS + script).format(**words), encoding='utf-8')
        environment = {**cluster.client_environment(), 'TMP': str(cluster.home)}
        seconds = 60 * words['minutes'] + SECONDS_FOR_WAREHOUSE * words['warehouses']
        return ''.join(cluster.client(['./hammerdbcli', 'auto', path], FAILED, cwd=self.folder(),
                                      env=environment, timeout=seconds))

    def setup(self, cluster):
        self.client(cluster, BUILD)
        cluster.sql('VACUUM ANALYZE')
        yield from ()

    def measure(self, cluster, case):
        cluster.checkpoint()
        gauge = machine.Gauge(cluster)
        figures = parse.hammerdb(self.client(cluster, RUN))
        figures.update(gauge.figures(figures['tpm'] * self.parameters['minutes']))
        yield case['name'], figures

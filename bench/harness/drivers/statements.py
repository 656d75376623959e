"""Statements one by one, timed by psql in one session for each side.

The cases are those of the workload's .sql file (parse.statements); setup is SQL, with VACUUM
ANALYZE behind it; session is SQL that every session begins with; locale is the database's, as
cluster.locale_of_database() knows it; requires is a query that must say true, or the workload is
left out for the reason `otherwise`.
"""
from ..cluster import DATABASE
from ..errors import Missing
from .base import Driver


class Statements(Driver):
    KEYS = {'session', 'locale', 'requires', 'otherwise'}
    CASE_KEYS = {'timed', 'reset', 'with'}
    MEASURE = {'figure': 'ms', 'unit': 'ms', 'better': 'lower'}

    def __init__(self, workload, options):
        super().__init__(workload, options)
        self.sessions = {}

    def setup(self, cluster):
        requires = self.workload.content.get('requires')
        if requires and cluster.sql(requires) != 't':
            raise Missing(self.workload.content['otherwise'])
        locale = self.workload.content.get('locale')
        if locale:
            cluster.sql(f'DROP DATABASE {DATABASE}', database='postgres')
            cluster.make_database(DATABASE, locale)
        self.sql(cluster, self.workload.setup)
        cluster.sql('VACUUM ANALYZE')
        cluster.checkpoint()
        self.sessions[cluster.side.name] = cluster.session()
        yield from ()

    def measure(self, cluster, case):
        session = self.sessions[cluster.side.name]
        begin = [
            'RESET ALL;', 'SET client_min_messages = error;',
            self.workload.content.get('session', ''), case['reset'],
            *(f'SET {setting};' for setting in case['with'])
        ]
        session.run('\n'.join(begin).replace('{work}', str(cluster.home)))
        before = cluster.cpu_and_time()
        ms, _ = session.timed(case['timed'].replace('{work}', str(cluster.home)))
        used = cluster.cpu_and_time()['cpu'] - before['cpu']
        yield case['name'], {'ms': ms, 'cpu_ms': used * 1000}

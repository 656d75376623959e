"""The private memory of sessions with prepared statements: look-ups, ranges, joins, updates.

Means over the sessions of /proc/PID/smaps_rollup: pss_mib is all memory with the process's part of
what is shared, anon_mib what the session has taken for itself.  Of a case: options, settings of
the sessions.
"""
from pathlib import Path

from .. import summary
from .base import Driver

TABLES = 10
ROWS = 1100
LOOKED_UP = 1000  # of them; a range reads ten more
COLUMNS = 20
FIELDS = {'Pss:': 'pss_mib', 'Pss_Anon:': 'anon_mib'}


def prepare(number):
    """A statement of one of the four kinds."""
    table, joined = number % TABLES, (number // 4 + 1) % TABLES
    column = f'c{number % COLUMNS}'
    return f'PREPARE p{number} (int) AS ' + (
        f'SELECT a, b, {column} FROM t{table} WHERE id = $1;',
        f'SELECT id, {column} FROM t{table} WHERE id BETWEEN $1 AND $1 + 10 ORDER BY a;',
        f'SELECT x.a, y.{column} FROM t{table} x JOIN t{joined} y ON y.id = x.a WHERE x.id = $1;',
        f'UPDATE t{table} SET {column} = 1 WHERE id = $1;')[number % 4]


class SessionMemory(Driver):
    CASE_KEYS = {'options'}
    MEASURE = {'figure': 'anon_mib', 'unit': 'MiB of its own', 'better': 'lower'}

    def setup(self, cluster):
        columns = ''.join(f', c{i} int' for i in range(COLUMNS))
        for table in range(TABLES):
            cluster.sql(f"""CREATE TABLE t{table} (id int PRIMARY KEY, a int, b text{columns});
                INSERT INTO t{table} (id, a, b, c1)
                  SELECT i, i, 'text ' || i, i FROM generate_series(1, {ROWS}) i""")
        cluster.sql('VACUUM ANALYZE')
        yield from ()

    def measure(self, cluster, case):
        sessions = []
        try:
            for _ in range(self.parameters['connections']):
                sessions.append(cluster.session())
                self.work(sessions[-1], case.get('options', {}))
            pids = [session.run('SELECT pg_backend_pid();')[0] for session in sessions]
            memory = [memory_of(pid) for pid in pids]
        finally:
            for session in sessions:
                session.close()
        yield case['name'], {
            figure: summary.mean(one[figure] for one in memory)
            for figure in FIELDS.values()
        }

    def work(self, session, options):
        statements = range(self.parameters['statements'])
        settings = [f"SET {name} = '{value}';" for name, value in options.items()]
        session.run('\n'.join([*settings, *map(prepare, statements)]))
        for call in range(1, self.parameters['executions'] + 1):
            session.run('\n'.join(f'EXECUTE p{n}({(n * 31 + call) % LOOKED_UP + 1});'
                                  for n in statements))


def memory_of(pid):
    """Reads /proc as the server's user or root."""
    result = {}
    for line in Path(f'/proc/{pid}/smaps_rollup').read_text(encoding='ascii').splitlines():
        name, amount, *_ = line.split()
        if name in FIELDS:
            result[FIELDS[name]] = int(amount) / 1024
    return result

"""What recovery's passes take for a large transaction that had not ended at a kill.

Of a case: prepare, SQL before the transaction, which makes the table t; change, SQL in it.  The
figures are those of the report in the server's log, and how much log the transaction has written.
"""
import re
import time

from ..errors import BenchError
from .base import Driver

MB = 10**6
REPORT = re.compile(r'leanstore recovery: replayed .*\n.*'
                    r'Analysis ([\d.]+) s, redo ([\d.]+) s, undo ([\d.]+) s')
REPORT_SECONDS = 60  # the server answers before all losers are undone
REPORT_WAIT = 0.1


class Recovery(Driver):
    CASE_KEYS = {'prepare', 'change'}
    MEASURE = {'figure': 'undo_seconds', 'unit': 's of undo', 'better': 'lower'}

    def measure(self, cluster, case):
        self.sql(cluster, 'DROP TABLE IF EXISTS t, done;\n' + case['prepare'] +
                 '\n;CREATE TABLE done (i int);')
        cluster.checkpoint()
        before = cluster.sql('SELECT log_position FROM leanstore_stat_wal')
        cluster.session().run('BEGIN;\n' + case['change'] + ';')
        # the log up to this commit is on disk, the transaction's with it
        cluster.sql('INSERT INTO done VALUES (1)')
        after = cluster.sql('SELECT log_position FROM leanstore_stat_wal')
        log = cluster.home / 'server.log'
        cluster.kill()
        length = log.stat().st_size
        cluster.start()
        if cluster.sql('SELECT count(*) FROM done') != '1':
            raise BenchError(f"{cluster.side.name}: {case['name']}: a commit is lost")
        analysis, redo, undo = report(log, length, case['name'])
        log_mb = (int(after) - int(before)) / MB
        yield case['name'], {
            'undo_seconds': undo,
            'redo_seconds': redo,
            'analysis_seconds': analysis,
            'log_mb': log_mb,
            'undo_mb_per_second': log_mb / undo if undo else None,
            'redo_mb_per_second': log_mb / redo if redo else None
        }


def report(log, offset, name):
    """The seconds of the three passes in the part of the server's log behind an offset."""
    deadline = time.monotonic() + REPORT_SECONDS
    while True:
        text = log.read_bytes()[offset:].decode('utf-8', 'replace')
        match = REPORT.search(text)
        if match:
            return tuple(float(seconds) for seconds in match.groups())
        if time.monotonic() > deadline:
            raise BenchError(f'{name}: no report of recovery in\n{text[-3000:]}')
        time.sleep(REPORT_WAIT)

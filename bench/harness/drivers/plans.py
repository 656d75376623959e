"""Where are queries planned otherwise for leanstore tables than for heap's, and at what cost?

Each case is a script that runs on heap and then on leanstore, in a database of its own.  Where a
query's plan has another shape on leanstore, both shapes are shown, and three times, each the least
of five executions: heap's, leanstore's, and leanstore's with heap's shape (as_heap_ms), to which
it is brought by planner settings where some do that.

Of a case: script, a file of SQL that makes its own tables; variables of psql for it; or suite,
scripts of PostgreSQL's regression tests; the parameter `suite` names their source.
"""
import re
import subprocess
from pathlib import Path

from .. import summary
from ..errors import BenchError
from ..planned import planned
from ..sides import CACHE
from ..workload import FOLDER
from .base import Driver

SUITE = CACHE / 'pg18-src' / 'src' / 'test' / 'regress'
DATABASE = 'plans'
DIFFERING = """COPY (SELECT label, query, heap, ours, heap_ms, ours_ms, as_heap_ms
  FROM plans.differing ORDER BY label::int) TO STDOUT"""
COUNTS = """SELECT (SELECT count(*) FROM plans.heap), (SELECT count(*) FROM plans.compared),
  (SELECT count(*) FROM plans.differing)"""
DIFFER = 'queries of another shape'
COUNTED = {'figure': 'differing', 'unit': 'queries', 'better': 'lower'}
ESCAPES = {'n': '\n', 't': '\t', '\\': '\\'}


class Plans(Driver):
    CASE_KEYS = {'script', 'variables', 'suite'}
    MEASURE = {'figure': 'speed', 'unit': "times heap's speed", 'better': 'higher'}

    def __init__(self, workload, options):
        super().__init__(workload, options)
        self.noted = None
        self.counts = {}

    def require(self):
        if self.options.sides_of(self.workload)[0].name != summary.BASELINE:
            raise BenchError('plans are compared with those of heap, the first side')

    @property
    def suite(self):
        return Path(self.parameters['suite'] or SUITE)

    def measure(self, cluster, case):
        if not self.can_run(case):
            return
        cluster.make_database(DATABASE)
        cluster.sql((FOLDER / 'plans' / 'judge.sql').read_text(encoding='utf-8'), DATABASE)
        if cluster.side.name == summary.BASELINE:
            self.play(cluster, case, 'plans.note')
            self.noted = cluster.sql('COPY plans.heap TO STDOUT', DATABASE)
        else:
            cluster.sql(f'COPY plans.heap FROM STDIN;\n{self.noted}\n\\.\n', DATABASE)
            self.play(cluster, case, 'plans.judge')
            yield from self.compared(cluster, case)
        cluster.sql(f'DROP DATABASE {DATABASE}', 'postgres')

    def can_run(self, case):
        """The workload's script of the user's own is there only where it is named."""
        if 'suite' in case and not (self.suite / 'sql').is_dir():
            print(f"  {case['name']} is left out: no tests in {self.suite}; -D suite=FOLDER")
            return False
        return 'suite' in case or case['script'] != ''

    def play(self, cluster, case, function):
        suite = 'suite' in case
        text = self.suite_text(case, function) if suite else planned(
            (FOLDER / case['script']).read_text(encoding='utf-8'), function)
        variables = [f'{name}={value}' for name, value in case.get('variables', {}).items()]
        # a test of the suite has statements that are meant to fail
        words = cluster.psql_command(DATABASE) + ['-v', f'ON_ERROR_STOP={0 if suite else 1}']
        for variable in variables:
            words += ['-v', variable]
        environment = cluster.client_environment() | self.suite_environment(cluster)
        run = subprocess.run(words, input=text, text=True, errors='replace', env=environment,
                             capture_output=True)
        if run.returncode != 0:
            raise BenchError(f"{cluster.side.name}: {case['name']}: {run.stderr.strip()[-2000:]}\n"
                             f'{cluster.log_end()}')

    def suite_text(self, case, function):
        """Each test in a session of its own, behind the suite's tables."""
        folder = self.suite / 'sql'
        tests = ''.join('\n\\connect -\n' + (folder / f'{name}.sql').read_text(encoding='utf-8')
                        for name in case['suite'])
        return (folder / 'test_setup.sql').read_text(encoding='utf-8') + planned(
            tests, function, suite=True)

    def suite_environment(self, cluster):
        return {
            'PG_ABS_SRCDIR': str(self.suite),
            'PG_LIBDIR': str(cluster.pkglibdir),
            'PG_DLSUFFIX': '.so'
        }

    def compared(self, cluster, case):
        counts = map(int, cluster.sql(COUNTS, DATABASE).split('|'))
        counts = dict(zip(('heap_queries', 'compared', 'differing'), counts))
        self.counts[case['name']] = counts
        print(f"  {case['name']}: {counts['heap_queries']} queries planned on heap, "
              f"{counts['compared']} compared, {counts['differing']} differ")
        for line in cluster.sql(DIFFERING, DATABASE).splitlines():
            label, query, heap, ours, *times = map(unescaped, line.split('\t'))
            heap_ms, ms, as_heap_ms = (float(time) if time else None for time in times)
            print(f"\n  {query.strip()}\n--- heap\n{heap}\n--- leanstore\n{ours}")
            yield f"{case['name']}, statement {label}", {
                'speed': heap_ms / ms,
                'ms': ms,
                'heap_ms': heap_ms,
                'as_heap_ms': as_heap_ms
            }

    def finish(self, cluster):
        if cluster.is_leanstore:
            for name, counts in self.counts.items():
                yield {'name': f'{name}: {DIFFER}', 'measure': COUNTED}, counts


def unescaped(field):
    """A field of COPY; the empty text for a null."""
    return '' if field == '\\N' else re.sub(r'\\(.)', lambda match: ESCAPES[match[1]], field)

"""bench/workloads/NAME.toml: what a workload sets up, runs and measures.

title, driver (harness/drivers), what else the driver knows; `parameters` with their defaults, which
stand in braces in all other texts; `texts`, pieces of those; `settings` of the servers; `cases`,
the things measured, each with a name; `measure`: the figure that counts, its unit, and whether
`higher` or `lower` is better.  A case may have a measure of its own.  `main = true` of a case puts
it on the report's first page, `main_mean = true` of a workload the mean of all its ratios.
"""
import copy
import re
import tomllib
from pathlib import Path

from . import parse
from .errors import BenchError

FOLDER = Path(__file__).resolve().parent.parent / 'workloads'
WORD = re.compile(r'\{([a-z_]+)\}')
KEYS = {
    'title', 'driver', 'note', 'rounds', 'warm_rounds', 'sides', 'parameters', 'texts', 'settings',
    'cases', 'measure', 'checks', 'setup', 'main_mean'
}
CASE_KEYS = {'name', 'main', 'measure'}
BETTER = ('higher', 'lower')


def fill(value, words):
    """The value with words in braces replaced; structures by their parts."""
    if isinstance(value, dict):
        return {name: fill(part, words) for name, part in value.items()}
    if isinstance(value, list):
        return [fill(part, words) for part in value]
    if not isinstance(value, str):
        return value

    def word(match):
        if match[1] not in words:
            raise BenchError(f'no parameter {match[1]}, in: {value.strip()[:200]}')
        return str(words[match[1]])

    return WORD.sub(word, value)


def setting_text(value):
    return ('on' if value else 'off') if isinstance(value, bool) else str(value)


class Workload:

    def __init__(self, name, content, drivers, parameters=None):
        self.name = name
        content = copy.deepcopy(content)
        if content.get('driver') not in drivers:
            raise BenchError(f"{name}: no driver {content.get('driver')}")
        self.driver = drivers[content['driver']]
        unknown = set(content) - KEYS - self.driver.KEYS
        if unknown:
            raise BenchError(f"{name}: unknown keys {', '.join(sorted(unknown))}")
        self.parameters = content.pop('parameters', {})
        for parameter, value in (parameters or {}).items():
            kind = type(self.parameters[parameter])
            try:
                self.parameters[parameter] = kind(value)
            except ValueError as error:
                raise BenchError(f'{name}: {parameter} = {value} is no {kind.__name__}') from error
        texts = fill(content.pop('texts', {}), {'work': '{work}'} | self.parameters)
        # {work} is a directory that only the server has
        content = fill(content, {'work': '{work}'} | self.parameters | texts)
        self.title = content['title']
        self.note = content.get('note', '')
        self.rounds = content.get('rounds', 3)
        self.warm_rounds = content.get('warm_rounds', 0)
        self.sides = content.get('sides')
        self.main_mean = content.get('main_mean', False)
        self.settings = {
            name: setting_text(value)
            for name, value in content.get('settings', {}).items()
        }
        self.measure = content.get('measure', self.driver.MEASURE)
        self.setup = content.get('setup', '')
        self.checks = content.get('checks', [])
        self.content = content
        self.cases = content.get('cases', [])
        path = FOLDER / f'{name}.sql'
        if path.exists():
            text = fill(path.read_text(encoding='utf-8'),
                        {'work': '{work}'} | self.parameters | texts)
            self.cases = self.cases + parse.statements(text)
        self.check_cases()

    def check_cases(self):
        for case in self.cases:
            unknown = set(case) - CASE_KEYS - self.driver.CASE_KEYS
            if unknown:
                raise BenchError(
                    f"{self.name}: a case with unknown keys {', '.join(sorted(unknown))}")
            measure = self.measure_of(case)
            if set(measure) != {'figure', 'unit', 'better'} or measure['better'] not in BETTER:
                raise BenchError(f"{self.name}: {case['name']}: measure {measure}")
        names = [case['name'] for case in self.cases]
        if len(names) != len(set(names)) or not names:
            raise BenchError(f'{self.name}: no cases, or two of one name')

    def measure_of(self, case):
        return case.get('measure', self.measure)

    def pick(self, pattern):
        """Leaves only the cases that the pattern matches by name."""
        if pattern:
            self.cases = [case for case in self.cases if re.search(pattern, case['name'])]


def names():
    return sorted(path.stem for path in FOLDER.glob('*.toml'))


def load(name, drivers, parameters=None):
    """parameters: those of them that the workload has take the place of its own."""
    path = FOLDER / f'{name}.toml'
    if not path.exists():
        raise BenchError(f"no workload {name}; there are: {' '.join(names())}")
    try:
        content = tomllib.loads(path.read_text(encoding='utf-8'))
    except tomllib.TOMLDecodeError as error:
        raise BenchError(f'{path.name}: {error}') from error
    known = content.get('parameters', {})
    return Workload(name, content, drivers, {
        key: value
        for key, value in (parameters or {}).items() if key in known
    })

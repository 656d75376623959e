"""Leap tables beside two-phase commit and Citus: bench/leap.

A case: kind, one of ycsb (also hot, once) and tpcc; nodes; remote and locality in percent.  Its
sides are the ways of harness/leap/ways.py.  `citus` takes part where CITUS_PG names the prefix of a
server that has Citus and this extension in it.
"""
import os
from pathlib import Path

from .. import machine, summary
from ..errors import BenchError
from ..leap import clients
from ..leap import report as reports
from ..leap.model import expected
from ..leap.nodes import CitusNodes, LeapNodes
from ..leap.pq import Connection
from ..leap.tpcc import Tpcc
from ..leap.ways import WAYS
from ..leap.ycsb import Ycsb
from ..sides import Server

KINDS = {'ycsb': Ycsb, 'hot': Ycsb, 'once': Ycsb, 'tpcc': Tpcc}
CITUS = 'CITUS_PG'
DECIDED = 'CREATE TABLE decided (gid text PRIMARY KEY)'


class Turn:
    """What the clients of one turn are told."""
    serials = 0

    def __init__(self, driver, place, case, way, round_number):
        self.nodes, self.case, self.way = place.nodes, case, way
        self.workload = place.data[KINDS[case['kind']]]
        self.table = self.workload.tables()[{'citus': 'plain'}.get(WAYS[way].KIND, WAYS[way].KIND)]
        self.clients = driver.parameters['clients'] * len(place.nodes)
        self.libdir = driver.libdir
        self.seed = round_number
        Turn.serials += 1
        self.serial = Turn.serials


class Place:
    """Nodes, and the data of workloads in them."""

    def __init__(self, nodes, parameters, kinds):
        self.nodes = nodes
        self.data = {kind: kind(parameters) for kind in kinds}
        self.done = {}      # {(kind of workload, table): what was acknowledged}

    def __enter__(self):
        self.nodes.__enter__()
        is_citus = isinstance(self.nodes, CitusNodes)
        try:
            if not is_citus:
                self.nodes.everywhere(DECIDED)
            for data in self.data.values():
                (data.create_citus if is_citus else data.create)(self.nodes)
            self.nodes.everywhere('VACUUM ANALYZE')
            self.nodes.freeze()
        except BaseException:
            self.nodes.close()
            raise
        return self

    def __exit__(self, *_):
        self.nodes.thaw()
        self.nodes.close()

    def check(self):
        self.nodes.thaw()
        is_citus = isinstance(self.nodes, CitusNodes)
        for kind, data in self.data.items():
            done = {table: count for (of, table), count in self.done.items() if of is kind}
            if not done:
                continue
            for text, good in (data.check_citus if is_citus else data.check)(self.nodes, done):
                if not good:
                    raise BenchError(text)
                print(f'  {text}')
        self.nodes.freeze()


class Leap:
    KEYS = set()
    CASE_KEYS = {'kind', 'nodes', 'remote', 'locality'}
    MEASURE = {'figure': 'tps', 'unit': 'transactions/s', 'better': 'higher'}
    report = staticmethod(reports.text)
    picture = staticmethod(reports.picture)

    def __init__(self, workload, options):
        self.workload, self.options = workload, options
        self.parameters = workload.parameters
        self.libdir = None

    def run(self, record):
        install = self.options.install
        self.libdir = Path(install.bindir).parent / 'lib'
        Connection.load(self.libdir)
        ways = [way for way in self.parameters['ways'].split(',')
                if way != 'citus' or CITUS in os.environ]
        unknown = set(ways) - set(WAYS)
        if unknown:
            raise BenchError(f"no way {', '.join(unknown)}; there are: {', '.join(WAYS)}")
        for count in dict.fromkeys(case['nodes'] for case in self.workload.cases):
            cases = [case for case in self.workload.cases if case['nodes'] == count]
            self.play(install, count, cases, ways, record)

    def play(self, install, count, cases, ways, record):
        """All cases with so many nodes."""
        kinds = list(dict.fromkeys(KINDS[case['kind']] for case in cases))
        delay = self.parameters['delay']
        with Place(LeapNodes(install, count, self.options, delay), self.parameters, kinds) as place:
            if 'citus' not in ways:
                self.rounds({False: place}, cases, ways, record)
                return
            server = Server(Path(os.environ[CITUS]) / 'bin' / 'pg_config')
            with Place(CitusNodes(server, count, self.options, delay), self.parameters,
                       kinds) as other:
                self.rounds({False: place, True: other}, cases, ways, record)

    def rounds(self, places, cases, ways, record):
        for case in cases:
            for round_number in range(1, self.workload.rounds + 1):
                for way in summary.order(ways, round_number):
                    place = places[way == 'citus']
                    figures = self.measure(place, case, way, round_number)
                    record(case, case['name'], way, place.nodes.nodes[0].settings, round_number,
                           figures)
        for place in places.values():
            place.check()

    def measure(self, place, case, way, round_number):
        nodes = place.nodes
        nodes.thaw()
        turn = Turn(self, place, case, way, round_number)
        if WAYS[way].KIND == 'leap':
            turn.workload.arrange(nodes, case)
        own = machine.own_seconds()
        before, after, used = clients.play(turn, self.parameters['warm'],
                                           self.parameters['seconds'])
        nodes.freeze()
        key = KINDS[case['kind']], turn.table
        place.done[key] = place.done.get(key, 0) + after[2]
        return self.figures(turn, before, after, {**used, 'own': machine.own_seconds() - own})

    def figures(self, turn, before, after, used):
        done, failed, _, messages, sequence = (end - begin for begin, end in zip(before, after))
        each, seconds = max(done, 1), self.parameters['seconds']
        n, writes = turn.workload.accesses()
        figures = {
            'tps': done / seconds,
            'ms': 1000 * seconds * turn.clients / each,
            'failed_percent': 100 * failed / max(done + failed, 1),
            'forced_writes': used['syncs'] / each,
            'cpu_us': used['cpu'] * 1e6 / each,
            'busy_percent': 100 * used['busy'] / (seconds * machine.cpus()),
            'clients': turn.clients
        }
        if WAYS[turn.way].KIND == 'plain':
            figures['messages'] = messages / each
            figures['in_sequence'] = sequence / each
        elif WAYS[turn.way].KIND == 'leap':
            figures['messages'] = (used['messages'] - used['settling']) / each
            figures['settling'] = used['settling'] / each
            figures['in_sequence'] = 2 * used['rounds'] / each
            figures['fetched'] = used['taken'] / each
        if turn.way != 'citus' and turn.case['kind'] in ('ycsb', 'tpcc'):
            figures['model_messages'], figures['model_forced'] = expected(
                turn.way, turn.case, n, writes)
        others = used['busy'] - used['cpu'] - used['own']
        figures['others_percent'] = 100 * max(0, others) / (seconds * machine.cpus())
        return figures

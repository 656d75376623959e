"""The engine beside other stores in one program: bench/engine.

Stores of others take part where their headers are installed; the original LeanStore where the
parameter `original` names a folder with its archive liboriginal.a and the file flags, which it was
compiled with.  Of a case: family, a name that the program knows; lines, a pattern of the names of
its turns; device, {such a name: access of fio}.
Builds are leanstore with something left out: a flag for each; without any there is one, with all.
"""
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from .. import parse
from ..errors import BenchError
from ..sides import TOP
from .program import OUT, call, compile_object, compiler, compiles, threads_case

# of others: (header, flag, source, libraries)
PEERS = [
    ('rocksdb/utilities/transaction_db.h', '-DWITH_ROCKSDB', 'peer_rocksdb', ['-lrocksdb']),
    ('wiredtiger.h', '-DWITH_WIREDTIGER', 'peer_wiredtiger', ['-lwiredtiger']),
    ('lmdb.h', '-DWITH_LMDB', 'peer_lmdb', ['-llmdb']),
]
ORIGINAL_LIBRARIES = ['-lgflags', '-ltbb', '-laio', '-latomic']
LIBRARIES = ['-flto=auto', '-luring', '-llz4', '-lpthread']
ARCHIVE = 'build/release/libleanstore.a'
# What the techniques are compiled into.
BUILT_ANEW = ('engine/btree/*.cpp', 'engine/index/index_build.cpp', 'bench/engine/peer_tree.cpp')


class Engine:
    KEYS = {'builds'}
    CASE_KEYS = {'family', 'lines', 'device'}
    MEASURE = {'figure': 'rate', 'unit': 'millions of operations/s', 'better': 'higher'}

    def __init__(self, workload, options):
        self.workload = workload
        self.options = options
        self.parameters = workload.parameters
        self.flags, self.sources, self.libraries = [], [], []
        self.original_flags = []

    def run(self, record):
        self.find_peers()
        call(['make', '-s', ARCHIVE])
        builds = self.workload.content.get('builds', {'': ''})
        programs = {name: self.build(name, flag.split()) for name, flag in builds.items()}
        with tempfile.TemporaryDirectory(prefix='leanstore_bench.',
                                         dir=self.options.directory) as data:
            # one program takes its rounds itself; several take turns
            rounds = 1 if len(programs) > 1 else self.workload.rounds
            for turn in range(self.workload.rounds // rounds):
                self.device(data, turn + 1, record)
                for name, program in programs.items():
                    self.play(program, name, rounds, data, turn, record)

    # ---- build ---------------------------------------------------------------

    def find_peers(self):
        self.sources = [
            path for path in sorted(TOP.glob('bench/engine/*.cpp'))
            if not path.name.startswith('peer_') or path.stem in ('peer_tree', 'peer_rows')
        ]
        for header, flag, source, libraries in PEERS:
            if compiles(header):
                self.flags.append(flag)
                self.sources.append(TOP / 'bench/engine' / f'{source}.cpp')
                self.libraries += libraries
            else:
                print(f'  {source} takes no part: {header} is not installed')
        if self.parameters['original']:
            folder = Path(self.parameters['original'])
            if not (folder / 'liboriginal.a').exists():
                raise BenchError(f'no liboriginal.a in {folder}')
            self.flags.append('-DWITH_ORIGINAL')
            self.sources.append(TOP / 'bench/engine/peer_original.cpp')
            self.original_flags = (folder / 'flags').read_text(encoding='utf-8').split()
            self.libraries = [folder / 'liboriginal.a', *ORIGINAL_LIBRARIES, *self.libraries]

    def build(self, name, left_out):
        folder = Path('engine') / (name.replace(' ', '_') or 'all')
        anew = [path for pattern in BUILT_ANEW
                for path in sorted(TOP.glob(pattern))] if left_out else []
        objects = [compile_object(path, self.flags + left_out, folder) for path in anew]
        for source in self.sources:
            if source not in anew:
                own = self.original_flags if source.stem == 'peer_original' else []
                objects.append(compile_object(source, self.flags + own, 'engine/all'))
        program = OUT / folder / 'engine_bench'
        program.parent.mkdir(parents=True, exist_ok=True)
        call([compiler(), *objects, ARCHIVE, '-o', program, *self.libraries, *LIBRARIES])
        return program

    # ---- play ----------------------------------------------------------------

    def play(self, program, build, rounds, data, turn, record):
        families = ','.join(dict.fromkeys(case['family'] for case in self.workload.cases))
        environment = {**os.environ, 'WORK': families, 'ROUNDS': str(rounds)}
        environment.update((name.upper(), str(value)) for name, value in self.parameters.items())
        output = OUT / 'engine' / 'turns.tsv'
        call([program, data, output], env=environment, show=True)
        seen = {}
        for name, threads, store, rates in parse.turns(output.read_text(encoding='utf-8')):
            case = self.case_of(name)
            key = name, threads, store
            seen[key] = seen.get(key, turn) + 1
            figure = self.workload.measure_of(case)['figure']
            side = f'{store}, {build}' if build else store
            record(case, threads_case(name, threads), side, {}, seen[key], {
                'threads': threads,
                figure: rates[0]
            })

    def case_of(self, name):
        """The case with the pattern that fits a line."""
        for case in self.workload.cases:
            if re.search(case['lines'], name):
                return case
        raise BenchError(f'no case for the line {name}')

    def device(self, data, round_number, record):
        """The device by itself, where fio is there: reads, also with a write for each two."""
        for case in self.workload.cases:
            if 'device' not in case or not shutil.which('fio'):
                continue
            for threads in str(self.parameters['threads']).split(','):
                for name, access in case['device'].items():
                    record(case, threads_case(name, int(threads)), 'the device (fio)', {},
                           round_number, {
                               'threads': int(threads),
                               'rate': self.fio(data, threads, access)
                           })

    def fio(self, data, threads, access):
        path = Path(data) / 'fio'
        report = call([
            'fio', '--name=device', f'--filename={path}', '--size=1G', *access.split(), '--bs=4k',
            '--direct=1', '--ioengine=psync', '--thread', f'--numjobs={threads}',
            '--group_reporting', '--time_based', f"--runtime={self.parameters['seconds_each']}",
            '--output-format=json'
        ])
        path.unlink()
        return json.loads(report)['jobs'][0]['read']['iops'] / 1e6

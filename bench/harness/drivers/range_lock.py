"""The range lock beside the published ones and a std::map under a mutex: bench/range_lock."""
from .. import parse
from .program import FLAGS, OUT, call, compiler, threads_case

SOURCES = [
    'bench/range_lock/range_lock.cpp', 'engine/range/range_locks.cpp', 'engine/base/check.cpp',
    'engine/base/status.cpp', 'engine/os/futex.cpp'
]


class RangeLock:
    KEYS = set()
    CASE_KEYS = set()
    MEASURE = {'figure': 'rate', 'unit': 'millions of ranges/s', 'better': 'higher'}

    def __init__(self, workload, options):
        self.workload = workload

    def run(self, record):
        OUT.mkdir(parents=True, exist_ok=True)
        program, cpu = OUT / 'range_lock', OUT / 'range_lock_cpu.tsv'
        call([compiler(), *FLAGS, *SOURCES, '-o', program, '-lpthread'])
        output = call(
            [program, self.workload.rounds, self.workload.parameters['milliseconds'], cpu])
        cases = {case['name']: case for case in self.workload.cases}
        used = {turn[:3]: turn[3] for turn in parse.turns(cpu.read_text(encoding='utf-8'))}
        for name, threads, lock, rates in parse.turns(output):
            if name not in cases:
                continue
            for number, rate in enumerate(rates):
                record(cases[name], threads_case(name, threads), lock, {}, number + 1, {
                    'threads': threads,
                    'rate': rate,
                    'cpu_ns': used[name, threads, lock][number]
                })

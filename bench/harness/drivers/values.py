"""Large values on servers and, where its headers are installed, in RocksDB with BlobDB.

bench/blobdb compiles the client, which does the same operations on each side.  Of a workload:
table, SQL that makes the table v.  Of a case: generate, a trace's name (bench/values); size of a
value in bytes; live_mib of values that are loaded; put_share, bytes put behind that for each of
live_mib; duplicates, reads, shares; batch, operations of a commit; empty, nothing is loaded;
reader, true: a snapshot is open while values are updated.

Each run gives lines of its own for bytes written, space, and speed.
"""
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

from .. import machine, summary
from ..errors import BenchError
from ..image import Image
from ..sides import TOP, Field
from .base import Driver
from .program import OUT, call

MIB = 1024 * 1024
BLOCK = 512  # of st_blocks
PROGRAM = OUT / 'blobdb' / 'values_client'
BLOBDB = 'blobdb'
SAMPLE_SECONDS = 0.25
LOGS = ('pg_wal', 'leanstore/wal')
FEWEST_KEYS = 100  # of a generator
SPEED = ('ops', 'cpu_us', 'client_us', 'others_percent')


def line(case, what, figure, unit, better='lower'):
    """One of a case's lines in the results."""
    measure = {'figure': figure, 'unit': unit, 'better': better}
    return {'name': f"{case['name']}: {what}", 'measure': measure}


class Values(Driver):
    KEYS = {'table'}
    CASE_KEYS = {
        'generate', 'size', 'live_mib', 'put_share', 'duplicates', 'reads', 'batch', 'empty',
        'reader'
    }
    MEASURE = {'figure': 'written', 'unit': 'bytes for each byte put', 'better': 'lower'}

    def run(self, record):
        sides = self.options.sides_of(self.workload) if self.parameters['servers'] else []
        settings = {**self.workload.settings, **self.options.settings}
        install = self.options.install
        call(['make', '-s', '-C', 'bench/blobdb', f'PG_CONFIG={install.bindir}/pg_config'])
        with Place(self.parameters['image_gib'], self.options.directory) as place:
            with Field(install, sides, settings, place.path) as field:
                players = [Server(field, cluster, self.workload) for cluster in field.clusters]
                if self.has_blobdb():
                    cutoffs = str(self.parameters['blob_cutoff']).split(',')
                    players += [BlobDb(field, self.parameters, cutoff) for cutoff in cutoffs]
                for player in players:
                    player.setup()
                for round_number in range(1, self.workload.rounds + 1):
                    for case in self.workload.cases:
                        for player in summary.order(players, round_number):
                            for part, figures in self.measure(player, case):
                                record(part, part['name'], player.name, player.settings,
                                       round_number, figures)
                for player in players:
                    player.check(self)

    def has_blobdb(self):
        if not self.parameters['blobdb']:
            return False
        if subprocess.run([PROGRAM, 'has-rocksdb']).returncode == 0:
            return True
        print('  blobdb takes no part: rocksdb/db.h is not installed')
        return False

    # ---- a case --------------------------------------------------------------

    def measure(self, player, case):
        player.begin()
        with Client(player, self.words(case), case['name']) as client:
            client.do('load')
            client.do('settle')
            player.persist()
            with Meter(player, client) as meter:
                figures = self.play(player, case, client, meter)
            client.do('check')
        player.end()
        yield line(case, 'bytes written', **self.MEASURE), written(figures)
        yield line(case, 'space', 'space', 'bytes for each live byte'), space(figures)
        speed = line(case, 'speed', 'ops', 'operations/s', 'higher')
        yield speed, {name: figures[name] for name in SPEED}

    def play(self, player, case, client, meter):
        """What is measured; bytes and times, not yet divided."""
        reader = case.get('reader', False)
        if reader:
            client.do('snapshot')
        done = client.do('run')
        figures = {'mean_bytes': meter.mean()}
        if reader:
            figures['open_bytes'] = player.space()
            client.do('release')
            figures['back_seconds'] = self.wait_for_space(player, done['live_bytes'])
        client.do('settle')
        player.persist()
        return {**done, **figures, **meter.figures(done)}

    def wait_for_space(self, player, live):
        """Seconds until it is little again; None: not within the time for that."""
        begin = time.monotonic()
        while time.monotonic() < begin + self.parameters['back_limit']:
            if player.space() <= float(self.parameters['back_share']) * live:
                return time.monotonic() - begin
            time.sleep(SAMPLE_SECONDS)
        return None

    def words(self, case):
        """The client's options, but for those of the store."""
        size = int(case['size'])
        live = int(float(case['live_mib']) * MIB)
        keys = max(FEWEST_KEYS, live // size)
        load = 0 if case.get('empty') else keys
        writes = load + int(float(case['put_share']) * live / size)
        return {
            'generate': case['generate'],
            'keys': keys,
            'load': load,
            'writes': writes,
            'size': size,
            'reads': case.get('reads', 0),
            'duplicates': case.get('duplicates', 0),
            'seed': self.parameters['seed'],
            'clients': self.parameters['clients'],
            'batch': case.get('batch', self.parameters['batch'])
        }


def written(figures):
    put = figures['put_bytes']
    result = {
        'written': figures['disk_bytes'] / put,
        'wal': figures['wal'] / put,
        'log': figures['log'] / put
    }
    beside = {name: space(figures)[name] for name in ('space', 'space_mean')}
    return {**result, **beside, 'put_mib': put / MIB}


def space(figures):
    live = figures['live_bytes']
    result = {
        'space': figures['end_bytes'] / live,
        'space_mean': figures['mean_bytes'] / live,
        'space_peak': figures['peak_bytes'] / live,
        'live_mib': live / MIB
    }
    if 'open_bytes' in figures:
        result['space_open'] = figures['open_bytes'] / live
        result['back_seconds'] = figures['back_seconds']
    return result


class Place:
    """Where all data goes: a file system of its own, or what there is."""

    def __init__(self, gigabytes, directory):
        self.image = Image(gigabytes, directory) if gigabytes else None
        self.path = directory

    def __enter__(self):
        if self.image:
            self.image.__enter__()
            self.path = self.image.path
        else:
            print('  no file system of its own: bytes written are those of the whole device')
        return self

    def __exit__(self, *_):
        if self.image:
            self.image.close()


def allocated(top, without=()):
    """Bytes on disk of a directory's files, but for some of its folders."""
    total = 0
    skipped = {os.path.join(top, name) for name in without}
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in skipped]
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * BLOCK
            except FileNotFoundError:
                pass  # removed meanwhile
    return total


# ---- sides -------------------------------------------------------------------


class Server:
    """A PostgreSQL server; its space is without the logs, and without an empty cluster's."""

    def __init__(self, field, cluster, workload):
        self.field, self.cluster, self.workload = field, cluster, workload
        self.name, self.settings, self.data = cluster.side.name, cluster.settings, cluster.data
        self.empty = 0

    def setup(self):
        self.field.turn(self.cluster)
        self.empty = self.space()
        self.cluster.sql(self.workload.setup)
        self.persist()

    def begin(self):
        self.field.turn(self.cluster)
        self.cluster.sql('DROP TABLE IF EXISTS v')
        # Files that outlive a table, as those of old versions, are not the next case's.
        self.cluster.stop()
        self.cluster.start()
        self.cluster.sql(self.workload.content['table'])
        self.cluster.checkpoint()

    def end(self):
        """The table stays for the check at the end."""

    def check(self, driver):
        self.field.turn(self.cluster)
        driver.check(self.cluster)

    def persist(self):
        self.cluster.checkpoint()
        machine.sync(self.data)

    def space(self):
        return allocated(self.data, LOGS) - self.empty

    def counters(self):
        used = self.cluster.cpu_and_time()['cpu']
        return {'cpu': used, 'wal': self.cluster.wal_bytes(), 'log': self.cluster.log_bytes()}

    def client(self):
        return {'store': 'postgres'}, self.cluster.client_environment()


class BlobDb:
    """RocksDB in the client's process; its space is without the log, as a server's is."""

    def __init__(self, field, parameters, cutoff):
        self.name = f'{BLOBDB} {cutoff}'
        self.field = field
        self.data = field.work / BLOBDB
        memory = parameters['memory']
        self.settings = {
            'memory': f'{memory}MiB',
            'cutoff': cutoff,
            'force': parameters['blob_force']
        }
        self.store = {
            'store': 'rocksdb',
            'place': self.data,
            'memory_mib': memory,
            'cutoff': cutoff,
            'force': parameters['blob_force']
        }

    def setup(self):
        """Nothing is there before a case."""

    def begin(self):
        for cluster in self.field.clusters:
            cluster.freeze()
        shutil.rmtree(self.data, ignore_errors=True)

    def end(self):
        shutil.rmtree(self.data)

    def check(self, driver):
        """The client has looked at all values."""

    def persist(self):
        machine.sync(self.data)

    def space(self):
        return allocated(self.data) - sum(
            path.lstat().st_blocks * BLOCK for path in self.data.glob('*.log'))

    def counters(self):
        return {'cpu': 0, 'wal': 0, 'log': 0}

    def client(self):
        return self.store, dict(os.environ)


# ---- the client and what is measured around it -------------------------------


class Client:
    """bench/blobdb's program, which does one command after the other."""

    def __init__(self, player, words, what):
        store, environment = player.client()
        self.what = f'{player.name}: {what}'
        self.cpu = 0
        self.process = subprocess.Popen(
            [PROGRAM, *(f'{name}={value}' for name, value in {**words, **store}.items())],
            env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
        _, errors = self.process.communicate()
        if not kind and self.process.returncode != 0:
            raise BenchError(f'{self.what}: {errors[-2000:]}')

    def do(self, command):
        """The figures of its answer."""
        try:
            self.process.stdin.write(command + '\n')
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ''
        if not answer:
            raise BenchError(f'{self.what}: {command}: {self.process.stderr.read()[-2000:]}')
        pairs = (word.split('=') for word in answer.split())
        figures = {name: float(value) for name, value in pairs}
        self.cpu = figures['cpu']
        return figures


class Meter:
    """Counters at both ends, and the most space in between."""

    def __init__(self, player, client):
        self.player, self.client = player, client
        self.samples = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.sample)
        self.start = self.read()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def sample(self):
        while not self.ended.wait(SAMPLE_SECONDS):
            self.samples.append(self.player.space())

    def mean(self):
        """Of the space up to now."""
        return summary.mean(self.samples or [self.player.space()])

    def read(self):
        disk = machine.disk_bytes(self.player.data)
        if disk is None:
            raise BenchError(f'no counters of the device below {self.player.data}')
        return {
            **self.player.counters(), 'device': disk[1],
            'client': self.client.cpu,
            'busy': machine.busy_seconds(),
            'own': machine.own_seconds(),
            'time': time.monotonic()
        }

    def figures(self, done):
        """done: what the client has said of the run."""
        end = self.read()
        used = {name: end[name] - self.start[name] for name in end}
        operations = done['puts'] + done['reads']
        # an embedded store's processor time is its client's
        server = used['cpu'] or used['client']
        others = used['busy'] - used['cpu'] - used['client'] - used['own']
        size = self.player.space()
        return {
            'disk_bytes': used['device'],
            'wal': used['wal'],
            'log': used['log'],
            'end_bytes': size,
            'peak_bytes': max([*self.samples, size]),
            'ops': operations / done['seconds'],
            'cpu_us': server * 1e6 / operations,
            'client_us': used['client'] * 1e6 / operations,
            'others_percent': 100 * max(0, others) / (used['time'] * machine.cpus())
        }

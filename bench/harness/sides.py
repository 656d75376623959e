"""bench/sides.toml: what is compared, and the servers of one workload, which take turns."""
import os
import shutil
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from . import machine, summary
from .cluster import Cluster
from .errors import BenchError
from .workload import setting_text

DEFAULT = ('heap', 'leanstore', 'leanstore+accel')
TOP = Path(__file__).resolve().parent.parent.parent
CACHE = Path(os.environ.get('LEANSTORE_CACHE', '/var/cache/leanstore_am'))


@dataclass
class Side:
    name: str
    access_method: str
    libraries: str
    settings: dict = field(default_factory=dict)
    extension: str = 'leanstore_am'
    server: str = ''
    pool: str = ''
    version: str = ''
    size: str = 'pg_total_relation_size'
    versions: str = ''

    @property
    def is_here(self):
        return not self.server or bool(os.environ.get(self.server))

    def fit(self, settings):
        """The settings of a workload as this side calls them."""
        pool = settings.get('leanstore.buffer_pool_size')
        return {**self.settings, **settings, **({self.pool: pool} if self.pool and pool else {})}


def read():
    content = tomllib.loads((TOP / 'bench' / 'sides.toml').read_text(encoding='utf-8'))
    for side in content.values():
        side['settings'] = {
            name: setting_text(value)
            for name, value in side.get('settings', {}).items()
        }
    return {name: Side(name, **side) for name, side in content.items()}


def stop_all(clusters):
    """One after the other, also where one of them does not obey: returns what these say."""
    failed = []
    for cluster in clusters:
        try:
            cluster.stop()
        except BenchError as error:
            if not cluster.side.server:
                failed.append(str(error))
    return failed


class Server:
    """Of a side that brings its own, with all that it needs."""

    stage = None

    def __init__(self, pg_config):
        self.bindir, self.pkglibdir = map(
            Path,
            subprocess.run([pg_config, '--bindir', '--pkglibdir'], check=True, text=True,
                           capture_output=True).stdout.split())


class Install(Server):
    """The server that is measured and the extension that is built for it."""

    def __init__(self, pg_config):
        pg_config = pg_config or os.environ.get('PG_CONFIG') or \
            next((path for path in [CACHE / 'pg18-release/bin/pg_config'] if path.exists()),
                 shutil.which('pg_config'))
        if pg_config is None:
            raise BenchError('no PostgreSQL 18: run .ci/setup, or name its pg_config')
        super().__init__(pg_config)
        make = ['make', '--no-print-directory', '-s', '-C', TOP, f'PG_CONFIG={pg_config}']
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL')
        }
        subprocess.run([*make, f'-j{machine.cpus()}', 'all'], check=True,
                       stdout=subprocess.DEVNULL, env=environment)
        self.stage = TOP / subprocess.run([*make, 'stage-path'], check=True, text=True,
                                          env=environment, capture_output=True).stdout.strip()


class Field:
    """The servers of all sides; those that have no turn stand still, so each does its own vacuuming
    and writing in its own turns."""

    def __init__(self, install, sides, settings, directory=None, kind=Cluster):
        self.work = Path(tempfile.mkdtemp(prefix='leanstore_bench.', dir=directory))
        self.work.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(self.work, 'postgres')
        self.clusters = []
        for side in sides:
            home = self.work / side.name
            server = Server(os.environ[side.server]) if side.server else install
            self.clusters.append(kind(server, side, home, side.fit(settings)))

    def __enter__(self):
        try:
            for cluster in self.clusters:
                cluster.create()
                cluster.freeze()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        failed = stop_all(self.clusters)
        shutil.rmtree(self.work, ignore_errors=True)
        if failed:
            raise BenchError('\n'.join(failed))

    def leave_out(self, cluster):
        self.clusters.remove(cluster)
        cluster.kill()

    def turn(self, cluster):
        for other in self.clusters:
            if other is not cluster:
                other.freeze()
        cluster.thaw()
        return cluster

    def turns(self, round_number=1):
        """The servers, each when it has its turn."""
        for cluster in summary.order(self.clusters, round_number):
            yield self.turn(cluster)

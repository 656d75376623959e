"""Distributed tables: a coordinator without shards and two workers for each side, clients at the
coordinator.

As `load`, for servers that have Citus: CITUS_PG names their prefix, the extension is the one that
is built here.  In scripts FIRST and SECOND are the branches of :first and :second, numbers up to
the parameter `branches`, on the first and on the second worker.
"""
import dataclasses
import os
from pathlib import Path

from ..cluster import Cluster
from ..errors import Missing
from ..sides import Server
from .load import Load

PREFIX = 'CITUS_PG'


class Worker(Cluster):
    """A server with Citus that others reach by its socket."""

    def __init__(self, install, side, directory, settings):
        server = Server(Path(os.environ[PREFIX]) / 'bin' / 'pg_config')
        server.stage = install.stage
        own = side.libraries
        super().__init__(
            server, dataclasses.replace(side, libraries=', '.join(filter(None, ['citus', own])),
                                        extension='citus'), directory, settings)

    def make_database(self, name, locale=''):
        super().make_database(name, locale)
        if self.is_leanstore:
            self.sql('CREATE EXTENSION leanstore_am', database=name)
        # else pg_class has no shards in it
        self.sql(f'ALTER DATABASE {name} SET citus.override_table_visibility = off', database=name)

    @property
    def place(self):
        return f"'{self.home}', 5432"


class Coordinator(Worker):
    """And its workers: what a driver does to it is done to all of them."""

    def __init__(self, install, side, directory, settings):
        super().__init__(install, side, directory, settings)
        self.workers = [Worker(install, side, f'{directory}_{number}', settings)
                        for number in (1, 2)]

    def create(self):
        super().create()
        for worker in self.workers:
            worker.create()
        self.sql(f'SELECT citus_set_coordinator_host({self.place})')
        for worker in self.workers:
            self.sql(f'SELECT citus_add_node({worker.place})')

    def stop(self):
        super().stop()
        for worker in self.workers:
            worker.stop()

    def kill(self):
        super().kill()
        for worker in self.workers:
            worker.kill()

    def freeze(self):
        super().freeze()
        for worker in self.workers:
            worker.freeze()

    def thaw(self):
        for worker in self.workers:
            worker.thaw()
        super().thaw()

    def checkpoint(self):
        super().checkpoint()
        for worker in self.workers:
            worker.checkpoint()

    def cpu_and_time(self):
        mine = super().cpu_and_time()
        others = sum(worker.cpu_and_time()['cpu'] for worker in self.workers)
        return {**mine, 'cpu': mine['cpu'] + others}

    def wal_bytes(self):
        return super().wal_bytes() + sum(worker.wal_bytes() for worker in self.workers)

    def log_bytes(self):
        return super().log_bytes() + sum(worker.log_bytes() for worker in self.workers)

    def table_bytes(self, where='true'):
        return sum(worker.table_bytes(where) for worker in self.workers)

    def verify(self):
        super().verify()
        for worker in self.workers:
            worker.verify()

    def branches(self):
        """For each worker the branches that are there, as an expression of pgbench."""
        found = []
        for name, worker in zip(('first', 'second'), self.workers):
            numbers = self.sql(f"""SELECT id FROM branch JOIN citus_shards ON shardid =
                get_shard_id_for_distribution_column('branch', id)
                WHERE nodename = '{worker.home}' ORDER BY id""").split()
            cases = ' '.join(f'when :{name} = {i} then {number}'
                             for i, number in enumerate(numbers, 1))
            found.append((len(numbers), f'(case {cases} end)'))
        return found


class Citus(Load):
    CLUSTER = Coordinator

    def require(self):
        if PREFIX not in os.environ:
            raise Missing(f'no server with Citus: name its prefix, {PREFIX}=FOLDER')
        super().require()

    def arguments(self, cluster, case, seconds):
        (first, one), (second, two) = cluster.branches()
        scripts = [f"\\set first random(1, {first})\n\\set second random(1, {second})\n"
                   + script.replace('FIRST', one).replace('SECOND', two)
                   for script in case['scripts']]
        return super().arguments(cluster, {**case, 'scripts': scripts}, seconds)

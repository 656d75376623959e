"""Servers that are nodes, and the proxies by which they reach each other."""
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from .. import machine
from ..cluster import DATABASE, Cluster
from ..drivers.program import OUT, call, compiler
from ..errors import BenchError
from ..sides import Side, stop_all
from .pq import Connection

SYNCS = ("SELECT pg_stat_clear_snapshot(); SELECT coalesce(sum(fsyncs), 0) FROM pg_stat_io"
         " WHERE object = 'wal'")
PROXY = OUT / 'leap_delay'
SETTINGS = {
    'leanstore.log': 'wal',
    'leanstore.buffer_pool_size': '64MB',
    'shared_buffers': '32MB',
    'max_prepared_transactions': '100',
    'max_connections': '200',
    'checkpoint_timeout': '1h',
    'deadlock_timeout': '100ms',
    'lock_timeout': '1s'
}


def free_ports(count):
    """Ports that nothing listens at now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(('127.0.0.1', 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Node(Cluster):
    """A server that others reach by TCP: at once by `port`, as other nodes do by `proxy`."""

    def __init__(self, install, side, directory, settings, ports):
        super().__init__(install, side, directory, settings)
        self.port, self.proxy = ports

    def configure(self, settings):
        super().configure(settings)
        with open(self.data / 'postgresql.conf', 'a', encoding='utf-8') as file:
            file.write(f"listen_addresses = '127.0.0.1'\nport = {self.port}\n")

    def client_environment(self, settings=None):
        return {**super().client_environment(settings), 'PGPORT': str(self.port)}

    def conninfo(self, port):
        return f'host=127.0.0.1 port={port} user=postgres dbname={DATABASE}'


class Nodes:
    """So many nodes of one kind.  Subclasses say what is loaded and how they are joined."""

    SIDE = None
    SETTINGS = SETTINGS

    def __init__(self, server, count, options, delay_ms):
        self.work = Path(tempfile.mkdtemp(prefix='leanstore_bench.', dir=options.directory))
        self.work.chmod(0o755)
        shutil.chown(self.work, machine_user())
        ports = free_ports(2 * count)
        settings = {**self.SETTINGS, **options.settings}
        self.nodes = [Node(server, self.SIDE, self.work / f'n{i + 1}', settings,
                           (ports[2 * i], ports[2 * i + 1])) for i in range(count)]
        self.delay_ms = delay_ms
        self.proxy = None
        self.watchers = []

    def __len__(self):
        return len(self.nodes)

    def __enter__(self):
        try:
            for node in self.nodes:
                node.create()
            self.start_proxy()
            self.join()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for watcher in self.watchers:
            watcher.close()
        failed = stop_all(self.nodes)
        if self.proxy:
            self.proxy.terminate()
            self.proxy.communicate()
        shutil.rmtree(self.work, ignore_errors=True)
        if failed:
            raise BenchError('\n'.join(failed))

    def start_proxy(self):
        OUT.mkdir(parents=True, exist_ok=True)
        call([compiler(), '-std=c++20', '-O2', '-Wall', '-Wextra', 'bench/leap/delay.cpp', '-o',
              PROXY])
        self.proxy = subprocess.Popen(
            [PROXY, str(round(1000 * self.delay_ms)),
             *(f'{node.proxy}:{node.port}' for node in self.nodes)], stdout=subprocess.PIPE,
            text=True)
        if self.proxy.stdout.readline() != 'ready\n':
            raise BenchError('the proxy does not start')

    def join(self):
        """Makes a cluster of them."""

    def connect(self, node, seen_from=None):
        """A connection to a node: by its proxy, if another node's client has it."""
        far = seen_from is not None and seen_from != node
        return Connection(self.nodes[node].conninfo(
            self.nodes[node].proxy if far else self.nodes[node].port))

    def everywhere(self, sql):
        """What it prints on each node."""
        return [node.sql(sql) for node in self.nodes]

    def freeze(self):
        for node in self.nodes:
            node.freeze()

    def thaw(self):
        for node in self.nodes:
            node.thaw()

    def watch(self, sql):
        """What it says on each node, by connections that stay: it is asked while clients work."""
        if not self.watchers:
            self.watchers = [self.connect(node) for node in range(len(self.nodes))]
        for watcher in self.watchers:
            watcher.send(sql)
        return [watcher.receive() for watcher in self.watchers]

    def counters(self):
        """Of all nodes and of the machine."""
        found = {'syncs': sum(int(row[0]) for row in self.watch(SYNCS))}
        found['cpu'] = sum(node.cpu_and_time()['cpu'] for node in self.nodes)
        found['busy'] = machine.busy_seconds()
        found['time'] = time.time()
        return found


def machine_user():
    return 'postgres' if os.geteuid() == 0 else os.getuid()


class LeapNodes(Nodes):
    SIDE = Side('leap', 'leanstore', 'leanstore_am, leanstore_leap', versions='leanstore/versions')
    SETTINGS = {**SETTINGS, 'leap.database': DATABASE}

    def join(self):
        self.everywhere('CREATE EXTENSION leanstore_leap')
        first = self.nodes[0]
        first.sql(f"SELECT leap.init('n1', '{first.conninfo(first.proxy)}')")
        for number, node in enumerate(self.nodes[1:], 2):
            first.sql(f"SELECT leap.add_node('n{number}', '{node.conninfo(node.proxy)}')")

    def counters(self):
        found = super().counters()
        for rows in self.watch("SELECT name || ' ' || value FROM leap.handovers"):
            for row in rows:
                name, value = row.split()
                found[name] = found.get(name, 0) + int(value)
        found['time'] = time.time()
        return found


class CitusNodes(Nodes):
    """All nodes have the metadata and shards; clients ask their own node."""

    SIDE = Side('citus', 'leanstore', 'citus, leanstore_am', versions='leanstore/versions')
    SETTINGS = {**SETTINGS, 'wal_level': 'logical', 'citus.shard_count': '24',
                'max_prepared_transactions': '200', 'citus.node_connection_timeout': '10s'}

    def join(self):
        first = self.nodes[0]
        # its catalogs are heap tables, whatever the database's default is
        self.everywhere('SET default_table_access_method = heap; CREATE EXTENSION citus')
        first.sql(f"SELECT citus_set_coordinator_host('127.0.0.1', {first.proxy})")
        for node in self.nodes[1:]:
            first.sql(f"SELECT citus_add_node('127.0.0.1', {node.proxy})")
        first.sql(f"SELECT citus_set_node_property('127.0.0.1', {first.proxy},"
                  " 'shouldhaveshards', true)")

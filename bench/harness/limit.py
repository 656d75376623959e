"""A memory cgroup for each server, the operating system's cache included.  Version 1 or 2; as root.

memory_limit of a workload: megabytes, or 0 for a `share` of what the data takes in heap tables; and
the percentages of it that are shared_buffers on heap (the rest is the system's cache; another
engine's pool is as large) and leanstore's pool (which reads past that cache).
"""
import os
import time
from pathlib import Path

from . import summary
from .errors import BenchError, Missing

MIB = 1024 * 1024
SMALL_MIB = 16  # for the buffers that a side does not use
V1 = Path('/sys/fs/cgroup/memory')
V2 = Path('/sys/fs/cgroup')


class MemoryLimit:

    def __init__(self, settings):
        self.megabytes = int(settings['megabytes'])
        self.share = float(settings['share'])
        self.shared_buffers = int(settings['shared_buffers_percent'])
        self.pool = int(settings['pool_percent'])
        self.groups = []
        self.parent, self.file = (V1, 'memory.limit_in_bytes') if V1.is_dir() else (V2,
                                                                                    'memory.max')

    def require(self):
        if os.geteuid() != 0:
            raise Missing('only root can make a memory cgroup')
        if not os.access(self.parent, os.W_OK):
            raise Missing(f'no cgroups that could be written in {self.parent}')

    def apply(self, field):
        """Restarts the servers with the limit and nothing in a cache."""
        if not self.megabytes:
            self.megabytes = round(self.heap_bytes(field) * self.share / MIB)
        for cluster in field.turns():
            cluster.stop()
            heap = cluster.side.name == summary.BASELINE
            pool = SMALL_MIB if heap else self.part(
                self.pool if cluster.is_leanstore else self.shared_buffers)
            cluster.settings = cluster.side.fit({
                **cluster.settings,
                'shared_buffers': f'{self.part(self.shared_buffers) if heap else SMALL_MIB}MB',
                'leanstore.buffer_pool_size': f'{pool}MB',
                'memory_limit': f'{self.megabytes}MB',
            })
            cluster.configure({
                name: value
                for name, value in cluster.settings.items() if name != 'memory_limit'
            })
            drop_cached(cluster.data)
            cluster.cgroup = self.make_group(field.work.name + '.' + cluster.side.name)
            cluster.start()

    def part(self, percent):
        return self.megabytes * percent // 100

    @staticmethod
    def heap_bytes(field):
        for cluster in field.turns():
            if cluster.side.name == summary.BASELINE:
                return cluster.table_bytes()
        raise BenchError('without heap among the sides name the limit: -D limit=MEGABYTES')

    def make_group(self, name):
        group = self.parent / name
        group.mkdir()
        self.groups.append(group)
        if not (group / self.file).exists():
            raise Missing(f'the memory controller is not enabled in {self.parent}')
        (group / self.file).write_text(str(self.megabytes * MIB), encoding='ascii')
        return group

    def remove(self):
        deadline = time.monotonic() + 10
        while self.groups:
            try:
                self.groups[-1].rmdir()
                self.groups.pop()
            except OSError:  # the last process is still on its way out
                if time.monotonic() > deadline:
                    raise BenchError(f'the cgroup {self.groups[-1]} cannot be removed') from None
                time.sleep(0.2)


def drop_cached(directory):
    """What was read before the limit, by another group, would not count."""
    os.sync()
    for path in directory.rglob('*'):
        if path.is_file() and not path.is_symlink():
            with open(path, 'rb') as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

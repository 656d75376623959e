"""A file system of its own in a file: what is written to its device are the workload's bytes alone.

The counters of processes do not say it (page cache, large folios, direct I/O), nor those of the
whole device where something else writes to it.  Needs root and a loop device.
"""
import os
import subprocess
import tempfile
import time
from pathlib import Path

from .errors import BenchError, Missing

UNMOUNT_SECONDS = 30
# Nothing is written later that could be written now.
EXTENDED = 'nodiscard,lazy_itable_init=0,lazy_journal_init=0'
MKFS = ['mkfs.ext4', '-q', '-F', '-m', '0', '-E', EXTENDED]


class Image:

    def __init__(self, gigabytes, directory=None):
        if os.geteuid() != 0:
            raise Missing('only root can mount a file system of its own (-D image_gib=0: without)')
        self.gigabytes = gigabytes
        self.work = Path(tempfile.mkdtemp(prefix='leanstore_image.', dir=directory))
        self.work.chmod(0o755)
        self.file = self.work / 'image'
        self.path = self.work / 'files'
        self.device = None
        self.mounted = False

    def __enter__(self):
        try:
            self.path.mkdir()
            with open(self.file, 'wb') as file:
                file.truncate(self.gigabytes << 30)
            call(*MKFS, self.file)
            # past the operating system's cache, which the file system above has already
            self.device = call('losetup', '--direct-io=on', '--find', '--show', self.file)
            call('mount', '-o', 'noatime', self.device, self.path)
            self.mounted = True
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.mounted:
            self.unmount()
        if self.device:
            call('losetup', '-d', self.device)
        self.file.unlink(missing_ok=True)
        self.path.rmdir()
        self.work.rmdir()

    def unmount(self):
        """The last process of a server may still be on its way out."""
        deadline = time.monotonic() + UNMOUNT_SECONDS
        while True:
            try:
                call('umount', self.path)
                return
            except BenchError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


def call(*command):
    """What it prints."""
    try:
        run = subprocess.run([str(word) for word in command], text=True, capture_output=True)
    except FileNotFoundError:
        raise Missing(f'{command[0]} is not installed') from None
    if run.returncode != 0:
        raise BenchError(f"{' '.join(map(str, command))}: {run.stderr.strip()}")
    return run.stdout.strip()

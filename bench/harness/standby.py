"""A hot standby of a side's server: a server of its own, from a base backup, that streams."""
import os
import shutil
import subprocess

from .cluster import Cluster

BACKUP_SECONDS = 1800


class Standby(Cluster):

    def __init__(self, primary, directory, settings):
        super().__init__(primary, primary.side, primary.home / directory, settings)
        self.primary = primary

    def __enter__(self):
        self.create()
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.home)

    def create(self):
        self.home.mkdir(mode=0o700)
        if os.geteuid() == 0:
            subprocess.run(['chown', 'postgres', self.home], check=True)
        self.execute('pg_basebackup', '-D', self.data, '-h', self.primary.home, '-U', 'postgres',
                     '-X', 'stream', '-c', 'fast', '-R', timeout=BACKUP_SECONDS)
        self.configure(self.settings)
        self.start()

    def configure(self, settings):
        """Libraries are where the primary has them."""
        with open(self.data / 'postgresql.conf', 'a', encoding='utf-8') as file:
            for name, value in {**settings, 'unix_socket_directories': str(self.home)}.items():
                file.write(f"{name} = '{value}'\n")

    def behind_bytes(self):
        """WAL that the primary has written and the standby has not replayed."""
        position = self.sql("SELECT pg_last_wal_replay_lsn()")
        return int(self.primary.sql(
            f"SELECT greatest(0, pg_wal_lsn_diff(pg_current_wal_lsn(), '{position}'))::bigint"))

    def conflicts(self):
        return int(self.sql('SELECT confl_snapshot FROM pg_stat_database_conflicts '
                            'WHERE datname = current_database()'))

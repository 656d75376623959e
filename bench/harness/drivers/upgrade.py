"""How long pg_upgrade takes, from the old server's stop to its own end.

Of a case: mode (--copy, --link, ...).  The new cluster is of the same server, and is dropped
behind; the old one goes on.  pg_upgrade looks for libraries only where they are installed, so both
run from a copy of the installation that has them.
"""
import os
import shutil
import subprocess
import time
from pathlib import Path

from ..cluster import server_user
from ..errors import BenchError
from .load import MIB, Load

SECONDS = 7200


class Upgrade(Load):
    CASE_KEYS = {'mode'}
    MEASURE = {'figure': 'upgrade_seconds', 'unit': 's', 'better': 'lower'}

    def measure(self, cluster, case):
        figures = {'table_mib': cluster.table_bytes() / MIB}
        cluster.checkpoint()
        cluster.stop()
        home = cluster.home / 'upgrade'
        home.mkdir()
        try:
            os.sync()
            figures['upgrade_seconds'] = self.upgrade(cluster, case['mode'], home)
        finally:
            shutil.rmtree(home)
            # so that the old one may be used, which it may as the new one never was
            renamed = cluster.data / 'global' / 'pg_control.old'
            if renamed.exists():
                renamed.rename(renamed.with_suffix(''))
            cluster.start()
        yield case['name'], figures

    @staticmethod
    def upgrade(cluster, mode, home):
        bindir, new = installation(cluster, home), home / 'data'
        new.mkdir(mode=0o700)
        if os.geteuid() == 0:
            for path in (home, new):
                shutil.chown(path, 'postgres')
        command = [
            bindir / 'pg_upgrade', mode, '-b', bindir, '-B', bindir, '-d', cluster.data, '-D', new,
            '-U', 'postgres'
        ]
        run(home, [
            bindir / 'initdb', '-N', '-D', new, '-A', 'trust', '-U', 'postgres', '--encoding=UTF8',
            '--locale=C'
        ])
        with open(new / 'postgresql.conf', 'a', encoding='utf-8') as file:
            file.write(f"shared_preload_libraries = '{cluster.side.libraries}'\n")
            for name, value in cluster.settings.items():
                file.write(f"{name} = '{value}'\n")
        begin = time.monotonic()
        run(home, command)
        return time.monotonic() - begin


def run(home, command):
    result = subprocess.run([str(word) for word in [*server_user(), *command]], cwd=home, text=True,
                            capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS)
    if result.returncode != 0:
        raise BenchError(f'{command[0].name}: {result.stdout[-2000:]}\n{result.stderr[-2000:]}')


def installation(cluster, home):
    """The folder of programs of a copy that has the extension.  Programs find what is theirs by
    where they lie, so they are copied; all else is linked."""
    prefix, copy = cluster.bindir.parent, home / 'installation'

    def place(path):
        return copy / Path(path).relative_to(prefix)

    share = Path(
        subprocess.run([cluster.bindir / 'pg_config', '--sharedir'], check=True, text=True,
                       capture_output=True).stdout.strip())
    shutil.copytree(cluster.bindir, place(cluster.bindir))
    place(cluster.pkglibdir).mkdir(parents=True)
    for folder in {cluster.pkglibdir.parent, cluster.pkglibdir}:
        for path in folder.iterdir():
            if path.is_file():
                place(path).symlink_to(path)
    for path in (cluster.stage / 'lib').iterdir():
        target = place(cluster.pkglibdir) / path.name
        target.unlink(missing_ok=True)
        shutil.copy(path, target)
    place(share).parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(share, place(share))
    for path in (cluster.stage / 'share' / 'extension').iterdir():
        shutil.copy(path, place(share) / 'extension')
    return place(cluster.bindir)

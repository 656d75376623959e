"""A scratch server for one side, in a directory of its own; as root it runs as postgres."""
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from . import machine, parse
from .errors import BenchError
from .session import Session

DATABASE = 'bench'
START_SECONDS = 3600  # recovery may be long
CONTROL_SECONDS = 300
FATAL = ('PANIC', 'TRAP:', 'was terminated by signal')


def server_user():
    """Words before a command that the server's user is to execute."""
    return ['runuser', '-u', 'postgres', '--'] if os.geteuid() == 0 else []


def locale_of_database(locale):
    """What CREATE DATABASE says of a locale: of the C library, or PROVIDER:NAME; none: nothing."""
    if not locale:
        return ''
    provider, _, name = locale.rpartition(':')
    if not provider:
        return f" TEMPLATE template0 LOCALE_PROVIDER libc LOCALE '{name}'"
    return (f" TEMPLATE template0 LOCALE_PROVIDER {provider} {provider}_LOCALE '{name}'"
            " LOCALE 'C'")


class Cluster:

    def __init__(self, install, side, directory, settings):
        self.bindir = install.bindir
        self.pkglibdir = install.pkglibdir
        self.stage = install.stage
        self.side = side
        self.home = Path(directory)
        self.data = self.home / 'data'
        self.settings = settings
        self.version = {}
        self.cgroup = None
        self.sessions = []

    # ---- life ----------------------------------------------------------------

    def create(self):
        self.home.mkdir(mode=0o700)
        if self.stage:
            shutil.copytree(self.stage, self.home / 'stage')
        if os.geteuid() == 0:
            subprocess.run(['chown', '-R', 'postgres', self.home], check=True)
        self.execute('initdb', '-N', '-D', self.data, '-A', 'trust', '-U', 'postgres',
                     '--encoding=UTF8', '--locale=C')
        self.configure(self.settings)
        self.start()
        self.make_database(DATABASE)
        if self.side.server:
            self.version = {'server_version': self.sql('SHOW server_version'),
                            f'{self.side.extension}_version': self.sql(self.side.version)}

    @property
    def described(self):
        """Settings, and the versions of a server that is none of those that all sides have."""
        return {**self.settings, **self.version}

    def make_database(self, name, locale=''):
        """Creates a database; its tables are of the side's access method."""
        self.sql(f'CREATE DATABASE {name}{locale_of_database(locale)}', database='postgres')
        if self.side.libraries:
            self.sql(f'CREATE EXTENSION {self.side.extension}', database=name)
        self.sql(f"ALTER DATABASE {name} SET default_table_access_method = "
                 f"'{self.side.access_method}'", database=name)

    def configure(self, settings):
        """Adds to the configuration; the server reads it when it starts again."""
        lines = dict(settings)
        lines.update({
            'listen_addresses': '',
            'unix_socket_directories': str(self.home),
            'shared_preload_libraries': self.side.libraries,
        })
        if self.stage:
            lines.update({
                'extension_control_path': f'{self.home}/stage/share:$system',
                'dynamic_library_path': f'{self.home}/stage/lib:$libdir',
            })
        with open(self.data / 'postgresql.conf', 'a', encoding='utf-8') as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in lines.items())

    def start(self):
        self.execute('pg_ctl', 'start', '-D', self.data, '-l', self.home / 'server.log', '-w', '-t',
                     START_SECONDS, before=self.enter_cgroup(), timeout=START_SECONDS + 60)

    def stop(self):
        self.close_sessions()
        if self.postmaster() is None:
            return
        self.thaw()
        try:
            self.execute('pg_ctl', 'stop', '-D', self.data, '-m', 'fast', '-w', '-t',
                         CONTROL_SECONDS)
        except BenchError:
            self.kill()
            raise

    def kill(self):
        """As a crash of the server: all its processes at once."""
        pids = self.pids()
        for pid in pids:
            self.signal(pid, signal.SIGKILL)
        self.close_sessions()
        deadline = time.monotonic() + CONTROL_SECONDS
        while any(Path(f'/proc/{pid}/stat').exists() for pid in pids):
            if time.monotonic() > deadline:
                raise BenchError(f'{self.side.name}: the server survives SIGKILL')
            time.sleep(0.02)

    def enter_cgroup(self):
        if self.cgroup is None:
            return []
        return ['sh', '-c', 'echo $$ >"$0" && exec "$@"', self.cgroup / 'cgroup.procs']

    def execute(self, program, *arguments, before=(), timeout=CONTROL_SECONDS + 60):
        """A program of the server's, as its user."""
        command = [*before, *server_user(), self.bindir / program, *arguments]
        log = self.home / f'{program}.log'  # a pipe would stay open in the server
        with open(log, 'w', encoding='utf-8') as output:
            try:
                status = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                                        cwd='/', stdout=output, stderr=output,
                                        timeout=timeout).returncode
            except subprocess.TimeoutExpired:
                status = 'no end'
        if status != 0:
            raise BenchError(f'{self.side.name}: {program} fails\n{log.read_text()[-3000:]}\n'
                             f'{self.log_end()}')

    def log_end(self, lines=20):
        log = self.home / 'server.log'
        if not log.exists():
            return ''
        text = log.read_text(encoding='utf-8', errors='replace').splitlines()
        fatal = [line for line in text if any(word in line for word in FATAL)]
        return '\n'.join([*fatal[:lines], *text[-lines:]])

    # ---- processes -----------------------------------------------------------

    def postmaster(self):
        try:
            pid = int((self.data / 'postmaster.pid').read_text(encoding='ascii').split('\n')[0])
            os.kill(pid, 0)
            return pid
        except (OSError, ValueError):
            return None

    def process_stats(self):
        """{process: its clock ticks} of the server.  One that ends hands its own to its parent."""
        top = self.postmaster()
        result = {}
        for path in Path('/proc').glob('[0-9]*/stat'):
            try:
                parent, ticks = parse.process_stat(
                    path.read_text(encoding='utf-8', errors='replace'))
            except OSError:
                continue  # it has ended meanwhile
            pid = int(path.parent.name)
            if top is not None and top in (pid, parent):
                result[pid] = ticks
        return result

    def pids(self):
        """The postmaster first."""
        top = self.postmaster()
        return [top, *(pid for pid in self.process_stats() if pid != top)] if top else []

    def cpu_and_time(self):
        ticks = sum(self.process_stats().values())
        return {'cpu': ticks / machine.TICKS, 'time': time.monotonic()}

    @staticmethod
    def signal(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # it has ended meanwhile

    def freeze(self):
        """The postmaster before its children are looked for: it starts no other then."""
        top = self.postmaster()
        if top is not None:
            self.signal(top, signal.SIGSTOP)
        for pid in self.pids():
            self.signal(pid, signal.SIGSTOP)

    def thaw(self):
        for pid in self.pids():
            self.signal(pid, signal.SIGCONT)

    # ---- clients -------------------------------------------------------------

    def client_environment(self, settings=None):
        """For programs that connect, with settings for their sessions."""
        environment = {
            name: value
            for name, value in os.environ.items() if not name.startswith('PG')
        }
        options = ' '.join(f"-c {name}={str(value).replace(' ', chr(92) + ' ')}"
                           for name, value in (settings or {}).items())
        environment.update(PGHOST=str(self.home), PGUSER='postgres', PGDATABASE=DATABASE,
                           LC_ALL='C', PGOPTIONS=options)
        return environment

    def client(self, command, signs=(), settings=None, **options):
        """What a program that connects prints and what it says.  signs: words (in lower case) by
        which it tells that it failed, where its exit status does not; options: of
        subprocess.run()."""
        command = [str(word) for word in command]
        options.setdefault('env', self.client_environment(settings))
        try:
            run = subprocess.run(command, text=True, stdin=subprocess.DEVNULL,
                                 capture_output=True, **options)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f'{self.side.name}: {Path(command[0]).name} does not end within '
                             f'{error.timeout} s') from error
        output = run.stdout + run.stderr
        if run.returncode != 0 or any(sign in output.lower() for sign in signs):
            raise BenchError(f'{self.side.name}: {Path(command[0]).name} fails\n{output[-3000:]}\n'
                             f'{self.log_end()}')
        return run.stdout, run.stderr

    def psql_command(self, database=DATABASE):
        return [
            str(self.bindir / 'psql'), '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d',
            database
        ]

    def sql(self, text, database=DATABASE):
        """What the statements print, one after the other, each in a transaction of its own."""
        run = subprocess.run(self.psql_command(database), input=text, text=True,
                             capture_output=True, env=self.client_environment())
        if run.returncode != 0:
            raise BenchError(f'{self.side.name}: {run.stderr.strip()[-2000:]}\n{self.log_end()}')
        return run.stdout.strip()

    def session(self):
        session = Session(self)
        self.sessions.append(session)
        return session

    def close_sessions(self):
        for session in self.sessions:
            session.close()
        self.sessions = []

    # ---- figures -------------------------------------------------------------

    @property
    def is_leanstore(self):
        return self.side.access_method == 'leanstore'

    def checkpoint(self):
        self.sql('CHECKPOINT')
        if self.is_leanstore:
            self.sql('SELECT leanstore_checkpoint()')

    def wal_bytes(self):
        return int(self.sql("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"))

    def log_bytes(self):
        if not self.is_leanstore:
            return 0
        return int(self.sql('SELECT sum(log_bytes)::bigint FROM leanstore_stat_wal'))

    def table_bytes(self, where='true'):
        """Tables of the schema public with all that belongs to them."""
        return int(
            self.sql(f"""SELECT coalesce(sum(CASE amname WHEN '{self.side.access_method}'
                THEN {self.side.size}(c.oid) ELSE pg_total_relation_size(c.oid) END), 0)::bigint
            FROM pg_class c JOIN pg_am a ON a.oid = relam
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'm') AND {where}"""))

    def version_bytes(self):
        """Files of old row versions."""
        path = self.data / self.side.versions
        return sum(file.stat().st_size for file in path.rglob('*') if file.is_file())

    def verify(self):
        """Raises where a table of the schema public is damaged."""
        if self.is_leanstore:
            self.sql("""SELECT leanstore_check(oid::regclass) FROM pg_class WHERE relkind = 'r'
                AND relnamespace = 'public'::regnamespace
                AND relam = (SELECT oid FROM pg_am WHERE amname = 'leanstore')""")

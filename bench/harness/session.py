"""A psql that stays connected: statements one after the other, with their times."""
import subprocess

from . import parse
from .errors import BenchError

END = 'end of statements'


class Session:

    def __init__(self, cluster):
        self.process = subprocess.Popen(cluster.psql_command(), env=cluster.client_environment(),
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.run('SET client_min_messages = error;')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, text):
        """Does not wait for the answer."""
        try:
            self.process.stdin.write(f"{text}\n\\timing off\nSELECT '{END}';\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise BenchError('psql ended: ' + self.process.stdout.read()[-2000:]) from None

    def receive(self):
        lines = []
        for line in self.process.stdout:
            line = line.rstrip('\n')
            if line == END:
                return lines
            lines.append(line)
        raise BenchError('psql ended: ' + '\n'.join(lines[-10:]))

    def run(self, text):
        """The lines of the answer."""
        self.send(text)
        return self.receive()

    def timed(self, text):
        """(milliseconds, the other lines)"""
        lines = self.run('\\timing on\n' + text)
        return sum(parse.psql_times(lines)), [line for line in lines if not parse.TIME.match(line)]

    def close(self):
        if self.process.stdin:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass  # psql has ended; what it had to say was an error of send or receive
            self.process.stdin = None
        self.process.stdout.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

"""A pgbench that runs while something else is measured; stopped at the end."""
import subprocess

from .. import parse
from ..errors import BenchError

LONG = 10**6  # seconds


class Background:

    def __init__(self, load, cluster, case):
        """load: the driver that knows the arguments."""
        arguments = load.arguments(cluster, case, LONG) + ['--progress-timestamp']
        self.cluster = cluster
        self.output = cluster.home / 'background.out'
        with open(self.output, 'w', encoding='utf-8') as output:
            self.process = subprocess.Popen(
                [str(word) for word in [cluster.bindir / 'pgbench', *arguments]],
                env=cluster.client_environment(case.get('options', {})), stdin=subprocess.DEVNULL,
                stdout=output, stderr=output)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def progress(self):
        """[(time of day, rate)] up to now; raises if pgbench has ended."""
        text = self.output.read_text(encoding='utf-8')
        if self.process.poll() is not None or 'aborted' in text:
            raise BenchError(f'{self.cluster.side.name}: pgbench has ended\n{text[-3000:]}\n'
                             f'{self.cluster.log_end()}')
        return parse.pgbench_progress(text)

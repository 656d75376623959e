"""What every driver that measures servers has in common: rounds in turns."""
from contextlib import contextmanager

from ..cluster import Cluster
from ..errors import BenchError
from ..sides import Field


class Driver:
    KEYS = set()  # of a workload, beside those that all have
    CASE_KEYS = set()  # of a case
    MEASURE = {}  # where the workload names none
    CLUSTER = Cluster  # what a side has

    def __init__(self, workload, options):
        self.workload = workload
        self.options = options
        self.parameters = workload.parameters

    # ---- for drivers to replace ----------------------------------------------

    def require(self):
        """Raises Missing where something is not here."""

    def setup(self, cluster):
        """Makes the data; yields (case, figures) of what is measured by the way."""
        yield from ()

    def prepare(self, field):
        """When all servers have their data."""

    def measure(self, cluster, case):
        """Yields (name, figures) of one run of a case."""
        raise NotImplementedError

    def finish(self, cluster):
        """After all rounds; yields (case, figures)."""
        yield from ()

    # ---- rounds --------------------------------------------------------------

    def run(self, record):
        """record(case, name, side, settings, round, figures) for each measurement."""
        self.require()
        sides = self.options.sides_of(self.workload)
        settings = {**self.workload.settings, **self.options.settings}
        with Field(self.options.install, sides, settings, self.options.directory,
                   self.CLUSTER) as field:
            self.settle_data(field, record)
            for round_number in range(1 - self.workload.warm_rounds, self.workload.rounds + 1):
                for case in self.workload.cases:
                    for cluster in field.turns(round_number):
                        with self.as_far_as_it_can(cluster, case['name']):
                            for name, figures in self.measure(cluster, case):
                                if round_number > 0:
                                    record(case, name, cluster.side.name, cluster.described,
                                           round_number, figures)
            for cluster in field.turns():
                with self.as_far_as_it_can(cluster, 'the end'):
                    for case, figures in self.finish(cluster):
                        record(case, case['name'], cluster.side.name, cluster.described, 1, figures)
                    self.check(cluster)

    def settle_data(self, field, record):
        for cluster in field.turns():
            done = False
            with self.as_far_as_it_can(cluster, 'all'):
                for case, figures in self.setup(cluster):
                    record(case, case['name'], cluster.side.name, cluster.described, 1, figures)
                done = True
            if not done:
                field.leave_out(cluster)
        self.prepare(field)

    @contextmanager
    def as_far_as_it_can(self, cluster, what):
        """Another engine may refuse what is done here: it is left out then, with its error."""
        try:
            yield
        except BenchError as error:
            if not cluster.side.server:
                raise
            words = [line for line in str(error).splitlines() if 'ERROR' in line or 'pq:' in line]
            print(f'  left out: {cluster.side.name}: {what}: {(words or [str(error)])[-1][-160:]}')

    def sql(self, cluster, text):
        return cluster.sql(text.replace('{work}', str(cluster.home)))

    def check(self, cluster):
        """Each check is a query that says true, else what was measured is worth nothing."""
        for query in self.workload.checks:
            answer = cluster.sql(query)
            if answer != 't':
                raise BenchError(f'{cluster.side.name}: {answer or "nothing"} of {query}')
        cluster.verify()

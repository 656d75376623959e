"""What ends a benchmark, and what only leaves a workload out."""


class BenchError(Exception):
    """A measurement that cannot be trusted or made."""


class Missing(BenchError):
    """A program, package or right that a workload needs and that is not here."""

"""What a transaction of a workload is to the ways to run it."""

# Before keys are put where a case begins: sessions of the turn before may be ending.
PATIENT = "SET lock_timeout = '30s'; SET leap.timeout = '30s'; "


class Transaction:

    def statements(self):
        """(node, statement, whether it writes), one for each row, in turn; what is sent to the
        generator is the first value of its answer."""
        raise NotImplementedError

    def calls(self):
        """{node: (call of a procedure there, whether it writes)}."""
        raise NotImplementedError

    def whole(self):
        """The call of one procedure that does all of it on the client's node."""
        raise NotImplementedError

    def writes(self):
        """How many of what the check counts it adds."""
        raise NotImplementedError

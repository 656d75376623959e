"""How a client runs a transaction.  Each counts messages between nodes that it sends and gets, and
those of them that follow one another.

2pc:        a statement for each row, to the node where it is; then two-phase commit.
delegated:  one call of a procedure for each node, all at once; then two-phase commit.
leap rows:  the statements of `2pc`, all to the client's node, on leap tables.
leap:       one call of a procedure on the client's node, which owns all keys at once.
citus:      the statements of `2pc`, all to the client's node, on distributed tables.

The client of two-phase commit is the coordinator, beside its node.  Nodes that only read take no
part in it: they commit while others prepare.  Where one node alone writes it just commits, last.
"""
from dataclasses import dataclass

from .pq import Failed

AGAIN = ('40001', '40P01', '55P03')


@dataclass
class Ask:
    """A statement of a transaction, and what came of it."""
    node: int
    sql: str
    is_write: bool
    answer: list = None


def each(transaction):
    """The statements, one after the other; the transaction is told the first value of each."""
    statements = transaction.statements()
    value = None
    try:
        while True:
            ask = Ask(*statements.send(value))
            yield ask
            value = ask.answer[0] if ask.answer else None
    except StopIteration:
        return


class Way:
    KIND = 'plain'

    def __init__(self, client):
        self.client = client
        self.messages = self.sequence = 0

    def connect(self):
        """Connections of the client, by node."""
        raise NotImplementedError

    def run(self, transaction):
        raise NotImplementedError


class Local(Way):
    """All is sent to the client's own node; messages between nodes are counted there."""

    def connect(self):
        client = self.client
        self.here = client.nodes.connect(client.home)
        self.here.run(client.workload.prepare(client.table))

    def give_up(self):
        try:
            self.here.run('ROLLBACK')
        except Failed as error:
            if error.args[0] == '08006':
                raise


class LeapCall(Local):
    KIND = 'leap'

    def run(self, transaction):
        self.here.run(transaction.whole())

    def give_up(self):
        """There is no block."""


class Statements(Local):

    def run(self, transaction):
        begin = 'BEGIN; '
        for ask in each(transaction):
            ask.answer = self.here.run(begin + ask.sql)
            begin = ''
        self.here.run('COMMIT')


class LeapStatements(Statements):
    KIND = 'leap'


class Citus(Statements):
    KIND = 'citus'


class TwoPhase(Way):

    def connect(self):
        client = self.client
        self.to = [client.nodes.connect(node, client.home) for node in range(len(client.nodes))]
        for connection in self.to:
            connection.run(client.workload.prepare(client.table))
        self.number, self.part, self.prepared = 0, {}, []

    def parallel(self, sql):
        """sql by node; their answers, or the first error when all have answered."""
        for node, text in sql.items():
            self.to[node].send(text)
        far = sum(node != self.client.home for node in sql)
        self.messages += 2 * far
        self.sequence += 2 * (far > 0)
        failed, answers = None, []
        for node in sql:
            try:
                answers.append(self.to[node].receive())
            except Failed as error:
                failed = failed or error
        if failed:
            raise failed
        return answers

    def execute(self, transaction):
        """Fills part: {node: whether it writes}."""
        for ask in each(transaction):
            begin = '' if ask.node in self.part else 'BEGIN; '
            self.part[ask.node] = self.part.get(ask.node, False) or ask.is_write
            ask.answer = self.parallel({ask.node: begin + ask.sql})[0]

    def run(self, transaction):
        self.part, self.prepared = {}, []
        self.execute(transaction)
        self.commit()

    def commit(self):
        home = self.client.home
        writers = [node for node, is_write in self.part.items() if is_write]
        readers = {node: 'COMMIT' for node in self.part if node not in writers}
        if len(writers) < 2:
            self.parallel(readers)
            self.parallel({node: 'COMMIT' for node in writers})
            return
        self.number += 1
        gid = f'{self.client.name}-{self.number}'
        self.prepared = [node for node in writers if node != home]
        self.parallel({**readers, **{
            node: f"PREPARE TRANSACTION '{gid}'" for node in self.prepared}})
        # the decision is a row of the coordinator, committed with its own part
        begin = '' if home in writers else 'BEGIN; '
        self.parallel({home: f"{begin}INSERT INTO decided VALUES ('{gid}'); COMMIT"})
        self.parallel({node: f"COMMIT PREPARED '{gid}'" for node in self.prepared})

    def give_up(self):
        gid = f'{self.client.name}-{self.number}'
        for node in self.part:
            self.to[node].run('ROLLBACK')
        for node in self.prepared:
            try:
                self.to[node].run(f"ROLLBACK PREPARED '{gid}'")
            except Failed as error:
                if error.args[0] != '42704':    # it was not prepared
                    raise


class Delegated(TwoPhase):

    def execute(self, transaction):
        calls = transaction.calls()
        self.part = {node: is_write for node, (_, is_write) in calls.items()}
        self.parallel({node: f'BEGIN; {sql}' for node, (sql, _) in calls.items()})


WAYS = {
    '2pc': TwoPhase,
    'delegated': Delegated,
    'leap rows': LeapStatements,
    'leap': LeapCall,
    'citus': Citus
}

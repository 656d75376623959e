"""YCSB as LEAP's paper has it: transactions that read and update some records by key.

A transaction takes `records` keys.  Each is one of the client's node with the probability 1 -
remote, else of another; of the remote ones `locality` percent are from keys that this node alone
asks for.  What is local and remote is the placement at the beginning.  Kinds besides:

hot:   one of the keys is one of eight that all clients ask for.
once:  all nodes go through the same keys, each at another place: each use finds the keys with
       another node, and uses them once.
"""
from .transaction import PATIENT, Transaction

HOT = 8

# {t}: the table; {own}: what a call does about its keys.
PROCEDURE = """
CREATE FUNCTION {name}(keys int[], is_write boolean[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found int;
BEGIN
    {own}
    FOR i IN 1 .. cardinality(keys) LOOP
        IF is_write[i] THEN
            UPDATE {t} SET v = v + 1 WHERE id = keys[i];
        ELSE
            SELECT v INTO found FROM {t} WHERE id = keys[i] FOR SHARE;
        END IF;
    END LOOP;
END $$;"""
PREPARE = """PREPARE {t}_get(int) AS SELECT v FROM {t} WHERE id = $1 FOR SHARE;
PREPARE {t}_put(int) AS UPDATE {t} SET v = v + 1 WHERE id = $1"""
TABLE = 'CREATE TABLE {t} (id int PRIMARY KEY, v int, t text)'
PLACED = """SELECT i FROM leap.member m, generate_series(1, 1000000) i
    WHERE m.relation = 'moving'::regclass AND leap.home(m.family, i::text) = {node} LIMIT {rows}"""
SHARDS = """SELECT i FROM generate_series(1, {most}) i
    JOIN citus_shards s ON s.shardid = get_shard_id_for_distribution_column('kv', i)
    WHERE s.nodeport = {port} ORDER BY i LIMIT {rows}"""


def array(values):
    return "'{" + ','.join(map(str, values)) + "}'"


def filled(table, keys):
    return (f"INSERT INTO {table} SELECT unnest({array(keys)}::int[]), 0, repeat('x', 100)")


class Ycsb:
    """The data of a set of nodes, and what clients do with it."""

    def __init__(self, parameters):
        self.rows, self.records = parameters['rows'], parameters['records']
        self.reads = parameters['reads']
        self.placed = []

    def create(self, nodes):
        """A plain table and a leap table with the same rows in the same places."""
        nodes.everywhere(
            TABLE.format(t='kv') + ';' + TABLE.format(t='moving').replace(
                'CREATE TABLE', 'CREATE TABLE IF NOT EXISTS') + ';' +
            PROCEDURE.format(name='kv_work', t='kv', own='') +
            PROCEDURE.format(name='moving_work', t='moving',
                             own="PERFORM leap.own('moving', keys::text[]);"))
        first = nodes.nodes[0]
        first.sql("SELECT leap.create('moving')")
        for number, node in enumerate(nodes.nodes, 1):
            keys = first.sql(PLACED.format(node=number, rows=self.rows)).split()
            self.placed.append([int(key) for key in keys])
            node.sql(';'.join(filled(table, keys) for table in ('kv', 'moving')))

    def create_citus(self, nodes):
        first = nodes.nodes[0]
        first.sql(TABLE.format(t='kv') + "; SELECT create_distributed_table('kv', 'id')")
        for node in nodes.nodes:
            keys = first.sql(SHARDS.format(port=node.proxy, rows=self.rows,
                                           most=20 * self.rows * len(nodes))).split()
            self.placed.append([int(key) for key in keys])
            first.sql(filled('kv', keys))

    def arrange(self, nodes, case):
        """Leap keys go to where they were placed, then to the node that alone asks for them."""
        for here in range(len(nodes)):
            self.own(nodes, here, self.placed[here])
        if case['locality'] and case['remote']:
            for here in range(len(nodes)):
                for there in range(len(nodes)):
                    if there != here:
                        self.own(nodes, here, self.part(there, here))

    @staticmethod
    def own(nodes, here, keys):
        for start in range(0, len(keys), 250):
            nodes.nodes[here].sql(
                f"{PATIENT}SELECT leap.own('moving', {array(keys[start:start + 250])})")

    def part(self, there, here):
        """Those of a node's keys that another one alone asks for; half of all is in no part."""
        keys = self.placed[there]
        each = len(keys) // (2 * len(self.placed))
        return keys[here * each:(here + 1) * each]

    def check(self, nodes, done):
        """done: {table: writes that were acknowledged}."""
        for table, writes in done.items():
            total = sum(int(text) for text in nodes.everywhere(
                f"SET leap.scans = 'local'; SELECT sum(v) FROM {table}"))
            yield f'{table}: {writes} writes were acknowledged, {total} are there', total == writes

    def check_citus(self, nodes, done):
        total = int(nodes.nodes[0].sql('SELECT sum(v) FROM kv'))
        yield f"kv: {done['kv']} writes were acknowledged, {total} are there", total == done['kv']

    def prepare(self, table):
        return PREPARE.format(t=table)

    def tables(self):
        return {'plain': 'kv', 'leap': 'moving'}

    # ---- transactions ------------------------------------------------------

    def pick(self, client):
        """(node, key, whether it is written) of each record, in the order of keys."""
        random, case, rows = client.random, client.case, {}
        if case['kind'] == 'once':
            return self.pick_once(client)
        if case['kind'] == 'hot':
            node = random.randrange(len(self.placed))
            rows[self.placed[node][random.randrange(HOT // len(self.placed) + 1)]] = node
        while len(rows) < self.records:
            node = client.home
            if random.random() * 100 < case['remote']:
                node = random.choice([i for i in range(len(self.placed)) if i != client.home])
            keys = self.placed[node]
            if node != client.home and random.random() * 100 < case['locality']:
                keys = self.part(node, client.home)
            elif case['locality']:
                keys = keys[len(keys) // 2:]
            rows[random.choice(keys)] = node
        return [(node, key, random.random() * 100 >= self.reads)
                for key, node in sorted(rows.items())]

    def pick_once(self, client):
        """The next keys of all; each client begins elsewhere."""
        every = [(node, key) for keys in zip(*self.placed)
                 for node, key in enumerate(keys)]
        start = client.number * len(every) // client.clients + client.turn * self.records
        client.turn += 1
        chosen = [every[(start + i) % len(every)] for i in range(self.records)]
        return sorted((node, key, client.random.random() * 100 >= self.reads)
                      for node, key in chosen)

    def transaction(self, client, table):
        return Records(self.pick(client), table)

    def accesses(self):
        return self.records, 1 - self.reads / 100


class Records(Transaction):
    """Of YCSB."""

    def __init__(self, rows, table):
        self.rows, self.table = rows, table

    def writes(self):
        return sum(is_write for _, _, is_write in self.rows)

    def statements(self):
        for node, key, is_write in self.rows:
            yield node, f"EXECUTE {self.table}_{'put' if is_write else 'get'}({key})", is_write

    def call_of(self, rows):
        return (f'SELECT {self.table}_work({array(key for _, key, _ in rows)},'
                f" {array(str(is_write)[0] for _, _, is_write in rows)})")

    def calls(self):
        nodes = dict.fromkeys(node for node, _, _ in self.rows)
        parts = {node: [row for row in self.rows if row[0] == node] for node in nodes}
        return {node: (self.call_of(rows), any(row[2] for row in rows))
                for node, rows in parts.items()}

    def whole(self):
        return self.call_of(self.rows)

"""New-Order and Payment of TPC-C, half of each, as LEAP's paper has them.

Warehouses are spread over the nodes; a client takes one of its node's.  A New-Order's items are
supplied by another node's warehouse with the probability `remote`, a Payment's customer is of one.
Of the remote rows `locality` percent are from those that this node alone asks for.  No transaction
is rolled back on purpose.  Smaller than TPC-C: customers and items are parameters.

Leap tables: a district moves with its orders, their lines and its history; warehouses, customers
and stock move by themselves.  All have their homes by the warehouse (home_columns).  Items are a
plain table on each node.
"""
from .transaction import PATIENT, Transaction

DISTRICTS = 10

TABLES = """
CREATE TABLE {p}warehouse (w_id int PRIMARY KEY, w_tax numeric, w_ytd numeric, w_data text);
CREATE TABLE {p}district (w_id int, d_id int, d_tax numeric, d_ytd numeric, d_next_o_id int,
    d_data text, PRIMARY KEY (w_id, d_id));
CREATE TABLE {p}history (w_id int, d_id int, h_id bigint, h_c_w_id int, h_c_d_id int, h_c_id int,
    h_amount numeric, PRIMARY KEY (w_id, d_id, h_id));
CREATE TABLE {p}orders (w_id int, d_id int, o_id int, o_c_id int, o_ol_cnt int,
    o_entry_d timestamptz, PRIMARY KEY (w_id, d_id, o_id));
CREATE TABLE {p}new_order (w_id int, d_id int, o_id int, PRIMARY KEY (w_id, d_id, o_id));
CREATE TABLE {p}order_line (w_id int, d_id int, o_id int, ol_number int, ol_i_id int,
    ol_supply_w_id int, ol_quantity int, ol_amount numeric,
    PRIMARY KEY (w_id, d_id, o_id, ol_number));
CREATE TABLE {p}customer (w_id int, d_id int, c_id int, c_discount numeric, c_balance numeric,
    c_ytd_payment numeric, c_payment_cnt int, c_data text, PRIMARY KEY (w_id, d_id, c_id));
CREATE TABLE {p}stock (w_id int, i_id int, s_quantity int, s_ytd int, s_order_cnt int,
    s_data text, PRIMARY KEY (w_id, i_id));
"""
ITEM = """CREATE TABLE item (i_id int PRIMARY KEY, i_price numeric, i_name text);
INSERT INTO item SELECT i, 1 + i % 100, repeat('i', 20) FROM generate_series(1, {items}) i;"""
FAMILIES = """SELECT leap.create('l_warehouse', home_columns => 1);
SELECT leap.create_family('l_districts',
    '{l_district,l_history,l_orders,l_new_order,l_order_line}', '{w_id,d_id}', home_columns => 1);
SELECT leap.create('l_customer', home_columns => 1);
SELECT leap.create('l_stock', home_columns => 1);"""
PLACED = """SELECT w FROM leap.member m, generate_series(1, 1000) w
    WHERE relation = 'l_warehouse'::regclass AND leap.home(family, w::text) = {node}
    LIMIT {count}"""
DISTRIBUTED = ('warehouse', 'district', 'history', 'orders', 'new_order', 'order_line',
               'customer', 'stock')
FILL = """INSERT INTO {p}warehouse SELECT w, 0.1, 0, repeat('w', 80) FROM unnest({w}::int[]) w;
INSERT INTO {p}district SELECT w, d, 0.1, 0, 1, repeat('d', 80)
    FROM unnest({w}::int[]) w, generate_series(1, 10) d;
INSERT INTO {p}customer SELECT w, d, c, 0.05, 0, 0, 0, repeat('c', 300)
    FROM unnest({w}::int[]) w, generate_series(1, 10) d, generate_series(1, {customers}) c;
INSERT INTO {p}stock SELECT w, i, 50, 0, 0, repeat('s', 50)
    FROM unnest({w}::int[]) w, generate_series(1, {items}) i;"""

# $1 warehouse, $2 district, $3 customer, ...: the statements of both transactions.
STATEMENTS = {
    'tax(int)': 'SELECT w_tax FROM {p}warehouse WHERE w_id = $1',
    'next(int, int)': 'UPDATE {p}district SET d_next_o_id = d_next_o_id + 1'
                      ' WHERE w_id = $1 AND d_id = $2 RETURNING d_next_o_id - 1',
    'discount(int, int, int)': 'SELECT c_discount FROM {p}customer'
                               ' WHERE w_id = $1 AND d_id = $2 AND c_id = $3',
    'order(int, int, int, int, int)':
        'INSERT INTO {p}orders VALUES ($1, $2, $3, $4, $5, clock_timestamp())',
    'new(int, int, int)': 'INSERT INTO {p}new_order VALUES ($1, $2, $3)',
    'price(int[])': 'SELECT i_price FROM item WHERE i_id = ANY ($1)',
    'take(int, int, int)':
        'UPDATE {p}stock SET s_quantity = CASE WHEN s_quantity >= $3 + 10 THEN s_quantity - $3'
        ' ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1'
        ' WHERE w_id = $1 AND i_id = $2 RETURNING s_quantity',
    'line(int, int, int, int, int, int, int)':
        'INSERT INTO {p}order_line VALUES ($1, $2, $3, $4, $5, $6, $7, 10 * $7)',
    'earn(int, numeric)': 'UPDATE {p}warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1',
    'gain(int, int, numeric)':
        'UPDATE {p}district SET d_ytd = d_ytd + $3 WHERE w_id = $1 AND d_id = $2',
    'pay(int, int, int, numeric)':
        'UPDATE {p}customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4,'
        ' c_payment_cnt = c_payment_cnt + 1 WHERE w_id = $1 AND d_id = $2 AND c_id = $3',
    'note(int, int, bigint, int, int, int, numeric)':
        'INSERT INTO {p}history VALUES ($1, $2, $3, $4, $5, $6, $7)'
}
# The procedures: a New-Order's part on the node of its warehouse, one of another node; Payment's.
PROCEDURES = """
CREATE FUNCTION {p}order_stock(ws int[], items int[], quantities int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. cardinality(items) LOOP
        UPDATE {p}stock SET s_quantity = CASE WHEN s_quantity >= quantities[i] + 10
                THEN s_quantity - quantities[i] ELSE s_quantity - quantities[i] + 91 END,
                s_ytd = s_ytd + quantities[i], s_order_cnt = s_order_cnt + 1
            WHERE w_id = ws[i] AND i_id = items[i];
    END LOOP;
END $$;
CREATE FUNCTION {p}order_home(w int, d int, c int, ws int[], items int[], quantities int[])
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    tax numeric; discount numeric; o int;
BEGIN
    SELECT w_tax INTO tax FROM {p}warehouse WHERE w_id = w;
    UPDATE {p}district SET d_next_o_id = d_next_o_id + 1 WHERE w_id = w AND d_id = d
        RETURNING d_next_o_id - 1 INTO o;
    SELECT c_discount INTO discount FROM {p}customer WHERE w_id = w AND d_id = d AND c_id = c;
    INSERT INTO {p}orders VALUES (w, d, o, c, cardinality(items), clock_timestamp());
    INSERT INTO {p}new_order VALUES (w, d, o);
    PERFORM i_price FROM item WHERE i_id = ANY (items);
    FOR i IN 1 .. cardinality(items) LOOP
        INSERT INTO {p}order_line VALUES (w, d, o, i, items[i], ws[i], quantities[i],
            10 * quantities[i]);
    END LOOP;
    RETURN o;
END $$;
CREATE FUNCTION {p}pay_customer(w int, d int, c int, amount numeric) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {p}customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount,
        c_payment_cnt = c_payment_cnt + 1 WHERE w_id = w AND d_id = d AND c_id = c;
END $$;
CREATE FUNCTION {p}pay_home(w int, d int, h bigint, cw int, cd int, c int, amount numeric)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {p}warehouse SET w_ytd = w_ytd + amount WHERE w_id = w;
    UPDATE {p}district SET d_ytd = d_ytd + amount WHERE w_id = w AND d_id = d;
    INSERT INTO {p}history VALUES (w, d, h, cw, cd, c, amount);
END $$;
"""
LEAP_PROCEDURES = """
CREATE FUNCTION l_order(w int, d int, c int, ws int[], items int[], quantities int[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM leap.own('l_stock', (SELECT array_agg(x.w || ',' || x.i)
        FROM unnest(ws, items) x (w, i)));
    PERFORM l_order_home(w, d, c, ws, items, quantities);
    PERFORM l_order_stock(ws, items, quantities);
END $$;
CREATE FUNCTION l_pay(w int, d int, h bigint, cw int, cd int, c int, amount numeric)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM l_pay_customer(cw, cd, c, amount);
    PERFORM l_pay_home(w, d, h, cw, cd, c, amount);
END $$;
"""


def array(values):
    return "'{" + ','.join(map(str, values)) + "}'"


class Tpcc:

    def __init__(self, parameters):
        self.per_node = parameters['warehouses']
        self.customers, self.items = parameters['customers'], parameters['items']
        self.placed = []    # warehouses of each node

    def words(self, prefix, warehouses=()):
        return {'p': prefix, 'w': array(warehouses), 'customers': self.customers,
                'items': self.items}

    def create(self, nodes):
        first = nodes.nodes[0]
        nodes.everywhere(TABLES.format(p='p_') + ITEM.format(items=self.items) +
                         PROCEDURES.format(p='p_'))
        first.sql(TABLES.format(p='l_') + FAMILIES)
        nodes.everywhere(PROCEDURES.format(p='l_') + LEAP_PROCEDURES)
        for number, node in enumerate(nodes.nodes, 1):
            found = first.sql(PLACED.format(node=number, count=self.per_node)).split()
            self.placed.append([int(w) for w in found])
            for prefix in ('p_', 'l_'):
                node.sql(FILL.format(**self.words(prefix, self.placed[-1])))

    def create_citus(self, nodes):
        first = nodes.nodes[0]
        first.sql(TABLES.format(p='p_') + ITEM.format(items=self.items))
        for name in DISTRIBUTED:
            first.sql(f"SELECT create_distributed_table('p_{name}', 'w_id')")
        first.sql("SELECT create_reference_table('item')")
        for node in nodes.nodes:
            found = first.sql("SELECT i FROM generate_series(1, 2000) i JOIN citus_shards s ON"
                              " s.shardid = get_shard_id_for_distribution_column('p_stock', i)"
                              f" WHERE s.nodeport = {node.proxy} ORDER BY i"
                              f" LIMIT {self.per_node}")
            self.placed.append([int(w) for w in found.split()])
        first.sql(FILL.format(**self.words('p_', sum(self.placed, []))))

    # ---- ownership ---------------------------------------------------------

    def own(self, nodes, here, table, keys):
        for start in range(0, len(keys), 250):
            texts = ','.join(f'"{key}"' for key in keys[start:start + 250])
            nodes.nodes[here].sql(f"{PATIENT}SELECT leap.own('{table}', '{{{texts}}}')")

    def own_all(self, nodes, here):
        ws = self.placed[here]
        districts = [f'{w},{d + 1}' for w in ws for d in range(DISTRICTS)]
        self.own(nodes, here, 'l_warehouse', ws)
        self.own(nodes, here, 'l_district', districts)
        self.own(nodes, here, 'l_customer', [f'{district},{c + 1}' for district in districts
                                             for c in range(self.customers)])
        self.own(nodes, here, 'l_stock', [f'{w},{i + 1}' for w in ws for i in range(self.items)])

    def arrange(self, nodes, case):
        for here in range(len(nodes)):
            self.own_all(nodes, here)
        if not (case['locality'] and case['remote']):
            return
        for here in range(len(nodes)):
            for there in range(len(nodes)):
                if there == here:
                    continue
                ws = self.placed[there]
                self.own(nodes, here, 'l_customer', [
                    f'{w},{d + 1},{c}' for w in ws for d in range(DISTRICTS)
                    for c in self.part(self.customers, here)])
                self.own(nodes, here, 'l_stock', [
                    f'{w},{i}' for w in ws for i in self.part(self.items, here)])

    def part(self, count, here):
        """Numbers of rows of any other node's warehouse that this node alone asks for."""
        each = count // (2 * len(self.placed))
        return range(here * each + 1, (here + 1) * each + 1)

    # ---- checks ------------------------------------------------------------

    def sum(self, nodes, expression, table):
        return sum(float(text or 0) for text in nodes.everywhere(
            f"SET leap.scans = 'local'; SELECT sum({expression}) FROM {table}"))

    def check(self, nodes, done):
        for prefix, orders in done.items():
            found = {name: self.sum(nodes, expression, f'{prefix}_{table}')
                     for name, expression, table in (
                         ('next', 'd_next_o_id - 1', 'district'), ('orders', '1', 'orders'),
                         ('lines', 'o_ol_cnt', 'orders'), ('there', '1', 'order_line'),
                         ('stock', 's_order_cnt', 'stock'), ('w', 'w_ytd', 'warehouse'),
                         ('d', 'd_ytd', 'district'), ('c', 'c_ytd_payment', 'customer'),
                         ('h', 'h_amount', 'history'))}
            yield f'{prefix}: {orders} orders acknowledged, {found}', (
                found['next'] == found['orders'] == orders and
                found['lines'] == found['there'] == found['stock'] and
                found['w'] == found['d'] == found['c'] == found['h'])

    def check_citus(self, nodes, done):
        orders = int(nodes.nodes[0].sql('SELECT count(*) FROM p_orders'))
        yield f"{done['p']} orders acknowledged, {orders} are there", orders == done['p']

    def prepare(self, table):
        return ';'.join(
            f"PREPARE {table}_{name.replace('(', ' (', 1)} AS {sql.format(p=table + '_')}"
            for name, sql in STATEMENTS.items())

    def tables(self):
        return {'plain': 'p', 'leap': 'l'}

    # ---- transactions ------------------------------------------------------

    def place(self, client, count):
        """(node, warehouse, number of a row) that the client asks for."""
        random, case, node = client.random, client.case, client.home
        if random.random() * 100 < case['remote']:
            node = random.choice([i for i in range(len(self.placed)) if i != client.home])
        w = random.choice(self.placed[node])
        if node != client.home and random.random() * 100 < case['locality']:
            return node, w, random.choice(self.part(count, client.home))
        first = count // 2 + 1 if case['locality'] else 1
        return node, w, random.randint(first, count)

    def transaction(self, client, table):
        kind = NewOrder if client.random.random() < 0.5 else Payment
        return kind(self, client, table)

    def accesses(self):
        """Of a transaction, that may be remote: ten items, or one customer."""
        return 5.5, 1


class Half(Transaction):

    def __init__(self, tpcc, client, table):
        self.table, self.home = table, client.home
        self.w = client.random.choice(tpcc.placed[client.home])
        self.d = client.random.randint(1, DISTRICTS)

    def execute(self, name, *arguments):
        return f"EXECUTE {self.table}_{name}({', '.join(map(str, arguments))})"


class NewOrder(Half):

    def __init__(self, tpcc, client, table):
        super().__init__(tpcc, client, table)
        random = client.random
        self.c = random.randint(1, tpcc.customers)
        count, items = random.randint(5, 15), {}
        while len(items) < count:
            node, w, i = tpcc.place(client, tpcc.items)
            items[w, i] = node
        self.items = [(node, w, i, random.randint(1, 10))
                      for (w, i), node in sorted(items.items())]

    def statements(self):
        """The number of the order is what the second statement said."""
        home, w, d = self.home, self.w, self.d
        yield home, self.execute('tax', w), False
        order = yield home, self.execute('next', w, d), True
        yield home, self.execute('discount', w, d, self.c), False
        yield home, self.execute('order', w, d, order, self.c, len(self.items)), True
        yield home, self.execute('new', w, d, order), True
        yield home, self.execute('price', array(i for _, _, i, _ in self.items)), False
        for number, (node, supply, i, quantity) in enumerate(self.items, 1):
            yield node, self.execute('take', supply, i, quantity), True
            yield home, self.execute('line', w, d, order, number, i, supply, quantity), True

    def arguments(self, items):
        return ', '.join(array(item[place] for item in items) for place in (1, 2, 3))

    def calls(self):
        """The node of the warehouse has a part for the order, and one for its own stock."""
        found = {self.home: f'SELECT {self.table}_order_home({self.w}, {self.d}, {self.c},'
                            f' {self.arguments(self.items)})'}
        for node in dict.fromkeys(node for node, _, _, _ in self.items):
            stock = self.arguments([item for item in self.items if item[0] == node])
            call = f'SELECT {self.table}_order_stock({stock})'
            found[node] = f'{found[node]}; {call}' if node in found else call
        return {node: (sql, True) for node, sql in found.items()}

    def whole(self):
        return (f'SELECT {self.table}_order({self.w}, {self.d}, {self.c},'
                f' {self.arguments(self.items)})')

    def writes(self):
        return 1


class Payment(Half):

    def __init__(self, tpcc, client, table):
        super().__init__(tpcc, client, table)
        self.node, self.cw, self.c = tpcc.place(client, tpcc.customers)
        self.cd = client.random.randint(1, DISTRICTS)
        self.amount = client.random.randint(1, 5000)
        client.turn += 1
        self.h = (client.serial << 24) + client.turn

    def statements(self):
        yield self.node, self.execute('pay', self.cw, self.cd, self.c, self.amount), True
        yield self.home, self.execute('earn', self.w, self.amount), True
        yield self.home, self.execute('gain', self.w, self.d, self.amount), True
        yield self.home, self.execute('note', self.w, self.d, self.h, self.cw, self.cd, self.c,
                                      self.amount), True

    def calls(self):
        customer = f'{self.table}_pay_customer({self.cw}, {self.cd}, {self.c}, {self.amount})'
        found = {self.home: f'SELECT {self.table}_pay_home({self.w}, {self.d}, {self.h},'
                            f' {self.cw}, {self.cd}, {self.c}, {self.amount})'}
        if self.node == self.home:
            found[self.home] += f'; SELECT {customer}'
        else:
            found[self.node] = f'SELECT {customer}'
        return {node: (sql, True) for node, sql in found.items()}

    def whole(self):
        return (f'SELECT {self.table}_pay({self.w}, {self.d}, {self.h}, {self.cw}, {self.cd},'
                f' {self.c}, {self.amount})')

    def writes(self):
        return 0

# Leap tables on three nodes: rows move to the node that names their keys, a statement that does not
# name keys is refused, rolled back transactions lose nothing, and a node that is away is named.
use strict;
use warnings FATAL => 'all';

use LeapCluster;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $cluster = LeapCluster->new(3);
my ($one, $two, $three) = $cluster->nodes;

$cluster->create('account', 'id int PRIMARY KEY, v int NOT NULL, t text');
# A key of each home.
my ($k1, $k2, $k3) = map { $cluster->key_of_home('account', $_) } 1 .. 3;

sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }

sub fails
{
	my ($node, $sql, $pattern, $name) = @_;
	my ($status, $out, $error) = $node->psql('postgres', $sql, on_error_stop => 1);

	return ok($status != 0 && $error =~ $pattern, $name) || diag("status $status: $out$error");
}

sub at
{
	my (@nodes) = @_;
	return join ' ', map { '[' . LeapCluster::here($_, 'account') =~ s/\n/,/gr . ']' } @nodes;
}

# --- Rows move.

sql($one, "INSERT INTO account VALUES ($k1, 1, 'one'), ($k2, 2, NULL), ($k3, 3, 'th,\"r\\e')");
is(sql($two, "SELECT v FROM account WHERE id = $k2"), '2', 'a row comes to its reader');
is(sql($three, "WITH u AS (UPDATE account SET v = v + 10 WHERE id IN ($k1, $k2, $k3) RETURNING v)
	SELECT string_agg(v::text, ' ' ORDER BY v) FROM u"), '11 12 13',
	'rows of three nodes are changed at once');
is(at($one, $two), '[] []', 'and have left the others');
is(sql($one, "SELECT t FROM account WHERE id = $k3"), 'th,"r\\e', 'a value arrives as it was');
is(sql($two, "PREPARE p(int) AS SELECT v FROM account WHERE id = \$1;
	SET plan_cache_mode = force_generic_plan; EXECUTE p($k1); EXECUTE p($k3)"), "11\n13",
	'parameters name keys');
is(sql($one, "SELECT v FROM account WHERE id = $k1 OR id = $k3 ORDER BY 1"), "11\n13", 'OR');
sql($two, "DELETE FROM account WHERE id = ANY (ARRAY[$k1, $k3])");
is(sql($three, "SELECT count(*) FROM account WHERE id = $k1"), '0', 'what is deleted is absent');
sql($one, "INSERT INTO account VALUES ($k1, 1)");
is(sql($three, "SELECT v FROM account WHERE id = $k1"), '1', 'a key comes back into use');

# --- Insertion of what is elsewhere.

fails($one, "INSERT INTO account VALUES ($k1, 2)", qr/duplicate key/, 'a duplicate is found');
is(sql($two, "INSERT INTO account VALUES ($k1, 5) ON CONFLICT (id) DO UPDATE SET v = account.v + 5
	RETURNING v"), '6', 'ON CONFLICT finds the row that was elsewhere');
sql($three, 'INSERT INTO account SELECT 5000 + i, i FROM generate_series(1, 20) i');
is(sql($one, 'SELECT v FROM account WHERE id = 5020'), '20', 'keys that INSERT ... SELECT made');
fails($two, 'INSERT INTO account SELECT 5020, 1', qr/duplicate key/, 'row by row as well');

# --- What names no keys.

fails($one, 'SELECT count(*) FROM account', qr/does not name the keys/, 'a scan');
fails($one, "UPDATE account SET v = 0 WHERE id > 1", qr/does not name the keys/, 'a range');
fails($one, "SELECT * FROM account a JOIN generate_series(1, 3) g ON a.id = g",
	qr/does not name the keys/, 'a join');
fails($one, 'COPY account TO stdout', qr/COPY TO/, 'COPY TO');
fails($one, 'BEGIN; CREATE TABLE refers (id int); INSERT INTO refers VALUES (1);
	ALTER TABLE refers ADD FOREIGN KEY (id) REFERENCES account', qr/does not name the keys of/,
	'a foreign key that is checked for all rows');
fails($one, 'TRUNCATE account', qr/cannot be truncated/, 'TRUNCATE');
fails($one, "UPDATE account SET id = 77 WHERE id = $k1", qr/cannot be changed/, 'a change of key');
fails($one, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;
	SELECT v FROM account WHERE id = 5001", qr/is not here/, 'REPEATABLE READ fetches nothing');
fails($one, "BEGIN READ ONLY; SELECT v FROM account WHERE id = 5002", qr/read-only/,
	'nor does READ ONLY');
is(sql($one, "SELECT leap.own('account', '{5001}');
	BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM account WHERE id = 5001; COMMIT"), "1\n1",
	'but sees what was fetched before');
{
	my $session = $two->background_psql('postgres', on_error_die => 0, on_error_stop => 0);

	$session->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	sql($two, "SELECT leap.own('account', '{5003}')");
	my ($out, $status) = $session->query('SELECT v FROM account WHERE id = 5003');
	like($session->{stderr}, qr/could not serialize/,
		'a row newer than the snapshot is not absent');
	$session->{stderr} = '';
	$session->quit;
}

# --- Several tables with one key, rows of before, keys of two columns and of text.

sql($two, q{CREATE TABLE orders (customer int, name text, total int, PRIMARY KEY (customer, name));
	CREATE TABLE lines (customer int, name text, line int, price int,
		PRIMARY KEY (customer, name, line),
		FOREIGN KEY (customer, name) REFERENCES orders ON DELETE CASCADE);
	INSERT INTO orders SELECT c, 'o,' || n, 0 FROM generate_series(1, 5) c, generate_series(1, 4) n;
	INSERT INTO lines SELECT customer, name, l, l FROM orders, generate_series(1, 3) l;
	SELECT leap.create_family('order', '{orders,lines}', '{customer,name}')});
is(sql($three, q{UPDATE lines SET price = price + 1 WHERE customer = 2 AND name = 'o,3';
	UPDATE orders SET total = (SELECT sum(price) FROM lines WHERE customer = 2 AND name = 'o,3')
		WHERE customer = 2 AND name = 'o,3';
	SELECT total FROM orders WHERE (customer, name) IN ((2, 'o,3'), (3, 'o,3')) ORDER BY 1}),
	"0\n9",
	'a family moves with its lines');
is(sql($two, 'SET leap.scans = local; SELECT count(*) FROM orders; SELECT count(*) FROM lines'),
	"18\n54", 'and has left whole');
sql($one, q{DELETE FROM orders WHERE customer = 2 AND name = 'o,3'});
is(sql($two, q{SELECT count(*) FROM lines WHERE customer = 2 AND name = 'o,3'}), '0',
	'foreign keys work within it');
fails($three, q{INSERT INTO lines VALUES (4, 'none', 1, 1)}, qr/foreign key/, 'and are checked');
is(sql($one, q{SELECT leap.own('orders', '{"3,o\\\\,4","1,o\\\\,1"}')}), '2', 'keys as text');
is(sql($one, q{SET leap.scans = local; SELECT count(*) FROM lines}), '6', 'their rows are here');
is(sql($two, q{SELECT leap.drop('lines'); SELECT count(*) FROM orders}), "\n16",
	'plain tables again');

# --- Homes by some columns of the key: of families with as many of them they are the same.

sql($two, q{CREATE TABLE shop (id text PRIMARY KEY, v int);
	CREATE TABLE stock (shop text, item int, v int, PRIMARY KEY (shop, item));
	CREATE TABLE shelf (shop text, item int, v int, PRIMARY KEY (shop, item));
	SELECT leap.create('shop', home_columns => 1);
	SELECT leap.create('stock', home_columns => 1);
	SELECT leap.create('shelf', home_columns => 2)});
my $homes = q{SELECT string_agg(leap.home(family, %s)::text, '' ORDER BY i)
	FROM leap.member, generate_series(1, 40) i WHERE relation = '%s'::regclass};
my $shops = sql($one, sprintf($homes, q{'s,\\' || i}, 'shop'));
like($shops, qr/^(?=.*1)(?=.*2)(?=.*3)[123]{40}$/, 'all nodes are homes');
is(sql($two, sprintf($homes, q{'s\\,\\\\' || i || ',' || i * i}, 'stock')), $shops,
	'stock is at home where its shop is');
isnt(sql($two, sprintf($homes, q{'s\\,\\\\' || i || ',' || i * i}, 'shelf')), $shops,
	'but not by all columns');
is(sql($one, "SELECT sum(leap.home(family, 's,' || i)) % 3 FROM leap.member,
	generate_series(1, 9) i WHERE relation = 'stock'::regclass"), '0', 'items stay together');
sql($three, q{INSERT INTO shop VALUES ('s', 0); INSERT INTO stock VALUES ('s', 1, 0)});
sql($one, q{UPDATE stock SET v = v + 1 WHERE shop = 's' AND item = 1});
is(sql($two, q{SELECT v FROM stock WHERE shop = 's' AND item = 1}), '1', 'and move as ever');
fails($two, q{CREATE TABLE none (id int PRIMARY KEY);
	SELECT leap.create('none', home_columns => 2)},
	qr/cannot have its home by 2/, 'columns that there are');
sql($two, qq{SELECT leap.drop('$_')}) foreach qw(shop stock shelf);

# --- What is counted: a key comes in one round, a message and its answer.

{
	my $count = q{SELECT string_agg(value::text, ' ' ORDER BY name) FROM leap.handovers
		WHERE name IN ('messages', 'rounds', 'taken')};
	my $key = $cluster->key_of_home('account', 2, 12);

	sql($two, "SELECT leap.own('account', '{$key}')");
	$_->poll_query_until('postgres', 'SELECT count(*) = 0 FROM leap.key
		WHERE NOT told OR payload IS NOT NULL') foreach $cluster->nodes;
	my ($messages, $rounds, $taken) = split / /, sql($one, $count);
	my $settling = sql($one, q{SELECT value FROM leap.handovers WHERE name = 'settling'});
	sql($one, "SELECT leap.own('account', '{$key}')");
	is(sql($one, $count) =~ s/^\d+ //r, $rounds + 1 . ' ' . ($taken + 1), 'one round, one key');
	$_->poll_query_until('postgres', 'SELECT count(*) = 0 FROM leap.key
		WHERE NOT told OR payload IS NOT NULL') foreach $cluster->nodes;
	my $settled = sql($one, q{SELECT value FROM leap.handovers WHERE name = 'settling'});
	ok($settled >= $settling + 2, 'the worker tells the home');
	is((split / /, sql($one, $count))[0] - $settled, $messages - $settling + 2,
		'a request is two messages');
}

# --- The worker waits for no row that a transaction has locked, and settles the others.

{
	my @keys = map { $cluster->key_of_home('account', 2, $_) } 13, 14;
	my $holder = $one->background_psql('postgres');

	sql($one, "SELECT leap.own('account', '{$keys[0],$keys[1]}')");
	$one->poll_query_until('postgres', 'SELECT count(*) = 0 FROM leap.key WHERE NOT told');
	$holder->query_safe("UPDATE leap.key SET told = false WHERE key IN ('$keys[0]', '$keys[1]')");
	$holder->query_safe("BEGIN; SELECT FROM leap.key WHERE key = '$keys[0]' FOR UPDATE");
	ok($one->poll_query_until('postgres', "SELECT told FROM leap.key WHERE key = '$keys[1]'"),
		'a key beside one that is locked is told of');
	$holder->query_safe('COMMIT');
	$holder->quit;
	ok($one->poll_query_until('postgres', "SELECT told FROM leap.key WHERE key = '$keys[0]'"),
		'and then the other one');
}

# --- Wait-Die.

{
	my @session = map { $_->background_psql('postgres', on_error_stop => 0) } $one, $two;

	sql($one, "SELECT leap.own('account', '{5008}')");
	sql($two, "SELECT leap.own('account', '{5009}')");
	$session[0]->query_safe('BEGIN; UPDATE account SET v = 1 WHERE id = 5008');
	$session[1]->query_safe('BEGIN; UPDATE account SET v = 1 WHERE id = 5009');
	# The younger one asks for what the older one has: it dies.
	$session[1]->query('UPDATE account SET v = 2 WHERE id = 5008');
	like($session[1]{stderr}, qr/used by an older transaction/, 'the younger transaction dies');
	$session[1]{stderr} = '';
	# The older one waits for the younger one, which can end.
	$session[1]->query_safe('ROLLBACK; BEGIN; UPDATE account SET v = 3 WHERE id = 5010');
	sql($two, 'SELECT pg_sleep(0.01)');
	$session[1]->query_safe('COMMIT');
	$session[0]->query_safe('UPDATE account SET v = 1 WHERE id = 5009; COMMIT');
	is(sql($three, 'SELECT sum(v) FROM account WHERE id IN (5008, 5009, 5010)'), '5',
		'the older one goes on');
	# An autocommit statement waits and is tried again by itself.
	$session[0]->query_safe('BEGIN; UPDATE account SET v = v + 1 WHERE id = 5008');
	$session[1]->query_until(qr/asked/,
		"\\echo asked\nUPDATE account SET v = v + 10 WHERE id = 5008;\n");
	sleep 1;
	$session[0]->query_safe('COMMIT');
	$session[1]->query_safe('SELECT 1');
	is(sql($three, 'SELECT v FROM account WHERE id = 5008'), '12', 'both have counted');
	$_->quit foreach @session;
}

# --- Rolled back.

sql($one, "SELECT leap.own('account', '{5004,5005}')");
sql($two, 'BEGIN; UPDATE account SET v = -1 WHERE id IN (5004, 5005); ROLLBACK');
is(at($two) =~ /500[45]/ ? 'here' : 'not here', 'not here', 'what a rollback left is in flight');
is(sql($three, 'SELECT v FROM account WHERE id = 5004'), '4', 'a third node gets it');
is(sql($two, 'SELECT v FROM account WHERE id = 5005'), '5', 'the second gets it again');
is(sql($two, 'BEGIN; SAVEPOINT s; SELECT v FROM account WHERE id = 5006; ROLLBACK TO s;
	SELECT v FROM account WHERE id = 5006; COMMIT'), "6\n6", 'and within a transaction');
is(sql($one, 'SELECT v FROM account WHERE id = 5006'), '6', 'and then another');

# --- COPY, and prepared transactions.

sql($two, "COPY account FROM stdin;\n7001\t1\tx\n7002\t2\ty\n\\.\n");
is(sql($one, 'SELECT sum(v) FROM account WHERE id IN (7001, 7002)'), '3',
	'COPY FROM owns its keys');
sql($two, "BEGIN; UPDATE account SET v = 7 WHERE id = 7001; PREPARE TRANSACTION 'p'");
fails($three, q{SET leap.timeout = '300ms'; SELECT v FROM account WHERE id = 7001}, qr/timeout/,
	'a prepared transaction keeps its keys');
$two->restart;
fails($three, q{SET leap.timeout = '300ms'; SELECT v FROM account WHERE id = 7001}, qr/timeout/,
	'after a restart, too');
sql($two, "COMMIT PREPARED 'p'");
is(sql($three, 'SELECT v FROM account WHERE id = 7001'), '7', 'until its end');
sql($three, 'DELETE FROM account WHERE id IN (7001, 7002)');

# --- Calls that go to the keys.

foreach my $node ($cluster->nodes)
{
	sql($node, q{CREATE ROLE worker; CREATE FUNCTION add_to(text, text) RETURNS text LANGUAGE sql
		AS 'UPDATE account SET v = v + $2::int, t = current_user WHERE id = $1::int
			RETURNING v'; GRANT SELECT, UPDATE ON account TO worker});
}
my $call = q{SELECT leap.run('add_to', '{5011,1}', 'account', '{5011}')};
my $called = q{SELECT value FROM leap.handovers WHERE name = 'called'};
sql($three, "SELECT leap.own('account', '{5011}')");
is(sql($two, "SET leap.delegation = always; SET ROLE worker; $call"), '12',
	'a call goes to the key');
is(sql($three, q{SET leap.scans = local; SELECT v, t FROM account WHERE id + 0 = 5011}),
	'12|worker', 'which stays, and sees the caller\'s role');
is(sql($two, "SET leap.delegation = always; BEGIN; $call; ROLLBACK"), '13',
	'in a transaction block the key comes');
is(sql($two, "SET leap.delegation = never; $call"), '13', 'and where calls are not wanted');
is(sql($three, "SET leap.delegation = always; SET ROLE worker;
	SELECT leap.run('add_to', '{5011,1}', 'account', '{5011}')"), '14', 'to and fro');
fails($three, q{SET leap.delegation = always; SELECT leap.run('add_to', '{x,1}', 'account',
	'{5011}')}, qr/leap node "b": invalid input syntax/, 'its error comes back');
sql($_, q{CREATE FUNCTION escape(text) RETURNS text LANGUAGE plpgsql AS
	$$BEGIN PERFORM set_config('role', 'none', false); RETURN current_user; END$$})
  foreach $cluster->nodes;
fails($three, q{SET leap.delegation = always; SET ROLE worker;
	SELECT leap.run('escape', '{x}', 'account', '{5011}')}, qr/cannot set parameter "role"/,
	'it stays the caller');
fails($three, q{SET ROLE worker; SELECT leap.delegate(2, 'current_user; RESET ROLE; SELECT now',
	'{}', 1, '{5011}')}, qr/invalid name syntax|does not exist/, 'and is a function');
foreach (1 .. 8)
{
	sql($_, $call) foreach $two, $three;
}
cmp_ok(sql($two, $called) + sql($three, $called), '>', 6, 'one use a fetch is not worth it');
is(sql($one, 'SELECT v FROM account WHERE id = 5011'), '30', 'all calls have counted');

# --- Settled.

$_->poll_query_until('postgres', 'SELECT count(*) = 0 FROM leap.key
	WHERE NOT told OR payload IS NOT NULL') foreach $cluster->nodes;
is(sql($one, 'SELECT count(*) FROM leap.key WHERE owner <> 1 AND leap.home(family, key) <> 1'),
	'0', 'no pointers are left');
my $total = 0;
foreach my $node ($cluster->nodes)
{
	$total += sql($node, 'SET leap.scans = local; SELECT count(*) FROM account');
}
is($total, 22, 'each row is on one node');

is(sql($two, 'SELECT count(*) FROM leap.everywhere(NULL::account)'), $total, 'all can be read');
is(sql($one, "SELECT v FROM leap.everywhere(NULL::account) WHERE id = 5020"), '20', 'as they are');
fails($two, 'CREATE ROLE other; SET ROLE other; SELECT * FROM leap.everywhere(NULL::account)',
	qr/permission denied|"other" does not exist/, 'by a role that may read the table');

# --- What an ordinary role may call: what takes no key but its own statements'.

is(sql($one, q{CREATE ROLE ordinary; SELECT string_agg(proname, ' ' ORDER BY proname COLLATE "C")
	FROM pg_proc p WHERE pronamespace = 'leap'::regnamespace
	AND has_function_privilege('ordinary', p.oid, 'EXECUTE')}),
	'delegate everywhere guard home majority missing nodes own rows_of run this_node',
	'functions of an ordinary role');
fails($one, q{SET ROLE ordinary; CALL leap.drain_node('b')},
	qr/permission denied for procedure drain_node/, 'procedures are for superusers');

# --- A node is away.

sql($three, "SELECT leap.own('account', '{$k1,5007}')");
$three->stop;
fails($one, "SELECT v FROM account WHERE id = 5007",
	qr/"c" does not answer.*again when it is back/s, 'a node that is away is named');
is(sql($one, "SELECT v FROM account WHERE id = 5001"), '1', 'others go on');
$three->start;
is(sql($one, "SELECT v FROM account WHERE id = 5007"), '7', 'and it is back');

$_->leanstore_check_ok($_->name) foreach $cluster->nodes;
$_->stop foreach $cluster->nodes;
done_testing();

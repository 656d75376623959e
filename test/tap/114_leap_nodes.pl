# Homes change, and nodes are drained, leave and come, under load: nothing is lost or owned twice.
use strict;
use warnings FATAL => 'all';

use LeapChecker;
use LeapCluster;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{LEAP_SEED} // time() ^ $$;
my $cluster = LeapCluster->new(3, 'leap.settle_interval' => '100ms', 'leap.timeout' => '2s',
	max_connections => 60);
my ($one, $two, $three) = $cluster->nodes;

sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }

# --- Under load.

{
	my $checker = LeapChecker->new($cluster, seed => $seed, keys => 40);
	my @commands = (q{spread('{a,b}')}, 'spread()', q{drain_node('b')}, 'spread()',
		q{spread('{c}')}, q{drain_node('c')});
	my $done = 0;
	my @complaints = $checker->run(
		seconds => $ENV{LEAP_SECONDS} // 7,
		instead => sub {
			my ($status, $out, $error) = $one->psql('postgres',
				'CALL leap.' . $commands[ $done % @commands ]);
			$done++ if $status == 0;
			note $error if $status != 0;
		});

	ok(!@complaints, "LEAP_SEED=$seed: $checker->{transactions} transactions, $done changes")
	  or diag(join "\n", grep { defined } @complaints[ 0 .. 300 ]);
	ok($done >= 3, 'homes were changed');
}

# --- A transaction that has begun before a freeze was committed does not see it, and is waited for.

$cluster->create('frozen', 'id int PRIMARY KEY, v int');
{
	my $family = sql($one, q{SELECT id FROM leap.family WHERE name LIKE '%frozen'});
	my ($freezer, $user) = map { $one->background_psql('postgres') } 1 .. 2;

	$freezer->query_safe("BEGIN; SELECT leap.peer_freeze($family, true)");
	$user->query_safe('BEGIN');
	$user->query_safe(q{INSERT INTO frozen VALUES (} . $cluster->key_of_home('frozen', 1) . ', 1)');
	$freezer->query_safe('COMMIT');
	like(sql($one, "SELECT leap.peer_unrest($family)"), qr/^process \d+ on a uses keys$/,
		'a transaction that is older than the freeze is waited for');
	$user->query_safe('COMMIT');
	is(sql($one, "SELECT leap.peer_unrest($family)"), '', 'until it ends');
	sql($one, q{SELECT leap.thaw('frozen')});
	$_->quit foreach $freezer, $user;
}

# --- What a transaction with an old snapshot learns of homes is not old.

{
	my $old = $one->background_psql('postgres');
	my $home = 'SELECT string_agg(DISTINCT leap.home(family, i::text)::text, $$ $$) FROM
		leap.member, generate_series(1, 99) i WHERE relation = $$frozen$$::regclass';

	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$old->query_safe('SELECT count(*) FROM pg_class');
	sql($one, q{CALL leap.spread('{b}')});
	is($old->query_safe($home), '2', 'homes are those of now');
	$old->query_safe('COMMIT');
	is($old->query_safe($home), '2', 'and so are they in the next transaction');
	$old->quit;
	sql($one, 'CALL leap.spread()');
}

# --- A node leaves, and comes back.

$cluster->create('account', 'id int PRIMARY KEY, v int');
sql($three, 'INSERT INTO account SELECT i, i FROM generate_series(1, 300) i');
sql($two, "UPDATE account SET v = v + 1000 WHERE id IN (3, 6, 9, 12, 300)");
my ($status, $out, $error) = $one->psql('postgres', q{CALL leap.remove_node('c')});
like($error, qr/owns keys, or is a home/, 'a node with keys cannot be removed');
sql($one, q{CALL leap.drain_node('c')});
is(LeapCluster::here($three, 'account'), '', 'a drained node has no rows');
is(sql($one, 'SELECT sum(v) FROM account WHERE id IN (' . join(',', 1 .. 300) . ')'), 45150 + 5000,
	'the others have them all');
$three->poll_query_until('postgres', 'SELECT count(*) = 0 FROM leap.key WHERE payload IS NOT NULL');
sql($one, q{CALL leap.remove_node('c')});
is(sql($one, 'SELECT string_agg(name, $$ $$ ORDER BY id) FROM leap.node') . sql($two,
	'SELECT count(*) FROM leap.node'), 'a b2', 'it has left');
is(sql($three, 'SELECT count(*) FROM account'), '0', 'and has plain tables');
sql($one, sprintf(q{SELECT leap.add_node('d', '%s')}, LeapCluster::conninfo($three)));
is(sql($three, 'SELECT v FROM account WHERE id = 7'), '7', 'it is back under another name');
sql($one, 'CALL leap.spread()');
is(sql($three, 'SELECT count(DISTINCT node) FROM leap.bucket'), '3', 'and is a home again');
is(sql($two, 'SELECT sum(v) FROM account WHERE id IN (' . join(',', 1 .. 300) . ')'), 45150 + 5000,
	'with all rows');

# --- A node has another address: sessions that are connected to the one before leave it.

{
	my $session = $one->background_psql('postgres');
	my $id = sql($one, q{SELECT id FROM leap.node WHERE name = 'b'});
	my $where = "SELECT (leap.call($id, 'SELECT pg_backend_pid()'))[1]";
	my $all = q{SET leap.scans = 'all'; SELECT count(*) FROM account};
	my $rows = $session->query_safe($all);
	my $first = $session->query_safe($where);
	is($session->query_safe($where), $first, 'a session keeps its connection to a node');
	sql($three, sprintf(q{SELECT leap.set_node('b', '%s connect_timeout=9')},
		LeapCluster::conninfo($two)));
	isnt($session->query_safe($where), $first, 'but not when the node has another address');
	is($session->query_safe($all), $rows, 'nor that for rows');
	is(sql($two, q{SELECT count(*) FROM pg_stat_activity WHERE pid = } . $first), '0',
		'it is closed');
	# Builds with assertions warn of a snapshot that is not the transaction's own.
	$session->query_safe('SET client_min_messages = error');
	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$first = $session->query_safe($where);
	sql($three, sprintf(q{SELECT leap.set_node('b', '%s connect_timeout=8')},
		LeapCluster::conninfo($two)));
	isnt($session->query_safe($where), $first,
		'a transaction with an old snapshot leaves it, too');
	$session->query_safe('COMMIT');
	$session->quit;
}
$_->leanstore_check_ok($_->name) foreach $cluster->nodes;
$_->stop foreach $cluster->nodes;
done_testing();

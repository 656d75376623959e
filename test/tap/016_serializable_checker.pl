# Random transactions at SERIALIZABLE are serializable: on leanstore tables, with
# leanstore and other indexes, and together with heap tables.  At READ COMMITTED and
# REPEATABLE READ the same load is not, and the checker says so.
#
# For an hour:
#
#   SERIALIZABLE_SECONDS=3600 SERIALIZABLE_CLIENTS=4 make test-tap T=016_serializable_checker
#
# SERIALIZABLE_SECONDS (30) is how long the clients (6) run at SERIALIZABLE, shared by the
# cases; the search comes on top.  SERIALIZABLE_SEED repeats the load of a run (not its timing).
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use SerializableChecker;
use Test::More;

my $seconds = ($ENV{SERIALIZABLE_SECONDS} // 30) / 3;
my $clients = $ENV{SERIALIZABLE_CLIENTS} // 6;
my $seed = $ENV{SERIALIZABLE_SEED} // time();
note "seed $seed";

my $node = LeanstoreTest->new_node(
	'serializable',
	'leanstore.buffer_pool_size' => '32MB',
	'max_connections' => 30);

SerializableChecker::create_tables($node,
	a => [ 'leanstore', 'leanstore' ],
	b => [ 'leanstore', 'btree' ],
	h => [ 'heap', 'btree' ]);

for my $case (
	[ 'leanstore tables', ['a'] ],
	[ 'leanstore tables, one with a btree index', [ 'a', 'b' ] ],
	[ 'leanstore and heap tables', [ 'a', 'h' ] ])
{
	my ($name, $tables) = @$case;
	my $run = SerializableChecker::run($node,
		tables => $tables, level => 'SERIALIZABLE', clients => $clients, seconds => $seconds,
		seed => $seed);

	$seed += 1000;
	is($run->{cycle}, undef, "$name: no cycle");
	cmp_ok($run->{committed}, '>', 20 * $seconds,
		"$name: $run->{committed} transactions committed, $run->{edges} edges");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM leanstore_range_locks'), '0',
	'no lock is left');

# The checker can find something.
for my $level ('READ COMMITTED', 'REPEATABLE READ')
{
	my $cycle;
	for (1 .. 20)
	{
		$cycle = SerializableChecker::run($node,
			tables => ['a'], level => $level, clients => 6, seconds => 3, seed => $seed++)->{cycle};
		last if defined $cycle;
	}
	isnt($cycle, undef, "$level: a cycle");
	note $cycle if defined $cycle;
}

$node->leanstore_check_ok('at the end');
done_testing();

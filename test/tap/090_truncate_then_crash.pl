# A file that a transaction has made and emptied, and what it has filled it with then: they survive
# a crash after the engine's checkpoint, when the server's own log still knows of the emptying.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('truncated',
	'leanstore.checkpoint_timeout' => '1h',
	checkpoint_timeout => '1h',
	wal_level => 'replica',
	autovacuum => 'off');

for my $round (1 .. 2)
{
	$node->safe_psql('postgres', qq{
		BEGIN;
		CREATE TABLE t$round (id int PRIMARY KEY, v text) USING leanstore;
		ALTER TABLE t$round ALTER v SET STORAGE EXTERNAL;
		INSERT INTO t$round SELECT i, repeat('a', 5000) FROM generate_series(1, 500) i;
		TRUNCATE t$round;
		CREATE INDEX ON t$round (left(v, 1));
		INSERT INTO t$round SELECT i, repeat(chr(97 + i % 26), 7000) FROM generate_series(1, 300) i;
		COMMIT});
	$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()') if $round == 1;
	$node->stop('immediate');
	$node->start;
	is($node->safe_psql('postgres', qq{SELECT count(*), sum(length(v)),
			bool_and(v = repeat(chr(97 + id % 26), 7000)) FROM t$round}),
		'300|2100000|t', "round $round: what came behind TRUNCATE is there");
	is($node->safe_psql('postgres', "SELECT leanstore_check('t$round') IS NOT NULL"), 't',
		"round $round: the check finds nothing");
}

$node->stop;
done_testing();

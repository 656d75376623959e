# A queue: rows come in at one end and go at the other, without VACUUM.  It stays as large as its
# contents, with a REPEATABLE READ transaction open, too: that one keeps the rows that it sees, and
# not all that have come and gone since.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use Test::More;

my $LENGTH = 300;
my $node = LeanstoreTest->new_node('queue', autovacuum => 'off');

$node->safe_psql('postgres', qq{
	CREATE TABLE queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job text)
		USING leanstore;
	INSERT INTO queue (job) SELECT repeat('x', 100) FROM generate_series(1, $LENGTH);
	CREATE PROCEDURE turn(n int) LANGUAGE plpgsql AS \$\$
	BEGIN
		FOR i IN 1 .. n LOOP
			INSERT INTO queue (job) VALUES (repeat('x', 100));
			IF i % 5 = 0 THEN
				UPDATE queue SET job = 'changed' WHERE id = (SELECT max(id) FROM queue);
			END IF;
			DELETE FROM queue
				WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
			COMMIT;
		END LOOP;
	END\$\$});

sub turn
{
	my ($n) = @_;
	$node->safe_psql('postgres', "CALL turn($n)");
	return;
}

# Old versions go down to this; the cleaner comes by itself.  Sizes do not go down again: they show
# the most that there was.
sub is_small
{
	my ($what, $versions, $table_pages, $index_pages) = @_;
	my $kept = 'SELECT versions_written - versions_removed FROM leanstore_stat_versions';
	my $sizes =
		q{SELECT pg_relation_size('queue') / 4096 || ' ' || pg_relation_size('queue_pkey') / 4096};
	ok($node->poll_query_until('postgres', "SELECT ($kept) <= $versions"), "$what: versions")
	  or diag($node->safe_psql('postgres', $kept));
	my ($table, $index) = split ' ', $node->safe_psql('postgres', $sizes);
	cmp_ok($table, '<=', $table_pages, "$what: pages of the table");
	cmp_ok($index, '<=', $index_pages, "$what: pages of the index");
	return;
}

turn(2000);
is_small('no reader', 50, 300, 300);

my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $mine = q{SELECT count(*), min(id), max(id), sum(hashtext(job)::bigint) FROM queue};
my $seen = $reader->query_safe($mine);

foreach my $round (1 .. 3)
{
	turn(2000);
	is_small("under a reader, round $round", $LENGTH + 100, 300, 300);
	is($reader->query_safe($mine), $seen, "the reader sees its rows, round $round");
}
# What the reader waits for is not a horizon, but its own rows: they go with it.
$reader->query_safe('COMMIT');
$reader->quit;
turn(100);
is_small('after the reader', 50, 300, 300);
is($node->safe_psql('postgres', 'SELECT count(*) FROM queue'), $LENGTH, 'length of the queue');
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();

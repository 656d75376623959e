# Rows of evicted pages are found compressed in memory: each one as its last change
# left it, while others change, copy and vacuum them, and after kills of everything.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $ROWS = 100_000;
my $node = LeanstoreTest->new_node('compressed',
	'leanstore.buffer_pool_size' => '4MB',
	'leanstore.compressed_cache_percent' => 40,
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.checkpoint_timeout' => '2s');
my $directory = PostgreSQL::Test::Utils::tempdir();

# What is in `accounts` is the sum of what each transaction has noted.
$node->safe_psql('postgres', qq{
	SET default_table_access_method = leanstore;
	CREATE TABLE accounts (id int PRIMARY KEY, balance int, changes int, filler char(84));
	INSERT INTO accounts SELECT i, 0, 0, '' FROM generate_series(1, $ROWS) i;
	CREATE TABLE done (client int, a int, b int, amount int)});
append_to_file("$directory/work.sql", qq{
	\\set a random(1, $ROWS)
	\\set b random(1, $ROWS)
	\\set amount random(-1000, 1000)
	BEGIN;
	UPDATE accounts SET balance = balance + :amount, changes = changes + 1 WHERE id = least(:a, :b);
	UPDATE accounts SET balance = balance - :amount, changes = changes + 1
		WHERE id = greatest(:a, :b);
	INSERT INTO done VALUES (:client_id, :a, :b, :amount);
	COMMIT;
});
sub stat_of { return $node->safe_psql('postgres', "SELECT $_[0] FROM leanstore_stat_buffer"); }

sub rows_are_right
{
	my ($when) = @_;
	is($node->safe_psql('postgres', q{
		SELECT count(*) FROM accounts LEFT JOIN (
			SELECT id, sum(amount) AS amount, count(*) AS n FROM (
				SELECT least(a, b) AS id, amount FROM done
				UNION ALL SELECT greatest(a, b), -amount FROM done) AS each
			GROUP BY id) AS noted USING (id)
		WHERE balance <> coalesce(amount, 0) OR changes <> coalesce(n, 0)}), '0',
			"$when: each row is what its changes made it");
	is($node->safe_psql('postgres', q{
		SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off;
		SELECT count(*) FROM generate_series(1, 2000) i JOIN accounts ON id = i * 37
			WHERE changes >= 0 AND balance IS NOT NULL}), '2000', "$when: rows by key");
	return;
}

foreach my $how (qw(all stop postmaster all))
{
	my $before = stat_of('compressed_hits');
	my $run = $node->start_pgbench('postgres', '-n', '-c', 4, '-T', 60,
		'-f', "$directory/work.sql");
	CrashDriver::wait_for_rows($node, 'done', 3000);
	cmp_ok(stat_of('compressed_hits') - $before, '>', 500, "$how: pages are not read");
	cmp_ok(stat_of('compressed_frames'), '<=', stat_of('frames_total') * 40 / 100,
		"$how: within their share");
	$node->safe_psql('postgres', 'VACUUM accounts; SELECT count(*) FROM accounts;
		SELECT leanstore_checkpoint()');
	# A checkpoint has just written them.
	ok($node->poll_query_until('postgres',
		'SELECT compressed_dirty_pages > 0 FROM leanstore_stat_buffer'),
		"$how: changed pages, too");
	$how eq 'stop' ? $node->stop('fast') : CrashDriver::kill_server($node, $how);
	$node->finish_pgbench($run);
	$node->start;
	rows_are_right($how);
	$node->safe_psql('postgres', 'DELETE FROM done;
		UPDATE accounts SET balance = 0, changes = 0 WHERE changes <> 0');
}
$node->leanstore_check_ok('at the end');

# Turned off, nothing is compressed.
$node->set_config('leanstore.compressed_cache_percent' => 0);
$node->restart;
$node->safe_psql('postgres', 'UPDATE accounts SET balance = 1');
is(stat_of('compressed_pages + compressed_dirty_pages + compressed_hits + compressed_frames'), '0',
	'turned off');
cmp_ok(stat_of('pages_evicted'), '>', 100, 'pages are evicted');

$node->stop('fast');
done_testing();

# Values of a table with the same bytes have the same pages: pages go with the last of them, through
# rollbacks, savepoints, PREPARE TRANSACTION and kill -9, after which what rows share is counted
# anew; leanstore_check compares.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('equal',
	max_prepared_transactions => 10,
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.checkpoint_timeout' => '2s',
	autovacuum => 'off');
$node->safe_psql('postgres', q{
	CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$ SELECT substr(string_agg(md5(seed::text || '/' || i), '' ORDER BY i), 1, n)
		FROM generate_series(1, n / 32 + 1) i $$;
	CREATE TABLE docs (id int PRIMARY KEY, content int, t text STORAGE external) USING leanstore;
	CREATE TABLE contents (content int, t text STORAGE external);
	INSERT INTO contents SELECT i, noise(i, 4096 * (1 + i % 3)) FROM generate_series(0, 9) i});

# Pages in use, and values that share some; when the rows are counted, which a write begins.
sub space_of
{
	my ($table) = @_;
	return qq{(SELECT concat_ws(' ', v.pages - v.free_pages, v.shared_values, v.counted)
		FROM pg_class c, leanstore_value_info(c.reltoastrelid) v WHERE c.oid = '$table'::regclass)};
}

# In time no page is in use but those of the distinct contents, and all rows but one of each share.
sub space_ok
{
	my ($table, $name) = @_;
	my $expected = $node->safe_psql('postgres', qq{SELECT concat_ws(' ',
		coalesce(sum(1 + content % 3), 0), coalesce(sum(n - 1), 0), true)
		FROM (SELECT content, count(*) AS n FROM $table GROUP BY content)});
	ok($node->poll_query_until('postgres', 'SELECT ' . space_of($table), $expected), $name)
		or diag("expected: $expected");
	is($node->safe_psql('postgres', qq{SELECT count(*) FROM $table d JOIN contents c
		USING (content) WHERE d.t IS DISTINCT FROM c.t}), '0', "$name: contents");
	$node->leanstore_check_ok($name);
}

sub insert
{
	my ($from, $to, $shift) = @_;
	return qq{INSERT INTO docs SELECT i, content, t FROM generate_series($from, $to) i
		JOIN contents ON content = (i + $shift) % 10};
}

# --- One session -----------------------------------------------------------------------
$node->safe_psql('postgres', insert(1, 100, 0));
space_ok('docs', 'ten contents');
$node->safe_psql('postgres', 'BEGIN; ' . insert(101, 120, 0) . '; SAVEPOINT s; '
	. insert(121, 140, 0) . '; DELETE FROM docs WHERE id < 11; ROLLBACK TO s; COMMIT');
$node->safe_psql('postgres', 'BEGIN; ' . insert(121, 140, 0) . '; ROLLBACK');
$node->safe_psql('postgres', q{UPDATE docs d SET content = c.content, t = c.t FROM contents c
	WHERE c.content = (d.id + 3) % 4 AND d.id % 3 = 0});
space_ok('docs', 'updates and rollbacks');
$node->safe_psql('postgres', 'VACUUM FULL docs');
$node->safe_psql('postgres', insert(601, 602, 0));
space_ok('docs', 'a new file of the table');

# --- Not shared --------------------------------------------------------------------------
$node->safe_psql('postgres', q{CREATE TABLE apart (t text STORAGE external) USING leanstore;
	SET leanstore.share_values = off; INSERT INTO apart SELECT noise(1, 8192)
		FROM generate_series(1, 10)});
is($node->safe_psql('postgres', 'SELECT ' . space_of('apart')), '20 0 t',
	'leanstore.share_values = off');

# --- Clients at a time, killed -------------------------------------------------------------
my $script = PostgreSQL::Test::Utils::tempdir() . '/equal.sql';
PostgreSQL::Test::Utils::append_to_file($script, q{\set id random(1, 400)
\set content random(0, 9)
\set fate random(1, 8)
\set undo :fate = 2
BEGIN;
SELECT pg_advisory_xact_lock(:id);
DELETE FROM docs WHERE id = :id AND :fate = 1;
INSERT INTO docs SELECT :id, content, t FROM contents WHERE content = :content AND :fate > 1
	ON CONFLICT (id) DO UPDATE SET content = excluded.content, t = excluded.t;
INSERT INTO done VALUES (1);
\if :undo
ROLLBACK;
\else
COMMIT;
\endif
});
$node->safe_psql('postgres', 'CREATE TABLE done (i int) USING leanstore');
foreach my $round (1 .. 3)
{
	$node->safe_psql('postgres', 'TRUNCATE done');
	$node->safe_psql('postgres', 'BEGIN; DELETE FROM docs WHERE id = 601; '
		. insert(1000 + $round, 1000 + $round, 0) . "; PREPARE TRANSACTION 'undone'");
	$node->safe_psql('postgres', 'BEGIN; DELETE FROM docs WHERE id = 602; '
		. insert(2000 + $round, 2000 + $round, 0) . "; PREPARE TRANSACTION 'kept'");
	my $run = $node->start_pgbench('postgres', '-n', '-c', 3, '-T', 120, '-f', $script);
	CrashDriver::wait_for_rows($node, 'done', 300);
	CrashDriver::kill_server($node, 'postmaster');
	$node->finish_pgbench($run);
	$node->start;
	$node->leanstore_check_ok("round $round: as it was left");
	# While rows are counted others come and go.
	$node->safe_psql('postgres', insert(3000 + $round, 3000 + $round, 0));
	$node->safe_psql('postgres',
		"DELETE FROM docs WHERE id BETWEEN $round * 20 AND $round * 20 + 9");
	$node->safe_psql('postgres', "COMMIT PREPARED 'kept'");
	$node->safe_psql('postgres', "ROLLBACK PREPARED 'undone'");
	ok($node->poll_query_until('postgres', 'SELECT ' . space_of('docs') . " LIKE '% t'"),
		"round $round: the rows are counted");
	$node->leanstore_check_ok("round $round: counted");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM docs d JOIN contents c
		USING (content) WHERE d.t IS DISTINCT FROM c.t}), '0', "round $round: contents");
	$node->safe_psql('postgres', insert(602, 602, 0) . " ON CONFLICT DO NOTHING");
}

# Values that came before all were counted are alone: a new file brings them together.
$node->safe_psql('postgres', 'VACUUM FULL docs');
$node->safe_psql('postgres', insert(5000, 5000, 0));
space_ok('docs', 'at the end');
$node->safe_psql('postgres', 'DELETE FROM docs');
space_ok('docs', 'nothing');

# leanstore_check tells what it could not compare.
$node->safe_psql('postgres', insert(10_000, 12_999, 0));
my $run = $node->start_pgbench('postgres', '-n', '-c', 3, '-T', 600, '-f', $script);
my ($told, $tries) = ('', 0);
until ($told =~ /were not compared/ || $tries++ == 1000)
{
	(undef, undef, $told) = $node->psql('postgres', q{SELECT leanstore_check('docs')});
}
like($told, qr/NOTICE:  pages of large values of table "docs" were not compared.*at rest/s,
	'a check beside writers');
$node->stop_pgbench($run);
$node->leanstore_check_ok('at rest');

done_testing();

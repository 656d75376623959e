# What is in the log can be seen: leanstore_wal_inspect, leanstore_stat_wal.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use Test::More;

my $node = LeanstoreTest->new_node('inspect', 'leanstore.checkpoint_timeout' => '1h',
	autovacuum => 'off');

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO t VALUES (0, 'opened');
	SELECT leanstore_checkpoint();
	CREATE ROLE stranger;
	CREATE ROLE watcher;
	GRANT pg_monitor TO watcher});
my ($commits, $rounds) = split /\|/,
	$node->safe_psql('postgres', 'SELECT log_commits, log_flushes FROM leanstore_stat_wal');
my $from = $node->safe_psql('postgres', 'SELECT max(position) FROM leanstore_wal_inspect()');

$node->safe_psql('postgres', q{
	BEGIN;
	INSERT INTO t SELECT i, repeat('v', 100) FROM generate_series(1, 5) i;
	UPDATE t SET v = $$w$$ WHERE id IN (1, 2);
	DELETE FROM t WHERE id = 5;
	COMMIT});
$node->safe_psql('postgres', q{BEGIN; INSERT INTO t VALUES (6, 'rolled back'); ROLLBACK});
# No session waits for the end of a rollback to be on disk, and what is not is not seen.
$node->poll_query_until('postgres', qq{SELECT count(*) = 1 FROM leanstore_wal_inspect($from)
	WHERE type = 'aborted'}) or die 'the rollback does not reach the disk';

# Nothing else writes; but the cleaner may, so what is not of these transactions is left out.
my $seen = $node->safe_psql('postgres', qq{
	SELECT string_agg(what, ', ' ORDER BY gsn) FROM (
		SELECT gsn, operation || ' ' || relation AS what FROM leanstore_wal_inspect($from)
		WHERE type = 'row' AND relation = 't'::regclass
		UNION ALL
		SELECT gsn, type FROM leanstore_wal_inspect($from) WHERE type IN ('commit', 'aborted')) x});
is($seen, join(', ', ('row insert t') x 5, ('row update t') x 2, 'row delete t', 'commit',
	'row insert t', 'aborted'),
	'the records of two transactions');
is($node->safe_psql('postgres', qq{
	SELECT count(DISTINCT tn), count(*) FILTER (WHERE tn IS NULL) FROM leanstore_wal_inspect($from)
		WHERE type IN ('row', 'commit', 'aborted')}),
	'2|0', 'each names its transaction');
is($node->safe_psql('postgres', qq{
	SELECT count(*) FROM leanstore_wal_inspect($from) WHERE operation = 'index insert'
		AND relation = 't_pkey'::regclass}), 6, 'index entries, with their index');
is($node->safe_psql('postgres', qq{
	SELECT bool_and(page BETWEEN 1 AND 100 AND length > operation_length
		AND relfilenode = pg_relation_filenode('t')
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
	FROM leanstore_wal_inspect($from) WHERE type = 'row'}), 't',
		'pages, lengths and files make sense');
is($node->safe_psql('postgres', qq{
	SELECT count(*) = count(DISTINCT gsn) FROM (SELECT DISTINCT gsn, slot
		FROM leanstore_wal_inspect($from)) x}), 't', 'one slot per place in the order');
is($node->safe_psql('postgres', qq{
	SELECT count(*) FROM leanstore_wal_inspect($from) a JOIN leanstore_wal_inspect(NULL, $from) b
		USING (gsn)}), 0, 'the second argument is a limit');
my ($first) = split /\n/, ($node->psql('postgres', 'SELECT * FROM leanstore_wal_inspect(1)'))[2];
like($first, qr/ERROR: .*no sound log round begins at position 1/,
	'a position where no round begins');

# A table that never had a row is emptied without a page for its values, which a commit would have
# to wait for.
$node->safe_psql('postgres', 'CREATE TABLE empty (id int PRIMARY KEY, t text) USING leanstore');
my $values = $node->safe_psql('postgres',
	q{SELECT pg_relation_filenode(reltoastrelid) FROM pg_class WHERE relname = 'empty'});
my $behind = $node->safe_psql('postgres', 'SELECT log_position FROM leanstore_stat_wal');
$node->safe_psql('postgres', 'TRUNCATE empty');
is($node->safe_psql('postgres', qq{
	SELECT count(*) FROM leanstore_wal_inspect($behind) WHERE relfilenode = $values}), 0,
	'TRUNCATE of an empty table leaves no file with pages behind');

# The view.
is($node->safe_psql('postgres', qq{
	SELECT log_commits - $commits >= 1, log_flushes > $rounds, log_position >= log_redo_position,
	       log_durable_gsn >= (SELECT max(gsn) FROM leanstore_wal_inspect($from)
			WHERE type = 'commit'),
	       log_segments >= 1, log_commits_held >= 0, log_fsyncs > 0, log_fsync_ms > 0
	FROM leanstore_stat_wal}), 't|t|t|t|t|t|t|t', 'the counters make sense');
is($node->safe_psql('postgres', 'SELECT log_segments FROM leanstore_stat_wal'),
	scalar(() = glob $node->data_dir . '/leanstore/wal/????????????????'), 'segments are counted');

# The logs of which backends commits would wait for, were each flushed alone.
my $counted = sub {
	$node->safe_psql('postgres',
		'SELECT log_counted, log_remote_by_page, log_remote_by_transaction FROM leanstore_stat_wal')
};
is($counted->(), '0|0|0', 'counted only on demand');
my $other = $node->background_psql('postgres');
my $counting = $node->background_psql('postgres');
$other->query_safe('SET synchronous_commit = off');
$counting->query_safe('SET leanstore.count_remote_waits = on');
$counting->query_safe("UPDATE t SET v = 'alone' WHERE id = 1");
# the cleaner may have changed a page
like($counted->(), qr/^1\|[01]\|0$/, 'no transaction to wait for');
my $tries = 0;
do
{
	$other->query_safe("UPDATE t SET v = 'soon durable' WHERE id = 1");
	$counting->query_safe("UPDATE t SET v = 'behind it' WHERE id = 1");
} until $counted->() =~ /^\d+\|[1-9]\d*\|[1-9]/ || ++$tries == 200;
cmp_ok($tries, '<', 200, 'a row that is not durable yet');
$_->quit foreach $other, $counting;

# Not for all roles.
foreach my $what ('leanstore_wal_inspect()', 'leanstore_stat_wal')
{
	like(($node->psql('postgres', "SET ROLE stranger; SELECT count(*) FROM $what"))[2],
		qr/permission denied/, "$what is not for everybody");
}
is($node->safe_psql('postgres', 'SET ROLE watcher;
	SELECT count(*) > 0 FROM leanstore_wal_inspect()'), 't', 'but for pg_monitor');

# While the log is written and truncated.
$node->pgbench_init('postgres', 1);
my $run = $node->start_pgbench('postgres', qw(-c 2 -T 3 -N));
foreach my $i (1 .. 10)
{
	my ($status, $out, $error) = $node->psql('postgres',
		'SELECT count(*) > 0 FROM leanstore_wal_inspect(); SELECT leanstore_checkpoint()');
	is("$out $error", "t\n ", "inspection $i under load");
}
$node->finish_pgbench($run);
$node->stop;
done_testing();

# Large values of leanstore tables lie in leanstore TOAST tables: a pointer is followed whatever its
# reader's snapshots see (VALUE-2), they are there exactly if their rows are, after kill -9 and
# PREPARE TRANSACTION, too (VALUE-1), their numbers come round, and PostgreSQL's WAL has nothing of
# them, or their bytes once (leanstore.log = wal).
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('values',
	max_prepared_transactions => 4,
	autovacuum => 'off');
$node->safe_psql('postgres', q{
	CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$ SELECT substr(string_agg(md5(seed::text || '/' || i), '' ORDER BY i), 1, n)
		FROM generate_series(1, n / 32 + 1) i $$;
	CREATE TABLE docs (id int PRIMARY KEY, t text STORAGE external) USING leanstore});

sub toast_of
{
	my ($table) = @_;
	return $node->safe_psql('postgres',
		"SELECT reltoastrelid::regclass FROM pg_class WHERE oid = '$table'::regclass");
}

# Pages of values that are in use.
sub pages_in_use
{
	my ($table) = @_;
	return "(SELECT pages - free_pages FROM leanstore_value_info('" . toast_of($table) . q{'))};
}
sub pages_of
{
	my ($table) = @_;
	return $node->safe_psql('postgres', 'SELECT ' . pages_in_use($table));
}

# --- Which log ----------------------------------------------------------------------
my $wal = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
$node->safe_psql('postgres', 'INSERT INTO docs VALUES (0, noise(0, 1000000))');
$wal = $node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$wal'");
my $once = $node->safe_psql('postgres', 'SHOW leanstore.log') eq 'wal' ? 1_000_000 : 0;
ok($wal >= $once && $wal < $once + 8000, "a value of 1 MB writes $wal bytes of the server's WAL");

# --- VALUE-2: a snapshot that sees neither the insertion nor the deletion -------------
$node->safe_psql('postgres', q{
	CREATE FUNCTION keep_a_pointer() RETURNS text LANGUAGE plpgsql AS $$
	DECLARE r record;
	BEGIN
		PERFORM pg_advisory_lock(1);
		SELECT t INTO r FROM docs WHERE id = 1;
		RAISE NOTICE 'has it';
		PERFORM pg_advisory_lock(2);
		RETURN r.t = noise(1, 100000) AND NOT EXISTS (SELECT FROM docs WHERE id = 1);
	END $$});
my $other = $node->background_psql('postgres', on_error_stop => 0);
$other->query_safe('SELECT pg_advisory_lock(1), pg_advisory_lock(2)');
my $reader = $node->background_psql('postgres', on_error_stop => 0);
$reader->query_until(qr/started/, "\\echo started\nSELECT keep_a_pointer();\n");
$node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_locks
	WHERE locktype = \'advisory\' AND NOT granted');
$other->query_safe('INSERT INTO docs VALUES (1, noise(1, 100000)); SELECT pg_advisory_unlock(1)');
$node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_locks
	WHERE locktype = \'advisory\' AND NOT granted AND objid = 2');
$other->query_safe('DELETE FROM docs WHERE id = 1');
# As many changes as make the cleaner look at all that it has kept.
$node->safe_psql('postgres', q{CREATE TABLE busy (i int) USING leanstore;
	INSERT INTO busy SELECT generate_series(1, 1000)});
foreach my $round (1 .. 5)
{
	$node->safe_psql('postgres', 'UPDATE busy SET i = i + 1; SELECT pg_sleep(0.1)');
}
my $kept = pages_of('docs');
$other->query_safe('SELECT pg_advisory_unlock(2)');
like($reader->query('SELECT 1'), qr/^true$/m, 'a pointer is followed though its row is gone');
$reader->quit;
$other->quit;
ok($node->poll_query_until('postgres', "SELECT $kept - 20 > " . pages_in_use('docs')),
	'then the value goes by itself');

# --- A reader for long ----------------------------------------------------------------
$node->safe_psql('postgres', 'INSERT INTO docs SELECT i, noise(i, 20000)
	FROM generate_series(1, 50) i');
my $old = $node->background_psql('postgres', on_error_stop => 0);
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM docs');
my $before = pages_of('docs');
foreach my $round (1 .. 8)
{
	$node->safe_psql('postgres',
		"UPDATE docs SET t = noise(id + 100 * $round, 20000) WHERE id > 0");
}
$node->safe_psql('postgres', 'DELETE FROM docs WHERE id > 25');
is($old->query('SELECT count(*) FROM docs WHERE t = noise(id, 20000)'), '50',
	'an old reader finds the values that it sees');
$old->quit;
ok($node->poll_query_until('postgres', "SELECT $before * 0.9 > " . pages_in_use('docs')),
	'afterwards they go, without VACUUM');
$node->leanstore_check_ok('after the reader');

# --- VALUE-1: kill -9, PREPARE TRANSACTION --------------------------------------------
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe(q{BEGIN; INSERT INTO docs VALUES (101, noise(101, 50000));
	UPDATE docs SET t = noise(2, 30000) WHERE id = 2; PREPARE TRANSACTION 'kept'});
$session->query_safe(q{BEGIN; INSERT INTO docs VALUES (102, noise(102, 50000));
	UPDATE docs SET t = noise(3, 30000) WHERE id = 3; PREPARE TRANSACTION 'undone'});
$session->query_safe(q{INSERT INTO docs VALUES (103, noise(103, 50000))});
$session->query_safe(q{BEGIN; INSERT INTO docs VALUES (104, noise(104, 50000));
	UPDATE docs SET t = noise(4, 30000) WHERE id = 4; DELETE FROM docs WHERE id = 5});
my $values = q{SELECT string_agg(id || CASE WHEN t = noise(id + 800, 20000) THEN ' old'
	WHEN t = noise(id, CASE WHEN id < 100 THEN 30000 ELSE 50000 END) THEN ' new' ELSE ' wrong' END,
	', ' ORDER BY id) FROM docs WHERE id IN (2, 3, 4, 5) OR id > 100};
CrashDriver::kill_server($node, 'postmaster');
$session->quit;
$node->start;
is($node->safe_psql('postgres', $values), '2 old, 3 old, 4 old, 5 old, 103 new',
	'what was not committed is not there');
$node->safe_psql('postgres', q{COMMIT PREPARED 'kept'; ROLLBACK PREPARED 'undone'});
is($node->safe_psql('postgres', $values), '2 new, 3 old, 4 old, 5 old, 101 new, 103 new',
	'prepared transactions end after it');
$node->leanstore_check_ok('after a crash');
CrashDriver::kill_server($node, 'postmaster');
$node->start;
is($node->safe_psql('postgres', $values), '2 new, 3 old, 4 old, 5 old, 101 new, 103 new',
	'and stay so');

# --- leanstore_check tells of a difference ---------------------------------------------
sub complaint
{
	my ($query) = @_;
	my ($status, $out, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$query");
	return $error =~ /ERROR:  (XX001: .*)/ ? $1 : "none: $out $error";
}
$node->safe_psql('postgres', 'CREATE TABLE empty (t text) USING leanstore');
my $swap = q{BEGIN; SET LOCAL allow_system_table_mods = on; UPDATE pg_class SET reltoastrelid =
	(SELECT reltoastrelid FROM pg_class WHERE relname = '<theirs>') WHERE relname = '<table>';
	SELECT leanstore_check('<table>'); ROLLBACK};
like(complaint($swap =~ s/<theirs>/docs/r =~ s/<table>/empty/gr), qr/belongs to no row/,
	'a value that belongs to no row');
like(complaint($swap =~ s/<theirs>/empty/r =~ s/<table>/docs/gr), qr/to a value of another table/,
	'a pointer to another table');

# --- Numbers come round ---------------------------------------------------------------
SKIP:
{
	skip 'no injection points in this server', 4 unless $node->check_extension('injection_points');
	my $POINT = 'leanstore-value-ids-come-round';
	$node->safe_psql('postgres', q{CREATE EXTENSION injection_points;
		CREATE TABLE round (id int PRIMARY KEY, t text STORAGE external) USING leanstore;
		INSERT INTO round SELECT i, noise(i, 2000 + i * 10) FROM generate_series(1, 400) i;
		DELETE FROM round WHERE id % 50 = 0;
		SELECT injection_points_attach('leanstore-value-ids-come-round', 'notice')});
	my $ids = q{SELECT count(DISTINCT pg_column_toast_chunk_id(t)), count(*),
		count(*) FILTER (WHERE t = noise(id, 2000 + id * 10)) FROM round};
	is($node->safe_psql('postgres', $ids), '392|392|392', 'numbers are distinct');
	# A third of all are passed over each time: the fourth of these meets the first lap's.
	foreach my $id (401 .. 430)
	{
		$node->safe_psql('postgres', "INSERT INTO round VALUES ($id, noise($id, 2000 + $id * 10))");
	}
	is($node->safe_psql('postgres', $ids), '422|422|422', 'and are so when they have come round');
	# One that needs several numbers.
	foreach my $id (31001 .. 31006)
	{
		$node->safe_psql('postgres', "INSERT INTO round VALUES ($id, noise($id, 2000 + $id * 10));
			INSERT INTO round VALUES (-$id, noise(-$id, 2000)); DELETE FROM round WHERE id = -$id");
	}
	is($node->safe_psql('postgres', $ids), '428|428|428', 'also those of values that have several');
	$node->safe_psql('postgres', "SELECT injection_points_detach('$POINT')");
	CrashDriver::kill_server($node, 'postmaster');
	$node->start;
	$node->safe_psql('postgres', 'INSERT INTO round SELECT i, noise(i, 2000 + i * 10)
		FROM generate_series(431, 500) i');
	is($node->safe_psql('postgres', $ids), '498|498|498', 'and after a crash');
}
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();

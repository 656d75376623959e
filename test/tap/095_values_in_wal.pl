# leanstore.log = wal: the bytes of values are in WAL, and no commit syncs the files that they lie
# in.  After a crash of the machine these files may be what they were when the last checkpoint
# synced them.  So copies are made behind a checkpoint, the server is killed later under load, and
# the copies take the files' places: all that was acknowledged is there.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use Errno qw(ENOENT);
use File::Copy qw(copy);
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $rounds = $ENV{ROUNDS} // 4;
my $node = LeanstoreTest->new_node('values_in_wal',
	'leanstore.log' => 'wal',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.max_wal_size' => '32MB',
	'leanstore.checkpoint_timeout' => '2s',
	shared_buffers => '16MB',
	checkpoint_timeout => '1h',
	max_wal_size => '1GB',
	max_prepared_transactions => 10,
	autovacuum => 'off');
my $copies = PostgreSQL::Test::Utils::tempdir();

sub sql { return $node->safe_psql('postgres', $_[0]); }

sql(q{
	CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$ SELECT substr(string_agg(md5(seed::text || '/' || i), '' ORDER BY i), 1, n)
		FROM generate_series(1, n / 32 + 1) i $$;
	CREATE TABLE docs (id int PRIMARY KEY, seed int, n int, t text STORAGE external)
		USING leanstore;
	CREATE TABLE done (lax boolean) USING leanstore;
	CREATE UNLOGGED TABLE unlogged (id int, t text STORAGE external) USING leanstore});

# --- Files as they were ----------------------------------------------------------

# All files of values: path in the data directory => size.
sub value_files
{
	my $directory = $node->data_dir . '/base';
	my %files;

	foreach my $database (grep { /^\d+$/ } slurp_dir($directory))
	{
		$files{"$database/$_"} = -s "$directory/$database/$_"
			foreach grep { /^\d+_fsm(\.\d+)?$/ } slurp_dir("$directory/$database");
	}
	return %files;
}

# What a checkpoint has synced, or newer.
sub keep_copies
{
	my $directory = $node->data_dir . '/base';

	unlink glob "$copies/*";
	foreach my $file (keys %{ { value_files() } })
	{
		copy("$directory/$file", "$copies/" . $file =~ s{/}{-}r)
			or $! == ENOENT or die "could not copy $file: $!";
	}
	return;
}

# The server is down.  What was made since is empty, or is not there.
sub put_copies_back
{
	my ($makes_empty) = @_;
	my $directory = $node->data_dir . '/base';
	my $changed = 0;

	foreach my $file (keys %{ { value_files() } })
	{
		my $kept = "$copies/" . $file =~ s{/}{-}r;

		if (-e $kept) { copy($kept, "$directory/$file") or die "could not put $file back: $!"; }
		elsif ($makes_empty) { truncate "$directory/$file", 0 or die "could not truncate: $!"; }
		else { unlink "$directory/$file" or die "could not unlink $file: $!"; }
		$changed++;
	}
	return $changed;
}

sub crash_and_lose
{
	my ($makes_empty) = @_;

	CrashDriver::kill_server($node, 'all');
	cmp_ok(put_copies_back($makes_empty), '>', 0, 'files of values are as they were');
	$node->start;
	# The end of recovery was a checkpoint.
	keep_copies();
	return;
}

sub contents_ok
{
	my ($name) = @_;

	is(sql('SELECT count(*) FROM docs WHERE t IS DISTINCT FROM noise(seed, n)'), '0',
		"$name: contents");
	$node->leanstore_check_ok($name);
	return;
}

# --- Values of all sizes ----------------------------------------------------------
sql('CHECKPOINT');
keep_copies();
sql(q{INSERT INTO docs SELECT n, n, n, noise(n, n) FROM unnest(ARRAY[1, 31, 1900, 1901, 2100, 4095,
	4096, 4097, 8192, 33000, 70000, 270000, 1100000, 3000001]) n});
is(sql('SELECT count(*) FROM docs'), '14', 'values of all sizes');
crash_and_lose(0);
is(sql('SELECT count(*), max(length(t)) FROM docs'), '14|3000001', 'all are there');
contents_ok('all sizes');

# --- What WAL says of them ------------------------------------------------------------
SKIP:
{
	skip 'no pg_walinspect in this server', 1 unless $node->check_extension('pg_walinspect');
	sql('CREATE EXTENSION pg_walinspect');
	my $from = sql('SELECT pg_current_wal_insert_lsn()');
	sql('INSERT INTO docs VALUES (4000, 4000, 5000, noise(4000, 5000))');
	my $path = sql(q{SELECT pg_relation_filepath(reltoastrelid) || '_fsm' FROM pg_class
		WHERE oid = 'docs'::regclass});
	like(sql(qq{SELECT string_agg(record_type || ' ' || description, '; ' ORDER BY start_lsn)
		FROM pg_get_wal_records_info('$from', pg_current_wal_flush_lsn())
		WHERE resource_manager = 'leanstore_am'}),
		qr/VALUES file $path, page \d+, 4096 bytes; ROUND position \d+, next xid \d+, \d+ bytes/,
		'records with the bytes, then the round');
}

# --- The checkpointer syncs ---------------------------------------------------------
# After what was replayed as after what was written.
foreach my $what ('replayed', 'written')
{
	my $from = -s $node->logfile;

	my $id = $what eq 'written' ? 5001 : 5000;
	sql("INSERT INTO docs VALUES ($id, $id, 9000, noise($id, 9000))");
	my $path = sql(q{SELECT pg_relation_filepath(reltoastrelid) || '_fsm' FROM pg_class
		WHERE oid = 'docs'::regclass});
	if ($what eq 'replayed')
	{
		CrashDriver::kill_server($node, 'all');
		$node->append_conf('postgresql.conf', 'log_min_messages = debug1');
		$node->start;
	}
	sql('CHECKPOINT');
	like(slurp_file($node->logfile, $from), qr/checkpoint sync: number=\d+ file=$path /,
		"a checkpoint syncs what was $what");
	$from = -s $node->logfile;
	sql('CHECKPOINT');
	unlike(slurp_file($node->logfile, $from), qr/checkpoint sync: number=\d+ file=$path /,
		'... once');
}
$node->append_conf('postgresql.conf', 'log_min_messages = warning');
$node->reload;

# --- Freed and used again behind one redo point -----------------------------------
# The old bytes are replayed, then the new ones.
sub moved
{
	my ($what) = @_;

	return sql(qq{SELECT $what FROM pg_class c, leanstore_value_info(c.reltoastrelid) v
		WHERE c.oid = 'again'::regclass});
}
sql(q{CREATE TABLE again (id int PRIMARY KEY, t text STORAGE external) USING leanstore});
sql('INSERT INTO again SELECT i, i || noise(0, 8192) FROM generate_series(1, 50) i');
sql('CHECKPOINT');
keep_copies();
foreach my $time (1 .. 4)
{
	sql('DELETE FROM again WHERE id > 10');
	$node->poll_query_until('postgres', q{SELECT v.free_pages >= 80 AND v.counted FROM pg_class c,
		leanstore_value_info(c.reltoastrelid) v WHERE c.oid = 'again'::regclass})
	  or die 'no pages are free';
	sql("INSERT INTO again SELECT i, i || noise($time, 8192) FROM generate_series(11, 50) i");
}
cmp_ok(moved('pages'), '<', 300, 'pages were used again');
crash_and_lose(0);
is(sql(q{SELECT count(*), count(*) FILTER (WHERE t = id ||
	noise(CASE WHEN id > 10 THEN 4 ELSE 0 END, 8192)) FROM again}), '50|50',
	'the values that live are whole');

# --- Values that are moved -----------------------------------------------------------
sql(q{SET leanstore.share_values = off;
	INSERT INTO again SELECT i, noise(i, 4096) FROM generate_series(101, 2100) i});
sql('CHECKPOINT');
keep_copies();
sql('DELETE FROM again WHERE id BETWEEN 101 AND 1600');
$node->poll_query_until('postgres', q{SELECT v.moved_pages > 0 AND v.pages < 1200 FROM pg_class c,
	leanstore_value_info(c.reltoastrelid) v WHERE c.oid = 'again'::regclass})
  or die 'no values are moved';
crash_and_lose(0);
is(sql(q{SELECT count(*), count(*) FILTER (WHERE t = noise(id, 4096)) FROM again WHERE id > 100}),
	'500|500', 'values that were moved are whole');
$node->leanstore_check_ok('values were moved');

# --- Ends of transactions ---------------------------------------------------------------
sql('CHECKPOINT');
keep_copies();
sql(q{
	BEGIN; INSERT INTO docs VALUES (6001, 1, 20000, noise(1, 20000)); ROLLBACK;
	BEGIN; INSERT INTO docs VALUES (6002, 2, 20000, noise(2, 20000));
		SAVEPOINT s; INSERT INTO docs VALUES (6003, 3, 20000, noise(3, 20000)); ROLLBACK TO s;
		INSERT INTO docs VALUES (6004, 2, 20000, noise(2, 20000)); COMMIT;
	BEGIN; INSERT INTO docs VALUES (6005, 5, 30000, noise(5, 30000)); PREPARE TRANSACTION 'kept';
	BEGIN; INSERT INTO docs VALUES (6006, 6, 30000, noise(6, 30000)); PREPARE TRANSACTION 'ended';
	COMMIT PREPARED 'ended';
	BEGIN; UPDATE docs SET seed = 7, n = 5000, t = noise(7, 5000) WHERE id = 4096;
		PREPARE TRANSACTION 'undone';
	UPDATE docs SET seed = 2, n = 20000, t = noise(2, 20000) WHERE id IN (1, 4097);
	INSERT INTO unlogged SELECT i, noise(i, 9000) FROM generate_series(1, 9) i;
	CREATE TABLE fresh (id int, t text STORAGE external) USING leanstore;
	INSERT INTO fresh SELECT i, noise(i, 9000) FROM generate_series(1, 9) i;
	VACUUM FULL again;
	BEGIN; CREATE TABLE emptied (id int, t text STORAGE external) USING leanstore;
		INSERT INTO emptied SELECT i, noise(i, 9000) FROM generate_series(1, 9) i;
		TRUNCATE emptied; INSERT INTO emptied VALUES (1, noise(100, 9000)); COMMIT});
sql(q{CREATE TABLE dropped (id int, t text STORAGE external) USING leanstore;
	INSERT INTO dropped SELECT i, noise(i, 9000) FROM generate_series(1, 9) i});
my $dropped = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath(reltoastrelid) FROM pg_class
	WHERE oid = 'dropped'::regclass});
ok(-s "${dropped}_fsm", 'a table that is dropped next has its file');
sql('DROP TABLE dropped');
crash_and_lose(1);
ok(!-e $dropped && !-e "${dropped}_fsm", 'a dropped table has none');
is(sql('SELECT string_agg(id::text, $$ $$ ORDER BY id) FROM docs WHERE id BETWEEN 6001 AND 6099'),
	'6002 6004 6006', 'what was committed, and no more');
sql(q{COMMIT PREPARED 'kept'; ROLLBACK PREPARED 'undone'});
is(sql('SELECT count(*) FROM docs WHERE id = 6005'), '1', 'what was prepared');
is(sql('SELECT count(*) FROM docs WHERE seed = 2 AND n = 20000'), '4', 'equal values');
is(sql('SELECT count(*) FROM fresh WHERE t = noise(id, 9000)'), '9', 'a table made since');
is(sql('SELECT count(*) FROM emptied WHERE t = noise(100, 9000)'), '1', 'a table emptied since');
is(sql('SELECT count(*) FROM unlogged'), '0', 'an unlogged table is empty');
is(sql(q{SELECT count(*) FROM again WHERE id > 100 AND t = noise(id, 4096)}), '500',
	'a table written anew since');
contents_ok('ends of transactions');

# --- Clients, killed ------------------------------------------------------------------
my $script = "$copies.sql";
append_to_file($script, q{\set id random(1, 300)
\set seed random(1, 1000000)
\set n random_zipfian(1, 40000, 1.1)
\set n 40001 - :n
\set equal random(1, 4)
\set fate random(1, 8)
\set undo :fate = 2
\set lax :fate = 3
BEGIN;
\if :lax
SET LOCAL synchronous_commit = off;
\endif
\if :equal = 1
\set seed :seed % 5
\set n 12288
\endif
SELECT pg_advisory_xact_lock(:id);
DELETE FROM docs WHERE id = 10000 + :id AND :fate = 1;
INSERT INTO docs SELECT 10000 + :id, :seed, :n, noise(:seed, :n) WHERE :fate > 1
	ON CONFLICT (id) DO UPDATE SET seed = excluded.seed, n = excluded.n, t = excluded.t;
INSERT INTO done VALUES (:fate = 3);
\if :undo
ROLLBACK;
\else
COMMIT;
\endif
});
foreach my $round (1 .. $rounds)
{
	sql('TRUNCATE done');
	my $load = $node->start_pgbench('postgres', '-n', '-c', 4, '-T', 120, '-f', $script);
	CrashDriver::wait_for_rows($node, 'done', 150);
	if ($round % 2)
	{
		sql('CHECKPOINT');
		keep_copies();
	}
	CrashDriver::wait_for_rows($node, 'done', 150);
	usleep(rand 200_000);
	my $acknowledged = 'SELECT count(*) FROM done WHERE NOT lax';
	my $seen = sql($acknowledged);
	crash_and_lose($round % 3 == 0);
	$node->finish_pgbench($load);
	cmp_ok(sql($acknowledged), '>=', $seen, "what was seen is there, round $round");
	contents_ok("round $round");
}

# A shutdown leaves nothing to be replayed, and syncs.
sql(q{INSERT INTO docs VALUES (20000, 1, 50000, noise(1, 50000))});
$node->stop('fast');
$node->start;
contents_ok('after a shutdown');
$node->stop('fast');
done_testing();

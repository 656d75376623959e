# CREATE DATABASE from a template with leanstore tables copies what is committed,
# though it lies in memory; the copies live and die apart.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'the copy would not be in WAL, so it is refused (097)'
  if LeanstoreTest::in_wal();
my $node = LeanstoreTest->new_node('copy', 'leanstore.buffer_pool_size' => '32MB',
	'leanstore.checkpoint_timeout' => '1h');
my $state = q{SELECT (SELECT count(*) FROM t), (SELECT sum(id) FROM t), (SELECT sum(v) FROM t),
	(SELECT sum(length(large)) FROM t), (SELECT count(*) FROM un)};
my $by_index = q{SET enable_seqscan = off; SET enable_bitmapscan = off;
	SELECT count(*) FROM t WHERE v > 0};

$node->safe_psql('postgres', 'CREATE DATABASE original');
$node->safe_psql('original', q{
	CREATE EXTENSION leanstore_am;
	SET default_table_access_method = leanstore;
	CREATE TABLE t (id int PRIMARY KEY, v int, large text);
	CREATE INDEX t_v ON t USING btree (v);
	INSERT INTO t SELECT i, i, CASE WHEN i % 500 = 0 THEN repeat(md5(i::text), 500) END
		FROM generate_series(1, 10000) i;
	UPDATE t SET v = v + 1 WHERE id % 3 = 0;
	DELETE FROM t WHERE id % 5 = 0;
	CREATE UNLOGGED TABLE un (id int);
	INSERT INTO un SELECT generate_series(1, 1000);
	CREATE TABLE empty (id int)});
my $original = $node->safe_psql('original', $state);

sub same_ok
{
	my ($database, $what) = @_;
	is($node->safe_psql($database, $state), $original, "$what: same rows");
	is($node->safe_psql($database, $by_index), $node->safe_psql('original', $by_index),
		"$what: same by index");
	return;
}

# Straight after the changes: nothing has been written yet, or just a part.
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE original');
same_ok('copy', 'a copy');
$node->safe_psql('copy', 'CREATE DATABASE copy_of_copy TEMPLATE original');
$node->safe_psql('copy', q{UPDATE t SET v = -v; DELETE FROM t WHERE id < 1000;
	INSERT INTO un SELECT generate_series(2001, 3000); INSERT INTO empty VALUES (1); TRUNCATE un});
same_ok('copy_of_copy', 'another copy, after changes of the first');
is($node->safe_psql('original', $state), $original,
	'the original does not see changes of its copy');
$node->safe_psql('original', q{INSERT INTO t VALUES (20000, 1)});
is($node->safe_psql('copy_of_copy', $state), $original,
	'a copy does not see changes of the original');
$node->safe_psql('original', q{DELETE FROM t WHERE id = 20000});
$node->leanstore_check_ok('after copies');

# Changes that a session makes after CREATE DATABASE has begun are copied, too, if it was there
# before.
my $late = $node->background_psql('original');
my $creator = $node->background_psql('postgres');
$late->query('SELECT 1');
$creator->query_until(qr/started/, "\\echo started\nCREATE DATABASE late TEMPLATE original;\n");
$node->poll_query_until('postgres',
	q{SELECT count(*) > 0 FROM pg_locks JOIN pg_database d ON objid = d.oid
	WHERE classid = 'pg_database'::regclass AND datname = 'original' AND mode = 'ShareLock'})
		or die 'CREATE DATABASE does not wait';
$late->query('INSERT INTO t VALUES (20000, 1); INSERT INTO un SELECT generate_series(1, 10)');
$late->quit;
$creator->query('SELECT 1');
$creator->quit;
is($node->safe_psql('late', $state), $node->safe_psql('original', $state),
	'a copy with changes made while CREATE DATABASE waited');
$node->safe_psql('original', q{DELETE FROM t WHERE id = 20000;
	DELETE FROM un WHERE ctid IN (SELECT ctid FROM un ORDER BY ctid DESC LIMIT 10)});

# A template without leanstore tables is copied as the server does by itself, which has no
# checkpoint; what has become empty, too, is copied file by file.
my $checkpoints = 'SELECT num_requested FROM pg_stat_checkpointer';
$node->safe_psql('postgres', 'CREATE DATABASE plain');
$node->safe_psql('plain', 'CREATE EXTENSION leanstore_am; CREATE TABLE h (id int) USING heap;
	INSERT INTO h SELECT generate_series(1, 100)');
$node->safe_psql('postgres', 'CHECKPOINT');
my $count = $node->safe_psql('postgres', $checkpoints);
$node->safe_psql('postgres', 'CREATE DATABASE plain_copy TEMPLATE plain');
is($node->safe_psql('postgres', $checkpoints), $count, 'the server chose how to copy');
is($node->safe_psql('plain_copy', 'SELECT count(*) FROM h'), '100', 'a copy without ours');
$node->safe_psql('plain', 'CREATE TABLE t (id int PRIMARY KEY) USING leanstore;
	INSERT INTO t VALUES (1); DELETE FROM t');
$node->safe_psql('postgres', 'CREATE DATABASE plain_copy_2 TEMPLATE plain');
cmp_ok($node->safe_psql('postgres', $checkpoints), '>', $count, 'copied file by file');
is($node->safe_psql('plain_copy_2', 'INSERT INTO t VALUES (2); SELECT * FROM t'), '2',
	'a copy of an empty table');
isnt($node->psql('postgres', 'BEGIN; CREATE DATABASE within TEMPLATE plain'), 0,
	'not in a transaction');
$node->safe_psql('postgres', q{CREATE ROLE looker LOGIN; CREATE ROLE maker LOGIN CREATEDB});
foreach my $role ('looker', 'maker')
{
	my (undef, undef, $error) = $node->psql('postgres', 'CREATE DATABASE theirs TEMPLATE plain',
		extra_params => [ '-U', $role ]);
	like($error, qr/permission denied to (copy|create) database/, "$role may not copy");
}
$node->safe_psql('postgres', "DROP DATABASE $_") foreach qw(plain plain_copy plain_copy_2);

# A DROP that is refused changes nothing.
$node->safe_psql('late', q{UPDATE t SET v = v + 1; INSERT INTO un VALUES (0)});
my $refused = $node->safe_psql('late', $state);
$node->safe_psql('postgres', 'ALTER DATABASE late IS_TEMPLATE true');
isnt($node->psql('postgres', 'DROP DATABASE late'), 0, 'a template is not dropped');
is($node->safe_psql('late', $state), $refused, 'and keeps its rows');
isnt($node->psql('late', 'DROP DATABASE late'), 0, 'the current database is not dropped');
my $visitor = $node->background_psql('late');
isnt($node->psql('postgres', 'DROP DATABASE late WITH (FORCE)'), 0,
	'a template is not dropped by force');
is($visitor->query('SELECT 1'), '1', 'and its sessions go on');
$node->safe_psql('postgres', 'ALTER DATABASE late IS_TEMPLATE false');
$node->safe_psql('late',
	q{CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p WITH (connect = false, slot_name = NONE)});
isnt($node->psql('postgres', 'DROP DATABASE late WITH (FORCE)'), 0,
	'a subscriber is not dropped by force');
is($visitor->query('SELECT 1'), '1', 'and its sessions go on, too');
$visitor->quit;
$node->safe_psql('late', 'DROP SUBSCRIPTION s');
my $guest = $node->background_psql('late');
my ($status, undef, $complaint) = $node->psql('postgres', 'DROP DATABASE late');
like($complaint, qr/is being accessed by other users/, 'a database in use is not dropped');
is($node->safe_psql('late', $state), $refused, 'and keeps its rows, too');
$node->safe_psql('postgres', 'DROP DATABASE late WITH (FORCE); DROP DATABASE IF EXISTS nowhere');
eval { $guest->quit };

# While an old snapshot keeps versions of rows: those of the original are none of the copy's, nor of
# the original opened anew.
my $old = $node->background_psql('postgres');
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()');
$node->safe_psql('original', q{UPDATE t SET v = v + 1; UPDATE t SET v = v - 1;
	DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 1)});
$original = $node->safe_psql('original', $state);
$node->safe_psql('postgres', 'CREATE DATABASE with_versions TEMPLATE original');
same_ok('with_versions', 'a copy while old versions are kept');
$node->safe_psql($_, q{UPDATE t SET v = v + 1 WHERE id % 2 = 0;
	UPDATE t SET v = v - 1 WHERE id % 2 = 0}) foreach qw(original with_versions);
$node->leanstore_check_ok('while old versions are kept');
$old->query('COMMIT');
$old->quit;
same_ok('with_versions', 'when they are not kept any more');
$node->safe_psql('postgres', 'DROP DATABASE with_versions');

# A crash straight after the copy.
$node->safe_psql('postgres', 'CREATE DATABASE before_crash TEMPLATE copy_of_copy');
CrashDriver::kill_server($node, 'all');
$node->start;
my $without_unlogged = $original =~ s/\|1000$/|0/r;
is($node->safe_psql('before_crash', $state), $without_unlogged,
	'a copy outlives a crash straight after it');
is($node->safe_psql('original', $state), $without_unlogged, 'so does the original');
is($node->safe_psql('copy', q{SELECT count(*), sum(v) < 0 FROM t}), $node->safe_psql('original',
	q{SELECT count(*) FILTER (WHERE id >= 1000), true FROM t}), 'and the changed copy');
$node->leanstore_check_ok('after a crash');
$original = $without_unlogged;

# DROP DATABASE, also of one with changed pages in memory, and new ones in its place.
foreach my $round (1 .. 3)
{
	$node->safe_psql('copy', q{UPDATE t SET v = v + 1});
	$node->safe_psql('postgres', 'DROP DATABASE copy');
	$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE original');
	same_ok('copy', "dropped and made anew, round $round");
}
$node->safe_psql('postgres', 'DROP DATABASE before_crash; DROP DATABASE copy_of_copy');
CrashDriver::kill_server($node, 'all');
$node->start;
same_ok('copy', 'after a crash that follows DROP DATABASE');

# Renamed, and moved to another tablespace and back.
$node->safe_psql('postgres', q{
	ALTER DATABASE copy RENAME TO renamed;
	SET allow_in_place_tablespaces = on;
	CREATE TABLESPACE elsewhere LOCATION ''});
$node->safe_psql('renamed', q{UPDATE t SET v = v + 1; UPDATE t SET v = v - 1});
$node->safe_psql('postgres', 'ALTER DATABASE renamed SET TABLESPACE elsewhere');
same_ok('renamed', 'moved to another tablespace');
$node->safe_psql('renamed', q{INSERT INTO t VALUES (30000, 1); DELETE FROM t WHERE id = 30000});
CrashDriver::kill_server($node, 'all');
$node->start;
same_ok('renamed', 'moved, then crashed');
$node->safe_psql('postgres', 'ALTER DATABASE renamed SET TABLESPACE pg_default;
	DROP TABLESPACE elsewhere');
same_ok('renamed', 'moved back');
$node->leanstore_check_ok('at the end');
$node->restart;
same_ok('renamed', 'after a clean restart');
$node->stop;
done_testing();

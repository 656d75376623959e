# A commit in one of the two logs does not outlive what it has seen in the other:
# numbers of sequences, and rows committed asynchronously.  Everything is killed
# while nothing but the commits themselves writes PostgreSQL's WAL or the engine's
# log.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

# Without checksums hint bits write no WAL: here nothing but the commits may do that.
my $node = LeanstoreTest->new_node('commit_order', init => { extra => ['--no-data-checksums'] },
	wal_writer_delay => '10s', max_prepared_transactions => 2,
	'leanstore.sequence_log_values' => 0);

$node->safe_psql('postgres', q{
	CREATE TABLE by_default (id bigserial PRIMARY KEY, t text) USING leanstore;
	CREATE TABLE by_identity (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t text)
		USING leanstore;
	CREATE SEQUENCE s;
	CREATE TABLE by_hand (id bigint PRIMARY KEY, t text) USING leanstore;
	CREATE TABLE rows_heap (id int PRIMARY KEY) USING heap;
	CREATE TABLE rows_leanstore (id int PRIMARY KEY) USING leanstore;
	CREATE TABLE child_heap (id int REFERENCES rows_leanstore) USING heap;
});

sub crash
{
	my (@sessions) = @_;

	CrashDriver::kill_server($node, 'all');
	eval { $_->quit } foreach @sessions;
	$node->start;
	return;
}

# --- Sequences ----------------------------------------------------------------

# Of 33 values one is logged, with the 32 that follow.  Returns the session that has done so, its
# transaction open.
sub log_in_open_transaction
{
	my ($sequence) = @_;
	my $session = $node->background_psql('postgres');

	$session->query_safe('BEGIN');
	$session->query_safe("SELECT max(nextval('$sequence')) FROM generate_series(1, 33)");
	return $session;
}

my %insert = (
	by_default => [ 'by_default_id_seq', q{INSERT INTO by_default (t) VALUES ('x') RETURNING id} ],
	by_identity => [ 'by_identity_id_seq',
		q{INSERT INTO by_identity (t) VALUES ('x') RETURNING id} ],
	by_hand => [ 's', q{INSERT INTO by_hand VALUES (nextval('s'), 'x') RETURNING id} ]);
foreach my $commit (qw(on off))
{
	foreach my $table (sort keys %insert)
	{
		my ($sequence, $sql) = @{ $insert{$table} };

		$node->safe_psql('postgres', $sql);
		my $open = log_in_open_transaction($sequence);
		my $id = $node->safe_psql('postgres', "SET synchronous_commit = $commit; $sql");
		# What is waited for takes along what is before it in the engine's log.
		$node->safe_psql('postgres',
			q{INSERT INTO rows_leanstore SELECT coalesce(max(id), 0) + 1 FROM rows_leanstore});
		crash($open);
		is($node->safe_psql('postgres', "SELECT count(*) FROM $table WHERE id = $id"), '1',
			"$table, synchronous_commit $commit: the row is there");
		cmp_ok($node->safe_psql('postgres', $sql), '>', $id,
			"$table, synchronous_commit $commit: the next one has another number");
	}
}

# The number comes in a transaction of its own, and goes to another session.
$node->safe_psql('postgres', $insert{by_hand}[1]);
my $open = log_in_open_transaction('s');
my $id = $node->safe_psql('postgres', q{SELECT nextval('s')});
$node->safe_psql('postgres', "INSERT INTO by_hand VALUES ($id)");
crash($open);
cmp_ok($node->safe_psql('postgres', q{SELECT nextval('s')}), '>', $id,
	'asked for in a transaction of its own');

# A lock that is in the shared table, because another session wants an exclusive one.
$node->safe_psql('postgres', $insert{by_hand}[1]);
$open = log_in_open_transaction('s');
my $holder = $node->background_psql('postgres');
my $wanter = $node->background_psql('postgres');
$holder->query_safe(q{BEGIN; INSERT INTO by_hand VALUES (nextval('s'), 'x')});
my $held = $holder->query_safe(q{SELECT currval('s')});
$wanter->query_until(qr/asked/, "\\echo asked\nALTER SEQUENCE s INCREMENT 1;\n");
$node->poll_query_until('postgres',
	q{SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 's'::regclass AND NOT granted)});
is($node->safe_psql('postgres', q{SELECT bool_or(fastpath) FROM pg_locks
	WHERE relation = 's'::regclass AND granted}), 'f', 'the locks have been moved');
$holder->query_safe('COMMIT');
crash($open, $holder, $wanter);
cmp_ok($node->safe_psql('postgres', q{SELECT nextval('s')}), '>', $held,
	'locked in the shared table');

# --- Rows ----------------------------------------------------------------------

# A heap row committed without waiting, seen by a session that writes leanstore rows only.
foreach my $commit (qw(on off))
{
	$node->safe_psql('postgres', q{TRUNCATE rows_heap, rows_leanstore, child_heap;
		INSERT INTO rows_heap VALUES (-1); INSERT INTO rows_leanstore VALUES (-1)});
	$node->safe_psql('postgres', q{INSERT INTO rows_leanstore SELECT id - 1 FROM rows_heap});
	$node->safe_psql('postgres', q{SET synchronous_commit = off; INSERT INTO rows_heap VALUES (1)});
	$node->safe_psql('postgres', "SET synchronous_commit = $commit;
		INSERT INTO rows_leanstore SELECT id FROM rows_heap WHERE id > 0");
	$node->safe_psql('postgres', q{INSERT INTO rows_leanstore VALUES (7)});
	crash();
	is($node->safe_psql('postgres',
		q{SELECT string_agg(id::text, ' ' ORDER BY id) FROM rows_leanstore WHERE id > 0}), '1 7',
		"copied from heap, synchronous_commit $commit: the copy is there");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM rows_heap WHERE id = 1}), '1',
		"copied from heap, synchronous_commit $commit: and so is the row");
}

# The other way round; the engine worker would write the log after a few milliseconds.
foreach my $how ('copied', 'referred to', 'prepared')
{
	my $sql = $how eq 'referred to' ? 'INSERT INTO child_heap VALUES (1)'
		: 'INSERT INTO rows_heap SELECT id FROM rows_leanstore WHERE id = 1';
	my $kept = $how eq 'referred to' ? 'child_heap' : 'rows_heap';

	$sql = "BEGIN; $sql; PREPARE TRANSACTION 'p'" if $how eq 'prepared';
	$node->safe_psql('postgres', q{TRUNCATE rows_heap, rows_leanstore, child_heap;
		INSERT INTO rows_leanstore VALUES (-1)});
	# Has everything open that it needs.
	$node->safe_psql('postgres', q{INSERT INTO rows_heap SELECT id FROM rows_leanstore;
		INSERT INTO child_heap VALUES (-1)});
	my $worker = $node->engine_worker_pid;
	kill 'STOP', $worker;
	$node->safe_psql('postgres', q{SET synchronous_commit = off;
		INSERT INTO rows_leanstore VALUES (1)});
	$node->safe_psql('postgres', $sql);
	crash();
	$node->safe_psql('postgres', q{COMMIT PREPARED 'p'}) if $how eq 'prepared';
	is($node->safe_psql('postgres', "SELECT count(*) FROM $kept WHERE id = 1"), '1',
		"$how in heap: it is there");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM rows_leanstore WHERE id = 1}), '1',
		"$how in heap: and so is the row");
}

$node->leanstore_check_ok('after the crashes');

# --- Logging ahead ----------------------------------------------------------------

sub remaining { return $node->safe_psql('postgres', "SELECT log_cnt FROM $_[0]"); }

$node->safe_psql('postgres', q{
	ALTER SYSTEM SET leanstore.sequence_log_values = 1000;
	SELECT pg_reload_conf();
	CREATE SEQUENCE down INCREMENT -5;
	CREATE SEQUENCE small AS smallint;
	CREATE SEQUENCE nearly MAXVALUE 1000000 START 970000;
	CREATE SEQUENCE alone;
	CREATE TABLE ahead_heap (id bigserial) USING heap;
});
$node->poll_query_until('postgres',
	q{SELECT current_setting('leanstore.sequence_log_values') = '1000'});
# With leanstore.log = wal no transaction waits for two logs, and PostgreSQL does as it does.
my $many = LeanstoreTest::in_wal() ? 32 : 1000;
foreach my $case ([ s => $many ], [ down => $many ], [ small => 32 ], [ nearly => 32 ])
{
	my ($sequence, $ahead) = @$case;

	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres',
		"INSERT INTO by_hand VALUES (nextval('$sequence') * 1000000 + $ahead)");
	is(remaining($sequence), $ahead, "$sequence: logged ahead");
}
$node->safe_psql('postgres', q{SELECT nextval('alone')});
is(remaining('alone'), '32', 'alone: PostgreSQL does as it does');
$node->safe_psql('postgres', q{INSERT INTO ahead_heap DEFAULT VALUES});
is(remaining('ahead_heap_id_seq'), '32', 'the same for heap tables');

# None of them is logged, and none is given twice.
$node->safe_psql('postgres', q{CHECKPOINT; INSERT INTO by_hand VALUES (nextval('down') * 1000000)});
my $before = $node->safe_psql('postgres', q{SELECT nextval('down')});
$node->safe_psql('postgres',
	join(' ', map { "INSERT INTO by_hand VALUES (nextval('down') * 1000000);" } 1 .. 900));
is(remaining('down'), 1000 - 901, '900 values without a record') unless LeanstoreTest::in_wal();
crash();
my $behind = $node->safe_psql('postgres', q{SELECT nextval('down')});
LeanstoreTest::in_wal()
  ? cmp_ok($behind, '<', $before - 900 * 5, 'no value is given twice')
  : is($behind, $before - 5 * 1000, 'a crash skips what was logged ahead');
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();

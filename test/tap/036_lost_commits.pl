# Transactions that wrote leanstore tables only are durable without their commit
# records in PostgreSQL's WAL.  After a crash that takes these records, pg_xact
# knows the transactions all the same, and their ids are not given again.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'with one log there is no commit that only one of two has'
  if LeanstoreTest::in_wal();
# With checksums hint bits are WAL, and a transaction that reads catalogs may write both logs.
my $node = LeanstoreTest->new_node('lost_commits', init => { extra => ['--no-data-checksums'] },
	wal_writer_delay => '10s', max_prepared_transactions => 2, autovacuum => 'off');

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, t text) USING leanstore;
	CREATE TABLE u (id int) USING leanstore;
});

# No process flushes WAL any more; only the engine worker would after ten seconds, to note how far
# it is.
sub hold_wal
{
	kill 'STOP', $node->child_pid('walwriter');
	return;
}

sub crash
{
	my (@sessions) = @_;

	CrashDriver::kill_server($node, 'all');
	eval { $_->quit } foreach @sessions;
	return;
}

# Ids of transactions, each of which has inserted one row, and has been acknowledged.
my $next_id = 1;
sub commit_rows
{
	my ($session, $n) = @_;
	my @xids;

	foreach my $i (1 .. $n)
	{
		my $id = $next_id++;
		push @xids, $session->query_safe("BEGIN; INSERT INTO t VALUES ($id, 'x');
			SELECT pg_current_xact_id(); COMMIT");
	}
	return @xids;
}

sub statuses
{
	my (@xids) = @_;
	return $node->safe_psql('postgres',
		"SELECT string_agg(DISTINCT coalesce(pg_xact_status(x::xid8), 'unknown'), ' ')
		FROM unnest('{" . join(',', @xids) . "}'::text[]) x");
}

# Starts, and tests what has become of transactions; returns what the server's log said meanwhile.
sub start_and_test
{
	my ($name, $committed, $others, $highest) = @_;
	my $offset = -s $node->logfile;

	$node->start;
	my $log = slurp_file($node->logfile, $offset);
	is(statuses(@$committed), 'committed', "$name: acknowledged transactions are committed");
	is(statuses(@$others), 'aborted', "$name: others are not") if @$others;
	cmp_ok($node->safe_psql('postgres', 'SELECT pg_current_xact_id()'), '>', $highest,
		"$name: no id is given again");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), $next_id - 1,
		"$name: the rows are there");
	return $log;
}

sub entered
{
	my ($log) = @_;
	return $log =~ /leanstore: entered (\d+) commits into pg_xact/ ? $1 : 0;
}

# --- Right after a start, when there is nothing else to replay -----------------------

foreach my $kind ('crash', 'immediate stop')
{
	$node->restart;
	my ($session, $other, $open) = map { $node->background_psql('postgres') } 1 .. 3;
	hold_wal();
	my @committed = commit_rows($session, 20);
	my $rolled_back = $other->query_safe(q{BEGIN; INSERT INTO u VALUES (1);
		SELECT pg_current_xact_id(); ROLLBACK});
	my $running = $open->query_safe(q{BEGIN; INSERT INTO u VALUES (2);
		SELECT pg_current_xact_id()});
	push @committed, commit_rows($session, 1);
	if ($kind eq 'crash')
	{
		crash($session, $other, $open);
	}
	else
	{
		kill 'CONT', $node->child_pid('walwriter');
		$node->stop('immediate');
		eval { $_->quit } foreach $session, $other, $open;
	}
	my $log = start_and_test($kind, \@committed, [ $rolled_back, $running ], $committed[-1]);
	cmp_ok(entered($log), '>=', 21, "$kind: the server's log had lost them");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '0',
		"$kind: what was not committed is not there");

	# Nothing new in between.
	crash();
	start_and_test("again after a $kind", \@committed, [ $rolled_back, $running ], $committed[-1]);
}

# --- One process is killed, and the server starts again by itself ---------------------

{
	my $session = $node->background_psql('postgres');
	my $offset = -s $node->logfile;
	hold_wal();
	my @committed = commit_rows($session, 5);
	my $victim = $session->query_safe('SELECT pg_backend_pid()');
	$node->kill9_process($victim);
	eval { $session->quit };
	cmp_ok(entered(slurp_file($node->logfile, $offset)), '>=', 5,
		'a backend is killed: the commits are found');
	is(statuses(@committed), 'committed',
		'a backend is killed: acknowledged transactions are committed');
}

# --- Behind a transaction that stays prepared ------------------------------------------

{
	$node->safe_psql('postgres', q{BEGIN; INSERT INTO u VALUES (3); PREPARE TRANSACTION 'p'});
	my @committed;
	foreach my $round (1, 2)
	{
		my $session = $node->background_psql('postgres');
		hold_wal();
		push @committed, commit_rows($session, 5);
		crash($session);
		my $log = start_and_test("prepared, round $round", \@committed, [], $committed[-1]);
		cmp_ok(entered($log), '>=', 5, "prepared, round $round: the server's log had lost them");
	}
	$node->safe_psql('postgres', q{COMMIT PREPARED 'p'});
	is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '1',
		'the prepared transaction has committed');
}

# --- Over the ends of pages of pg_xact and pg_commit_ts ---------------------------------

# The transaction that gets the first id of a page logs that, and its commit flushes it.  So it
# stays open.
$node->set_config(track_commit_timestamp => 'on');
$node->restart;
foreach my $page ([ pg_xact => 8192 * 4 ], [ pg_commit_ts => 819 * 41 ])
{
	my ($name, $first) = @$page;

	$node->safe_psql('postgres',
		qq{DO \$\$ BEGIN WHILE pg_current_xact_id()::text::bigint < $first - 1 LOOP COMMIT;
		END LOOP; END \$\$});
	$node->safe_psql('postgres', 'CHECKPOINT');
	my ($session, $opener) = map { $node->background_psql('postgres') } 1 .. 2;
	hold_wal();
	is($opener->query_safe('BEGIN; SELECT pg_current_xact_id()'), $first, "$name: a page begins");
	my @committed = commit_rows($session, 10);
	crash($session, $opener);
	my $log = start_and_test($name, \@committed, [ $first ], $committed[-1]);
	is(entered($log), 10, "$name: the server's log had lost them");
	is($node->safe_psql('postgres', "SELECT count(pg_xact_commit_timestamp(x::xid)) FROM unnest('{"
		. join(',', @committed) . "}'::text[]) x"), '10', "$name: and when they committed");
	$node->safe_psql('postgres', q{DO $$ BEGIN FOR i IN 1 .. 100 LOOP PERFORM pg_current_xact_id();
		COMMIT; END LOOP; END $$});
	$node->restart;
	is(statuses(@committed), 'committed', "$name: known after a clean restart");
}

# --- The engine worker moves the note on ---------------------------------------------------

sub noted_position
{
	return unpack('x16 Q<', slurp_file($node->data_dir . '/leanstore/host_sync_point'));
}

{
	my $session = $node->background_psql('postgres');
	my $at_start = noted_position();
	my @early = commit_rows($session, 5);
	my $end = $node->safe_psql('postgres', 'SELECT max(log_position) FROM leanstore_stat_wal');
	# The WAL writer would do it in its own time; and then each of two looks waits for the next
	# second.
	foreach my $try (1 .. 60)
	{
		last if noted_position() >= $end;
		$node->safe_psql('postgres', 'CREATE TEMPORARY TABLE flush_wal () USING heap');
		sleep 1;
	}
	cmp_ok(noted_position(), '>=', $end, 'noted: the position has moved behind the commits');
	cmp_ok($at_start, '<', $end, 'noted: where it was not before');
	hold_wal();
	my @late = commit_rows($session, 5);
	crash($session);
	my $log = start_and_test('noted', [ @early, @late ], [], $late[-1]);
	is(entered($log), 5, 'noted: the last ones had been lost');
}

# --- A note that cannot be read ------------------------------------------------------------

{
	my $session = $node->background_psql('postgres');
	commit_rows($session, 5);
	crash($session);
	my $file = $node->data_dir . '/leanstore/host_sync_point';
	my $bytes = slurp_file($file);
	substr($bytes, 20, 1) ^= "\x01";
	open my $handle, '>', $file or die;
	binmode $handle;
	print $handle $bytes;
	close $handle;
	my $offset = -s $node->logfile;
	$node->start;
	like(slurp_file($node->logfile, $offset),
		qr/could not look for the last commits in the leanstore log: the note of the last commits is damaged/,
		'a damaged note is named');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), $next_id - 1,
		'and the rows are there');
}

$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();

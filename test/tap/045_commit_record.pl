# What PostgreSQL keeps in its commit record survives a crash with a commit that does,
# also when the record itself was lost: how far a replication origin has come, when a
# transaction committed, which subtransactions it had.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('commit_record', init => { extra => ['--no-data-checksums'] },
	wal_writer_delay => '10s', autovacuum => 'off', track_commit_timestamp => 'on',
	max_prepared_transactions => 2);

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, t text) USING leanstore;
	INSERT INTO t VALUES (0, 'opens everything');
	SELECT pg_replication_origin_create('upstream');
});

# The server's log is flushed only for sessions that wait for it.
sub hold_wal
{
	kill 'STOP', $node->child_pid('walwriter');
	return;
}

sub crash
{
	my (@sessions) = @_;
	my $offset = -s $node->logfile;

	CrashDriver::kill_server($node, 'all');
	eval { $_->quit } foreach @sessions;
	$node->start;
	return slurp_file($node->logfile, $offset);
}

# --- An origin's position -----------------------------------------------------------

my $id = 1;
foreach my $commit (qw(on off))
{
	foreach my $how ('COMMIT', 'PREPARE')
	{
		my $position = sprintf('0/%X', 0x1000 * $id);
		my $session = $node->background_psql('postgres');

		$session->query_safe(qq{SET synchronous_commit = $commit;
			SELECT pg_replication_origin_session_setup('upstream')});
		hold_wal();
		$session->query_safe(qq{BEGIN; INSERT INTO t VALUES ($id, 'from upstream')});
		$session->query_safe(qq{SELECT pg_replication_origin_xact_setup('$position',
			'2020-02-20 20:20:20+00')});
		$session->query_safe($how eq 'COMMIT' ? 'COMMIT' : q{PREPARE TRANSACTION 'p';
			COMMIT PREPARED 'p'});
		# What is waited for takes along what is before it in the engine's log.
		$node->safe_psql('postgres', qq{INSERT INTO t VALUES (-$id, 'behind it')})
			if $commit eq 'off';
		crash($session);
		my $there = $node->safe_psql('postgres', qq{SELECT count(*) FROM t WHERE id = $id});
		my $applied = $node->safe_psql('postgres', qq{
			SELECT coalesce(pg_replication_origin_progress('upstream', false) >= '$position',
				false)});
		is($there, 1, "origin, synchronous_commit $commit, $how: the row is there");
		is($applied, 't', "origin, synchronous_commit $commit, $how: and will not be sent again");
		$id++;
	}
}

# --- Its time, and its subtransactions ------------------------------------------------

{
	my $session = $node->background_psql('postgres');
	$node->safe_psql('postgres', q{CREATE UNLOGGED TABLE ids (id int) USING heap});
	my $sql = qq{
		BEGIN;
		INSERT INTO t VALUES ($id, 'top');
		SELECT pg_current_xact_id()::xid;
		SAVEPOINT a;
		INSERT INTO t VALUES ($id + 1, 'sub');
		INSERT INTO ids VALUES (1) RETURNING xmin;
		SAVEPOINT b;
		INSERT INTO ids VALUES (2) RETURNING xmin;
		RELEASE b;
		RELEASE a;};
	# A session that reads catalogs may clean their pages, which is WAL.
	$session->query_safe("$sql ROLLBACK");
	hold_wal();
	my @xids = split /\n/, $session->query_safe("$sql COMMIT");
	my $facts = 'SELECT string_agg(x || pg_xact_status(x::xid8) || pg_xact_commit_timestamp(x::xid),
		$$;$$) FROM unnest($${' . join(',', @xids) . '}$$::text[]) x';
	my $before = $node->safe_psql('postgres', $facts);
	like($before, qr/^\d+committed20.*;\d+committed20.*;\d+committed20/,
		'subtransactions: they have committed');
	my $entered = crash($session);
	SKIP:
	{
		skip 'one log has both', 1 if LeanstoreTest::in_wal();
		like($entered, qr/entered 1 commits into pg_xact/,
			"subtransactions: the server's log has lost them");
	}
	is($node->safe_psql('postgres', $facts), $before,
		'subtransactions: all is known after the crash');
	cmp_ok($node->safe_psql('postgres', 'SELECT pg_current_xact_id()'), '>', $xids[-1],
		'subtransactions: no id is given again');
}

# --- A subscriber under load ----------------------------------------------------------

my $publisher = LeanstoreTest->new_node('publisher', wal_level => 'logical', max_wal_senders => 5);
my $connection = $publisher->connstr . ' dbname=postgres';

$publisher->safe_psql('postgres', q{CREATE TABLE r (id serial, t text);
	CREATE PUBLICATION p FOR TABLE r});
$node->safe_psql('postgres', q{CREATE TABLE r (id int, t text) USING leanstore});
$node->safe_psql('postgres',
	"CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p WITH (synchronous_commit = on)");
$node->poll_query_until('postgres', q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel});
foreach my $round (1 .. 4)
{
	$node->safe_psql('postgres', q{ALTER SUBSCRIPTION s SET (synchronous_commit = off)})
		if $round == 3;
	my $last = $publisher->safe_psql('postgres',
		q{DO $$ BEGIN FOR i IN 1 .. 50 LOOP INSERT INTO r (t) VALUES ('x'); COMMIT; END LOOP;
		END $$; SELECT max(id) FROM r});
	$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM r WHERE id > $last - 30)");
	crash();
}
$publisher->wait_for_catchup('s');
is($node->safe_psql('postgres', q{SELECT count(*), count(DISTINCT id) FROM r}), '200|200',
	'a subscriber that was killed has each row once');

$node->leanstore_check_ok('at the end');
$node->stop;
$publisher->stop;
done_testing();

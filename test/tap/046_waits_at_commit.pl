# What PostgreSQL and other libraries do between the beginning of a COMMIT and its end:
# no other session waits for it, and what they write is not kept without the leanstore rows.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use FaultyDisk;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'with one log a commit waits for no other'
  if LeanstoreTest::in_wal();
my $disk = FaultyDisk->new;
my $node = LeanstoreTest->prepare_node('waits', autovacuum => 'off');
my $module = LeanstoreTest::compile_library('commit_callbacks',
	'-I' . $node->config_data('--includedir-server'));

sub crash
{
	my (@sessions) = @_;

	CrashDriver::kill_server($node, 'all');
	$disk->heal;
	eval { $_->quit } foreach @sessions;
	$disk->start($node);
	return;
}

# --- Other libraries' callbacks -------------------------------------------------------

# A transaction of which a callback does the second part.
sub both
{
	my ($sql, $at_commit) = @_;
	return "BEGIN; SET LOCAL commit_callbacks.sql = '$at_commit'; $sql; COMMIT";
}

# The engine's log is held up, and everything is killed when all that can be has been done.
foreach my $order ("leanstore_am, $module", "$module, leanstore_am")
{
	my $behind = $order =~ /leanstore_am$/;
	my $name = $behind ? 'behind ours' : 'before ours';

	$node->set_config(shared_preload_libraries => $order);
	$node->stop if $behind;
	$disk->start($node);
	$node->safe_psql('postgres', q{
		CREATE EXTENSION leanstore_am;
		CREATE TABLE t (id int PRIMARY KEY) USING leanstore;
		CREATE TABLE witness (id int) USING heap;
	}) unless $behind;
	unlike(slurp_file($node->logfile), qr/will wait for the server's log, too/,
		"$name: its place is known");

	my $id = $behind ? 2 : 1;
	my $session = $node->background_psql('postgres');
	# Row ids are at hand then.
	$session->query_safe("INSERT INTO t VALUES (-$id)");
	my $pid = $session->query_safe('SELECT pg_backend_pid()');
	$disk->hold(pwrite => 'leanstore/wal');
	$session->query_until(qr/committing/, "\\echo committing\n"
		. both("INSERT INTO t VALUES ($id)", "INSERT INTO witness VALUES ($id)") . ";\n");
	$node->poll_query_until('postgres', "SELECT wait_event = 'LeanstoreCommit' FROM pg_stat_activity
		WHERE pid = $pid") or die 'it does not wait';
	crash($session);
	is($node->safe_psql('postgres', "SELECT (SELECT count(*) FROM t WHERE id = $id)
		= (SELECT count(*) FROM witness WHERE id = $id)"), 't',
		"$name: killed while the engine's log is held up: both or neither");

	$node->safe_psql('postgres',
		both("INSERT INTO t VALUES ($id + 10)", "INSERT INTO witness VALUES ($id + 10)"));
	is($node->safe_psql('postgres', "SELECT (SELECT count(*) FROM t WHERE id = $id + 10),
		(SELECT count(*) FROM witness WHERE id = $id + 10)"), '1|1', "$name: both are there");

	# What writes nothing there waits for the engine's log only.
	my $alone = $node->background_psql('postgres', timeout => 20);
	$alone->query_safe("INSERT INTO t VALUES (-10 - $id)");
	$disk->hold($_ => 'pg_wal') foreach qw(pwrite fdatasync);
	ok(eval { $alone->query_safe("INSERT INTO t VALUES ($id + 40)"); 1 },
		"$name: a commit without the server's log does not wait for it");
	$disk->heal;
	$alone->quit;

	my ($status, $out, $error) = $node->psql('postgres',
		both("INSERT INTO t VALUES ($id + 30)", "INSERT INTO t VALUES ($id + 20)"));
	like($error, qr/cannot modify leanstore tables in a callback at the end of a transaction/,
		"$name: leanstore rows are refused") if $behind;
	is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE id IN ($id + 20, $id + 30)"),
		$behind ? 0 : 2, "$name: or there with the rest");
}
$node->stop;

# --- NOTIFY behind a session that waits for a standby ------------------------------------

$node->set_config(shared_preload_libraries => 'leanstore_am', wal_level => 'replica',
	max_wal_senders => 2, synchronous_standby_names => 'nobody');
$node->start;

my ($standby, $notifier) = map { $node->background_psql('postgres') } 1 .. 2;
sub waits_for
{
	my ($event, $sql, $session) = @_;

	$session->query_until(qr/sent/, "\\echo sent\n$sql;\n");
	return $node->poll_query_until('postgres',
		"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = '$event')");
}
waits_for('SyncRep', q{BEGIN; INSERT INTO witness VALUES (100); NOTIFY a; COMMIT}, $standby)
	or die 'nobody waits for a standby';
waits_for('object', q{BEGIN; INSERT INTO t VALUES (100); NOTIFY a; COMMIT}, $notifier)
	or die "nobody waits for NOTIFY's lock";
my ($status, $out, $error) = $node->psql('postgres', q{SET synchronous_commit = local;
	INSERT INTO t VALUES (101)}, timeout => 10, timed_out => \my $timed_out);
ok(!$timed_out && $status == 0, 'who neither notifies nor writes WAL commits at once')
	or diag($error);
is($node->safe_psql('postgres', q{SELECT count(*) FROM t WHERE id >= 100}), '1',
	'and is seen, without the one that waits');
$node->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = '';
	SELECT pg_reload_conf()});
$_->quit foreach $standby, $notifier;
is($node->safe_psql('postgres', q{SELECT count(*) FROM t WHERE id >= 100}), '2',
	'in the end all are there');

$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();

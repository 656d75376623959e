# Logical decoding of leanstore tables on a standby: a slot that was made there, which goes on
# behind its promotion, and a slot that fails over with the primary.  leanstore.log = wal.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use Test::More;

my $primary = LeanstoreTest->new_node('primary', init => { allows_streaming => 'logical' },
	'leanstore.log' => 'wal', max_wal_senders => 8, max_replication_slots => 8);

$primary->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO t VALUES (1, 'before');
	SELECT pg_create_physical_replication_slot('standby');
	SELECT pg_create_logical_replication_slot('fails_over', 'test_decoding', false, false, true)});
$primary->backup('backup', backup_options => [ '-c', 'fast' ]);
my $standby = LeanstoreTest->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', sprintf("primary_conninfo = '%s dbname=postgres'
	primary_slot_name = 'standby'\nhot_standby_feedback = on\n",
	$primary->connstr));
$standby->start;
$primary->wait_for_catchup($standby, 'replay');

# --- A slot that was made on the standby

my $made = $standby->background_psql('postgres');
$made->query_until(qr/begun/, "\\echo begun
	SELECT pg_create_logical_replication_slot('on_standby', 'test_decoding');\n");
# it begins at the next record of what runs on the primary
my $there;
for (1 .. 100)
{
	$primary->safe_psql('postgres', 'SELECT pg_log_standby_snapshot()');
	$there = $standby->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots
		WHERE slot_name = 'on_standby' AND confirmed_flush_lsn IS NOT NULL});
	last if $there;
	select undef, undef, undef, 0.1;
}
$made->quit;
is($there, '1', 'a slot on the standby');

my $work = q{
	INSERT INTO t SELECT g, 'n' || g FROM generate_series(2, 4) g;
	UPDATE t SET v = repeat(md5('x'), 200) WHERE id = 2;
	BEGIN; UPDATE t SET id = 9 WHERE id = 3; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT;
	DELETE FROM t WHERE id = 1};
$primary->safe_psql('postgres', $work);
$primary->wait_for_catchup($standby, 'replay');

sub changes
{
	my ($node, $slot) = @_;

	return $node->safe_psql('postgres', "SELECT regexp_replace(data, '(\\w)\\w{250,}', '\\1...')
		FROM pg_logical_slot_get_changes('$slot', NULL, NULL, 'include-xids', '0',
			'skip-empty-xacts', '1') WHERE data ~ '^table'");
}

my $expected = join "\n", map { "table public.t: $_" }
	"INSERT: id[integer]:2 v[text]:'n2'", "INSERT: id[integer]:3 v[text]:'n3'",
	"INSERT: id[integer]:4 v[text]:'n4'", "UPDATE: id[integer]:2 v[text]:'9...'",
	"UPDATE: old-key: id[integer]:3 new-tuple: id[integer]:9 v[text]:'n3'",
	'DELETE: id[integer]:1';
is(changes($standby, 'on_standby'), $expected, 'it decodes what is replayed');
is($standby->safe_psql('postgres', 'SELECT sum(id) FROM t'), '15', 'and shows it');

# --- Promotion: both slots go on

my $synced = '';
for (1 .. 50)
{
	# what the primary's slot still needs has to be what the standby has
	$primary->safe_psql('postgres', q{SELECT pg_log_standby_snapshot();
		SELECT count(*) FROM pg_logical_slot_get_changes('fails_over', NULL, NULL)});
	$primary->wait_for_catchup($standby, 'replay');
	$standby->safe_psql('postgres', 'SELECT pg_sync_replication_slots()');
	$synced = $standby->safe_psql('postgres', q{SELECT synced AND NOT temporary
		FROM pg_replication_slots WHERE slot_name = 'fails_over'});
	last if $synced eq 't';
	select undef, undef, undef, 0.1;
}
is($synced, 't', 'a slot that fails over is there');
$primary->safe_psql('postgres', q{INSERT INTO t VALUES (20, 'last')});
$primary->wait_for_catchup($standby, 'replay');
CrashDriver::kill_server($primary, 'all');
$standby->promote;
$standby->safe_psql('postgres', q{UPDATE t SET v = 'promoted' WHERE id = 20});
my $behind = join "\n", map { "table public.t: $_" }
	"INSERT: id[integer]:20 v[text]:'last'", "UPDATE: id[integer]:20 v[text]:'promoted'";
is(changes($standby, 'on_standby'), $behind, 'the slot of the standby goes on');
like(changes($standby, 'fails_over'), qr/\Q$behind\E$/, 'so does the one that was the primary\'s');
$standby->leanstore_check_ok('at the end');
$standby->stop;
done_testing();

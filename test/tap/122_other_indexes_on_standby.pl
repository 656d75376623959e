# leanstore.log = wal: indexes of PostgreSQL's own access methods on leanstore tables, read on a
# standby.  They write to WAL themselves which entries they remove; that must not come there before
# what the snapshots that need these entries are in conflict with.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $turns = $ENV{TURNS} // 12;

my $primary = LeanstoreTest->new_node('primary', init => { allows_streaming => 1 },
	'leanstore.log' => 'wal', autovacuum => 'off');
$primary->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v int, a int[], p point) USING leanstore;
	CREATE INDEX by_btree ON t USING btree (v);
	CREATE INDEX by_hash ON t USING hash (v);
	CREATE INDEX by_gin ON t USING gin (a);
	CREATE INDEX by_gist ON t USING gist (p);
	CREATE INDEX by_spgist ON t USING spgist (p);
	CREATE INDEX by_brin ON t USING brin (v);
	CREATE TABLE busy (id int PRIMARY KEY, v int, w int) USING leanstore;
	CREATE INDEX ON busy USING btree (v);
	CREATE INDEX busy_w ON busy USING btree (w);
	CREATE FUNCTION fill() RETURNS void LANGUAGE sql AS $$
		INSERT INTO t SELECT g, g % 100, ARRAY[g % 100], point(g % 100, 0)
			FROM generate_series(1, 2000) g;
		INSERT INTO busy SELECT g, 0, g % 10 FROM generate_series(1, 300) g $$;
	SELECT fill()});
$primary->backup('backup');
my $standby = LeanstoreTest->new_standby('standby', $primary, 'backup',
	max_standby_streaming_delay => -1);
$primary->wait_for_catchup($standby);
$standby->poll_query_until('postgres', 'SELECT count(*) = 2000 FROM t');

# Of each index a query that has to use it; all find the same rows.
my %queries = (
	by_btree => 'SELECT count(*), sum(id) FROM t WHERE v BETWEEN 10 AND 29',
	by_hash => 'SELECT count(*), sum(id) FROM t WHERE v = 10',
	by_gin => q{SELECT count(*), sum(id) FROM t WHERE a @> '{10}'},
	by_gist => q{SELECT count(*), sum(id) FROM t WHERE p <@ box '(9.5,-1),(10.5,1)'},
	by_spgist => q{SELECT count(*), sum(id) FROM t WHERE p >> point '(97,0)'},
	by_brin => 'SELECT count(*), sum(id) FROM t WHERE v >= 0',
	busy_w => 'SELECT count(*), sum(id) FROM busy WHERE w = 3');

# One index at a time, and no sequential scans: the others are hidden from a session's plans by what
# they cannot do, or by their price.
sub answers
{
	my ($session) = @_;

	return map {
		my $name = $_;
		($name => $session->query_safe("SET LOCAL enable_seqscan = off; $queries{$name}"))
	} keys %queries;
}

# Until replay waits for a reader, or has nothing more to do.
sub wait_for_replay
{
	my $lsn = $primary->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');

	$standby->poll_query_until('postgres', qq{SELECT pg_last_wal_replay_lsn() >= '$lsn' OR
		EXISTS (SELECT FROM pg_stat_activity
			WHERE backend_type = 'startup' AND wait_event LIKE 'RecoveryConflict%')});
	return $standby->safe_psql('postgres', "SELECT pg_last_wal_replay_lsn() < '$lsn'") eq 't';
}

# VACUUM begins at once: with rows that it takes out itself, of which nothing is in WAL yet.  And so
# is the next statement that meets full leaves, which it cleans first.
my @changes = ('DELETE FROM t WHERE v < 50; VACUUM t; VACUUM t',
	'UPDATE t SET v = v + 1000, a = ARRAY[v + 1000], p = point(v + 1000, 0); VACUUM t; VACUUM t',
	join ';', ('UPDATE busy SET v = v + 1') x 60);
my ($wrong, $waited) = (0, 0);
foreach my $turn (1 .. $turns)
{
	my $reader = $standby->background_psql('postgres', on_error_stop => 0);

	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	my %before = answers($reader);
	$primary->safe_psql('postgres', $changes[$turn % 3]);
	$waited += wait_for_replay();
	my %now = answers($reader);
	foreach my $name (grep { $now{$_} ne $before{$_} } sort keys %now)
	{
		$wrong++;
		diag("turn $turn, $name: $before{$name} before, now $now{$name}");
	}
	$reader->query_safe('COMMIT');
	$reader->quit;
	$primary->wait_for_catchup($standby);
	my %last = map { $_ => $standby->safe_psql('postgres',
		"SET enable_seqscan = off; $queries{$_}") } keys %queries;
	my %wanted = map { $_ => $primary->safe_psql('postgres',
		"SET enable_seqscan = off; $queries{$_}") } keys %queries;
	is_deeply(\%last, \%wanted, "turn $turn: behind it");
	$primary->safe_psql('postgres', 'TRUNCATE t, busy; SELECT fill()');
	$primary->wait_for_catchup($standby);
}
is($wrong, 0, 'a snapshot finds the same by each index');
cmp_ok($waited, '>', 0, 'replay has waited for it');

$standby->leanstore_check_ok('the standby');
my (undef, undef, $said) = $standby->psql('postgres', q{SELECT leanstore_check('t')});
is(join(' ', sort $said =~ /index "(\w+)" was not compared/g), 'by_gin by_hash',
	'indexes that are not compared there are named');
$primary->leanstore_check_ok('the primary');
$standby->stop;
$primary->stop;
done_testing();

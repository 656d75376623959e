# leanstore_accel is off unless shared_preload_libraries names it; its place relative to
# leanstore_am does not matter, and it refuses what it does not fit.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('accel', 'pg_stat_statements.track_planning' => 'on',
	'other_module.interface' => 'off', 'other_module.server' => 'off');
my $other = LeanstoreTest::compile_library('other_module',
	'-I' . $node->config_data('--includedir-server'));

$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_stat_statements;
	CREATE TABLE t (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 1000) i;
	ANALYZE t;
});

my $explain = 'EXPLAIN SELECT v FROM t WHERE id = 7';
my $told = join(';', ($explain) x 3);
my $prepared = 'SET plan_cache_mode = force_generic_plan;
	PREPARE p (int) AS SELECT v FROM t WHERE id = $1;'
  . join(';', map { "EXECUTE p ($_)" } 1 .. 4);
my $rows = join("\n", map { "v$_" } 1 .. 4);
my $shown = q{SET leanstore.show_indexes_as_btree = on;
	SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE relname = 't_pkey'};

sub restart_with
{
	my (%settings) = @_;

	$node->set_config(%settings);
	$node->restart;
	return;
}

# How often one plan was told to be used again, and how often one state was.
sub uses
{
	my $plans = () = $node->safe_psql('postgres', $told) =~ /Plan Reused: true/g;
	my $result = $node->safe_psql('postgres', "$prepared;
		SELECT coalesce(sum(uses), 0) FROM leanstore_executor_cache");

	$result =~ s/^$rows\n// or return "wrong rows: $result";
	return "plans $plans, states $result";
}

# The server does not start, and why.
sub refusal
{
	my (%settings) = @_;
	my $offset = -s $node->logfile;

	$node->stop;
	$node->set_config(%settings);
	my $started = $node->start(fail_ok => 1);
	my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile, $offset);
	return $started ? 'it starts' : join("\n", $log =~ /(?:FATAL|DETAIL|HINT):  .*/g);
}

# --- Not at all
unlike($node->safe_psql('postgres', $told), qr/Plan Reused/,
	'not loaded: each statement is planned');
my ($status, $out, $error) = $node->psql('postgres', 'CREATE EXTENSION leanstore_accel');
like($error,
	qr/leanstore_accel must be loaded by the server at start.*HINT:  Add leanstore_accel to "shared_preload_libraries"/s,
	'not loaded: its functions cannot be, either');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_settings
	WHERE name LIKE 'leanstore%accel%'"), '0', 'not loaded: no settings');

# --- In either order, beside others
restart_with(shared_preload_libraries => 'leanstore_am, leanstore_accel');
$node->safe_psql('postgres', 'CREATE EXTENSION leanstore_accel');
is(uses(), 'plans 1, states 2', 'behind leanstore_am');
is($node->safe_psql('postgres', $shown), 'btree',
	'behind leanstore_am: indexes are shown as btree');
restart_with(shared_preload_libraries => 'leanstore_accel, leanstore_am');
is(uses(), 'plans 1, states 2', 'before leanstore_am');
is($node->safe_psql('postgres', $shown), 'btree',
	'before leanstore_am: indexes are shown as btree');

my $seen = q{SELECT calls, rows, plans FROM pg_stat_statements WHERE query LIKE 'PREPARE p %'};
for my $case (
	[ 'leanstore_am, leanstore_accel, pg_stat_statements', 2 ],
	[ 'leanstore_accel, pg_stat_statements, leanstore_am', 2 ],
	[ 'leanstore_am, pg_stat_statements, leanstore_accel', 0 ],
	[ 'pg_stat_statements, leanstore_am, leanstore_accel', 0 ],
	[ 'pg_stat_statements, leanstore_accel, leanstore_am', 0 ])
{
	my ($libraries, $states) = @$case;

	restart_with(shared_preload_libraries => $libraries);
	$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
	is(uses(), "plans 1, states $states", $libraries);
	is($node->safe_psql('postgres', $seen), '4|4|1', "$libraries: each execution is counted");
}

# --- Settings
restart_with(shared_preload_libraries => 'leanstore_accel, leanstore_am',
	'leanstore_accel.plan_cache' => 'off',
	'leanstore_accel.executor_cache' => 'off');
is(uses(), 'plans 0, states 0', 'turned off by settings');
restart_with('leanstore_accel.plan_cache' => 'on', 'leanstore_accel.executor_cache' => 'on');

# --- A server that it was not built for
restart_with(shared_preload_libraries => "$other, leanstore_am, leanstore_accel",
	'other_module.server' => 'on');
is(uses(), 'plans 1, states 0', 'another minor version of the server: no executor states');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/WARNING:  leanstore_accel reuses no executor states on this server\n.*DETAIL:  It was built for PostgreSQL 18\d+, and this is 18\d+/,
	'another minor version of the server: it says so');

# --- What it cannot work with
like(refusal(shared_preload_libraries => 'leanstore_accel', 'other_module.server' => 'off'),
	qr/FATAL:  leanstore_accel needs leanstore_am\nHINT:  Add leanstore_am to "shared_preload_libraries"/,
	'alone: the server does not start');
$node->set_config(shared_preload_libraries => 'leanstore_am');
$node->start;
like(refusal(shared_preload_libraries => "$other, leanstore_accel",
	'other_module.interface' => 'on'),
	qr/FATAL:  leanstore_accel does not fit leanstore_am\nDETAIL:  It was built for version \d+ .* has version 0.\nHINT:  Build and install both/,
	'another leanstore_am: the server does not start');
$node->set_config(shared_preload_libraries => 'leanstore_am');
$node->start;
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();

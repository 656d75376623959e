# Settings: the odd ones work, the wrong ones are reported.  Refusals: what the
# access method cannot do it says, and everything else in the server works on.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'heap has none of this'
  if !-e "$ENV{LEANSTORE_STAGE}/share/extension/leanstore_am--1.0.sql";

my $node = LeanstoreTest->prepare_node('settings', init => { allows_streaming => 1 });

# psql's verdict on QUERY: "ok", or the SQLSTATE of its error.
sub outcome
{
	my ($on, $query) = @_;
	my ($status, $out, $error) = $on->psql('postgres', "\\set VERBOSITY sqlstate\n$query");

	return 'ok' if $status == 0 && $error !~ /ERROR/;
	return $error =~ /ERROR:  (\w{5})/ ? $1 : "no SQLSTATE: $error";
}

# --- Not loaded ---------------------------------------------------------------
$node->set_config(shared_preload_libraries => '');
$node->start;
isnt(outcome($node, 'CREATE EXTENSION leanstore_am; CREATE TABLE t (id int) USING leanstore;'),
	'ok', 'without shared_preload_libraries there are no leanstore tables');
is(outcome($node, "LOAD 'leanstore_am'"), '55000', 'LOAD is refused');
is(outcome($node, 'CREATE TABLE on_heap (id int); INSERT INTO on_heap VALUES (1)'), 'ok',
	'heap does not mind');
$node->psql('postgres', 'DROP EXTENSION IF EXISTS leanstore_am');
$node->set_config(shared_preload_libraries => 'leanstore_am');
$node->restart;
$node->safe_psql('postgres', q{CREATE EXTENSION leanstore_am;
	CREATE TABLE t (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO t SELECT i, 'v' FROM generate_series(1, 1000) i});
$node->set_config(shared_preload_libraries => '');
$node->restart;
isnt(outcome($node, 'SELECT count(*) FROM t'), 'ok', 'a table cannot be read without the library');
is(outcome($node, 'SELECT count(*) FROM on_heap; VACUUM on_heap; CHECKPOINT'), 'ok',
	'heap does not mind that either');
$node->set_config(shared_preload_libraries => 'leanstore_am');
$node->restart;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '1000',
	'with the library it is all there');

# --- Settings -----------------------------------------------------------------
foreach my $name (split /\n/, $node->safe_psql('postgres', q{SELECT name FROM pg_settings
	WHERE name LIKE 'leanstore.%' AND context = 'postmaster' ORDER BY name}))
{
	is(outcome($node, "SET $name = DEFAULT"), '55P02', "$name cannot be set in a session");
}
is(outcome($node, q{ALTER SYSTEM SET leanstore.eviction_threads = 'many'}), '22023',
	'ALTER SYSTEM checks the type');
is(outcome($node, q{ALTER SYSTEM SET leanstore.log_buffer_size = '100kB'}), '22023',
	'and the value');
is(outcome($node, q{ALTER SYSTEM SET leanstore.wal_segment_size = '3MB'}), '22023',
	'so of another one');
# In the file a bad value is reported, and the default taken.
my $default = $node->safe_psql('postgres', 'SHOW leanstore.log_buffer_size');
my $log_start = -s $node->logfile;
$node->set_config('leanstore.log_buffer_size' => '100kB');
$node->restart;
is($node->safe_psql('postgres', 'SHOW leanstore.log_buffer_size'), $default,
	'a bad value in postgresql.conf is not taken');
ok($node->log_contains(qr/invalid value for parameter "leanstore.log_buffer_size"/, $log_start),
	'and is reported');
$node->set_config('leanstore.log_buffer_size' => $default);

my %last;
foreach my $settings (
	{ 'leanstore.direct_io' => 'off' },
	{ fsync => 'off' },
	{ full_page_writes => 'off', synchronous_commit => 'off' },
	{ 'leanstore.eviction_threads' => 3 },
	{ 'leanstore.compressed_cache_percent' => 0 },
	{ 'leanstore.compressed_cache_percent' => 50, 'leanstore.buffer_pool_size' => '8MB' },
	{ 'leanstore.version_trees' => 1 },
	{ 'leanstore.version_trees' => 64 },
	{ 'leanstore.log_buffer_size' => '64kB', 'leanstore.buffer_pool_size' => '8MB' },
	{ 'leanstore.checkpoint_timeout' => 1, 'leanstore.max_wal_size' => '32MB' },
	{ 'leanstore.max_open_relations' => 256 },
	{ max_connections => 10 },
	{ max_connections => 200 },
	{ shared_buffers => '1MB' },
	{ wal_level => 'minimal', max_wal_senders => 0 })
{
	my $what = join ', ', map { "$_ = $settings->{$_}" } sort keys %$settings;
	my $before = { map { $_ => $node->safe_psql('postgres', "SHOW $_") } keys %$settings };

	$node->set_config(%$settings);
	$node->restart;
	is($node->safe_psql('postgres', q{
		INSERT INTO t SELECT i, repeat('x', i % 100) FROM generate_series(5001, 8000) i;
		UPDATE t SET v = v || '+' WHERE id % 2 = 0;
		DELETE FROM t WHERE id > 5000;
		SELECT count(*), sum(id) FROM t}), '1000|500500', "works with $what");
	# It is the clean stop under these settings that is tried, too.
	$node->set_config(%$before);
}
$node->restart;
$node->leanstore_check_ok('after all settings');

# The size of log segments is fixed: a server with another setting refuses, and it may be set back.
my $segment = $node->safe_psql('postgres', 'SHOW leanstore.wal_segment_size');
$node->set_config('leanstore.wal_segment_size' => '2MB');
$node->restart;
like(($node->psql('postgres', 'SELECT count(*) FROM t'))[2], qr/segments of \d+ bytes.*set it back/,
	'another segment size is refused');
is(outcome($node, 'SELECT count(*) FROM on_heap'), 'ok', 'heap works meanwhile');
$node->set_config('leanstore.wal_segment_size' => $segment);
$node->restart;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '1000', 'set back, it works');

# --- Files --------------------------------------------------------------------
$node->stop('fast');
ok(check_mode_recursive($node->data_dir, 0700, 0600), 'nobody else may read the engine\'s files');
my $engine = $node->data_dir . '/leanstore';
my ($control) = grep { -f } glob "$engine/*control*";
isnt($control, undef, 'there is a control file');
rename $control, "$control.away" or die "cannot rename: $!";
$node->start;
my $refusal = outcome($node, 'SELECT count(*) FROM t');
isnt($refusal, 'ok', "without its control file a table cannot be read ($refusal)");
like($refusal, qr/^\w{5}$/, 'and that is an error with a SQLSTATE');
is(outcome($node, 'SELECT count(*) FROM on_heap; INSERT INTO on_heap VALUES (2); CHECKPOINT'), 'ok',
	'heap works');
$node->stop('fast');
rename "$control.away", $control or die "cannot rename: $!";
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '1000',
	'with the control file back it is all there');
$node->leanstore_check_ok('after the control file was away');

# --- Modes of the server ------------------------------------------------------
is(outcome($node, q{ALTER SYSTEM SET default_transaction_isolation = serializable;
	SELECT pg_reload_conf()}), 'ok', 'serializable by default');
$node->poll_query_until('postgres',
	q{SELECT current_setting('default_transaction_isolation') = 'serializable'});
is(outcome($node, 'SELECT count(*) FROM t'), 'ok', 'leanstore tables can be read');
is(outcome($node, 'UPDATE t SET id = id WHERE id = 1'), 'ok', '... and changed');
is(outcome($node, 'ALTER SYSTEM RESET default_transaction_isolation; SELECT pg_reload_conf()'),
	'ok', 'back to the default');

$node->backup('backup');
my $standby = LeanstoreTest->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
is(outcome($standby, 'SELECT count(*) FROM t'), '0A000', 'a standby refuses leanstore tables');
is(outcome($standby, 'SELECT count(*) FROM on_heap'), 'ok', 'and serves others');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (2000, 'replicated?');
	CREATE TABLE later (id int PRIMARY KEY) USING leanstore; INSERT INTO later VALUES (1);
	DROP TABLE later; INSERT INTO on_heap VALUES (3)});
$node->wait_for_catchup($standby);
is(outcome($standby, 'SELECT count(*) FROM on_heap'), 'ok',
	'also after changes of leanstore tables');
$standby->stop('fast');

$node->stop('fast');
my ($out, $error) = ('', '');
IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ], '<',
	\"SELECT count(*) FROM t;\nSELECT count(*) FROM on_heap;\n", '>', \$out, '2>', \$error);
like($error, qr/ERROR: .*single-user mode/, 'single-user mode refuses leanstore tables');
like($out, qr/count = "\d+"/, 'and serves others');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '1001',
	'single-user mode has done no harm');
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();

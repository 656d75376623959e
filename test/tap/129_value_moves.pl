# How files of large values become shorter: settings that a reload changes, the share of what
# sessions write, and the view of its progress.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $VALUES = 4000;      # of 8 KiB
my $BYTES = 8192;

my $node = LeanstoreTest->new_node('moves',
	autovacuum => 'off',
	'leanstore.buffer_pool_size' => '64MB',
	'leanstore.value_move_rate' => '0');

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub set_moves
{
	my (%settings) = @_;

	# Not in one transaction: ALTER SYSTEM refuses that.
	sql("ALTER SYSTEM SET leanstore.$_ = '$settings{$_}'") foreach sort keys %settings;
	$node->reload;
	return;
}

sub stat_of
{
	my ($table, $column) = @_;

	return sql("SELECT $column FROM leanstore_stat_values WHERE relid = '$table'::regclass");
}

# A table of which every fourth value is left: three quarters of its file are free.
sub make_table
{
	my ($table, $values) = @_;

	sql(qq{CREATE TABLE $table (id int PRIMARY KEY, t text STORAGE external) USING leanstore;
		INSERT INTO $table SELECT i, repeat(md5(i::text), $BYTES / 32)
			FROM generate_series(1, $values) i;
		DELETE FROM $table WHERE id % 4 <> 0});
	$node->poll_query_until('postgres', qq{SELECT counted AND free_bytes > bytes / 10 * 7
		FROM leanstore_stat_values WHERE relid = '$table'::regclass}) or die 'nothing is free';
	return;
}

sub whole_ok
{
	my ($table, $values, $name) = @_;
	my $left = $values / 4;

	is(sql("SELECT count(*), count(*) FILTER (WHERE t = repeat(md5(id::text), $BYTES / 32))
		FROM $table"), "$left|$left", "$name: values");
	return $node->leanstore_check_ok($name);
}

# --- Rate -------------------------------------------------------------------------------
make_table('shrink', $VALUES);
my $long = stat_of('shrink', 'bytes');
usleep(1_500_000);
is(stat_of('shrink', "concat_ws(' ', moved_bytes, bytes)"), "0 $long",
	'at a rate of 0 nothing is moved');
is(sql('SELECT count(*) FROM leanstore_progress_values'), '0', 'and nothing is in progress');

my $began = time;
set_moves(value_move_rate => '512kB');
ok($node->poll_query_until('postgres', q{SELECT true FROM leanstore_progress_values
	WHERE moved_bytes > 0 AND phase = 'moving values'}), 'a reload begins it');
is(sql(q{SELECT datname, schemaname, relid::regclass, relname, percent BETWEEN 0 AND 100,
	target_bytes < } . $long . q{ / 2 FROM leanstore_progress_values}),
	'postgres|public|shrink|shrink|t|t', 'its progress can be seen');
usleep(2_000_000);
my $moved = stat_of('shrink', 'moved_bytes');
cmp_ok($moved, '<=', (time - $began + 1) * 512 * 1024, 'not faster than its rate');
cmp_ok($moved, '>', 0, 'but going on');
is(stat_of('shrink', 'bytes'), $long, 'the file is as long as before meanwhile');

set_moves(value_move_rate => '0');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM leanstore_progress_values'),
	'a reload ends it');
whole_ok('shrink', $VALUES, 'some are moved');

set_moves(value_move_rate => '64MB');
ok($node->poll_query_until('postgres', q{SELECT bytes < 1.3 * (bytes - free_bytes)
	FROM leanstore_stat_values WHERE relid = 'shrink'::regclass}), 'then the file gets short');
whole_ok('shrink', $VALUES, 'all are moved');

# --- What makes a file due --------------------------------------------------------------
# Three quarters are free: 300 % of what is in use.
set_moves(value_free_percent => 400);
make_table('due', $VALUES);
usleep(1_500_000);
is(stat_of('due', 'moved_bytes'), '0', 'with less free space than is wanted nothing is moved');
set_moves(value_free_percent => 20);
ok($node->poll_query_until('postgres', q{SELECT bytes < 1.3 * (bytes - free_bytes)
	FROM leanstore_stat_values WHERE relid = 'due'::regclass}), 'with more it is');
whole_ok('due', $VALUES, 'due');

# --- The share of what is written -------------------------------------------------------
set_moves(value_move_rate => '0', value_move_percent => 1);
sql('DROP TABLE shrink, due');   # one table's values are moved at a time
make_table('shared', 4 * $VALUES);
sql('CREATE TABLE load (id int PRIMARY KEY, t text) USING leanstore;
	INSERT INTO load SELECT i, NULL FROM generate_series(1, 50) i');
my $script = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
# So much that a slow machine, too, writes more than the 640 kB a second that count.
append_to_file($script, "UPDATE load SET t = repeat(md5(random()::text), 50);\n");
my $load = $node->start_pgbench('postgres', '-c', 2, '-T', 600, '-f', $script);
my $WRITTEN = q{(SELECT log_bytes FROM leanstore_stat_wal) + (SELECT moved_bytes
	FROM leanstore_stat_values WHERE relid = 'shared'::regclass)};
my $at_first = sql("SELECT $WRITTEN");
set_moves(value_move_rate => '64MB');
$node->poll_query_until('postgres', q{SELECT moved_bytes > 0 FROM leanstore_stat_values
	WHERE relid = 'shared'::regclass}) or die 'nothing is moved';
usleep(3_000_000);
my ($share_moved, $written) = split /\|/, sql("SELECT (SELECT moved_bytes
	FROM leanstore_stat_values WHERE relid = 'shared'::regclass), $WRITTEN - $at_first");
$node->stop_pgbench($load);
# One piece of work, 256 values, is ahead of its share.  At its rate all would be moved by now.
cmp_ok($share_moved, '<', 1500 * $BYTES, 'not all are moved beside sessions that write');
cmp_ok($share_moved, '<=', 0.01 * $written + 256 * $BYTES,
	"beside sessions that write its share is kept ($share_moved of $written)");
ok($node->poll_query_until('postgres', q{SELECT bytes < 1.3 * (bytes - free_bytes)
	FROM leanstore_stat_values WHERE relid = 'shared'::regclass}),
	'without them it goes on as its rate allows');
whole_ok('shared', 4 * $VALUES, 'shared');

# --- Rights -----------------------------------------------------------------------------
sql('CREATE ROLE stranger LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_monitor');
my ($status, $out, $error) = $node->psql('postgres', 'SELECT * FROM leanstore_progress_values',
	connstr => $node->connstr('postgres') . ' user=stranger');
like($error, qr/permission denied/, 'not for everybody');
is($node->safe_psql('postgres', 'SELECT count(*) <= 1 FROM leanstore_progress_values',
	connstr => $node->connstr('postgres') . ' user=watcher'), 't', 'for members of pg_monitor');

$node->stop;
done_testing();

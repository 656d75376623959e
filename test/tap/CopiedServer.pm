# CopiedServer: what tests of base backups and standbys do on the primary.
#
#   my $primary = CopiedServer::new_primary('primary', allows_streaming => 1);
#   my @load = CopiedServer::start_load($primary);
#   ...                                  # copies are made
#   CopiedServer::stop_load($primary, @load);
#   is($copy->safe_psql('postgres', $CopiedServer::contents), ...);
#
# The load: pgbench; and tables that come and go, are truncated and made anew, large values that
# change, transactions that are prepared.
package CopiedServer;

use strict;
use warnings FATAL => 'all';

use CrashDriver ();
use File::Copy qw(copy);
use LeanstoreTest ();
use PostgreSQL::Test::Utils;
use Test::More;

# All rows of the tables that are there from the beginning, but for those of heap.
our $steady = q{
	SELECT 'a', count(*), sum(abalance), sum(hashtext(pgbench_accounts::text)::bigint)
		FROM pgbench_accounts
	UNION ALL SELECT 'h', count(*), sum(delta), sum(hashtext(pgbench_history::text)::bigint)
		FROM pgbench_history
	UNION ALL SELECT 'l', count(*), sum(n), sum(hashtext(large::text)::bigint) FROM large};

# All rows of all tables.
our $contents = $steady . q{
	UNION ALL SELECT 'c', count(*), sum(n), sum(hashtext(comes_0::text)::bigint) FROM comes_0
	UNION ALL SELECT 'o', count(*), sum(n), 0 FROM on_heap
	ORDER BY 1};

my $load = q{
	\set id random(1, 200)
	SELECT quote_literal('load' || :client_id) AS name \gset
	BEGIN;
	UPDATE large SET n = n + 1, v = repeat(:client_id || '-' || n, 1500) WHERE id = :id;
	INSERT INTO on_heap VALUES (:id);
	COMMIT;
	BEGIN;
	UPDATE large SET n = n + 1, v = v || '+' WHERE id = :id;
	PREPARE TRANSACTION :name;
	COMMIT PREPARED :name;
	DROP TABLE IF EXISTS comes_:client_id;
	CREATE TABLE comes_:client_id USING leanstore AS SELECT * FROM large WHERE id < :id;
	CREATE INDEX ON comes_:client_id (n);
	TRUNCATE comes_:client_id;
	INSERT INTO comes_:client_id SELECT i, :id, 'new' FROM generate_series(1, 100) i;
};

# new_primary(NAME, PARAMETER OF init => VALUE ...): it runs and has the tables.
# Rows 201 to 210 of `large` are not the load's.
sub new_primary
{
	my ($name, %init) = @_;
	my $primary = LeanstoreTest->prepare_node($name,
		init => \%init,
		'leanstore.log' => 'wal',
		'leanstore.buffer_pool_size' => '16MB',
		'leanstore.wal_segment_size' => '1MB',
		'leanstore.max_wal_size' => '64MB',
		'leanstore.checkpoint_timeout' => '2s',
		max_prepared_transactions => 10,
		wal_keep_size => '1GB',
		shared_buffers => '16MB');

	$primary->start;
	$primary->safe_psql('postgres', 'CREATE EXTENSION leanstore_am');
	$primary->pgbench_init('postgres', 2);
	$primary->safe_psql('postgres', q{
		CREATE INDEX ON pgbench_accounts (abalance);
		CREATE TABLE on_heap (n int) USING heap;
		CREATE TABLE large (id int PRIMARY KEY, n int, v text) USING leanstore;
		ALTER TABLE large ALTER v SET STORAGE EXTERNAL;
		INSERT INTO large SELECT i, 0, repeat(i || 'x', 2000) FROM generate_series(1, 210) i});
	write_load($primary);
	return $primary;
}

# For start_load() on a server with copies of the tables.
sub write_load
{
	my ($primary) = @_;

	append_to_file($primary->basedir . '/load.sql', $load);
	return;
}

# The rows that are not the load's, as they were.
sub renew_rows
{
	my ($primary) = @_;

	$primary->safe_psql('postgres', q{DELETE FROM large WHERE id > 200;
		INSERT INTO large SELECT i, 0, repeat(i || 'x', 2000) FROM generate_series(201, 210) i});
	return;
}

sub start_load
{
	my ($primary) = @_;
	local $ENV{PGAPPNAME} = 'load';
	my @load = ($primary->start_pgbench('postgres', qw(-c 3 -j 1 -T 600)),
		$primary->start_pgbench('postgres', qw(-c 2 -j 1 -T 600 -n -f),
			$primary->basedir . '/load.sql'));

	$primary->poll_query_until('postgres', q{SELECT to_regclass('comes_1') IS NOT NULL});
	return @load;
}

# What the load has left prepared where it was killed or stopped.
sub end_prepared
{
	my ($primary) = @_;

	$primary->safe_psql('postgres', $_) foreach split /\n/, $primary->safe_psql('postgres',
		q{SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE gid ~ '^load'});
	return;
}

sub stop_load
{
	my ($primary, @load) = @_;

	foreach my $load (@load)
	{
		$load->{run}->signal('TERM');
		$primary->finish_pgbench($load);
	}
	$primary->poll_query_until('postgres',
		q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'load'});
	end_prepared($primary);
	# it may have been stopped behind DROP
	$primary->safe_psql('postgres',
		'CREATE TABLE IF NOT EXISTS comes_0 (LIKE large) USING leanstore');
	return;
}

# The primary crashes under its load, and is there again.
sub kill_under_load
{
	my ($primary, @load) = @_;

	CrashDriver::kill_server($primary, 'all');
	$primary->finish_pgbench($_) foreach @load;
	$primary->start;
	end_prepared($primary);
	return;
}

# One stays prepared: a row comes, one changes, one is locked.
sub prepare
{
	my ($primary, $name, $row) = @_;

	$primary->safe_psql('postgres', qq{BEGIN;
		INSERT INTO large VALUES (2000 + $row, 1, repeat('p', 9000));
		UPDATE large SET n = -1, v = v || 'q' WHERE id = $row;
		SELECT FROM large WHERE id = $row + 1 FOR UPDATE;
		PREPARE TRANSACTION '$name'});
	return;
}

# The source's files of settings come along, but a server has a port of its own.
sub rewind
{
	my ($target, $source) = @_;
	my $conf = $target->data_dir . '/postgresql.conf';
	my $kept = $target->basedir . '/postgresql.conf';

	copy($conf, $kept) or die "could not copy $conf: $!";
	# the standby's name for the source
	local %ENV = ($target->_get_env(), PGAPPNAME => $target->name);
	command_ok([ 'pg_rewind', '--source-server' => $source->connstr('postgres'),
			'--target-pgdata' => $target->data_dir, '--no-sync', '--config-file' => $kept,
			'--write-recovery-conf' ], 'pg_rewind');
	copy($kept, $conf) or die "could not copy $kept: $!";
	return;
}

# pg_rewind copies no part of a block, so no file ends in one.
sub whole_blocks_ok
{
	my ($server, $name) = @_;
	my $broken = $server->safe_psql('postgres', q{
		SELECT string_agg(format('%s: %s', c.oid::regclass, size), ', ')
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam,
			pg_stat_file(pg_relation_filepath(c.oid)) AS file(size)
		WHERE a.amname ~ '^leanstore' AND c.relkind IN ('r', 't', 'i') AND size % 8192 <> 0});

	is($broken, '', "files end with a block: $name");
	return;
}

1;

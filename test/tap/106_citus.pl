# Leanstore shards under Citus: a coordinator and two workers, the same statements on heap and on
# leanstore, and kills between PREPARE and COMMIT PREPARED.
#
# Environment: CITUS_PG, the prefix of a PostgreSQL 18 with Citus in it.  Skipped without.
use strict;
use warnings FATAL => 'all';

use CitusCluster;
use CrashDriver;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'CITUS_PG names no server with Citus' unless CitusCluster::available();

my $cluster = CitusCluster->new('citus.shard_count' => 6);
my ($coordinator, @workers) = @{ $cluster->{nodes} };
my @nodes = @{ $cluster->{nodes} };

# --- The same on heap and leanstore.

my $script = q{
	SET default_table_access_method = ACCESS_METHOD;
	SET client_min_messages = warning;
	CREATE SCHEMA s; SET search_path = s, public;
	CREATE TABLE branch (id int PRIMARY KEY, v int);
	CREATE TABLE account (branch int, id int, v int, t text, PRIMARY KEY (branch, id));
	CREATE TABLE kind (id int PRIMARY KEY, name text);
	CREATE TABLE here (id int PRIMARY KEY, kind int REFERENCES kind);
	INSERT INTO branch SELECT i, 0 FROM generate_series(1, 40) i;
	INSERT INTO account SELECT i % 40 + 1, i, i, repeat('x', i % 300)
		FROM generate_series(1, 4000) i;
	INSERT INTO kind SELECT i, 'kind ' || i FROM generate_series(1, 10) i;
	SELECT create_distributed_table('branch', 'id');
	SELECT create_distributed_table('account', 'branch', colocate_with => 'branch');
	SELECT create_reference_table('kind');
	SELECT citus_add_local_table_to_metadata('here');
	INSERT INTO here VALUES (1, 1);
	SELECT amname, count(*) FROM pg_class c JOIN pg_am a ON a.oid = relam
		WHERE relname IN ('branch', 'account', 'kind', 'here') GROUP BY 1;
	CREATE INDEX account_v ON account (v);
	CREATE INDEX account_t ON account (left(t, 50));
	BEGIN; UPDATE account SET v = v + 1; UPDATE branch SET v = 1 WHERE id IN (1, 2, 3); COMMIT;
	BEGIN; UPDATE account SET v = 0; DELETE FROM branch; ROLLBACK;
	SELECT count(*), sum(v), sum(length(t)) FROM account;
	SELECT count(*) FROM account a JOIN branch b ON a.branch = b.id JOIN kind k ON k.id = b.id;
	BEGIN; TRUNCATE account; INSERT INTO account VALUES (1, 1, 1, ''); ROLLBACK;
	SELECT count(*), sum(v) FROM account;
	ALTER TABLE account ALTER v TYPE bigint;
	ALTER TABLE account ADD u int DEFAULT 7;
	BEGIN; DROP INDEX account_t; ALTER TABLE account DROP u; ROLLBACK;
	SELECT count(*), sum(v), sum(u), pg_typeof(min(v)) FROM account;
	BEGIN; CREATE TABLE more (id int PRIMARY KEY, v int);
	SELECT create_distributed_table('more', 'id', colocate_with => 'branch');
	INSERT INTO more SELECT i, i FROM generate_series(1, 100) i; COMMIT;
	SELECT count(*), sum(v) FROM more;
	DROP INDEX account_t;
	TRUNCATE more;
	INSERT INTO more SELECT id, v FROM account WHERE branch = 1;
	SELECT count(*) FROM more;
	SELECT undistribute_table('more');
	SELECT count(*) FROM more;
	MERGE INTO branch b USING account a ON a.branch = b.id AND a.id = b.id
		WHEN MATCHED THEN UPDATE SET v = b.v + 1;
	SELECT sum(v) FROM branch;
	CREATE TABLE part (id int, day int, v int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)
		USING ACCESS_METHOD;
	CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
	CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20);
	SELECT create_distributed_table('part', 'id');
	INSERT INTO part SELECT i, i % 20, i FROM generate_series(1, 500) i;
	CREATE TABLE part_3 PARTITION OF part FOR VALUES FROM (20) TO (30);
	INSERT INTO part SELECT i, 20 + i % 10, i FROM generate_series(1, 500) i;
	DROP TABLE part_1;
	SELECT count(*), sum(v) FROM part;
	CREATE TABLE gone (id int PRIMARY KEY); SELECT create_distributed_table('gone', 'id');
	DROP TABLE gone;
	VACUUM account;
	ANALYZE account;
	SELECT count(*), sum(v), sum(length(t)), sum(u) FROM account;};

my %out;
foreach my $method ('heap', 'leanstore')
{
	(my $sql = $script) =~ s/ACCESS_METHOD/$method/g;
	my ($status, $out, $error) = $coordinator->psql('postgres', $sql, on_error_stop => 1);
	is($status, 0, "$method: all statements succeed") or diag($error);
	($out{$method} = $out) =~ s/$method\|/METHOD|/g;
	$cluster->check($method);
	$coordinator->safe_psql('postgres', q{SET client_min_messages = warning;
		DROP SCHEMA s CASCADE}) if $method eq 'heap';
}
is($out{leanstore}, $out{heap}, 'the same as on heap');
is($coordinator->safe_psql('postgres', q{SELECT string_agg(DISTINCT result, ' ') FROM
	run_command_on_placements('s.account', $$SELECT amname FROM pg_class c JOIN pg_am a
		ON a.oid = relam WHERE c.oid = '%s'::regclass$$)}), 'leanstore', 'kind of shards');

# --- Moves, and another access method.

my $sums = 'SELECT count(*), sum(v), sum(length(t)) FROM s.account';
my $want = $coordinator->safe_psql('postgres', $sums);
my $move = q{SELECT citus_move_shard_placement(shardid, FROM_NODE, TO_NODE, 'block_writes')
	FROM citus_shards WHERE table_name = 's.account'::regclass AND nodeport = PORT
	ORDER BY shardid LIMIT 1};
foreach my $way ([ 0, 1 ], [ 1, 0 ])
{
	my ($from, $to) = map { $workers[$_] } @$way;
	(my $sql = $move) =~ s/FROM_NODE/CitusCluster::place($from)/e;
	$sql =~ s/TO_NODE/CitusCluster::place($to)/e;
	$sql =~ s/PORT/$from->port/e;
	$coordinator->safe_psql('postgres', $sql);
	is($coordinator->safe_psql('postgres', $sums), $want, 'a shard was moved');
}

# While clients write: the shard is copied, and follows by logical decoding.
my $work = PostgreSQL::Test::Utils::tempdir() . '/work.sql';
append_to_file($work, q{
\set id random(1, 4000)
\set branch 1 + :id % 40
UPDATE s.account SET v = v + 1, t = repeat(md5(v::text), (v % 100)::int)
	WHERE branch = :branch AND id = :id;
INSERT INTO s.account (branch, id, v, t) VALUES (:branch, 1000000 + :id, 1, 'late')
	ON CONFLICT (branch, id) DO UPDATE SET v = s.account.v + 1;
DELETE FROM s.account WHERE branch = :branch AND id = 1000000 + :id AND v > 2;
});
my $load = $coordinator->start_pgbench('postgres', qw(-c 3 -R 150 -T 120 -f), $work);
foreach my $way ([ 0, 1, 'force_logical' ], [ 1, 0, 'auto' ])
{
	my ($from, $to) = map { $workers[$_] } @$way[0, 1];
	(my $sql = $move) =~ s/FROM_NODE/CitusCluster::place($from)/e;
	$sql =~ s/TO_NODE/CitusCluster::place($to)/e;
	$sql =~ s/PORT/$from->port/e;
	$sql =~ s/block_writes/$way->[2]/;
	my ($status, undef, $error) = $coordinator->psql('postgres', $sql);
	is($status, 0, "a shard was moved while clients wrote, $way->[2]") or diag($error);
}
$coordinator->safe_psql('postgres', q{SET client_min_messages = warning;
	CREATE TABLE s.alone (id int PRIMARY KEY, v int);
	INSERT INTO s.alone SELECT i, 0 FROM generate_series(1, 1000) i});
my $alone = PostgreSQL::Test::Utils::tempdir() . '/alone.sql';
append_to_file($alone, q{
\set id random(1, 1000)
UPDATE s.alone SET v = v + 1 WHERE id = :id;
});
my $others = $coordinator->start_pgbench('postgres', qw(-c 2 -R 100 -T 120 -f), $alone);
my ($distributed, undef, $why) = $coordinator->psql('postgres',
	q{SELECT create_distributed_table_concurrently('s.alone', 'id')});
is($distributed, 0, 'a table was distributed while clients wrote') or diag($why);
foreach my $handle ($load, $others)
{
	unlike($coordinator->stop_pgbench($handle), qr/ERROR/, 'no client had an error');
}
is($coordinator->safe_psql('postgres', q{SELECT count(*) FROM s.account WHERE id <= 4000}), '4000',
	'no row is missing');
is($coordinator->safe_psql('postgres',
	q{SELECT count(*) FROM s.account WHERE id <= 4000 AND length(t) > 300
		AND t <> repeat(md5((v - 1)::text), ((v - 1) % 100)::int)}),
	'0', 'each has the text of its last update');
is($coordinator->safe_psql('postgres', q{SELECT count(*), count(DISTINCT id) FROM s.alone}),
	'1000|1000', 'rows of the distributed table');
$want = $coordinator->safe_psql('postgres', $sums);

foreach my $method ('heap', 'leanstore')
{
	$coordinator->safe_psql('postgres', qq{SET client_min_messages = warning;
		SELECT alter_table_set_access_method('s.account', '$method')});
	is($coordinator->safe_psql('postgres', $sums), $want, "shards became $method");
}
$cluster->check('moved and rewritten');

# --- Nodes die in the middle of two-phase commits; Citus ends what is prepared.

my $total = 'SELECT sum(v) FROM s.branch';
my $balance = $coordinator->safe_psql('postgres', $total);
foreach my $round (1 .. $ENV{ROUNDS} // 3)
{
	my @sessions = map { $coordinator->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
	my $turn = 0;
	foreach my $session (@sessions)
	{
		my $id = 10000 * ($round * 10 + $turn++);
		$session->query_until(qr/started/, "\\echo started\n" . join('', map {
			my $i = $id + $_;
			my ($a, $b) = ($i % 40 + 1, ($i * 7) % 40 + 1);
			"BEGIN; UPDATE s.branch SET v = v - 1 WHERE id = $a;"
			. " UPDATE s.branch SET v = v + 1 WHERE id = $b;"
			. " INSERT INTO s.account (branch, id, v, t) VALUES ($a, $i, 0, 'new'),"
			. " ($b, $i, 0, 'new') ON CONFLICT DO NOTHING; COMMIT;\n"
			. ($_ % 20 == 0 ? "CREATE TABLE s.made_$i (id int PRIMARY KEY); SELECT"
				. " create_distributed_table('s.made_$i', 'id'); DROP TABLE s.made_$i;\n" : '')
		} 1 .. 200));
	}
	Time::HiRes::sleep(0.3 + 0.4 * $round);
	my $victim = $nodes[$round % 3];
	CrashDriver::kill_server($victim, 'all');
	$victim->start;
	eval { $_->quit } foreach @sessions;
	foreach my $try (1 .. 60)
	{
		$coordinator->psql('postgres', 'SELECT recover_prepared_transactions()');
		last if !grep { $_->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts') > 0 }
			@nodes;
		sleep 1;
	}
	is(join(' ', map { $_->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts') }
		@nodes), '0 0 0', "round $round: nothing stays prepared");
	is($coordinator->safe_psql('postgres', $total), $balance, "round $round: balances");
	is($coordinator->safe_psql('postgres', q{SELECT count(*) FROM (SELECT id FROM s.account
		WHERE id > 9999 GROUP BY id HAVING count(*) NOT IN (1, 2)) x}), '0',
		"round $round: rows of whole transactions");
	$cluster->check("round $round");
}
$cluster->stop;
done_testing();

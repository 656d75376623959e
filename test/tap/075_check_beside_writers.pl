# leanstore_check cries no wolf: indexes of every kind, with NULLs, dead rows, rows of transactions
# that are open or have failed, and clients that write and VACUUM while it runs.
#
#   CHECK_SECONDS=600   how long the clients write (6)
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{CHECK_SECONDS} // 6;
my $node = LeanstoreTest->new_node('check', autovacuum => 'off', deadlock_timeout => '50ms');

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, i int, s text, p point, a int[], n numeric) USING leanstore;
	CREATE SEQUENCE new_id;
	CREATE UNIQUE INDEX t_unique ON t USING leanstore (id);
	CREATE INDEX t_plain ON t USING leanstore (i, s COLLATE "C" DESC NULLS LAST);
	CREATE INDEX t_label ON t USING leanstore (s);
	CREATE INDEX t_include ON t USING leanstore (n) INCLUDE (s);
	CREATE INDEX t_expression ON t USING leanstore (lower(s)) WHERE i > 2;
	CREATE INDEX t_btree ON t USING btree (i, s) INCLUDE (n);
	CREATE INDEX t_btree_expression ON t USING btree ((i % 3), lower(s)) WHERE n IS NOT NULL;
	CREATE INDEX t_hash ON t USING hash (s);
	CREATE INDEX t_hash_expression ON t USING hash ((i % 7)) WHERE n IS NULL;
	CREATE INDEX t_gin ON t USING gin (a);
	CREATE INDEX t_gin_slow ON t USING gin (a) WITH (fastupdate = off) WHERE i > 3;
	CREATE INDEX t_gist ON t USING gist (p) INCLUDE (i);
	CREATE INDEX t_spgist ON t USING spgist (p);
	CREATE INDEX t_spgist_text ON t USING spgist (s) INCLUDE (n);
	CREATE INDEX t_brin ON t USING brin (i, s);
	CREATE INDEX t_only_hash ON t USING hash (n);

	-- x decides which columns are NULL, and which rows are alike.
	CREATE FUNCTION add(x int) RETURNS void LANGUAGE sql AS $$
		INSERT INTO t VALUES (nextval('new_id'), nullif(x % 10, 3),
			CASE WHEN x % 5 > 0 THEN 'S' || x % 100 END,
			CASE WHEN x % 7 > 0 THEN point(x, x % 3) END,
			CASE WHEN x % 6 > 0 THEN ARRAY[x % 5, NULL] END,
			CASE WHEN x % 2 > 0 THEN x / 3.0 END) $$;
	CREATE TABLE grows (id int, p point, s text) USING leanstore;
	CREATE INDEX ON grows USING spgist (p);
	CREATE INDEX ON grows USING spgist (s);
	CREATE INDEX ON grows USING gist (p);
	CREATE INDEX ON grows USING hash (s);
});

sub check_ok
{
	my ($table, $name) = @_;
	my ($status, undef, $error) = $node->psql('postgres', "SELECT leanstore_check('$table')");

	is($error, '', $name);
	return $status == 0;
}

# One session: every state that a row can be in.
$node->safe_psql('postgres', 'SELECT count(add(x)) FROM generate_series(1, 2000) x;
	INSERT INTO t (a) VALUES (NULL), (\'{}\')');
check_ok('t', 'NULLs');
$node->safe_psql('postgres', 'BEGIN; UPDATE t SET s = s || 1 WHERE id % 3 = 0;
	SAVEPOINT a; DELETE FROM t WHERE id % 4 = 0; ROLLBACK TO a;
	DELETE FROM t WHERE id % 5 = 0; SELECT leanstore_check(\'t\'); ROLLBACK;
	SELECT leanstore_check(\'t\')');
$node->safe_psql('postgres', 'UPDATE t SET i = i + 1, p = point(id, 1) WHERE id % 3 = 0;
	DELETE FROM t WHERE id % 11 = 0');
check_ok('t', 'dead rows');

# Pages of an index are divided while an older transaction is open, with rows of both.
my $older = $node->background_psql('postgres');
$older->query_safe('BEGIN; SELECT pg_current_xact_id(); DELETE FROM t WHERE id % 13 = 0;
	UPDATE t SET s = \'older\' WHERE id % 17 = 0;
	INSERT INTO grows VALUES (0, point(7, 7), \'open\')');
$node->safe_psql('postgres',
	q{INSERT INTO grows SELECT i, point(i, i % 17), 'S' || i FROM generate_series(1, 20000) i});
check_ok($_, "$_ beside an open transaction") for qw(t grows);
$older->query_safe('COMMIT');
check_ok($_, "$_ when it has ended") for qw(t grows);

# Clients write, an older transaction is open now and then, VACUUM runs, and it is checked all the
# time.
my %script = (
	insert => "\\set x random(1, 100000)\nSELECT add(:x);\n"
		. "INSERT INTO grows VALUES (:x, point(:x % 1000, :x % 7), 'S' || :x);\n",
	update => "\\set x random(1, 3000)\nUPDATE t SET i = i % 9 + 1 WHERE id = :x;\n"
		. "UPDATE t SET n = n + 1, s = s || 'x' WHERE id = :x + 1;\n",
	hot => "UPDATE t SET i = (i + 1) % 9 WHERE id = 1;\nUPDATE t SET n = 1 WHERE id = 2;\n",
	change_back => "\\set x random(1, 3000)\nBEGIN;\n"
		. "UPDATE t SET i = 5, s = 'same', a = '{1,2,3}' WHERE id = :x;\n"
		. "DELETE FROM t WHERE id = :x - 1;\nROLLBACK;\n",
	delete => "\\set x random(1, 3000)\nBEGIN;\nDELETE FROM t WHERE id = :x;\nSELECT add(:x);\n"
		. "COMMIT;\nDELETE FROM grows WHERE id = :x;\n",
	vacuum => "\\sleep 400 ms\nVACUUM t;\nVACUUM grows;\n",
	sit =>
		"BEGIN;\nSELECT pg_current_xact_id();\nSELECT count(*) FROM t;\n\\sleep 300 ms\nCOMMIT;\n");
my @clients = map {
	my $file = $node->basedir . "/$_.sql";
	append_to_file($file, $script{$_});
	$node->start_pgbench('postgres', '-n', '-f', $file, '-c', $_ eq 'update' ? 2 : 1,
		'-T', $seconds, '--max-tries=100')
} sort keys %script;
my $checks = 0;
my $end = time() + $seconds;
my @alarms;
while (time() < $end && !@alarms)
{
	my (undef, undef, $error) = $node->psql('postgres',
		q{SELECT leanstore_check(t) FROM unnest('{t,grows}'::regclass[]) t});

	$checks++;
	push @alarms, $error if $error ne '';
}
is_deeply(\@alarms, [], "no alarm while clients write ($checks checks)");
foreach my $client (@clients)
{
	like($node->finish_pgbench($client), qr/transactions actually processed: [1-9]/,
		'the client has written until the end');
}
check_ok($_, "$_ when they have ended") for qw(t grows);
done_testing();

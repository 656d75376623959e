# Keys that are cut, with labels for their rests: sessions insert, change and remove equal and
# different keys that begin alike, some of them SERIALIZABLE, while the answers of the index are
# compared; and after a crash in the middle of it.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node(
	'long_keys',
	'leanstore.buffer_pool_size' => '16MB',
	'max_connections' => 30);

$node->safe_psql('postgres', q{
	CREATE TABLE l (id bigserial, s text COLLATE "C" UNIQUE, u text COLLATE "en-x-icu")
		USING leanstore;
	CREATE INDEX l_u ON l (u, id);
	CREATE FUNCTION key(n int) RETURNS text LANGUAGE sql IMMUTABLE
		AS $$ SELECT repeat('same', 95 + n % 3) || repeat(md5(n::text), 1 + n % 40) $$;
	CREATE PROCEDURE put(n int) LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO l (s, u) VALUES (key(n), key(n % 17));
		IF random() < 0.1 THEN
			RAISE EXCEPTION 'never mind' USING errcode = 'P0777';
		END IF;
	EXCEPTION WHEN unique_violation OR serialization_failure OR deadlock_detected
		OR SQLSTATE 'P0777' THEN NULL;
	END $$;
	CREATE PROCEDURE turn(n int) LANGUAGE plpgsql AS $$
	BEGIN
		UPDATE l SET s = CASE WHEN length(s) < 380 THEN key(n) ELSE n::text END
			WHERE s IN (key(n), n::text);
	EXCEPTION WHEN unique_violation OR serialization_failure OR deadlock_detected THEN NULL;
	END $$;
	CREATE FUNCTION compare(n int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		question text := format('SELECT count(*), md5(string_agg(t::text, %L)) FROM (
			SELECT s, id FROM l WHERE s BETWEEN key(%s) AND key(%3$s)
			UNION ALL (SELECT s, id FROM l WHERE s > key(%2$s) ORDER BY s LIMIT 20)
			UNION ALL (SELECT u COLLATE "C", id FROM l WHERE u = key(%2$s %% 17) ORDER BY u, id)
			ORDER BY 1, 2) AS t', ',', n, n + 1);
		plain text;
		found text;
	BEGIN
		SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off;
		SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
		EXECUTE question INTO plain;
		SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on;
		SET LOCAL enable_indexonlyscan = on;
		EXECUTE question INTO found;
		IF plain IS DISTINCT FROM found THEN
			RAISE EXCEPTION 'not the same: %', question;
		END IF;
	END $$;
});

my $dir = PostgreSQL::Test::Utils::tempdir();
my $n = "\\set n random(1, 300)\n";
append_to_file("$dir/put.sql", $n . "CALL put(:n);\n");
append_to_file("$dir/serializable.sql", $n . "BEGIN ISOLATION LEVEL SERIALIZABLE; CALL put(:n);
	COMMIT;\n");
append_to_file("$dir/turn.sql", $n . "CALL turn(:n);\n");
append_to_file("$dir/remove.sql", $n . "DELETE FROM l WHERE s = key(:n);\n");
append_to_file("$dir/compare.sql", $n . "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT compare(:n);
	COMMIT;\n");
my @files = map { ('-f', "$dir/$_") }
	qw(put.sql@6 serializable.sql@2 turn.sql@3 remove.sql@2 compare.sql@2);

sub all_the_same
{
	my ($when) = @_;
	my $list = 'SELECT count(*), md5(string_agg(s, \',\')) FROM (SELECT s FROM l ORDER BY s) AS t';
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; $list"),
		$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_indexonlyscan = off;
			$list"), "$when: by key");
	is($node->safe_psql('postgres', 'SET enable_indexonlyscan = off;
		SELECT count(*) - count(DISTINCT s || \'\') FROM l'),
		'0', "$when: unique");
	$node->leanstore_check_ok($when);
}

$node->run_pgbench('postgres', qw(-n -c 8 -j 2 -T 3), @files);
all_the_same('after insertions by several sessions');

my $pgbench = $node->start_pgbench('postgres', qw(-n -c 6 -j 2 -T 60), @files);
$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY l_s_key');
$node->stop('immediate');
$node->finish_pgbench($pgbench);
$node->start;
all_the_same('after a crash');
done_testing();

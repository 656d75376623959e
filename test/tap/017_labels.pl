# Indexes with labels as keys, beside btree indexes of the same values: several sessions insert in
# random, ascending and descending order, into gaps, with rollbacks and deletions.  The answers of
# both are compared meanwhile, and after a crash in the middle of it.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node(
	'labels',
	'leanstore.buffer_pool_size' => '8MB',
	'max_connections' => 30);

$node->safe_psql('postgres', q{
	CREATE COLLATION libc (provider = libc, locale = 'C.utf8');

	-- strings by their length, and those of one length by their first byte: many that differ
	-- are equal
	CREATE FUNCTION shape_cmp(text, text) RETURNS int
		LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
		AS 'BEGIN RETURN CASE WHEN length($1) <> length($2) THEN sign(length($1) - length($2))
			ELSE sign(ascii($1) - ascii($2)) END; END';
	CREATE FUNCTION shape_lt(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT
		PARALLEL SAFE AS 'BEGIN RETURN shape_cmp($1, $2) < 0; END';
	CREATE FUNCTION shape_le(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT
		PARALLEL SAFE AS 'BEGIN RETURN shape_cmp($1, $2) <= 0; END';
	CREATE FUNCTION shape_eq(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT
		PARALLEL SAFE AS 'BEGIN RETURN shape_cmp($1, $2) = 0; END';
	CREATE FUNCTION shape_ge(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT
		PARALLEL SAFE AS 'BEGIN RETURN shape_cmp($1, $2) >= 0; END';
	CREATE FUNCTION shape_gt(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT
		PARALLEL SAFE AS 'BEGIN RETURN shape_cmp($1, $2) > 0; END';
	CREATE OPERATOR <| (FUNCTION = shape_lt, LEFTARG = text, RIGHTARG = text, COMMUTATOR = |>);
	CREATE OPERATOR <=| (FUNCTION = shape_le, LEFTARG = text, RIGHTARG = text, COMMUTATOR = |>=);
	CREATE OPERATOR =| (FUNCTION = shape_eq, LEFTARG = text, RIGHTARG = text, COMMUTATOR = =|);
	CREATE OPERATOR |>= (FUNCTION = shape_ge, LEFTARG = text, RIGHTARG = text, COMMUTATOR = <=|);
	CREATE OPERATOR |> (FUNCTION = shape_gt, LEFTARG = text, RIGHTARG = text, COMMUTATOR = <|);
	CREATE OPERATOR CLASS shape_ops FOR TYPE text USING leanstore AS
		OPERATOR 1 <|, OPERATOR 2 <=|, OPERATOR 3 =|, OPERATOR 4 |>=, OPERATOR 5 |>,
		FUNCTION 1 shape_cmp(text, text);

	CREATE TABLE l (id bigserial, k int, t text COLLATE libc) USING leanstore;
	CREATE UNIQUE INDEX l_t ON l USING leanstore (t);
	CREATE INDEX l_kt ON l USING leanstore (k, t DESC);
	CREATE INDEX l_shape ON l USING leanstore (t shape_ops, k);
	-- an expression, so that no query takes it in place of the others
	CREATE UNIQUE INDEX l_btree ON l USING btree ((t || ''));
	-- as indexes of before there were keys for such collations
	SET allow_system_table_mods = on;
	UPDATE pg_index SET indoption =
		array_to_string(ARRAY(SELECT o & 3 FROM unnest(indoption) o), ' ')::int2vector
		WHERE indrelid = 'l'::regclass;
	CREATE SEQUENCE up;
	CREATE SEQUENCE down INCREMENT -1;

	-- Values, of which one in ten is taken back.
	CREATE PROCEDURE put(values_ text[]) LANGUAGE plpgsql AS $$
	DECLARE v text;
	BEGIN
		FOREACH v IN ARRAY values_ LOOP
			BEGIN
				INSERT INTO l (k, t) VALUES (ascii(v) % 5, v);
				IF random() < 0.1 THEN
					RAISE EXCEPTION 'never mind' USING errcode = 'P0777';
				END IF;
			EXCEPTION
				WHEN SQLSTATE 'P0777' THEN NULL;
				WHEN unique_violation THEN
					IF v ~ '^(up|down)' THEN
						RAISE EXCEPTION '% is not there yet', v;
					END IF;
			END;
			COMMIT;		-- who waits for another's key has none himself
		END LOOP;
	END $$;

	-- The same question by an index and without.
	CREATE FUNCTION compare(question text) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		plain text;
		found text;
		name text;
	BEGIN
		SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off;
		SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
		EXECUTE format('SELECT md5(string_agg(s::text, %L)) FROM (%s) s', ',', question) INTO plain;
		SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on;
		SET LOCAL enable_indexonlyscan = on;
		EXECUTE format('SELECT md5(string_agg(s::text, %L)) FROM (%s) s', ',', question) INTO found;
		IF plain IS DISTINCT FROM found THEN
			RAISE EXCEPTION 'not the same: %', question;
		END IF;
	END $$;
	CREATE FUNCTION compare_all() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		a text := chr(97 + (random() * 25)::int) || (random() * 1000)::int;
		b text := chr(97 + (random() * 25)::int);
	BEGIN
		PERFORM compare(format('SELECT t FROM l WHERE t > %L ORDER BY t LIMIT 50', a));
		PERFORM compare(format('SELECT t FROM l WHERE t <= %L ORDER BY t DESC LIMIT 50', a));
		PERFORM compare(format('SELECT t FROM l
			WHERE t BETWEEN least(%1$L, %2$L) AND greatest(%1$L, %2$L) ORDER BY t', a, b));
		PERFORM compare(format('SELECT t FROM l WHERE t = ANY (ARRAY[%L, %L, %L]) ORDER BY t', a, b,
			'up000000000000012'));
		PERFORM compare(format('SELECT k, t FROM l
			WHERE (k, t) >= (2, %L) AND k < 4 ORDER BY k, t DESC', a));
		PERFORM compare(format('SELECT length(t), ascii(t), k FROM l WHERE t =| %L ORDER BY k', a));
	END $$;
});

my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/random.sql", q{
\set a random(1, 1000000)
CALL put(ARRAY[chr(97 + :a % 26) || :a, chr(97 + :a % 24) || :a % 1000, md5('' || :a)]);
});
append_to_file("$dir/ascending.sql",
	"CALL put(ARRAY['up' || to_char(nextval('up'), '000000000000000')]);\n");
append_to_file("$dir/descending.sql",
	"CALL put(ARRAY['down' || to_char(1000000000 + nextval('down'), '000000000000000')]);\n");
append_to_file("$dir/remove.sql", q{
\set a random(1, 20000)
DELETE FROM l WHERE id BETWEEN :a AND :a + 100 AND k <> 3;
});
append_to_file("$dir/compare.sql", "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT compare_all();
	COMMIT;\n");

sub insert_and_compare
{
	my ($seconds) = @_;
	$node->run_pgbench('postgres', qw(-n -c 8 -j 2 -T), $seconds,
		map { ('-f', "$dir/$_") }
		qw(random.sql@6 ascending.sql@6 descending.sql@6 remove.sql@1 compare.sql@2));
}

# Everything, in order, by each index.
sub all_the_same
{
	my ($when) = @_;
	my $list = sub {
		my ($settings, $order, $columns) = @_;
		return $node->safe_psql('postgres',
			"$settings; SELECT count(*), md5(string_agg(s::text, ','))
				FROM (SELECT $columns FROM l ORDER BY $order) s");
	};
	my $sorted = 'SET enable_indexscan = off; SET enable_indexonlyscan = off;
		SET enable_bitmapscan = off';
	my $by_index = 'SET enable_seqscan = off; SET enable_sort = off;
		SET enable_incremental_sort = off';
	is($list->($by_index, 't', 't'), $list->($sorted, 't', 't'), "$when: by value");
	is($list->($by_index, 'k, t DESC', 'k, t'), $list->($sorted, 'k, t DESC', 'k, t'),
		"$when: by two columns");
	is($list->($by_index, 't USING <|, k', 'length(t), ascii(t), k'),
		$list->($sorted, 't USING <|, k', 'length(t), ascii(t), k'),
		"$when: by another order");
	is($node->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT t) FROM l'), '0',
		"$when: unique");
	$node->leanstore_check_ok($when);
}

insert_and_compare(8);
all_the_same('after insertions by several sessions');

my @writers = map { ('-f', "$dir/$_") }
	qw(random.sql@6 ascending.sql@6 descending.sql@6 remove.sql@1);
my $pgbench = $node->start_pgbench('postgres', qw(-n -c 4 -j 2 -T 5), @writers);
$node->safe_psql('postgres', "REINDEX INDEX CONCURRENTLY $_") foreach qw(l_kt l_t l_shape);
unlike($node->finish_pgbench($pgbench), qr/ERROR|aborted/,
	'insertions while indexes are built anew');
all_the_same('after concurrent builds');

$pgbench = $node->start_pgbench('postgres', qw(-n -c 6 -j 2 -T 60), @writers);
$node->poll_query_until('postgres', "SELECT last_value > 3000 FROM up");
$node->stop('immediate');
$node->finish_pgbench($pgbench);
$node->start;
all_the_same('after a crash');
insert_and_compare(3);
$node->safe_psql('postgres', 'REINDEX TABLE l; VACUUM l');
insert_and_compare(2);
all_the_same('after a build');

$node->stop;
done_testing();

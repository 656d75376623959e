# Keys of strings under collations of libc order as strcoll() does, and give the strings back:
# random pairs, by the millions with LS_PAIRS; and indexes on such columns answer as btree's do.
# C.utf8 has to be there; of other locales those that the system has or can make.
#
#   LS_PAIRS=10000000 make test-tap T=085
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pairs = $ENV{LS_PAIRS} // 20000;
my $seed = $ENV{LS_SEED} // 1;
my @locales = ('C.utf8', 'en_US.UTF-8', 'de_DE.UTF-8', 'cs_CZ.UTF-8', 'sv_SE.UTF-8', 'hu_HU.UTF-8',
	'ja_JP.UTF-8');
my @strings = ('labels', 'code points', 'sort keys of strxfrm', 'sort keys of tables',
	'the same, and plain bytes');

# The server finds locales here, and then where they always are.
my $made = PostgreSQL::Test::Utils::tempdir();
foreach my $locale (@locales)
{
	my ($language) = split /\./, $locale;

	next if $language eq 'C' || !-e "/usr/share/i18n/locales/$language";
	IPC::Run::run([ 'localedef', '-i', $language, '-f', 'UTF-8', "$made/$locale" ],
		'>', \my $output, '2>&1');
}
$ENV{LOCPATH} = $made;

my $node = LeanstoreTest->new_node('collations', autovacuum => 'off');
$node->safe_psql('postgres', q{
	CREATE FUNCTION agree(text, strings int, pairs int8, seed int8) RETURNS bool
		AS '$libdir/leanstore_am', 'ls_key_sql_agree' LANGUAGE C;
	CREATE FUNCTION strings(v "any", cmp regproc, descending bool, nulls_first bool) RETURNS int
		AS '$libdir/leanstore_am', 'ls_key_sql_strings' LANGUAGE C;
	CREATE FUNCTION encode_key(v anyelement, cmp regproc, descending bool, nulls_first bool)
		RETURNS bytea AS '$libdir/leanstore_am', 'ls_key_sql_encode' LANGUAGE C;

	-- few characters, so that strings have much in common: letters, accents, case, signs
	SELECT setseed(0.5);
	CREATE TABLE source AS SELECT i AS id, (SELECT string_agg(substr(
			'aAbchHzZéÉöÖůßøĳ -_.,/12½²' || chr(769) || 'αЖ中ー😀',
			1 + floor(random() * 34 + 0 * j)::int, 1), '')
		FROM generate_series(1, i % 9) j) AS s FROM generate_series(1, 4000) i;
	INSERT INTO source SELECT 5000 + i, repeat('long string, ', 30 + i) || i
		FROM generate_series(1, 20) i;
	-- the answers of two tables to one question
	CREATE FUNCTION differs(question text) RETURNS SETOF text LANGUAGE plpgsql AS $$
	DECLARE a text; b text;
	BEGIN
		EXECUTE format('SELECT md5(string_agg(q::text, '','')) FROM (%s) q',
			replace(question, '$', 'heap_t')) INTO a;
		EXECUTE format('SELECT md5(string_agg(q::text, '','')) FROM (%s) q',
			replace(question, '$', 'lean_t')) INTO b;
		IF a IS DISTINCT FROM b THEN RETURN NEXT question; END IF;
	END $$;
});

my $tables = q{
	DROP TABLE IF EXISTS heap_t, lean_t;
	DROP TYPE IF EXISTS pair;
	CREATE TYPE pair AS (s text COLLATE libc, n int);
	CREATE TABLE heap_t (id int, s text COLLATE libc, b char(12) COLLATE libc, n name COLLATE libc,
		a text[] COLLATE libc, p pair, v varchar(500) COLLATE libc) USING heap;
	CREATE TABLE lean_t (LIKE heap_t) USING leanstore;
	CREATE UNIQUE INDEX heap_s ON heap_t (s, id);
	CREATE UNIQUE INDEX lean_s ON lean_t (s, id);
	CREATE INDEX lean_b ON lean_t (b DESC, id) INCLUDE (s);
	INSERT INTO heap_t SELECT id, s, left(s, 12), left(s, 60), ARRAY[left(s, 2), NULL, s],
		ROW(left(s, 3), id % 7)::pair, s FROM source WHERE id < 5000;
	INSERT INTO heap_t (id, s) SELECT id, s FROM source WHERE id > 5000;
	INSERT INTO lean_t SELECT * FROM heap_t;
	CREATE INDEX lean_n ON lean_t (n, id);
	CREATE INDEX lean_a ON lean_t (a NULLS FIRST, id);
	CREATE INDEX lean_p ON lean_t (p DESC NULLS LAST, id);
	CREATE INDEX lean_v ON lean_t (v, id);
	SELECT leanstore_check('lean_t');
};
my @questions = (
	'SELECT s, id FROM $ ORDER BY s, id', 'SELECT s, id FROM $ ORDER BY s DESC, id DESC',
	'SELECT b, id, s FROM $ ORDER BY b DESC, id', 'SELECT b, id FROM $ ORDER BY b, id DESC',
	'SELECT n, id FROM $ ORDER BY n, id', 'SELECT a, id FROM $ ORDER BY a NULLS FIRST, id',
	'SELECT p, id FROM $ ORDER BY p DESC NULLS LAST, id',
	q{SELECT s, id FROM $ WHERE s >= 'b' AND s < 'h' ORDER BY s, id},
	q{SELECT s, id FROM $ WHERE s > 'A-b' AND s <= 'z½' ORDER BY s DESC, id DESC},
	q{SELECT id FROM $ WHERE b = 'a' ORDER BY id}, q{SELECT id FROM $ WHERE s = '' ORDER BY id},
	q{SELECT s, id FROM $ WHERE s = ANY (ARRAY['a', 'A', 'ch', 'é', 'zz']) ORDER BY s, id},
	q{SELECT id FROM $ WHERE v BETWEEN 'c' AND 'É' ORDER BY v, id},
	q{SELECT id FROM $ WHERE a >= ARRAY['b'] AND a < ARRAY['h', NULL] ORDER BY a, id},
	q{SELECT id FROM $ WHERE p < ROW('c', 3)::pair ORDER BY p, id},
	q{SELECT x.id, y.id AS other FROM $ x JOIN $ y ON x.s = y.v WHERE x.id < 2000
		ORDER BY x.s, x.id, y.id},
	q{SELECT id FROM $ WHERE s LIKE 'long string, %' ORDER BY s, id});

foreach my $locale (@locales)
{
	SKIP:
	{
		my ($result) = $node->psql('postgres',
			"DROP COLLATION IF EXISTS libc CASCADE;
			CREATE COLLATION libc (provider = libc, locale = '$locale')");

		skip "the system has no locale $locale", 1 if $result != 0 && $locale ne 'C.utf8';
		is($result, 0, "there is a locale $locale");
		my $form = $node->safe_psql('postgres',
			q{SELECT strings('a'::text COLLATE libc, 'bttextcmp', false, false)});
		$form = 0 if $form eq '';
		note("strings under $locale: $strings[$form]");
		is($form, 1, 'bytes are the keys') if $locale eq 'C.utf8';
		is($node->safe_psql('postgres',
				"SELECT agree('a' COLLATE libc, $form, $pairs, $seed)"), 't',
			"keys of $pairs pairs order as the strings do") if $form > 0;
		is($node->safe_psql('postgres', "SELECT agree('a' COLLATE libc, 3, $pairs, $seed)"), 't',
			'and those of older indexes') if $form == 4;
		is($node->safe_psql('postgres', q{
			SELECT count(*) FROM (SELECT s, lag(s) OVER (ORDER BY id) AS o FROM source) AS t
			WHERE sign(bttextcmp(s COLLATE libc, o)) <> CASE
				WHEN encode_key(s COLLATE libc, 'bttextcmp', false, false)
					< encode_key(o COLLATE libc, 'bttextcmp', false, false) THEN -1
				WHEN s = o THEN 0 ELSE 1 END}), 0, 'and so do they in SQL') if $form > 0;
		$node->safe_psql('postgres', $tables);
		foreach my $settings ('SET enable_sort = off; SET enable_hashjoin = off;
			SET enable_nestloop = off; SET enable_seqscan = off',
			'SET enable_indexonlyscan = off; SET enable_seqscan = off',
			'SET enable_indexscan = off')
		{
			my @different = map {
				$node->safe_psql('postgres', "$settings; SELECT differs(\$q\$$_\$q\$)")
			} @questions;

			is(join('', @different), '', "answers are btree's");
		}
		# another type by the same file; all indexes anew; rows come and go
		$node->safe_psql('postgres', q{ALTER TABLE lean_t ALTER s TYPE varchar COLLATE libc,
			ALTER v TYPE text COLLATE libc; SELECT leanstore_check('lean_t');
			DELETE FROM lean_t WHERE id % 3 = 0; UPDATE lean_t SET s = s || '-', v = 'ch' || v;
			SELECT leanstore_check('lean_t'); REINDEX TABLE CONCURRENTLY lean_t;
			SELECT leanstore_check('lean_t'); VACUUM FULL lean_t;
			SELECT leanstore_check('lean_t')});
		my ($failed, $output, $error) = $node->psql('postgres', q{
			INSERT INTO lean_t (id, s) SELECT id, s FROM lean_t LIMIT 1});
		like($error, qr/duplicate key value/, 'a unique index knows equal strings');
	}
}
$node->stop;
done_testing();

# A C library that orders strings otherwise than the one an index was built with, or contradicts
# itself: such an index is refused, or found; none is built that is wrong.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = LeanstoreTest::compile_library('strcoll_preload', '-ldl');
my $node = LeanstoreTest->new_node('strcoll', autovacuum => 'off');

# Start again; WHICH strings strcoll() is wrong about, if any.
sub start_with
{
	my ($which) = @_;

	$node->stop;
	local $ENV{LD_PRELOAD} = $which ? $library : '';
	local $ENV{LS_STRCOLL} = $which // '';
	$node->start;
	return;
}

# Runs SQL and expects an error like that.
sub fails_ok
{
	my ($sql, $error, $name) = @_;
	my ($result, $stdout, $stderr) = $node->psql('postgres', $sql);

	isnt($result, 0, "$name fails");
	like($stderr, $error, "$name says why");
	return;
}

sub strings_of
{
	my ($index) = @_;

	return $node->safe_psql('postgres', qq{
		SELECT CASE (o >> 2) & 3 WHEN 0 THEN 'labels' WHEN 1 THEN 'code points' ELSE 'sort keys' END
		FROM pg_index, unnest(indoption) o WHERE indexrelid = '$index'::regclass});
}

my $other_version =
	qr/index "t_s_idx" was built with another version of its collation.*HINT:  REINDEX the index/s;

$node->safe_psql('postgres', q{
	CREATE COLLATION libc (provider = libc, locale = 'C.utf8');
	CREATE TABLE t (s text COLLATE libc) USING leanstore;
	INSERT INTO t SELECT md5(i::text) FROM generate_series(1, 3000) i;
	INSERT INTO t VALUES ('odd 1'), ('odd 2');
	CREATE INDEX ON t (s);
});
is(strings_of('t_s_idx'), 'code points', 'strings are their own keys');

# Another order altogether.
start_with('all');
fails_ok("INSERT INTO t VALUES ('x')", $other_version, 'an insertion');
fails_ok("SET enable_seqscan = off; SELECT count(*) FROM t WHERE s > 'x'", $other_version,
	'a scan');
fails_ok("SELECT leanstore_check('t')", $other_version, 'leanstore_check');
$node->safe_psql('postgres', 'REINDEX TABLE t');
is(strings_of('t_s_idx'), 'labels', 'what has no keys has labels');
$node->safe_psql('postgres', "INSERT INTO t VALUES ('x'), ('a'); SELECT leanstore_check('t')");
is($node->safe_psql('postgres', q{
	SET enable_seqscan = off; SET enable_sort = off;
	SELECT bool_and(s <= before) FROM (SELECT s COLLATE "C", lag(s COLLATE "C") OVER () AS before
		FROM (SELECT s FROM t ORDER BY s) AS o) AS p}), 't', 'which are in the new order');

start_with(undef);
fails_ok("SELECT leanstore_check('t')", qr/another order than its comparison function/,
	'leanstore_check of labels in the order of before');
$node->safe_psql('postgres', "REINDEX TABLE t; SELECT leanstore_check('t')");
is(strings_of('t_s_idx'), 'code points', 'REINDEX gives keys again');

# Another one for a few strings, which no trial meets.
start_with('odd');
is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE s = 'odd 1'"), 1, 'is not noticed');
fails_ok("SELECT leanstore_check('t')", qr/another order than its comparison function/,
	'leanstore_check');
fails_ok('REINDEX TABLE t', qr/"t_s_idx": keys under collation "libc" do not order as strcoll/,
	'a build');
fails_ok('CREATE INDEX other ON t (s DESC)', qr/could not create index "other"/, 'another build');
$node->safe_psql('postgres', 'CREATE INDEX other ON t USING btree (s)');
$node->safe_psql('postgres', 'DROP INDEX other');

start_with(undef);
is(strings_of('t_s_idx'), 'code points', 'a build that has failed leaves the index as it was');
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();

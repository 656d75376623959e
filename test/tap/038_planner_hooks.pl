# Plans are used again for other values only where no other module has a say in planning; what
# others have kept before is not used then either.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('planner',
	shared_preload_libraries => 'leanstore_am, leanstore_accel');
my $module = LeanstoreTest::compile_library('planner_hooks',
	'-I' . $node->config_data('--includedir-server'));

$node->safe_psql('postgres', q{
	CREATE EXTENSION leanstore_accel;
	CREATE TABLE t (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 1000) i;
	ANALYZE t;
});

my $look_up = join(' ', map { "SELECT v FROM t WHERE id = $_;" } 1 .. 5);
my $uses = 'SELECT coalesce(sum(uses), 0) FROM leanstore_plan_cache;';
my $rows = join("\n", map { "v$_" } 1 .. 5);

is($node->safe_psql('postgres', "$look_up $uses"), "$rows\n4", 'alone: the plan is kept and used');
is($node->safe_psql('postgres', "LOAD '$module'; $look_up $uses"), "$rows\n0",
	'beside others: planned each time');
is($node->safe_psql('postgres', "$look_up LOAD '$module'; $look_up $uses"), "$rows\n$rows\n4",
	'when they come: not used any more');
like($node->safe_psql('postgres', "$look_up LOAD '$module'; EXPLAIN SELECT v FROM t WHERE id = 7"),
	qr/Disabled: true/, 'and what they say counts');
is($node->safe_psql('postgres', "SELECT leanstore_check('t')"), '', 'no damage');
$node->stop;
done_testing();

# Files of temporary indexes are forgotten by the engine before they go, whatever was rolled back
# before: a shutdown writes all pages, and misses a file that is not there.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('temporary', 'autovacuum' => 'off');
my $table = q{
	SET default_table_access_method = leanstore;
	CREATE TEMP TABLE t (id int PRIMARY KEY);
	INSERT INTO t SELECT generate_series(1, 1000);};
my @histories = (
	'REINDEX TABLE t; ROLLBACK; REINDEX TABLE t',
	'REINDEX TABLE t; ROLLBACK; TRUNCATE t',
	'REINDEX TABLE t; REINDEX TABLE t; ROLLBACK; REINDEX TABLE t; INSERT INTO t VALUES (1001)',
	'SAVEPOINT s; TRUNCATE t; ROLLBACK TO s; REINDEX TABLE t; COMMIT; REINDEX TABLE t',
	'SAVEPOINT s; REINDEX TABLE t; RELEASE s; ROLLBACK; REINDEX TABLE t; DROP TABLE t',
	'DROP TABLE t; ROLLBACK; REINDEX TABLE t',
	'ALTER TABLE t ADD UNIQUE (id); ROLLBACK; ALTER TABLE t ADD UNIQUE (id); REINDEX TABLE t',
	'ALTER TABLE t ALTER id TYPE bigint; ROLLBACK; ALTER TABLE t ALTER id TYPE oid',
	'DROP TABLE t; COMMIT; CREATE TEMP TABLE t (id int PRIMARY KEY); REINDEX TABLE t',
	'TRUNCATE t; COMMIT',
	'DELETE FROM t; REINDEX TABLE t; COMMIT');
my $check = q{SELECT leanstore_check(oid) FROM pg_class WHERE relname = 't' AND
	relpersistence = 't'};

foreach my $history (@histories)
{
	# The check opens the files once more: without it a new one may never have been.
	$node->safe_psql('postgres', "$table BEGIN; $history; $_") foreach ('', $check);
	my $seen = -s $node->logfile;
	$node->stop('fast', fail_ok => 1);
	unlike(slurp_file($node->logfile, $seen), qr/PANIC/, "no file is missed after $history");
	# One that was not stopped cleanly recovers, for the next one's sake.
	$node->{_pid} = undef;
	$node->start;
}
$node->stop('fast');
done_testing();

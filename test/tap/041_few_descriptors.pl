# More files than a process may have open: a table of many partitions where the limit is
# low.  The engine's descriptors are counted among the server's, so others (here a
# parallel query's shared memory, which is a file) find theirs.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $PARTITIONS = 100;
my $DESCRIPTORS = 150;

my $node = LeanstoreTest->new_node('few',
	dynamic_shared_memory_type => 'posix',
	max_locks_per_transaction => 500,
	max_connections => 20,
	autovacuum => 'off');

# As pg_ctl starts it where a process may have few descriptors.
sub start_with_few_descriptors
{
	my $ctl = join ' ', map { "'$_'" } 'pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile,
	  'start';

	is(system('bash', '-c', "ulimit -Sn $DESCRIPTORS && $ctl >/dev/null"), 0, 'starts');
	$node->_update_pid(1);
	return;
}

sub rows_ok
{
	my ($when) = @_;
	my $rows = 3 * $PARTITIONS;

	# By one session: it looks at every file before it needs descriptors for other things.
	is($node->safe_psql('postgres', q{
		SELECT count(*) FROM p WHERE id >= 0;
		SET enable_seqscan = off;
		SELECT count(*) FROM p WHERE id >= 0;
		SET debug_parallel_query = on; SET min_parallel_table_scan_size = 0; RESET enable_seqscan;
		SELECT count(*) FROM p WHERE v > 0}), "$rows\n$rows\n$rows", "all rows $when");
	return;
}

$node->safe_psql('postgres', qq{
	CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY LIST (id);
	DO \$\$ BEGIN FOR i IN 0 .. $PARTITIONS - 1 LOOP
		EXECUTE format('CREATE TABLE p%s PARTITION OF p FOR VALUES IN (%s, %s, %s) USING leanstore',
			i, 3 * i, 3 * i + 1, 3 * i + 2);
	END LOOP; END \$\$});
$node->stop('fast');
start_with_few_descriptors();
$node->safe_psql('postgres',
	"INSERT INTO p SELECT i, 1 FROM generate_series(0, 3 * $PARTITIONS - 1) i");
rows_ok('when all files are new');
$node->stop('fast');
start_with_few_descriptors();
rows_ok('when all are read');
unlike(slurp_file($node->logfile), qr/Too many open files/, 'nobody had to do without');
$node->stop('fast');

done_testing();

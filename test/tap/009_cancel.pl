# A statement that waits for the engine can be cancelled.  The engine worker is
# stopped, so that no thread empties the log buffer that the statement fills.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('cancel', 'leanstore.log_buffer_size' => '64kB');
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, pad text) USING leanstore;
	INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 20000) i;
	COPY t TO PROGRAM 'cat > t.copy';
});
my $want = '20000|200010000';

my %statements = (
	'INSERT' => q{INSERT INTO t SELECT i, repeat('y', 100) FROM generate_series(1, 100000) i},
	'COPY'   => q{COPY t FROM 't.copy'},
	'UPDATE' => q{UPDATE t SET pad = repeat('z', 100)},
	'DELETE' => q{DELETE FROM t},
	'CREATE INDEX' => q{CREATE INDEX t_pad ON t USING leanstore (id, pad COLLATE "C")});

foreach my $name (sort keys %statements)
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query_safe(q{SET statement_timeout = '1s'});
	my $log_end = -s $node->logfile;
	my $worker  = $node->engine_worker_pid;

	kill 'STOP', $worker or die "cannot stop the engine worker: $!";
	$session->query_until(qr/started/, "\\echo started\n$statements{$name};\n");
	my $cancelled =
		eval { $node->wait_for_log(qr/canceling statement due to statement timeout/, $log_end); 1 };
	kill 'CONT', $worker;
	ok($cancelled, "$name is cancelled although the engine does not move");

	# The rollback has to log as well, so the session answers now.
	is($session->query('SELECT count(*), sum(id) FROM t'), $want, "$name has left nothing");
	$session->quit;
	$node->leanstore_check_ok($name);
}

$node->stop;
done_testing();

# The engine worker cannot start a thread, as the server's user has too many: the server's log tells
# what is held up, and it goes on when there are fewer.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = LeanstoreTest->new_node('no_thread');
$node->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY) USING leanstore;
	INSERT INTO t SELECT generate_series(1, 1000)});
$node->leanstore_check_ok('before');
my $worker = $node->engine_worker_pid;
my ($allowed) = slurp_file("/proc/$worker/limits") =~ /^Max processes\s+(\S+)\s+(\S+)/m;
my $allow = sub { system_or_bail('prlimit', '--pid', $worker, "--nproc=$_[0]:$allowed") };
my $held_up = qr/leanstore could not stop its store: could not start a thread: .*
.*HINT:  It is tried again/;
my $log_end = -s $node->logfile;

$allow->(1);
system_or_bail('pg_ctl', '--pgdata', $node->data_dir, '--mode', 'fast', '--no-wait', 'stop');
$node->wait_for_log($held_up, $log_end);
usleep(1_000_000);
is(scalar(() = slurp_file($node->logfile, $log_end) =~ /$held_up/g), 1, 'it is told once');
is($node->engine_worker_pid, $worker, 'the server waits for its store');
$allow->($allowed);
$node->stop;

$node->start;
unlike(slurp_file($node->logfile, $log_end), qr/rolled back/, 'no recovery is needed');
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();

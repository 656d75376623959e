# Kills the server again and again, in every way, under clients that remember
# what was acknowledged.  See CrashDriver.pm for what they do and what is
# checked.
#
# Environment: CRASHES (25), CRASH_SEED (random; the one to repeat is printed),
# CRASH_KIND (only this kind), CRASH_CLIENTS (4), CRASH_SYNC (synchronous_commit
# of the clients; with off the test must fail: this proves that it can),
# CRASH_BATCH_ROWS (5000), CRASH_LARGE_MB (4; 100 in a long run).
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use Test::More;

my $crashes = $ENV{CRASHES} // 25;
my $seed = $ENV{CRASH_SEED} // int(rand 2**31);
note "CRASH_SEED=$seed CRASHES=$crashes";
print STDERR "# CRASH_SEED=$seed\n";

# Small, so that pages are evicted, segments change and checkpoints are due.
my $node = LeanstoreTest->new_node('crash',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.max_wal_size' => '32MB',
	'leanstore.checkpoint_timeout' => '2s',
	shared_buffers => '16MB',
	checkpoint_timeout => '30s',
	max_prepared_transactions => 20,
	autovacuum_naptime => '1s');
my $driver = CrashDriver->new($node,
	seed => $seed,
	clients => $ENV{CRASH_CLIENTS} // 4,
	two_phase => 0.2,
	batch_rows => $ENV{CRASH_BATCH_ROWS} // 5_000,
	large_mb => $ENV{CRASH_LARGE_MB} // 4,
	synchronous_commit => $ENV{CRASH_SYNC} // 'on');

$driver->create_tables;
# Each kind once, then whatever comes.
my @kinds = CrashDriver->kinds;
my $good = 1;
foreach my $round (1 .. $crashes)
{
	$driver->start_over if $round > 1 && $round % 50 == 1;
	my $kind = $ENV{CRASH_KIND} // ($round <= @kinds ? $kinds[ $round - 1 ] : $driver->random_kind);
	# After damage every further round would only repeat it.
	$good = $driver->round($kind) or last;
}
my ($acknowledged) = $driver->counts;
cmp_ok($acknowledged, '>', 0, 'transactions were acknowledged');
$driver->canary_ok if $good;
$node->stop('fast');
done_testing();

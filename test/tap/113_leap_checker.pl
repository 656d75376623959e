# Random transactions on three nodes that are killed and cut off, with messages late, doubled and
# lost: nothing is lost, owned twice or half applied, histories are serializable.  And errors that
# are planted are found.
#
# Environment: LEAP_SEED; LEAP_SECONDS, of the run without an error (8); LEAP_PLANTS=all, which
# plants all ten errors and not the first two only.
use strict;
use warnings FATAL => 'all';

use LeapChecker;
use LeapCluster;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{LEAP_SEED} // time() ^ $$;
my $cluster = LeapCluster->new(3, 'leap.settle_interval' => '100ms', 'leap.timeout' => '1s',
	'leap.minimum_hold' => '1ms', max_connections => 60);
my @nodes = $cluster->nodes;

plan skip_all => 'built without faults' if ($nodes[0]->psql('postgres',
	q{SELECT leap.set_fault('none', 1)}))[0] != 0;
note "LEAP_SEED=$seed";

# The order of LeapPlanted in leap/ls_leap.h.
my @planted = qw(forget_payload ignore_epochs keep_rows no_lock same_epoch old_snapshot keep_held
  own_absent tell_early lose_children);

sub checker
{
	my ($planted, $chaos) = @_;

	my $checker = LeapChecker->new($cluster, seed => $seed);

	foreach my $node (@nodes)
	{
		$node->safe_psql('postgres', "ALTER SYSTEM SET leap_debug.chaos = $chaos;
			ALTER SYSTEM SET leap_debug.planted = $planted");
		$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	}
	return $checker;
}

{
	my $checker = checker(0, 3);
	my @complaints = $checker->run(seconds => $ENV{LEAP_SECONDS} // 8);

	ok(!@complaints, "LEAP_SEED=$seed: $checker->{transactions} transactions, "
		. "$checker->{killed} kills, $checker->{cut} cuts")
	  or diag(join "\n", grep { defined } @complaints[ 0 .. 120 ]);
	ok($checker->{transactions} > 20, 'and something was done');
	$_->leanstore_check_ok($_->name) foreach @nodes;
}
foreach my $i (1 .. @planted)
{
	last if $i > 2 && ($ENV{LEAP_PLANTS} // '') ne 'all';
	my @complaints;

	foreach my $attempt (1 .. 4)
	{
		@complaints = checker($i, 6)->run(seconds => 4, kills => 0);
		last if @complaints;
	}
	ok(scalar @complaints, "found: $planted[$i - 1]");
	note join "\n", @complaints[ 0 .. ($#complaints < 3 ? $#complaints : 3) ] if @complaints;
}
$_->stop('immediate') foreach @nodes;
done_testing();

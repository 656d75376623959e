# A primary, a hot standby and a logical subscriber are killed again and again under clients: every
# commit that is seen on one is seen on the others, in order.  See ThreeServers.pm for what is
# checked.
#
# Environment: ROUNDS (9, of three kills each), THREE_SEED (random; the one to repeat is printed).
use strict;
use warnings FATAL => 'all';

use Test::More;
use ThreeServers;

my $rounds = $ENV{ROUNDS} // 9;
my $seed = $ENV{THREE_SEED} // int(rand 2**31);
note "THREE_SEED=$seed ROUNDS=$rounds";
print STDERR "# THREE_SEED=$seed\n";

my $servers = ThreeServers->new(seed => $seed);
my $good = 1;

foreach my $round (1 .. $rounds)
{
	$servers->start_over if $round > 1 && $round % 15 == 1;
	# After damage every further round would only repeat it.
	$good = $servers->round or last;
}
$servers->canary_ok if $good;
$servers->stop;
done_testing();

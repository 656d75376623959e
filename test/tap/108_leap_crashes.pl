# A node dies at each step of a hand-over, in each of the three patterns of messages: no row is
# lost, none is on two nodes, no transaction is half done.
#
# Environment: LEAP_STEPS=all has all steps in all patterns, and not some in the longest one only.
#
# LEAP-1, LEAP-2, LEAP-3, LEAP-4: the one row of a key is counted over all nodes after each crash,
# and its value is that of the transactions that were acknowledged; the one in doubt may count.
use strict;
use warnings FATAL => 'all';

use LeapCluster;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $cluster = LeapCluster->new(3, 'leap.settle_interval' => '100ms');
my @nodes = $cluster->nodes;

plan skip_all => 'built without faults' if ($nodes[0]->psql('postgres',
	q{SELECT leap.set_fault('none', 1)}))[0] != 0;
$cluster->create('account', 'id int PRIMARY KEY, v int NOT NULL');

# owner of the key before, by pattern; the home is node 2, the requester node 0 (or 2).
my %patterns = (
	'RP-O' => { requester => 2, owner => 1, home => 2 },
	'R-PO' => { requester => 0, owner => 2, home => 2 },
	'R-P-O' => { requester => 0, owner => 1, home => 2 });
my %steps = (
	own_answered => 'requester', own_accepted => 'requester', own_before_commit => 'requester',
	own_after_commit => 'requester', give_locked => 'owner', give_written => 'owner',
	give_promised => 'owner', give_after_commit => 'owner', settle_called => 'requester',
	settle_clearing => 'owner');
# What the shorter patterns do differently; the rest is the same code.
my %other = map { $_ => 1 } qw(give_promised give_after_commit own_after_commit);
# A home that is the requester, or the owner, has nothing to tell, or to clear, there.
my %impossible = map { $_ => 1 } 'RP-O settle_called', 'R-PO settle_clearing';
my $used = 0;

sub answers
{
	my ($node) = @_;
	my ($status) = eval { $node->psql('postgres', 'SELECT 1', timeout => 5) };

	return defined $status && $status == 0;
}

# Runs SQL until it succeeds: a node that has died comes back.
sub persistently
{
	my ($node, $sql) = @_;
	my $error = '';

	foreach (1 .. 100)
	{
		my ($status, $out, $err) = eval { $node->psql('postgres', $sql) };
		return $out if defined $status && $status == 0;
		$error = $err // $@;
		Time::HiRes::usleep(100_000);
	}
	die "no success: $sql: $error";
}

sub one_row_ok
{
	my ($key, $allowed, $name) = @_;
	my @rows = map {
		split /\n/, persistently($_, "SET leap.scans = local;
			SELECT v FROM account WHERE id = $key + 0 * random()")
	} @nodes;

	return ok(@rows == 1 && (grep { $_ eq $rows[0] } @$allowed), $name)
	  || diag("rows: @rows; allowed: @$allowed");
}

foreach my $pattern (sort keys %patterns)
{
	my %who = %{ $patterns{$pattern} };

	foreach my $step (sort keys %steps)
	{
		next if $impossible{"$pattern $step"};
		next if ($ENV{LEAP_STEPS} // '') ne 'all'
		  && ($pattern eq 'R-P-O' ? $step =~ /give_locked|own_accepted/ : !$other{$step});
		my $key = $cluster->key_of_home('account', $who{home} + 1, $used++);
		my $requester = $nodes[ $who{requester} ];
		my $victim = $nodes[ $who{ $steps{$step} } ];

		persistently($nodes[ $who{owner} ], "INSERT INTO account VALUES ($key, 1)");
		# The other nodes are told before the fault is set: it is for this hand-over.
		foreach my $node (@nodes)
		{
			$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM leap.key
				WHERE NOT told OR payload IS NOT NULL') or die 'not settled';
		}
		my $checkpointer = $victim->child_pid('checkpointer');
		$victim->safe_psql('postgres', "SELECT leap.set_fault('$step', 0)");
		my ($status) = eval {
			$requester->psql('postgres', "UPDATE account SET v = v + 1 WHERE id = $key") };
		my $acknowledged = defined $status && $status == 0;
		$victim->wait_for_restart($checkpointer);
		one_row_ok($key, $acknowledged ? [2] : [ 1, 2 ], "$pattern, $step: one row")
		  if $step =~ /^settle|^give_(?:locked|written)/;
		my $before = persistently($nodes[1], "SELECT v FROM account WHERE id = $key");
		ok($acknowledged ? $before == 2 : ($before == 1 || $before == 2),
			"$pattern, $step: nothing lost") or diag("$acknowledged, $before");
		my $last = $before + 1;
		is(persistently($requester, "UPDATE account SET v = v + 1 WHERE id = $key;
			SELECT v FROM account WHERE id = $key"), $last, "$pattern, $step: it goes on");
		one_row_ok($key, [$last], "$pattern, $step: one row at the end");
	}
}

# --- LEAP-9: a transaction goes on while the owner still commits the gift, and waits for its end
# before its own commit.  That it must: the step give_promised above.

{
	my $key = $cluster->key_of_home('account', 2, $used++);
	my $session = $nodes[0]->background_psql('postgres');
	my $begin;

	persistently($nodes[1], "INSERT INTO account VALUES ($key, 1)");
	persistently($nodes[0], 'SELECT 1');
	$session->query_safe("SELECT leap.call(2, 'SELECT 1')");
	$nodes[1]->safe_psql('postgres', "SELECT leap.set_fault('give_promised', 3000)");
	$begin = time();
	$session->query_safe("BEGIN; UPDATE account SET v = v + 1 WHERE id = $key");
	my $answered = time() - $begin;
	$session->query_safe('COMMIT');
	my $committed = time() - $begin;
	ok($committed - $answered > 0.5,
		"an answer after $answered s, a commit after $committed s");
	is(persistently($nodes[2], "SELECT v FROM account WHERE id = $key"), '2', 'it is done');

	# Promises that are not waited for do no harm to the next transaction.
	$nodes[1]->safe_psql('postgres', "SELECT leap.own('account', '{$key}')");
	$nodes[1]->safe_psql('postgres', "SELECT leap.set_fault('give_promised', 1000)");
	$session->query_safe("BEGIN; UPDATE account SET v = v + 1 WHERE id = $key; ROLLBACK");
	$session->query_safe("UPDATE account SET v = v + 1 WHERE id = $key");
	$session->quit;
	one_row_ok($key, [3], 'rolled back, and done again');
}

# --- A key that cannot come to its new owner does not hold back others that were given to it.

{
	my ($bad, $good) = map { $cluster->key_of_home('account', 2, $used++) } 1 .. 2;
	my $in_flight = "SELECT string_agg(key, ',') FROM leap.key
		WHERE payload IS NOT NULL AND key IN ('$bad', '$good')";

	persistently($nodes[1], "INSERT INTO account VALUES ($bad, 1), ($good, 1)");
	$nodes[0]->safe_psql('postgres', "ALTER TABLE account ADD CONSTRAINT bad CHECK (id <> $bad)");
	my ($status) = $nodes[0]->psql('postgres', "SELECT leap.own('account', '{$bad,$good}')");
	isnt($status, 0, 'two keys are given, and one of them is refused');
	ok($nodes[1]->poll_query_until('postgres', $in_flight, $bad), 'the other one comes');
	$nodes[0]->safe_psql('postgres', 'ALTER TABLE account DROP CONSTRAINT bad');
	ok($nodes[1]->poll_query_until('postgres', "SELECT ($in_flight) IS NULL"),
		'and the first one when it can');
	one_row_ok($_, [1], "one row of $_") foreach $bad, $good;
}
foreach my $node (@nodes)
{
	ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM leap.key
		WHERE NOT told OR payload IS NOT NULL'), 'settled: ' . $node->name);
	$node->leanstore_check_ok($node->name);
	$node->stop;
}
done_testing();

# ThreeServers: a primary, its hot standby and a logical subscriber, each of which is killed while
# clients change the primary, and whether what is seen on one is seen on the others.
#
#   my $servers = ThreeServers->new(seed => 7);
#   $servers->round foreach 1 .. 9;      # three kills in each
#   $servers->stop;
#
# Clients and checks of the primary are CrashDriver's.  Beside them an observer of the standby and
# one of the subscriber take one snapshot after the other.  In each
#   T1 all that must hold in any snapshot of the primary holds (CrashDriver's V4, V5, V7 to V9): no
#      transaction is there by half, and none without what it had seen;
#   T2 of each client there are its transactions up to one, as the primary has them: none is
#      missing, none came twice, none that the primary then lost, by a crash or otherwise;
#   T3 nothing is gone that an earlier snapshot had, while the server was up.
# When both have caught up,
#   T4 all tables are equal, and leanstore_check finds no damage on any of the three.
package ThreeServers;

use strict;
use warnings FATAL => 'all';

use Carp;
use CrashDriver;
use LeanstoreTest;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More ();
use Time::HiRes qw(time usleep);

my @TABLES = qw(fk_child fk_op fk_parent ls_account ls_batch ls_head ls_item ls_journal ls_large
	ls_op ls_seen mx_heap_account mx_heap_journal mx_ls_account mx_ls_journal);

# Small, so that pages are evicted, segments change, checkpoints are due, and changes are streamed
# before their transactions end.
my %SMALL = (
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.max_wal_size' => '64MB',
	'leanstore.checkpoint_timeout' => '2s',
	shared_buffers => '16MB',
	checkpoint_timeout => '30s',
	max_prepared_transactions => 30,
	autovacuum_naptime => '1s',
	wal_retrieve_retry_interval => '100ms',
	logical_decoding_work_mem => '64kB');

# new(seed =>, clients =>)
sub new
{
	my ($class, %options) = @_;
	my $primary = LeanstoreTest->prepare_node('primary', init => { allows_streaming => 'logical' },
		%SMALL, 'leanstore.log' => 'wal');
	my $self = bless { primary => $primary, round => 0, observers => {}, starts => 0,
		directory => PostgreSQL::Test::Utils::tempdir() }, $class;

	$self->{driver} = CrashDriver->new($primary, seed => $options{seed}, two_phase => 0.1,
		clients => $options{clients} // 3, batch_rows => 500, large_mb => 1, heads => 1);
	$primary->start;
	$primary->safe_psql('postgres', 'CREATE EXTENSION leanstore_am');
	$self->{driver}->create_tables;
	$primary->safe_psql('postgres', q{CREATE PUBLICATION p FOR ALL TABLES;
		SELECT pg_create_physical_replication_slot('standby')});
	$primary->backup('backup');
	$self->_create_standby;
	$self->_create_subscriber;
	return $self;
}

sub _create_standby
{
	my ($self) = @_;
	$self->{standby} = LeanstoreTest->new_standby('standby', $self->{primary}, 'backup',
		primary_slot_name => 'standby');
	return;
}

sub _create_subscriber
{
	my ($self) = @_;
	my $subscriber = LeanstoreTest->new_node('subscriber', %SMALL,
		max_logical_replication_workers => 8, max_worker_processes => 16);
	my $connection = $self->{primary}->connstr . ' dbname=postgres';

	CrashDriver->new($subscriber, seed => $self->{driver}{seed}, clients => 0)->create_tables;
	$subscriber->safe_psql('postgres', 'TRUNCATE ' . join(', ', @TABLES));
	$subscriber->safe_psql('postgres', qq{CREATE SUBSCRIPTION s CONNECTION '$connection'
		PUBLICATION p WITH (streaming = parallel, two_phase = true)});
	$subscriber->wait_for_subscription_sync($self->{primary}, 's');
	$self->{subscriber} = $subscriber;
	return;
}

# One round: load, the standby and the subscriber are killed under it, then the primary.  Returns
# whether all is well.
sub round
{
	my ($self) = @_;
	my @order = rand() < 0.5 ? qw(standby subscriber) : qw(subscriber standby);
	my @kinds = map { (qw(all all recovery immediate clean))[ rand 5 ] } @order;

	$self->{round}++;
	$self->_start_observers;
	my $good = $self->{driver}->round((qw(all all postmaster recovery immediate clean))[ rand 6 ],
		sub {
			foreach my $i (0, 1)
			{
				usleep(rand 700_000);
				CrashDriver::crash($self->{ $order[$i] }, $kinds[$i]);
			}
			usleep(100_000 + rand 700_000);
		});
	$self->_catch_up;
	my @complaints = $self->_stop_observers;

	push @complaints, $self->_differences;
	return Test::More::ok(!@complaints, "round $self->{round}: $order[0] ($kinds[0]), $order[1] "
		. "($kinds[1]): what is seen on one is seen on the others") && $good
	  || Test::More::diag(join "\n", @complaints);
}

# Forgets all that was done so far, so that checks stay fast in long runs.
sub start_over
{
	my ($self) = @_;

	$self->{driver}->start_over;
	$self->_catch_up;
	return;
}

sub stop
{
	my ($self) = @_;

	$self->{$_}->stop('fast') foreach qw(subscriber standby primary);
	return;
}

sub _catch_up
{
	my ($self) = @_;

	$self->{primary}->wait_for_catchup($self->{standby}, 'replay');
	$self->{primary}->wait_for_catchup('s', 'replay');
	return;
}

# T4.
sub _differences
{
	my ($self) = @_;
	my $query = 'SELECT * FROM (' . (join ' UNION ALL ', map { "SELECT '$_', count(*),
		md5(string_agg(md5(t::text), '' ORDER BY t::text COLLATE \"C\")) FROM $_ t" } @TABLES)
	  . ') x ORDER BY 1';
	my @wanted = split /\n/, $self->{primary}->safe_psql('postgres', $query);
	my @complaints;

	foreach my $name (qw(standby subscriber))
	{
		my @found = split /\n/, $self->{$name}->safe_psql('postgres', $query);
		my (undef, @damage) = $self->{$name}->leanstore_check;

		push @complaints, map { "$name: $_" } @damage, map { "$found[$_], not $wanted[$_]" }
			grep { $found[$_] ne $wanted[$_] } 0 .. $#TABLES;
	}
	return @complaints;
}

# --- Observers --------------------------------------------------------------

# In one snapshot: "at START", "CLIENT HEAD COUNT" of each client, and what is wrong.
sub _observation
{
	my ($self) = @_;
	my %zero = $self->{driver}->zero_queries;

	return join "\n", 'BEGIN ISOLATION LEVEL REPEATABLE READ;',
		q{SELECT 'at ' || extract(epoch FROM pg_postmaster_start_time());},
		q{SELECT format('%s %s %s', h.client, h.n, count(s)) FROM ls_head h LEFT JOIN ls_seen s
			USING (client) GROUP BY h.client, h.n;},
		(map { my $query = $zero{$_} =~ s/^SET enable_seqscan = off;//r;
			"SELECT 'wrong: $_: ' || coalesce(x, -1) FROM ($query) AS q (x)
				WHERE x IS DISTINCT FROM 0;" }
			sort keys %zero), 'COMMIT;';
}

sub _file { my ($self, $name) = @_; return "$self->{directory}/$name.$self->{starts}"; }

sub _start_observers
{
	my ($self) = @_;

	$self->{starts}++;
	foreach my $name (qw(standby subscriber))
	{
		my $pid = fork // croak "cannot fork: $!";

		if ($pid == 0)
		{
			# Not exit: that would run the test's END blocks.
			my $done = eval { $self->_observe($name); 1 };
			print STDERR "observer of $name: $@" unless $done;
			POSIX::_exit($done ? 0 : 1);
		}
		$self->{observers}{$name} = $pid;
	}
	return;
}

# What may end a session instead of an answer: crashes, conflicts, and a snapshot that is older than
# what the standby's engine worker knows (docs/limits.md).
my $ALLOWED = qr/conflict\ with\ recovery|terminating\ connection|connection\ to\ server
	|in\ the\ middle\ of\ a\ crash|taken\ before\ they\ could\ be\ read/x;

# Takes snapshots until there is a file that says `stop`.  A session that cannot begin, or is lost,
# has seen nothing.
sub _observe
{
	my ($self, $name) = @_;
	my $query = $self->_observation;

	open(my $file, '>', $self->_file($name)) or croak "cannot open: $!";
	$file->autoflush(1);
	until (-e $self->_file('stop'))
	{
		my ($status, $out, $error) = eval { $self->{$name}->psql('postgres', $query,
			on_error_stop => 1) };

		if (!defined $status || $status == 2) { usleep(20_000); }
		elsif ($status == 0) { print $file "$out\n" or croak "cannot write: $!"; }
		elsif ($error !~ $ALLOWED)
		{
			print $file "wrong: $error\n" =~ s/\n(?=.)/ /gr or croak "cannot write: $!";
		}
	}
	return;
}

sub _stop_observers
{
	my ($self) = @_;
	my @complaints;

	append_to_file($self->_file('stop'), '');
	foreach my $name (sort keys %{ $self->{observers} })
	{
		waitpid($self->{observers}{$name}, 0);
		push @complaints, "the observer of the $name failed" if $? != 0;
		push @complaints, map { "$name: $_" } $self->_judge(slurp_file($self->_file($name)));
	}
	return @complaints;
}

# T1 to T3 of what an observer has written down.
sub _judge
{
	my ($self, $seen) = @_;
	my ($start, %last) = ('');
	my %counts;
	my @complaints;

	foreach my $line (split /\n/, $seen)
	{
		if ($line =~ /^at (.*)/)
		{
			%last = () if $1 ne $start;
			$start = $1;
		}
		elsif ($line =~ /^(\d+) (\d+) (\d+)$/)
		{
			push @complaints, "$1 was at $last{$1}, and is at $2" if ($last{$1} // 0) > $2;
			push @complaints, "$1 at $2 has $3 transactions, and $counts{$1}{$2}"
				if ($counts{$1}{$2} //= $3) != $3;
			$last{$1} = $2;
		}
		else { push @complaints, $line; }
	}
	return 'nothing was seen' unless %counts;
	my $values = join ', ', map {
		my $client = $_;
		map { "($client, $_, $counts{$client}{$_})" } keys %{ $counts{$client} }
	} keys %counts;
	return @complaints, map { "$_, but not on the primary" } split /\n/,
		$self->{primary}->safe_psql('postgres', qq{
			SELECT format('client %s has %s transactions up to %s', client, rows, head)
			FROM (VALUES $values) v (client, head, rows), LATERAL
				(SELECT count(*), max(s.n) FROM ls_seen s WHERE s.client = v.client AND n <= head) x
			WHERE (rows, head) IS DISTINCT FROM (x.count, coalesce(x.max, 0))});
}

# Proves that the checks can fail: a transaction is taken away, and one is changed by half, on the
# subscriber only; then what it saw is told wrongly.  To be called last.
sub canary_ok
{
	my ($self) = @_;

	# Before an observer looks: one that saw the transaction would hold it against itself.
	$self->{subscriber}->safe_psql('postgres', q{
		DELETE FROM ls_seen WHERE (client, n) = (SELECT client, n FROM ls_seen ORDER BY n LIMIT 1);
		UPDATE ls_account SET balance = balance + 1 WHERE id = 1});
	$self->_start_observers;
	usleep(1_500_000);
	$self->{subscriber}->safe_psql('postgres', q{UPDATE ls_head SET n = n - 1 WHERE n =
		(SELECT max(n) FROM ls_head)});
	usleep(1_500_000);
	my $complaints = join "\n", $self->_stop_observers, $self->_differences;
	my @wanted = (qr/subscriber: client \d+ has \d+ transactions up to \d+, but not on the primary/,
		qr/subscriber: wrong: sum of ls_account/, qr/subscriber: \d+ was at \d+, and is at/,
		qr/subscriber: ls_account\|.*not ls_account/);
	my @missed = grep { $complaints !~ $_ } @wanted;

	return Test::More::ok(!@missed, 'self-test: what differs is found')
	  || Test::More::diag("not found: @missed\nfound: $complaints");
}

1;

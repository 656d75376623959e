# SerializableChecker: random transactions of several sessions, and whether what
# they have read and written can be explained by some order of them.
#
# Every value written is unique, and says which one it replaced, so the versions
# of a row are in order.  A session prints what it reads and writes; only what
# committed counts.  Afterwards the transactions are nodes of a graph:
#
#   T -> U  U replaced the version of T (ww), or read it (wr),
#           or replaced what T had read (rw).
#
# The transactions are serializable if and only if the graph has no cycle.
#
# Rows come and go, too.  A reader of a group that does not find a row has read a
# version of it that is in another group, or none.  Where the versions in
# that group are all at the beginning of the row's history or all at its end, it is
# clear from which side; otherwise nothing is concluded.
#
#   my $run = SerializableChecker::run($node, tables => ['a', 'h'], level => 'SERIALIZABLE',
#       clients => 6, seconds => 10, seed => 42);
#   $run->{committed}, $run->{edges}   # how many
#   $run->{cycle}                      # undef, or its transactions and edges as text
#
# Longer runs are cut into rounds, each with new tables and a graph of its own; the
# first cycle ends the run.
package SerializableChecker;

use strict;
use warnings FATAL => 'all';

use Time::HiRes qw(time);

my $FIXED = 8;        # rows that are never deleted
my $GROUPS = 3;
my $ROUND_SECONDS = 8;    # the search takes longer by the square of it

# --- Load ---------------------------------------------------------------------

# One operation as SQL; it prints lines  what|table|key|group|version[|replaced], and
# g|table|groups  before the rows of these.
sub _operation
{
	my ($table, $value, $read_only) = @_;
	my $key = int(rand($FIXED));
	my $group = int(rand($GROUPS));
	my $choice = $read_only ? rand(4) : rand(10);

	# of IN lists the scan visits single places
	my $other_key = int(rand($FIXED));
	my $other_group = int(rand($GROUPS));

	return "SELECT 'r', '$table', k, g, v FROM $table WHERE k = $key;" if $choice < 1;
	return "SELECT 'r', '$table', k, g, v FROM $table WHERE k IN ($key, $other_key);"
		if $choice < 1.5;
	return "SELECT 'r', '$table', k, g, v FROM $table WHERE k = $key"
		. ($read_only ? ';' : ' FOR UPDATE;') if $choice < 2;
	return "SELECT 'g', '$table', $group;
		SELECT 'r', '$table', k, g, v FROM $table WHERE g = $group;" if $choice < 3;
	return "SELECT 'g', '$table', '$group,$other_group';"
	  . " SELECT 'r', '$table', k, g, v FROM $table WHERE g IN ($group, $other_group);"
	  if $choice < 4;
	return "UPDATE $table SET v = $value WHERE k = $key
		RETURNING 'w', '$table', new.k, new.g, new.v, old.v;" if $choice < 7;
	return "INSERT INTO $table VALUES ($value, $group, $value) RETURNING 'w', '$table', k, g, v, 0;"
		if $choice < 8;
	return "UPDATE $table SET v = $value, g = $group WHERE k = $key
		RETURNING 'w', '$table', new.k, new.g, new.v, old.v;"
	  if $choice < 9;
	return "DELETE FROM $table
		WHERE k = (SELECT max(k) FROM $table WHERE g = $group AND k >= $FIXED)"
	  . " RETURNING 'w', '$table', k, -1, $value, v;";
}

sub _transaction
{
	my ($number, $level, $tables, $next_value) = @_;
	my $read_only = rand() < 0.1;
	my $sql = "\\echo T $number\nBEGIN ISOLATION LEVEL $level"
		. ($read_only ? ' READ ONLY' : '') . ";\n";

	$sql .= 'SET LOCAL enable_' . (rand() < 0.5 ? 'indexscan' : 'bitmapscan') . " = off;\n"
		if rand() < 0.3;
	$sql .= "SET LOCAL enable_seqscan = on;\n" if rand() < 0.05;
	for (0 .. int(rand(4)))
	{
		my $in_savepoint = rand() < 0.05;

		$sql .= "SAVEPOINT s;\n" if $in_savepoint;
		$sql .= _operation($tables->[ rand @$tables ], $$next_value++, $read_only) . "\n";
		$sql .= "RELEASE s;\n" if $in_savepoint;
	}
	return $sql . "COMMIT;\n";
}

# A child that feeds one psql until the time is over.
sub _client
{
	my ($node, $number, $end, $seed, $file, %o) = @_;
	my $pid = fork() // die "cannot fork: $!";
	return $pid if $pid;

	my $value = ($number + 1) * 10_000_000;
	my $transaction = $number * 10_000_000;
	my $failed = 1;

	srand($seed * 1000 + $number);
	$ENV{PGOPTIONS} = '-c enable_seqscan=off -c synchronous_commit=off -c deadlock_timeout=100ms';
	if (open my $psql, '|-',
		"psql -XAt -d '" . $node->connstr('postgres') . "' >'$file' 2>/dev/null")
	{
		$psql->autoflush(1);
		print {$psql} _transaction($transaction++, $o{level}, $o{tables}, \$value)
			while time() < $end;
		$failed = !close $psql;
	}
	# no END blocks of the parent
	require POSIX;
	POSIX::_exit($failed ? 1 : 0);
}

# --- What happened --------------------------------------------------------------

# The transactions that committed: number -> list of [what, table, key, group, version, replaced].
sub _read_history
{
	my ($file, $history) = @_;
	my ($number, @operations);

	open my $in, '<', $file or die "cannot read $file: $!";
	while (my $line = <$in>)
	{
		chomp $line;
		if ($line =~ /^T (\d+)$/) { ($number, @operations) = ($1) }
		elsif ($line eq 'COMMIT') { $history->{$number} = [@operations] if @operations }
		elsif ($line =~ /^[rgw]\|/) { push @operations, [ split /\|/, $line ] }
	}
	return;
}

# Versions by table and key: in order, each [version, group, writer].
sub _order_versions
{
	my ($history) = @_;
	my (%next, %versions);

	for my $t (keys %$history)
	{
		for my $op (@{ $history->{$t} })
		{
			my ($what, $table, $key, $group, $version, $replaced) = @$op;
			$next{"$table $key"}{$replaced} = [ $version, $group, $t ] if $what eq 'w';
		}
	}
	for my $row (keys %next)
	{
		# the rows that are there from the beginning have the version -1
		my $version = exists $next{$row}{0} ? 0 : -1;
		my ($key) = $row =~ / (\d+)$/;
		my @chain = ([ $version, $version == 0 ? -1 : $key % $GROUPS, undef ]);

		while (my $following = $next{$row}{$version})
		{
			push @chain, $following;
			$version = $following->[0];
		}
		die "versions of row $row are not in one line" if @chain != 1 + keys %{ $next{$row} };
		$versions{$row} = \@chain;
	}
	return \%versions;
}

# Edges: from -> to -> why.
sub _edges
{
	my ($history, $versions) = @_;
	my $absences = _absences($versions);
	my (%edges, %place);
	my $add = sub {
		my ($from, $to, $why) = @_;
		$edges{$from}{$to} //= $why if defined $from && defined $to && $from != $to;
	};

	for my $row (keys %$versions)
	{
		my $chain = $versions->{$row};
		$place{$row}{ $chain->[$_][0] } = $_ for 0 .. $#$chain;
		$add->($chain->[ $_ - 1 ][2], $chain->[$_][2], "ww $row") for 1 .. $#$chain;
	}
	for my $t (keys %$history)
	{
		my ($group_read, %found);

		# what a group's reader did not find is known at the next operation
		for my $op (@{ $history->{$t} }, ['end'])
		{
			my ($what, $table, $key, $group, $version) = @$op;

			if ($group_read && ($what ne 'r'))
			{
				_add_absent($t, $absences->{"$group_read->[0] $_"}, \%found, $add)
					for split /,/, $group_read->[1];
				($group_read, %found) = ();
			}
			if ($what eq 'g') { $group_read = [ $table, $key ] }
			next if $what ne 'r';
			my $row = "$table $key";
			$found{$row} = 1;
			my $chain = $versions->{$row} or next;
			my $at = $place{$row}{$version}
				// die "row $row: version $version was read and never written";
			$add->($chain->[$at][2], $t, "wr $row");
			$add->($t, $chain->[ $at + 1 ][2], "rw $row") if $at < $#$chain;
		}
	}
	return \%edges;
}

# What follows for a transaction that reads a group and does not find a row, where something does:
# by table and group, each [row, writer of the row's first version in the group, or of the one after
# its last].
sub _absences
{
	my ($versions) = @_;
	my %absences;

	for my $row (keys %$versions)
	{
		my $chain = $versions->{$row};
		my ($table) = split / /, $row;

		for my $group (0 .. $GROUPS - 1)
		{
			my @inside = grep { $chain->[$_][1] == $group } 0 .. $#$chain;

			next if !@inside || $inside[-1] - $inside[0] != $#inside;
			if ($inside[-1] == $#$chain)
			{
				push @{ $absences{"$table $group"} }, [ $row, $chain->[ $inside[0] ][2], undef ];
			}
			elsif ($inside[0] == 0)
			{
				push @{ $absences{"$table $group"} },
					[ $row, undef, $chain->[ $inside[-1] + 1 ][2] ];
			}
		}
	}
	return \%absences;
}

# $t has read a group and not found the rows that are not in %$found.
sub _add_absent
{
	my ($t, $absences, $found, $add) = @_;

	for my $absence (@{ $absences // [] })
	{
		my ($row, $later, $earlier) = @$absence;

		next if $found->{$row};
		$add->($t, $later, "rw $row (not found)");
		$add->($earlier, $t, "wr $row (not found)");
	}
	return;
}

# --- Cycles -----------------------------------------------------------------------

# A cycle as text; undef when there is none.  Depth first, without recursion.
sub _find_cycle
{
	my ($edges) = @_;
	my %state;    # 1: on the path, 2: done

	for my $root (sort { $a <=> $b } keys %$edges)
	{
		next if $state{$root};
		my @path = ([ $root, [ sort { $a <=> $b } keys %{ $edges->{$root} } ] ]);
		$state{$root} = 1;
		while (@path)
		{
			my ($node, $left) = @{ $path[-1] };
			my $next = shift @$left;

			if (!defined $next)
			{
				$state{$node} = 2;
				pop @path;
			}
			elsif (!$state{$next})
			{
				$state{$next} = 1;
				push @path, [ $next, [ sort { $a <=> $b } keys %{ $edges->{$next} // {} } ] ];
			}
			elsif ($state{$next} == 1)
			{
				my @cycle = map { $_->[0] } @path;
				shift @cycle while $cycle[0] != $next;
				return join ', ', map { my ($from, $to) = @cycle[ $_ - 1, $_ ];
					"$from -> $to ($edges->{$from}{$to})" } 0 .. $#cycle;
			}
		}
	}
	return undef;
}

sub create_tables
{
	my ($node, %method) = @_;

	while (my ($table, $how) = each %method)
	{
		$node->safe_psql('postgres', qq{
			CREATE TABLE $table (k bigint PRIMARY KEY, g int, v bigint) USING $how->[0];
			CREATE INDEX ON $table USING $how->[1] (g);});
	}
	return;
}

sub run
{
	my ($node, %o) = @_;
	my $left = $o{seconds};
	my %sum = (committed => 0, edges => 0, cycle => undef);

	for (my $seed = $o{seed}; $left > 0 && !defined $sum{cycle}; $seed++)
	{
		my $seconds = $left < 1.5 * $ROUND_SECONDS ? $left : $ROUND_SECONDS;
		my $round = _round($node, %o, seconds => $seconds, seed => $seed);

		$left -= $seconds;
		$sum{committed} += $round->{committed};
		$sum{edges} += $round->{edges};
		$sum{cycle} = $round->{cycle};
	}
	return \%sum;
}

sub _round
{
	my ($node, %o) = @_;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	my $end = time() + $o{seconds};
	my (%history, @pids);

	for my $table (@{ $o{tables} })
	{
		$node->safe_psql('postgres', "TRUNCATE $table;"
			  . "INSERT INTO $table SELECT i, i % $GROUPS, -1
				FROM generate_series(0, $FIXED - 1) i");
	}
	push @pids, _client($node, $_, $end, $o{seed}, "$directory/$_", %o) for 0 .. $o{clients} - 1;
	my $failed = 0;
	for my $pid (@pids)
	{
		waitpid $pid, 0;
		$failed++ if $?;
	}
	die "$failed sessions failed" if $failed;
	_read_history("$directory/$_", \%history) for 0 .. $o{clients} - 1;

	my $edges = _edges(\%history, _order_versions(\%history));
	my $count = 0;
	$count += keys %$_ for values %$edges;
	return { committed => scalar keys %history, edges => $count, cycle => _find_cycle($edges) };
}

1;

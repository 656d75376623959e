# LeapChecker: random transactions on a family of two leap tables, on all nodes at once, while nodes
# are killed, cut off from each other, and messages are late, doubled and lost; then a judgement.
#
#   my $checker = LeapChecker->new($cluster, seed => 7, keys => 12);
#   my @complaints = $checker->run(seconds => 10, kills => 1);
#
# A transaction reads (FOR SHARE) and writes some keys.  In the same transaction it writes down in a
# table of its node what it saw of each key and what it wrote: versions of a key count up, in the
# parent's row and in the child's.
#
# Judged when all nodes are back and hand-overs are settled:
#   - LEAP-1: each key has one parent and one child, on one node, and one owner;
#   - no version was written twice, none is missing, the row has the last one: no transaction is
#     lost, half applied, or undone;
#   - parent and child agree, then, and whenever a transaction looked;
#   - what transactions saw of each other is no circle: the histories are serializable;
#   - acknowledged transactions are there.
package LeapChecker;

use strict;
use warnings FATAL => 'all';

use Carp;
use CrashDriver;
use LeapCluster;
use Test::More ();
use Time::HiRes qw(time usleep);

my $runs = 0;

sub new
{
	my ($class, $cluster, %options) = @_;
	my $self = bless {
		cluster => $cluster, nodes => [ $cluster->nodes ], keys => $options{keys} // 12,
		clients => $options{clients} // 2, name => 'run' . ++$runs, seed => $options{seed} },
	  $class;

	srand($self->{seed});
	$self->_create;
	return $self;
}

sub _create
{
	my ($self) = @_;
	my ($name, $keys) = @$self{qw(name keys)};

	$_->safe_psql('postgres', $self->_work($_)) foreach @{ $self->{nodes} };
	$self->{nodes}[0]->safe_psql('postgres', qq{
		CREATE TABLE parent_$name (id int PRIMARY KEY, v int) USING leanstore;
		CREATE TABLE child_$name (id int, n int, v int, PRIMARY KEY (id, n)) USING leanstore;
		SELECT leap.create_family('$name', '{parent_$name,child_$name}', '{id}');
		INSERT INTO parent_$name SELECT i, 0 FROM generate_series(1, $keys) i;
		INSERT INTO child_$name SELECT i, 1, 0 FROM generate_series(1, $keys) i});
	return;
}

# The journal of a node, and the transaction.
sub _work
{
	my ($self, $node) = @_;
	my $sql = q{
		CREATE TABLE journal_RUN (tx text, key int, seen int, wrote int) USING leanstore;
		CREATE FUNCTION work_RUN(keys int[], kinds int[]) RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			tx text := 'NODE' || pg_current_xact_id();
			k int; a int; b int;
		BEGIN
			FOR i IN 1 .. cardinality(keys) LOOP
				k := keys[i];
				CONTINUE WHEN k = ANY (keys[1:i - 1]);
				-- A third of the keys come and go: there a statement that has waited finds no row.
				IF k % 3 = 0 THEN
					FOR attempt IN 1 .. 2 LOOP
						PERFORM FROM parent_RUN WHERE id = k FOR UPDATE;
						EXIT WHEN FOUND;
					END LOOP;
				END IF;
				IF kinds[i] = 0 THEN
					SELECT v INTO a FROM parent_RUN WHERE id = k FOR SHARE;
					SELECT v INTO b FROM child_RUN WHERE id = k AND n = 1 FOR SHARE;
					INSERT INTO journal_RUN VALUES (tx, k, a, NULL);
				ELSIF kinds[i] = 1 AND k % 3 = 0 THEN
					DELETE FROM child_RUN WHERE id = k AND n = 1 RETURNING v INTO b;
					DELETE FROM parent_RUN WHERE id = k RETURNING v INTO a;
					INSERT INTO parent_RUN VALUES (k, a + 1);
					INSERT INTO child_RUN VALUES (k, 1, b + 1);
					INSERT INTO journal_RUN VALUES (tx, k, a, a + 1);
				ELSE
					IF kinds[i] = 2 THEN
						BEGIN
							UPDATE parent_RUN SET v = -1 WHERE id = k;
							RAISE EXCEPTION 'undone';
						EXCEPTION WHEN raise_exception THEN NULL;
						END;
					END IF;
					UPDATE parent_RUN SET v = v + 1 WHERE id = k RETURNING v INTO a;
					UPDATE child_RUN SET v = v + 1 WHERE id = k AND n = 1 RETURNING v INTO b;
					INSERT INTO journal_RUN VALUES (tx, k, a - 1, a);
				END IF;
				IF a IS DISTINCT FROM b OR a IS NULL THEN
					RAISE EXCEPTION 'TORN key % in %: % and %', k, tx, a, b;
				END IF;
			END LOOP;
		END $$;};

	$sql =~ s/RUN/$self->{name}/g;
	$sql =~ s/NODE/$node->name . '.'/e;
	return $sql;
}

sub _script
{
	my ($self) = @_;
	my $keys = $self->{keys};
	my $file = PostgreSQL::Test::Utils::tempdir() . '/work.sql';
	my $text = join '', map { "\\set k$_ random(1, $keys)\n\\set w$_ random(0, 5)\n" } 1 .. 3;

	open(my $out, '>', $file) or croak $!;
	print $out $text . '\set m random(1, 3)' . "\n"
	  . "SELECT work_$self->{name}((ARRAY[:k1, :k2, :k3])[1:case when :m = 1 then 1 else 3 end],"
	  . " ARRAY[:w1, :w2, :w3]);\n";
	close $out;
	return $file;
}

# --- Load -------------------------------------------------------------------

sub _start_load
{
	my ($self, $node, $seconds) = @_;
	my $handle = eval {
		$node->start_pgbench('postgres', '-c', $self->{clients}, '-T', $seconds, '--max-tries=100',
			'--random-seed=' . int(rand(1 << 30)), '-f', $self->_script) };

	return $handle;
}

# Takes what a load has printed, if it has ended, or as soon as it does.
sub _collect
{
	my ($self, $handle, $wait) = @_;

	return 1 unless $handle;
	unless ($wait)
	{
		eval { $handle->{run}->pump_nb };
		return 0 if eval { $handle->{run}->pumpable };
	}
	my $output = eval { $self->{nodes}[0]->finish_pgbench($handle) } // ${ $handle->{output} };

	$self->{acknowledged} += $1 if $output =~ /transactions actually processed: (\d+)/;
	push @{ $self->{torn} }, $1 while $output =~ /(TORN key [^\n]*|epoch \d+ has come twice)/g;
	push @{ $self->{torn} }, $1 while $output =~ /(takes this node for the owner[^\n]*)/g;
	return 1;
}

sub _trouble
{
	my ($self, $kills) = @_;
	my @nodes = @{ $self->{nodes} };
	my ($one, $other) = sort { rand() <=> 0.5 } 0 .. $#nodes;

	if (rand() < $kills)
	{
		CrashDriver::kill_server($nodes[$one], 'all');
		$nodes[$one]->start;
		$self->{killed}++;
	}
	else
	{
		my @cut = ([ $one, $other ], [ $other, $one ]);

		$nodes[ $_->[0] ]->psql('postgres', sprintf('SELECT leap.cut(%d, true)', $_->[1] + 1))
		  foreach @cut;
		usleep(300_000);
		$nodes[ $_->[0] ]->psql('postgres', sprintf('SELECT leap.cut(%d, false)', $_->[1] + 1))
		  foreach @cut;
		$self->{cut}++;
	}
	return;
}

# run(seconds =>, kills => share of killed nodes among troubles, instead => what is done instead of
# troubles): complaints.
sub run
{
	my ($self, %options) = @_;
	my $until = time() + $options{seconds};
	my @load = map { undef } @{ $self->{nodes} };

	@$self{qw(acknowledged killed cut torn)} = (0, 0, 0, []);
	while (time() < $until)
	{
		foreach my $i (0 .. $#load)
		{
			$load[$i] = $self->_start_load($self->{nodes}[$i], 2)
			  if $self->_collect($load[$i], 0);
		}
		usleep(100_000 + rand(600_000));
		$options{instead} ? $options{instead}->() : $self->_trouble($options{kills} // 0.3);
	}
	$self->_collect($_, 1) foreach @load;
	my @unsettled = $self->_settle;
	my @complaints = (@{ $self->{torn} }, $self->_judge, @unsettled);
	$self->{nodes}[0]->safe_psql('postgres', "SELECT leap.drop('parent_$self->{name}')");
	return @complaints;
}

# --- Judgement --------------------------------------------------------------

sub _settle
{
	my ($self) = @_;

	foreach my $node (@{ $self->{nodes} })
	{
		$node->safe_psql('postgres', 'ALTER SYSTEM SET leap_debug.chaos = 0;
			ALTER SYSTEM SET leap_debug.planted = 0');
		$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	}
	foreach my $wait (1 .. 600)
	{
		# The worker waits five seconds, then at most leap.timeout for each node: on a machine that
		# does much else several of these may pass.
		Test::More::diag(join "\n", 'hand-overs are slow to settle',
			map { $self->_state($_) } @{ $self->{nodes} }) if $wait == 200;
		my @left = grep {
			$_->safe_psql('postgres', 'SELECT count(*) FROM leap.key
				WHERE NOT told OR payload IS NOT NULL') > 0
		} @{ $self->{nodes} };
		return () if !@left || @{ $self->{torn} };
		usleep(100_000);
	}
	return ('hand-overs do not settle', map { $self->_state($_) } @{ $self->{nodes} });
}

# What a node knows of hand-overs that do not settle, and what its processes do.
sub _state
{
	my ($self, $node) = @_;
	my %questions = (
		family => 'SELECT id, name, frozen_since, now() FROM leap.family',
		homes => q{SELECT family, string_agg(node::text, '' ORDER BY bucket) FROM leap.bucket
			GROUP BY 1},
		left => 'SELECT family, key, leap.home(family, key) AS home, owner, epoch, told, since,
			payload FROM leap.key WHERE NOT told OR payload IS NOT NULL',
		keys => q{SELECT string_agg(format('%s:%s/%s', key, owner, epoch), ' ' ORDER BY key)
			FROM leap.key},
		handovers => q{SELECT string_agg(name || ' ' || value, ', ') FROM leap.handovers},
		processes => q{SELECT pid, backend_type, application_name, state, wait_event, xact_start,
			left(query, 200) FROM pg_stat_activity WHERE backend_type ~ 'leap|client'},
		locks => q{SELECT pid, mode, granted, classid, objid FROM pg_locks
			WHERE locktype = 'advisory'},
		waiting => 'SELECT * FROM leap.waiting');
	my @lines = map {
		my ($status, $out, $error) = $node->psql('postgres', $questions{$_});
		my $name = $_;
		map { $node->name . " $name: $_" } split /\n/, "$out$error";
	} sort keys %questions;
	my @log = split /\n/, PostgreSQL::Test::Utils::slurp_file($node->logfile);

	return (@lines, map { $node->name . " log: $_" } @log[ ($#log > 40 ? -40 : 0) .. -1 ]);
}

sub _rows
{
	my ($self, $sql) = @_;

	$sql =~ s/RUN/$self->{name}/g;
	return map {
		my $node = $_;
		map { [ $node->name, split /\|/, $_, -1 ] }
		  split /\n/, $node->safe_psql('postgres', "SET leap.scans = local; $sql")
	} @{ $self->{nodes} };
}

sub _judge
{
	my ($self) = @_;
	my @complaints;
	my (%version, %at, %writer, %tx);
	my @entries = $self->_rows('SELECT tx, key, seen, wrote FROM journal_RUN ORDER BY 1, 2');

	foreach my $table ('parent', 'child')
	{
		foreach my $row ($self->_rows("SELECT id, v FROM ${table}_RUN"))
		{
			my ($node, $key, $v) = @$row;

			push @complaints, "$table $key is on $at{$table}{$key} and $node"
			  if defined $at{$table}{$key};
			$at{$table}{$key} = $node;
			$version{$table}{$key} = $v;
		}
	}
	foreach my $entry (@entries)
	{
		my ($node, $tx, $key, $seen, $wrote) = @$entry;

		$tx{$tx} = 1;
		next if $wrote eq '';
		push @complaints, "version $wrote of key $key: by $writer{$key}{$wrote} and $tx"
		  if defined $writer{$key}{$wrote};
		$writer{$key}{$wrote} = $tx;
	}
	foreach my $key (1 .. $self->{keys})
	{
		my $last = keys %{ $writer{$key} // {} };

		foreach my $table ('parent', 'child')
		{
			my $v = $version{$table}{$key} // 'no row';
			push @complaints, "$table $key: $v after $last changes" if $v ne $last;
		}
		push @complaints, "parent and child of $key are apart"
		  if ($at{parent}{$key} // '') ne ($at{child}{$key} // '');
		push @complaints, map { "version $_ of key $key was lost" }
		  grep { !defined $writer{$key}{$_} } 1 .. $last;
	}
	push @complaints, "$self->{acknowledged} acknowledged, " . keys(%tx) . ' written down'
	  if $self->{acknowledged} > keys %tx;
	push @complaints, _circle(\@entries, \%writer);
	$self->{transactions} = keys %tx;
	return @complaints;
}

# Edges: writer before reader of its version, reader before writer of the next, writers in turn.
sub _circle
{
	my ($entries, $writer) = @_;
	my (%after, %before);

	foreach my $entry (@$entries)
	{
		my ($node, $tx, $key, $seen, $wrote) = @$entry;
		my $from = $writer->{$key}{$seen};
		my $to = $wrote eq '' ? $writer->{$key}{ $seen + 1 } : undef;

		$after{$from}{$tx} = 1 if defined $from && $from ne $tx;
		$after{$tx}{$to} = 1 if defined $to && $to ne $tx;
	}
	foreach my $from (keys %after) { $before{$_}++ foreach keys %{ $after{$from} } }
	my %left = map { $_->[1] => 1 } @$entries;
	my @free = grep { !$before{$_} } keys %left;
	while (defined(my $tx = pop @free))
	{
		delete $left{$tx};
		foreach my $next (keys %{ $after{$tx} // {} })
		{
			push @free, $next if --$before{$next} == 0;
		}
	}
	my @some = (sort keys %left)[ 0 .. 5 ];
	return %left ? ('a circle among ' . join(' ', grep { defined } @some)) : ();
}

1;

# Large values beside heap: random operations do the same to pairs of tables, one on heap and one on
# leanstore (ValueTwins.pm, ValueOperations.pm), and both must give the same answers, keep the same
# rows for older snapshots, and have the same rows after crashes.
#
# A round: one session works on the tables while a REPEATABLE READ reader keeps what it saw before;
# once more with changes of the tables' shape that do not respect older snapshots, without a reader;
# then a few clients at a time, until the server is killed under them.
#
# Environment: VALUES_SEED (random; the one to repeat is printed), VALUES_ROUNDS (3), VALUES_SECONDS
# (0; for a longer run: rounds until then, with values of up to 64 MB), VALUES_LARGEST (bytes),
# VALUES_CLIENTS (3).  The scripts of the last round are kept beside the log of the test.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use IPC::Run;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use ValueOperations;
use ValueTwins;

my $seconds = $ENV{VALUES_SECONDS} // 0;
my $rounds = $ENV{VALUES_ROUNDS} // ($seconds ? 1 : 3);
my $largest = $ENV{VALUES_LARGEST} // ($seconds ? 64 * 1024 * 1024 : 2_000_000);
my $clients = $ENV{VALUES_CLIENTS} // 3;
my $seed = $ENV{VALUES_SEED} // int(rand 2**31);
my $TRANSACTIONS = 50;    # of a client in a round
my $directory = PostgreSQL::Test::Utils::tempdir();

# How a round ends.  A clean restart keeps unlogged tables, all others empty them.
my @KINDS = qw(postmaster backend all immediate clean);

# What clients may be told where they meet, and when the server goes.
my $EXPECTED = qr{deadlock\ detected | could\ not\ serialize\ access
	| duplicate\ key\ value\ violates | current\ transaction\ is\ aborted
	| savepoint\ "s"\ does\ not\ exist | prepared\ transaction\ with\ identifier\ .*does\ not\ exist
	| already\ moved\ to\ another\ partition | terminating\ connection | FATAL: }x;

note "VALUES_SEED=$seed VALUES_ROUNDS=$rounds VALUES_SECONDS=$seconds";
print STDERR "# VALUES_SEED=$seed\n";

# Small, so that pages are evicted, segments change and checkpoints are due.
my $node = LeanstoreTest->new_node('values',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.max_wal_size' => '64MB',
	'leanstore.checkpoint_timeout' => '2s',
	shared_buffers => '16MB',
	max_prepared_transactions => 20,
	allow_in_place_tablespaces => 'on',
	autovacuum_naptime => '1s');
my $twins = ValueTwins->new($node);
my $operations = ValueOperations->new(largest => $largest, directory => $directory);

$node->safe_psql('postgres', q{SET allow_in_place_tablespaces = on;
	CREATE TABLESPACE twins_space LOCATION '';});
$node->safe_psql('postgres', 'CREATE TABLE journal (name text PRIMARY KEY)');
$twins->create_functions;

# --- One session ------------------------------------------------------------

sub keep
{
	my ($name, $text) = @_;
	my $path = "$PostgreSQL::Test::Utils::log_path/083_$name.sql";

	unlink $path;
	append_to_file($path, $text);
	return $path;
}

# Where a script stopped: its error, the transaction, and what stands before the line.
sub where_it_failed
{
	my ($script, $out, $errors) = @_;
	my ($transaction) = $out =~ /.*^transaction (\d+)$/ms;
	my @unexpected = grep { !/ERROR:  on purpose|^CONTEXT: |^DETAIL: / } split /\n/, $errors;
	my ($line) = map { /^psql:<stdin>:(\d+): / ? $1 : () } @unexpected;
	my @lines = split /\n/, $script;
	my $first = ($line // 1) > 25 ? $line - 25 : 1;
	my $last = ($line // 25) > @lines ? @lines : $line // 25;

	return join "\n", "seed $seed, transaction " . ($transaction // '?') . ':',
		@unexpected[ 0 .. ($#unexpected < 5 ? $#unexpected : 5) ],
		'lines before the error:', @lines[ $first - 1 .. $last - 1 ];
}

# Complaints of a script that has to go through.
sub run_script
{
	my ($name, $text) = @_;
	my ($out, $errors);

	keep($name, $text);
	my $status = $node->psql('postgres', $text, stdout => \$out, stderr => \$errors,
		on_error_stop => 1);
	return $status == 0 ? () : where_it_failed($text, $out, $errors);
}

# Compares everything; says whether all is well.
sub compared_ok
{
	my ($what, @complaints) = @_;

	push @complaints, $twins->compare unless @complaints;
	return ok(!@complaints, $what) || diag(join "\n", "VALUES_SEED=$seed", @complaints);
}

# One session changes the tables; a reader that began before sees them as they were.
sub under_reader
{
	my ($round) = @_;
	my $before = $node->safe_psql('postgres', ValueTwins::digests());
	my $reader = $node->background_psql('postgres');
	my @complaints;

	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	foreach my $half (1, 2)
	{
		push @complaints, run_script("kept_$half",
			$operations->script(transactions => 12, reshape => 'kept'));
		last if @complaints;
		# Locks of tables go with the savepoint: the next half changes shapes, too.
		my $seen = $reader->query(
			'SAVEPOINT s; ' . ValueTwins::digests() . '; ROLLBACK TO s');
		push @complaints, "the reader sees\n$seen" . ($reader->{stderr} // '')
		  . "\nand has to see\n$before"
			if $seen ne $before;
	}
	$reader->quit;
	return compared_ok("round $round: one session and a reader", @complaints);
}

sub reshaped
{
	my ($round) = @_;

	return compared_ok("round $round: one session and new shapes of tables",
		run_script('any', $operations->script(transactions => 20, reshape => 'any')));
}

# --- Clients and a crash ----------------------------------------------------

# Client 0 only looks.
sub start_client
{
	my ($client, $round) = @_;
	my $script = keep("client_$client", $client == 0 ? ValueOperations::reader_script(40)
		: $operations->client_script(client => $client, round => $round,
			transactions => $TRANSACTIONS));
	local %ENV = $node->_get_env();
	local $ENV{PGAPPNAME} = "client $client";
	my $self = { client => $client };

	($self->{out}, $self->{errors}) = map { "$directory/client_$client.$_" } qw(out err);
	$self->{run} = IPC::Run::start([ $node->installed_command('psql'), '-X', '-A', '-t',
		'-d', 'postgres', '-f', $script ], '<' => \undef, '>' => $self->{out},
		'2>' => $self->{errors});
	return $self;
}

# The acknowledged ends of a client's transactions: name => [COMMIT or ROLLBACK, is it durable].
sub ends
{
	my ($client) = @_;
	my ($name, $synchronous, %ends);

	foreach my $line (split /\n/, slurp_file($client->{out}))
	{
		if ($line =~ /^ends (.*), synchronous_commit (\w+)$/) { ($name, $synchronous) = ($1, $2); }
		elsif ($line =~ /^BEGIN$/) { $name = undef; }
		elsif (defined $name && $line =~ /^(COMMIT|ROLLBACK)( PREPARED)?$/)
		{
			$ends{$name} = [ $1, $synchronous eq 'on' ];
		}
	}
	return %ends;
}

sub crash
{
	my ($kind) = @_;

	if ($kind eq 'backend')
	{
		my $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity
			WHERE application_name LIKE 'client %' AND backend_type = 'client backend' LIMIT 1});
		# All clients may have ended; then this is a round without a crash.
		return $pid ne '' && eval { CrashDriver::kill_process($node, $pid); 1 };
	}
	if ($kind eq 'immediate') { $node->stop('immediate'); }
	elsif ($kind eq 'clean') { $node->stop('fast'); }
	else { CrashDriver::kill_server($node, $kind); }
	$node->start;
	return $kind ne 'clean';
}

# What the clients were told is so, and nothing that they were not to be told was said.
sub acknowledged
{
	my ($round, @clients) = @_;
	my %there = map { $_ => 1 } split /\n/,
		$node->safe_psql('postgres', "SELECT name FROM journal WHERE name LIKE '$round %'");
	my @complaints;

	foreach my $client (@clients)
	{
		my %ends = ends($client);
		foreach my $name (sort keys %ends)
		{
			my ($end, $durable) = @{ $ends{$name} };
			push @complaints, "transaction $name is lost"
				if $end eq 'COMMIT' && $durable && !$there{$name};
			push @complaints, "transaction $name was rolled back, but is there"
				if $end eq 'ROLLBACK' && $there{$name};
		}
		push @complaints, map { "client $client->{client}: $_" }
			grep { /ERROR:|PANIC:/ && !/$EXPECTED/ } split /\n/, slurp_file($client->{errors});
	}
	return @complaints;
}

# Ends what the crash has left prepared.
sub end_prepared
{
	foreach my $name (split /\n/, $node->safe_psql('postgres',
		'SELECT gid FROM pg_prepared_xacts ORDER BY 1'))
	{
		my $end = rand() < 0.5 ? 'COMMIT' : 'ROLLBACK';
		$node->safe_psql('postgres', "$end PREPARED '$name'");
	}
	return;
}

sub crashed
{
	my ($round, $kind) = @_;
	my @clients = map { start_client($_, $round) } 0 .. $clients;
	my $wanted = rand(0.6) * $clients * $TRANSACTIONS;
	my $pause = rand 50_000;
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
	my $ended = 0;

	while ($ended < $wanted && time < $deadline && grep { $_->{run}->pumpable } @clients)
	{
		usleep(10_000);
		$ended = grep { defined } map { my %ends = ends($_); keys %ends } @clients;
	}
	usleep($pause);
	my $emptied = crash($kind);
	$_->{run}->finish foreach @clients;
	end_prepared();
	my @complaints = acknowledged($round, @clients);
	push @complaints, 'unlogged tables are not empty' if $emptied
		&& $node->safe_psql('postgres', 'SELECT count(*) FROM unlog_l') ne '0';
	$ended = grep { defined } map { my %ends = ends($_); keys %ends } @clients;
	return compared_ok("round $round: $ended transactions of clients, then $kind", @complaints);
}

# The largest value that is there.
sub largest_value
{
	return $node->safe_psql('postgres', q{SELECT greatest(
		(SELECT max(greatest(octet_length(b), octet_length(e), octet_length(t))) FROM many_l),
		(SELECT max(octet_length(m)) FROM main_l),
		(SELECT max(greatest(octet_length(b), octet_length(t))) FROM parted_l), 0)});
}

# --- Rounds -----------------------------------------------------------------

# The comparison finds a byte that differs, and a row.
sub canary_ok
{
	$node->safe_psql('postgres', q{TRUNCATE unlog_h, unlog_l;
		INSERT INTO unlog_h SELECT i, i, value_bytes(i, 100000, 1) FROM generate_series(1, 9) i;
		INSERT INTO unlog_l TABLE unlog_h});
	is(join("\n", $twins->compare), '', 'self-test: twins are the same');
	$node->safe_psql('postgres', q{UPDATE unlog_l SET b = set_byte(b, 77777,
		(get_byte(b, 77777) + 1) % 256) WHERE id = 7; DELETE FROM parted_l WHERE id =
		(SELECT min(id) FROM parted_l); INSERT INTO parted_h (id, n) VALUES (999999, 1)});
	my $complaints = join "\n", $twins->compare;
	like($complaints, qr/table unlog, first at key 7/, 'self-test: a byte is found');
	like($complaints, qr/table parted, first at key/, 'self-test: a row is found');
	return;
}

my $end = time + $seconds;
my $good = 1;
my $round = 0;
my $largest_seen = 0;
while ($good && (++$round <= $rounds || time < $end))
{
	# Each round repeats from its own number: how long another one took does not matter.
	srand($seed + $round);
	my $kind = $KINDS[ $round <= @KINDS ? ($round - 1 + $seed) % @KINDS : rand @KINDS ];
	$twins->create_tables if $round % 6 == 1;
	$good = under_reader($round) && reshaped($round) && crashed($round, $kind);
	my $size = largest_value();
	$largest_seen = $size if $size > $largest_seen;
}
note($operations->done);
cmp_ok($largest_seen, '>', 20_000, 'values were large') if $good;
canary_ok() if $good;
$node->stop('fast');
done_testing();

# CrashDriver: clients that write down every acknowledged commit, a server that
# is killed under them, and the checks that must hold afterwards.
#
#   my $driver = CrashDriver->new($node, seed => 42, clients => 4);
#   $driver->create_tables;
#   $driver->round('postmaster');        # load, kill, restart, verify
#   $driver->round($driver->random_kind);
#
# Clients.  Each is a forked process with one psql, and numbers its
# transactions.  It appends to its own file "S n" before transaction n is sent
# and its outcome after the answer: "A n" acknowledged commit, "U n" commit with
# synchronous_commit off (it may get lost), "F n" failed or rolled back.  The
# file needs no sync: the machine does not crash here, only the server.  Of a transaction
# that is prepared first, the answer to PREPARE TRANSACTION decides: after a crash it is there
# still, or ended as it was to be; verify ends what it finds.
#
# Transactions.  Every one inserts the row (client, n) into a journal; what else
# it did is written beside that, so that SQL can recompute from the journals
# what the other tables must hold:
#   - transfers between accounts, on leanstore (ls_*), or the same on heap and
#     leanstore (mx_heap_*, mx_ls_*) in one transaction;
#   - insertions, updates with and without a change of key, deletions of the
#     client's own items, some of them large, within savepoints that may be
#     rolled back; ls_op says what each did;
#   - children of a deferred foreign key come, and parents go, at REPEATABLE READ;
#   - some notify, and all clients listen.
# With `heads` each also writes down its own number in ls_head, and in ls_seen which numbers of all
# clients it has seen there.
# Beside the clients one session inserts a batch of rows, updates all rows of all
# batches, and commits or stays open until the server is gone; now and then it
# inserts one value of large_mb instead.
#
# Checks after each restart (verify):
#   V1 an acknowledged commit is there;
#   V2 a failed one is not; one never sent is not;
#   V3 of a client's commits only the last ones can be lost, and only those not
#      acknowledged: what was lost has no successor;
#   V4 no half transactions: accounts are what the journals say, items are what
#      ls_op says, sums agree;
#   V5 heap and leanstore sides of mixed transactions agree;
#   V6 leanstore_check finds no damage;
#   V7 no child is without its parent;
#   V8 batches are whole, and have seen as many updates as there were commits; large values are
#      right;
#   V9 what a transaction had seen is there, if it is (with `heads`).
# With V1 for a transaction that was in flight, its fate is what is found; it is
# written down, so that the next crash may not change it.
package CrashDriver;

use strict;
use warnings FATAL => 'all';

use Carp;
use Cwd ();
use IPC::Open2 ();
use LeanstoreTest ();
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More ();
use Time::HiRes qw(time usleep);

my $ACCOUNTS = 50;
my $ITEMS = 30;
my $PARENTS = 12;
# The session that inserts batches; its transactions are in ls_batch and ls_large, not in the
# journals.
my $BATCH_CLIENT = 'batch';
my $TIMEOUT = $PostgreSQL::Test::Utils::timeout_default;

# What is killed, and how often compared with the others.
my %KINDS = (
	all => 4,           # every process at once: as near to a power cut as this gets
	postmaster => 3,    # the others notice and leave
	backend => 3,       # one client's backend; the server restarts itself
	engine_worker => 3, # so here
	auxiliary => 1,     # checkpointer, background writer, walwriter
	immediate => 1,     # pg_ctl stop -m immediate
	checkpoint => 3,    # all, while a checkpoint is being made
	recovery => 3,      # all, and again several times during recovery
	stalled_worker => 2, # all, after the engine worker has been stopped for a while
	# all, after the engine worker has been asked to cancel and commits went on
	cancelled_worker => 2,
	clean => 1);        # a clean restart

sub kinds { return sort keys %KINDS; }

# new(NODE, seed =>, clients =>, access_method =>)
sub new
{
	my ($class, $node, %options) = @_;
	my $self = bless {
		node => $node,
		seed => $options{seed} // croak('a crash driver needs a seed'),
		clients => $options{clients} // 4,
		access_method => $options{access_method} // 'leanstore',
		synchronous => $options{synchronous_commit} // 'on',
		two_phase => $options{two_phase} // 0,    # share of transactions that are prepared first
		batch_rows => $options{batch_rows} // 5_000,
		large_mb => $options{large_mb} // 4,
		heads => $options{heads} // 0,
		directory => PostgreSQL::Test::Utils::tempdir(),
		round => 0,
		earlier => [ 0, 0 ],    # counts before start_over
		pids => {} }, $class;

	srand($self->{seed});
	return $self;
}

sub random_kind
{
	my ($self) = @_;
	my @lots = map { ($_) x $KINDS{$_} } kinds();

	return $lots[ rand @lots ];
}

sub create_tables
{
	my ($self) = @_;

	$self->{node}->safe_psql('postgres', qq{
		SET default_table_access_method = $self->{access_method};
		CREATE TABLE ls_account (id int PRIMARY KEY, balance bigint NOT NULL);
		CREATE TABLE ls_journal (client int, n int, src int, dst int, amount int,
			PRIMARY KEY (client, n));
		CREATE TABLE ls_op (client int, n int, i int, item int, gone bool, v int,
			PRIMARY KEY (client, n, i));
		CREATE TABLE ls_item (client int, item int, v int, t text, PRIMARY KEY (client, item));
		CREATE INDEX ls_item_v ON ls_item USING btree (v);
		-- Keys, and these, are leanstore indexes where there are any.
		CREATE INDEX ls_item_client_v ON ls_item (client, v DESC) INCLUDE (item);
		CREATE UNIQUE INDEX ls_journal_unique ON ls_journal (n, client) WHERE amount >= 0;
		CREATE INDEX ls_account_balance ON ls_account (balance);
		CREATE TABLE mx_ls_account (id int PRIMARY KEY, balance bigint NOT NULL);
		CREATE TABLE mx_ls_journal (client int, n int, src int, dst int, amount int,
			PRIMARY KEY (client, n));
		CREATE TABLE mx_heap_account (id int PRIMARY KEY, balance bigint NOT NULL) USING heap;
		CREATE TABLE mx_heap_journal (client int, n int, src int, dst int, amount int,
			PRIMARY KEY (client, n)) USING heap;
		CREATE TABLE fk_parent (id int PRIMARY KEY);
		CREATE TABLE fk_child (client int, n int,
			parent int REFERENCES fk_parent DEFERRABLE INITIALLY DEFERRED, PRIMARY KEY (client, n));
		CREATE INDEX ON fk_child (parent);
		CREATE TABLE fk_op (client int, n int, PRIMARY KEY (client, n));
		CREATE TABLE ls_batch (batch int, i int, v int, t text, PRIMARY KEY (batch, i));
		CREATE TABLE ls_large (batch int PRIMARY KEY, d text STORAGE EXTERNAL);
		CREATE TABLE ls_head (client int PRIMARY KEY, n int);
		CREATE TABLE ls_seen (client int, n int, heads int[], PRIMARY KEY (client, n));
		CREATE FUNCTION large_value(batch int, mb int) RETURNS text LANGUAGE sql IMMUTABLE AS
		\$\$ SELECT repeat(md5(batch::text), mb * 32768) \$\$;
		-- The value of an item is known from its v; every 16th one is large.
		CREATE FUNCTION item_text(v int) RETURNS text LANGUAGE sql IMMUTABLE AS
		\$\$ SELECT repeat(md5(v::text), CASE WHEN v % 16 = 0 THEN 300 ELSE v % 8 END) \$\$;
		-- What accounts of one kind differ from their journal.
		CREATE FUNCTION wrong_accounts(kind text) RETURNS bigint LANGUAGE plpgsql AS \$\$
		DECLARE result bigint;
		BEGIN
			EXECUTE format('SELECT count(*) FROM %1\$I a LEFT JOIN
				(SELECT id, sum(amount) AS moved FROM
					(SELECT dst AS id, amount FROM %2\$I
					UNION ALL SELECT src, -amount FROM %2\$I) m GROUP BY id) j USING (id)
				WHERE balance <> 1000 + coalesce(moved, 0)', kind || '_account',
					kind || '_journal') INTO result;
			RETURN result;
		END \$\$;
		CREATE VIEW item_wanted AS
			SELECT client, item, v FROM (SELECT DISTINCT ON (client, item) client, item, v, gone
			FROM ls_op ORDER BY client, item, n DESC, i DESC) o WHERE NOT gone;
		CREATE VIEW journal AS
			SELECT client, n, 'ls' AS kind FROM ls_journal UNION ALL SELECT client, n, 'mixed'
			FROM mx_ls_journal UNION ALL SELECT DISTINCT client, n, 'item' FROM ls_op
			UNION ALL SELECT client, n, 'key' FROM fk_op;
	});
	$self->_fill_accounts('');
	return;
}

# Forgets all that was done so far, so that checks stay fast in long runs.
sub start_over
{
	my ($self) = @_;

	$self->{earlier} = [ $self->counts ];
	$self->_fill_accounts('TRUNCATE ls_account, ls_journal, ls_op, ls_item, mx_ls_account,
		mx_ls_journal, mx_heap_account, mx_heap_journal, fk_parent, fk_child, fk_op, ls_batch,
		ls_large, ls_head, ls_seen;');
	unlink map { $self->_log_file($_) } 1 .. $self->{clients}, $BATCH_CLIENT;
	return;
}

sub _fill_accounts
{
	my ($self, $before) = @_;

	$self->{node}->safe_psql('postgres', qq{
		BEGIN;
		$before
		INSERT INTO ls_account SELECT i, 1000 FROM generate_series(1, $ACCOUNTS) i;
		INSERT INTO mx_ls_account TABLE ls_account;
		INSERT INTO mx_heap_account TABLE ls_account;
		INSERT INTO fk_parent SELECT i FROM generate_series(1, $PARENTS) i;
		INSERT INTO ls_head SELECT i, 0 FROM generate_series(1, $self->{clients}) i;
		COMMIT});
	return;
}

# One round: load, DURING it (a pause, if not given), crash, restart, checks.  Returns whether all
# is well.
sub round
{
	my ($self, $kind, $during) = @_;
	my $started = time;
	$self->{round}++;
	$during //= sub { usleep(100_000 + rand 900_000) };

	{
		# A server that is killed between writing the state files of prepared transactions and its
		# checkpoint record finds files "of the future" and, built with assertions, fails one
		# (restoreTwoPhaseData): on heap as well.
		local $self->{two_phase} = 0 if $kind eq 'checkpoint' || $kind eq 'recovery';
		$self->start_clients;
	}
	$during->();
	crash($self->{node}, $kind);
	$self->wait_clients;
	1 while waitpid(-1, POSIX::WNOHANG()) > 0;
	my $restarted = time;
	my $prepared = $self->_end_prepared;
	my @complaints = $self->verify;
	my ($acknowledged, $sent) = $self->counts;

	return Test::More::ok(!@complaints, sprintf(
			'crash %d (%s): %d of %d transactions acknowledged so far, %d found prepared; '
				. '%.1f s, checks %.1f s',
			$self->{round}, $kind, $acknowledged, $sent, $prepared, time - $started,
				time - $restarted))
	  || Test::More::diag(join("\n", "seed $self->{seed}", @complaints));
}

# Ends, as they were to be, the transactions that the crash has left prepared; before that the
# server may have to find them again.  Returns how many there were.
sub _end_prepared
{
	my ($self) = @_;
	my $node = $self->{node};

	return 0 unless $self->{two_phase};
	if (rand() < 0.3) { kill_server($node, 'all'); $node->start; }
	elsif (rand() < 0.2) { $node->restart; }
	my @names = split /\n/,
		$node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts ORDER BY random()');
	foreach my $name (@names)
	{
		my ($end) = $name =~ /^(COMMIT|ROLLBACK)_/ or croak "who has prepared $name?";
		$node->safe_psql('postgres', "$end PREPARED '$name'");
	}
	return scalar @names;
}

# --- Clients ----------------------------------------------------------------

sub _log_file { my ($self, $client) = @_; return "$self->{directory}/client_$client.log"; }

sub start_clients
{
	my ($self) = @_;

	foreach my $client (1 .. $self->{clients})
	{
		my $client_seed = int(rand 2**31);
		$self->_fork_client($client, sub { $self->_client($client, $client_seed) });
	}
	my ($value, $end) = (rand() < 0.1 ? 'large' : 'batch',
		rand() < 0.5 ? 'COMMIT' : 'SELECT pg_sleep(3600)');
	$self->_fork_client($BATCH_CLIENT, sub { $self->_batch($value, $end) });
	return;
}

sub _fork_client
{
	my ($self, $client, $life) = @_;
	my $pid = fork // croak "cannot fork: $!";

	if ($pid == 0)
	{
		# Not exit: that would run the test's END blocks.
		my $done = eval { $life->(); 1 };
		print STDERR "client $client: $@" unless $done;
		POSIX::_exit($done ? 0 : 1);
	}
	$self->{pids}{$pid} = $client;
	return;
}

# Starts the psql of a client, in the process of that client: (pid, answers, queries).
sub _psql
{
	my ($self, $client) = @_;
	local %ENV = $self->{node}->_get_env();
	local $ENV{PGAPPNAME} = "client $client";

	# psql complains about the lost connection; that is expected here.
	open(STDERR, '>', "$self->{directory}/client_$client.err") or croak "cannot redirect: $!";
	my $psql = IPC::Open2::open2(my $answers, my $queries,
		$self->{node}->installed_command('psql'), '-X', '-A', '-t', '-d', 'postgres');
	$queries->autoflush(1);
	return ($psql, $answers, $queries);
}

# The one transaction of the session beside the clients.
sub _batch
{
	my ($self, $value, $end) = @_;
	my $n = 1 + $self->_last_number($BATCH_CLIENT);

	local $SIG{PIPE} = 'IGNORE';
	open(my $log, '>>', $self->_log_file($BATCH_CLIENT)) or croak "cannot open log: $!";
	$log->autoflush(1);
	my ($psql, $answers, $queries) = $self->_psql($BATCH_CLIENT);
	my $change = $value eq 'large'
	  ? "INSERT INTO ls_large VALUES ($n, large_value($n, $self->{large_mb}));\n"
	  : "INSERT INTO ls_batch SELECT $n, i, 0, repeat('x', i % 200)
		FROM generate_series(1, $self->{batch_rows}) i;\n"
	  . "UPDATE ls_batch SET v = v + 1;\n";
	print $log "S $n\n" or croak "cannot log: $!";
	print $queries "BEGIN;\n$change$end;\n";
	close $queries;
	while (defined(my $line = <$answers>)) { print $log "A $n\n" if $line eq "COMMIT\n"; }
	close $answers;
	waitpid($psql, 0);
	return;
}

# Waits for the clients, which leave when their connection is lost.  On a busy machine one may have
# connected after the crash only: in the middle of the wait its session is ended.
sub wait_clients
{
	my ($self) = @_;
	my $deadline = time + $TIMEOUT;
	my $late = time + $TIMEOUT / 2;

	while (%{ $self->{pids} })
	{
		if (time > $late)
		{
			$late = $deadline + 1;
			$self->{node}->safe_psql('postgres',
				q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE application_name LIKE 'client %'});
		}
		foreach my $pid (keys %{ $self->{pids} })
		{
			my $ended = waitpid($pid, POSIX::WNOHANG());
			next if $ended == 0;
			croak "client $self->{pids}{$pid} failed" if $ended == $pid && $? != 0;
			delete $self->{pids}{$pid};
		}
		if (time > $deadline)
		{
			kill 'KILL', keys %{ $self->{pids} };
			croak 'clients do not end';
		}
		usleep(5_000);
	}
	return;
}

# The life of one client.
sub _client
{
	my ($self, $client, $client_seed) = @_;
	my $n = $self->_last_number($client);

	srand($client_seed);
	local $SIG{PIPE} = 'IGNORE';
	open(my $log, '>>', $self->_log_file($client)) or croak "cannot open log: $!";
	$log->autoflush(1);
	my ($psql, $answers, $queries) = $self->_psql($client);
	print $queries "SET deadlock_timeout = '50ms';\n"
		. "SET synchronous_commit = $self->{synchronous};\nLISTEN crash_driver;\n\\echo ready\n";
	while (defined(my $line = <$answers>)) { last if $line eq "ready\n"; }

	while (1)
	{
		$n++;
		my ($text, $outcome) = $self->_transaction($client, $n);

		print $log "S $n\n" or croak "cannot log: $!";
		print $queries "$text\\echo end $n :SQLSTATE\n" or last;
		my $tag = '';
		my $state = '';
		my $answered = 0;
		my $answered_prepare = 0;
		while (defined(my $line = <$answers>))
		{
			chomp $line;
			if ($line =~ /^end $n (\w+)$/) { $answered = 1; $state = $1; last; }
			$tag = $line if $line eq 'COMMIT' || $line eq 'ROLLBACK';
			if ($line eq 'PREPARE TRANSACTION')
			{
				$tag = $text =~ /^COMMIT PREPARED/m ? 'COMMIT' : 'ROLLBACK';
				$answered_prepare = 1;
			}
		}
		# COMMIT is counted even if the connection is lost right after it.  ROLLBACK also
		# answers ROLLBACK TO, and the COMMIT of a failed transaction: only the last answer
		# counts.  Without one the fate is unknown.
		# A COMMIT or PREPARE that ends with an error of its checks has no tag.
		$tag = 'ROLLBACK' if $tag eq '' && $state =~ /^(?:23503|40001|40P01|42704)$/;
		if ($tag eq 'COMMIT') { print $log "$outcome $n\n"; }
		elsif (($answered || $answered_prepare) && $tag eq 'ROLLBACK') { print $log "F $n\n"; }
		last unless $answered && $tag;
	}
	close $queries;
	close $answers;
	waitpid($psql, 0);
	return;
}

# SQL of a random transaction, and what an acknowledgement of it is worth.
sub _transaction
{
	my ($self, $client, $n) = @_;
	my $dice = rand;
	my $end = rand() < 0.07 ? 'ROLLBACK' : 'COMMIT';
	my $text = "BEGIN;\n";
	my $outcome = 'A';

	if (rand() < 0.1)
	{
		$text .= "SET LOCAL synchronous_commit = off;\n";
		$outcome = 'U';
	}
	if ($dice < 0.3) { $text .= _transfer($client, $n, 'ls'); }
	elsif ($dice < 0.4) { $text = _keys($client, $n); }
	elsif ($dice < 0.65)
	{
		$text .= _transfer($client, $n, rand() < 0.5 ? qw(mx_heap mx_ls) : qw(mx_ls mx_heap));
	}
	else { $text .= _items($client, $n); }
	$text .= "UPDATE ls_head SET n = $n WHERE client = $client;
		INSERT INTO ls_seen SELECT $client, $n, array_agg(n ORDER BY client) FROM ls_head;\n"
	  if $self->{heads};
	# What notifies cannot be prepared.
	return ("${text}NOTIFY crash_driver, '$n';\n$end;\n", $outcome) if rand() < 0.15;
	return ("$text$end;\n", $outcome) if rand() >= $self->{two_phase};
	# The name says how it is to end, for the driver that finds it after a crash.
	my $pause = rand() < 0.5 ? "SELECT pg_sleep(0.1 * random());\n" : '';
	my $name = "${end}_${client}_$n";
	return ("${text}PREPARE TRANSACTION '$name';\n$pause$end PREPARED '$name';\n", 'A');
}

# The same transfer in the tables of each kind.
sub _transfer
{
	my ($client, $n, @kinds) = @_;
	my $src = 1 + int(rand $ACCOUNTS);
	my $dst = 1 + ($src + int(rand($ACCOUNTS - 1))) % $ACCOUNTS;
	my $amount = 1 + int(rand 100);
	# Mostly in one order, so that deadlocks are few.
	my @order = $src < $dst || rand() < 0.05 ? ([ $src, -$amount ], [ $dst, $amount ])
		: ([ $dst, $amount ], [ $src, -$amount ]);
	my $text = '';

	foreach my $kind (@kinds)
	{
		$text .= "UPDATE ${kind}_account SET balance = balance + ($_->[1]) WHERE id = $_->[0];\n"
			foreach @order;
		$text .= "INSERT INTO ${kind}_journal VALUES ($client, $n, $src, $dst, $amount);\n";
	}
	return $text;
}

# Children of a deferred foreign key come, or parents go and come back.  Its check in COMMIT must
# see what was committed after the transaction's own snapshot was taken.
sub _keys
{
	my ($client, $n) = @_;
	my $parent = 1 + int(rand $PARENTS);
	my $dice = rand;
	my $text = "BEGIN ISOLATION LEVEL REPEATABLE READ;\nINSERT INTO fk_op VALUES ($client, $n);\n";

	return "${text}INSERT INTO fk_child VALUES ($client, $n, $parent);\n" if $dice < 0.4;
	return "${text}DELETE FROM fk_parent WHERE id = $parent;\n" if $dice < 0.6;
	return "${text}DELETE FROM fk_child WHERE client = $client;\n" if $dice < 0.8;
	return "${text}INSERT INTO fk_parent SELECT i
		FROM generate_series(1, $PARENTS) i ON CONFLICT DO NOTHING;\n";
}

# A few changes of the client's own items, some of them taken back.
sub _items
{
	my ($client, $n) = @_;
	my $text = '';

	# There is always one row of ls_op, so that the transaction can be found.
	foreach my $i (0 .. int(rand 4))
	{
		my $item = 1 + int(rand $ITEMS);
		my $v = int(rand 1_000_000);
		my $dice = rand;
		my $change;

		if ($dice < 0.5)
		{
			$change = "INSERT INTO ls_item VALUES ($client, $item, $v, item_text($v))
				ON CONFLICT (client, item) DO UPDATE SET v = excluded.v, t = excluded.t;\n"
			  . "INSERT INTO ls_op VALUES ($client, $n, 2 * $i, $item, false, $v);\n";
		}
		elsif ($dice < 0.7)
		{
			$change = "DELETE FROM ls_item WHERE client = $client AND item = $item;\n"
			  . "INSERT INTO ls_op VALUES ($client, $n, 2 * $i, $item, true);\n";
		}
		else
		{
			# The key changes to one that is free: items of the second half have odd homes.
			my $other = $item + $ITEMS;
			$change = "DELETE FROM ls_item WHERE client = $client AND item = $other;\n"
			  . "UPDATE ls_item SET item = $other, v = $v, t = item_text($v)
				WHERE client = $client AND item = $item;\n"
			  . "INSERT INTO ls_op VALUES ($client, $n, 2 * $i, $item, true);\n"
			  . "INSERT INTO ls_op SELECT $client, $n, 2 * $i + 1, $other,
				NOT EXISTS (SELECT FROM ls_item WHERE client = $client AND item = $other), $v;\n";
		}
		$text .= $i > 0 && rand() < 0.3 ? "SAVEPOINT s;\n${change}ROLLBACK TO s;\n"
		  : $i > 0 && rand() < 0.3 ? "SAVEPOINT s;\n${change}RELEASE s;\n"
		  : $change;
	}
	return $text;
}

# --- Logs -------------------------------------------------------------------

# What is written down about a client: number => last letter.
sub _read_log
{
	my ($self, $client) = @_;
	my %fate;

	open(my $log, '<', $self->_log_file($client)) or return {};
	while (my $line = <$log>)
	{
		my ($letter, $n) = $line =~ /^([SAUF]) (\d+)$/
			or croak "bad line in the log of client $client: $line";
		$fate{$n} = $letter;
	}
	return \%fate;
}

sub _last_number
{
	my ($self, $client) = @_;
	my $fate = $self->_read_log($client);
	my $last = 0;

	foreach my $n (keys %$fate) { $last = $n if $n > $last; }
	return $last;
}

sub counts
{
	my ($self) = @_;
	my ($acknowledged, $sent) = @{ $self->{earlier} };

	foreach my $client (1 .. $self->{clients})
	{
		my $fate = $self->_read_log($client);
		$sent += keys %$fate;
		$acknowledged += grep { $_ eq 'A' } values %$fate;
	}
	return ($acknowledged, $sent);
}

# --- Crashes ----------------------------------------------------------------

# Kills a server in the given way; afterwards it runs again.
sub crash
{
	my ($node, $kind) = @_;

	if ($kind eq 'postmaster' || $kind eq 'all') { kill_server($node, $kind); }
	elsif ($kind eq 'immediate') { $node->stop('immediate'); }
	elsif ($kind eq 'clean') { $node->stop('fast'); }
	elsif ($kind eq 'checkpoint')
	{
		my $pid = checkpoint_in_background($node);
		usleep(rand 150_000);
		kill_server($node, 'all');
		waitpid($pid, 0);
	}
	elsif ($kind eq 'stalled_worker')
	{
		# Clients harden their commits without it until the log needs a new segment; then nothing
		# may be acknowledged.
		kill 'STOP', $node->engine_worker_pid // croak 'no engine worker';
		usleep(50_000 + rand 250_000);
		kill_server($node, 'all');
	}
	elsif ($kind eq 'cancelled_worker')
	{
		my $worker = $node->engine_worker_pid // croak 'no engine worker';
		kill 'INT', $worker;
		$node->safe_psql('postgres', "SELECT pg_cancel_backend($worker)");
		usleep(rand 300_000);
		$node->safe_psql('postgres', q{SET statement_timeout = '60s';
			UPDATE ls_account SET balance = balance WHERE id = 1; SELECT leanstore_checkpoint()});
		kill_server($node, 'all');
	}
	elsif ($kind eq 'recovery')
	{
		kill_server($node, 'all');
		foreach (1 .. 1 + int(rand 3)) { start_and_kill($node, rand 0.4); }
	}
	else
	{
		my $pid =
			$kind eq 'engine_worker' ? $node->engine_worker_pid
		  # A parallel worker of a client may have ended by itself when it would be killed.
		  : $kind eq 'backend' ? $node->safe_psql('postgres',
			"SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'client %'
				AND backend_type = 'client backend' ORDER BY random() LIMIT 1")
		  : $kind eq 'auxiliary'
			? $node->child_pid((qw(checkpointer walwriter), 'background writer')[ rand 3 ])
		  : croak "unknown kind of crash: $kind";
		croak "no process to kill ($kind)" unless $pid;
		kill_process($node, $pid);
		return;
	}
	$node->start;
	return;
}

# The functions from here on are for every crash test, also without a driver.

# pg_ctl leaves the postmaster to init.  Where init is lazy (in a container) a
# killed one stays as a zombie, which the next postmaster takes for the live owner
# of its lock files.  So this process takes init's place for its orphans, and reaps
# postmasters itself.  It does so when it is loaded: a server that was started
# earlier would have gone to init already.
sub _adopt_orphans
{
	my %prctl = (x86_64 => 157, aarch64 => 167);
	my $number = $prctl{ (POSIX::uname())[4] } // return;
	my $set_child_subreaper = 36;

	syscall($number, $set_child_subreaper, 1, 0, 0, 0);
	return;
}

_adopt_orphans();

# Kills the postmaster, or all processes, of a server that runs, and waits until
# they have gone.  A process that outlives its postmaster blocks the next start,
# so that is a failure: it is shown where the process hangs.
sub kill_server
{
	my ($node, $which) = @_;
	my $postmaster = $node->{_pid} // croak 'the server does not run';
	my %children = $node->children;
	my $deadline = time + 60;

	# SIGSTOP may have come before: a stopped process dies of SIGKILL, too.
	$node->kill9;
	kill 'KILL', keys %children if $which eq 'all';
	until (waitpid($postmaster, POSIX::WNOHANG()) != 0 && !-e "/proc/$postmaster")
	{
		croak 'nobody reaps the killed postmaster' if time > $deadline;
		usleep(1_000);
	}
	# Now there are no new ones, and those that came last can be found: they are ours.
	while (my @left = grep { LeanstoreTest::process_runs($_) } keys %children,
		_server_processes($node))
	{
		kill 'KILL', @left if $which eq 'all';
		if (time > $deadline)
		{
			my @shown = map { _where_is($_) } @left;
			kill 'KILL', @left;
			croak join("\n", 'these processes outlive their postmaster:', @shown);
		}
		usleep(10_000);
	}
	return;
}

# Title and, if there is a debugger, stack of a process.
sub _where_is
{
	my ($pid) = @_;
	my $title = (eval { slurp_file("/proc/$pid/cmdline") } // '') =~ s/\0+/ /gr;
	my $stack = `gdb -p $pid -batch -ex bt 2>/dev/null` // '';

	return join "\n", "$pid $title", $stack =~ /^(#.*)$/mg;
}

# Own children that are processes of the server; their titles change as they start.  The first
# thread of one may have ended before the others, which are attached to shared memory still: then
# only these have a directory.
sub _server_processes
{
	my ($node) = @_;
	my $data = Cwd::realpath($node->data_dir);
	my @found;

	foreach my $directory (glob '/proc/[0-9]*')
	{
		my $stat = eval { slurp_file("$directory/stat") } // '';
		next unless $stat =~ /^(\d+) \(postgres\) \S $$ /;
		my $pid = $1;
		push @found, $pid if grep { (readlink($_) // '') eq $data } glob "$directory/task/*/cwd";
	}
	return @found;
}

# Kills one process of a server and waits until the server has restarted itself.
# While it restarts psql may leave before it has read its query, which IPC::Run
# reports as an exception: that is no answer, so ask again.
sub kill_process
{
	my ($node, $pid) = @_;
	my $old = $node->child_pid('checkpointer');
	my $done = eval { $node->kill9_process($pid); 1 };

	until ($done)
	{
		croak $@ unless $@ =~ /Broken pipe/;
		usleep(20_000);
		$done = eval { $node->wait_for_restart($old); 1 };
	}
	return;
}

# Waits until ROWS more rows are in TABLE than at the first call: the load runs.
sub wait_for_rows
{
	my ($node, $table, $rows) = @_;
	my $before = $node->safe_psql('postgres', "SELECT count(*) FROM $table");

	$node->poll_query_until('postgres', "SELECT count(*) >= $before + $rows FROM $table")
	  or croak "no load on $table";
	return;
}

# Returns the pid of a process that makes checkpoints of both sides.
sub checkpoint_in_background
{
	my ($node) = @_;
	my $pid = fork // croak "cannot fork: $!";

	if ($pid == 0)
	{
		open(STDERR, '>', '/dev/null');
		open(STDOUT, '>', '/dev/null');
		eval { $node->psql('postgres', q{
			CHECKPOINT;
			SELECT to_regproc('leanstore_checkpoint') IS NOT NULL AS ours \gset
			\if :ours
			SELECT leanstore_checkpoint();
			\endif}); };
		POSIX::_exit(0);
	}
	return $pid;
}

# Starts the server, does not wait until it is ready, kills it after SECONDS, and after what UNTIL
# does.
sub start_and_kill
{
	my ($node, $seconds, $until) = @_;
	local %ENV = $node->_get_env(PGAPPNAME => undef);
	my $old = _pid_in_file($node) // 0;
	my $pid;

	system('pg_ctl', '--no-wait', '--silent', '--pgdata' => $node->data_dir,
		'--log' => $node->logfile, 'start') == 0
	  or croak 'pg_ctl failed';
	usleep($seconds * 1_000_000);
	for (my $i = 0; $i < $TIMEOUT * 100; $i++)
	{
		$pid = _pid_in_file($node);
		last if defined $pid && $pid != $old;
		usleep(10_000);
	}
	croak 'the server does not start' unless defined $pid && $pid != $old;
	$node->{_pid} = $pid;
	$until->() if $until;
	kill_server($node, 'all');
	return;
}

# The postmaster's pid file may be missing, or empty for a moment.
sub _pid_in_file
{
	my ($node) = @_;
	my $text = eval { slurp_file($node->data_dir . '/postmaster.pid') } // '';

	return $text =~ /^(\d+)\n/ ? $1 : undef;
}

# --- Checks -----------------------------------------------------------------

# All checks; returns complaints.
sub verify
{
	my ($self) = @_;
	my $node = $self->{node};
	my @complaints = $self->_verify_fates;
	my %zero = $self->zero_queries;

	foreach my $what (sort keys %zero)
	{
		my ($status, $out, $error) = $node->psql('postgres', $zero{$what});
		push @complaints, "$what: $out $error" unless $status == 0 && $out eq '0';
	}
	my (undef, @damage) = $node->leanstore_check;
	return (@complaints, @damage);
}

# V4, V5, V7 to V9: (what is wrong => a query that answers 0 if it is not), for any snapshot of any
# server that has the tables.
sub zero_queries
{
	my ($self) = @_;

	return (
		'accounts differ from the journal: ls' => q{SELECT wrong_accounts('ls')},
		'accounts differ from the journal: mixed, leanstore side' =>
			q{SELECT wrong_accounts('mx_ls')},
		'accounts differ from the journal: mixed, heap side' => q{SELECT wrong_accounts('mx_heap')},
		'sum of ls_account' => qq{SELECT sum(balance) - 1000 * $ACCOUNTS FROM ls_account},
		'sum of mx_ls_account' => qq{SELECT sum(balance) - 1000 * $ACCOUNTS FROM mx_ls_account},
		'journals of mixed transactions differ' => q{SELECT count(*) FROM mx_ls_journal l
			FULL JOIN mx_heap_journal h USING (client, n)
			WHERE (l.src, l.dst, l.amount) IS DISTINCT FROM (h.src, h.dst, h.amount)},
		'accounts of mixed transactions differ' => q{SELECT count(*) FROM mx_ls_account l
			FULL JOIN mx_heap_account h USING (id) WHERE l.balance IS DISTINCT FROM h.balance},
		'items are not what ls_op says' => q{SELECT count(*) FROM ls_item i
			FULL JOIN item_wanted w USING (client, item) WHERE i.v IS DISTINCT FROM w.v},
		'texts of items are wrong' => q{SELECT count(*) FROM ls_item
			WHERE t IS DISTINCT FROM item_text(v)},
		'items by index differ' => q{SET enable_seqscan = off;
			SELECT (SELECT count(*) FROM ls_item WHERE v >= 0)
				- (SELECT count(*) FROM item_wanted)},
		'children without parents' => q{SELECT count(*) FROM fk_child
			WHERE NOT EXISTS (SELECT FROM fk_parent WHERE id = parent)},
		'batches are not whole, or updates of them got lost' => qq{SELECT count(*) FROM
			(SELECT batch, min(v) AS least, max(v) AS most, count(*) AS rows,
				row_number() OVER (ORDER BY batch DESC) AS updates FROM ls_batch GROUP BY batch) b
			WHERE rows <> $self->{batch_rows} OR least <> updates OR most <> updates},
		'large values are wrong' => qq{SELECT count(*) FROM ls_large
			WHERE d IS DISTINCT FROM large_value(batch, $self->{large_mb})},
		'a transaction is in two journals' => q{SELECT count(*)
			FROM (SELECT client, n FROM journal GROUP BY 1, 2 HAVING count(*) > 1) x},
		'what a transaction had seen is not there' => q{SELECT count(*)
			FROM ls_seen s, ls_head h WHERE s.heads[h.client] > h.n});
}

# Proves that the checks can fail: takes away one acknowledged transaction of
# each kind and half of another.  To be called last.
sub canary_ok
{
	my ($self) = @_;

	$self->{node}->safe_psql('postgres', q{
		DELETE FROM ls_journal WHERE (client, n) = (SELECT client, n FROM ls_journal LIMIT 1);
		DELETE FROM mx_ls_journal WHERE (client, n) = (SELECT client, n FROM mx_ls_journal LIMIT 1);
		UPDATE mx_heap_account SET balance = balance + 1 WHERE id = 1;
		DELETE FROM ls_item WHERE (client, item) = (SELECT client, item FROM ls_item LIMIT 1)});
	my $complaints = join "\n", $self->verify;
	my @wanted = (qr/acknowledged transaction \d+ is lost/,
		qr/accounts differ from the journal: ls/, qr/accounts of mixed transactions differ/,
		qr/journals of mixed transactions differ/, qr/items are not what ls_op says/);
	my @missed = grep { $complaints !~ $_ } @wanted;

	return Test::More::ok(!@missed, 'self-test: lost transactions and half ones are found')
	  || Test::More::diag("not found: @missed\nfound: $complaints");
}

# V1 .. V3: journals against the clients' logs; writes down what was found.
sub _verify_fates
{
	my ($self) = @_;
	my @complaints;
	my %found;

	foreach my $row (split /\n/,
		$self->{node}->safe_psql('postgres', 'SELECT client, n FROM journal'))
	{
		my ($client, $n) = split /\|/, $row;
		$found{$client}{$n} = 1;
	}
	$found{$BATCH_CLIENT}{$_} = 1
	  foreach split /\n/, $self->{node}->safe_psql('postgres',
		'SELECT DISTINCT batch FROM ls_batch UNION SELECT batch FROM ls_large');
	foreach my $client (1 .. $self->{clients}, $BATCH_CLIENT)
	{
		my $fate = $self->_read_log($client);
		my $present = $found{$client} // {};
		my %settled;
		my $last_present = 0;

		foreach my $n (keys %$present)
		{
			$last_present = $n if $n > $last_present;
			push @complaints, "client $client: transaction $n is there, but was never sent"
				unless exists $fate->{$n};
		}
		foreach my $n (sort { $a <=> $b } keys %$fate)
		{
			my $there = $present->{$n};
			my $letter = $fate->{$n};

			if ($letter eq 'A' && !$there)
			{
				push @complaints, "client $client: acknowledged transaction $n is lost";
			}
			elsif ($letter eq 'F' && $there)
			{
				push @complaints, "client $client: transaction $n failed, but is there";
			}
			elsif ($letter eq 'U' && !$there && $n < $last_present)
			{
				push @complaints,
					"client $client: transaction $n is lost, "
					. "but its successor $last_present is not";
			}
			$settled{$n} = $there ? 'A' : 'F' if $letter eq 'S' || $letter eq 'U';
		}
		open(my $log, '>>', $self->_log_file($client)) or croak "cannot open log: $!";
		print $log map { "$settled{$_} $_\n" } sort { $a <=> $b } keys %settled;
		close $log;
	}
	return @complaints;
}

1;

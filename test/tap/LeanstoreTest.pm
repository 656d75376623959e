# LeanstoreTest: a server with leanstore_am for TAP tests.
#
# It is a PostgreSQL::Test::Cluster (all its methods are there) that knows how
# to load the extension with nothing installed, how to crash in several ways,
# and how to prove afterwards that no damage is left.
#
#   use CrashDriver;
#   use LeanstoreTest;
#   use Test::More;
#
#   my $node = LeanstoreTest->new_node('main', 'leanstore.buffer_pool_size' => '64MB');
#   $node->pgbench_init('postgres', 1);
#   $node->run_pgbench('postgres', qw(-c 4 -t 100));
#   CrashDriver::kill_server($node, 'postmaster');
#   $node->start;
#   $node->pgbench_balanced_ok('postgres', 'after the crash');
#   $node->leanstore_check_ok('after the crash');
#   done_testing();
#
# Unlike a plain Cluster, fsync is on and the server restarts by itself after
# the crash of one of its processes.
package LeanstoreTest;

use strict;
use warnings FATAL => 'all';

use parent 'PostgreSQL::Test::Cluster';

use Carp;
use File::Basename qw(dirname);
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More ();
use Time::HiRes qw(usleep);

my $ENGINE_WORKER = 'leanstore engine worker';
my $DEFAULT_TIMEOUT = $PostgreSQL::Test::Utils::timeout_default;

# --- Start ------------------------------------------------------------------

# new_node(NAME, SETTING => VALUE ...): a started server with the extension
# created in the database postgres.
sub new_node
{
	my ($class, $name, %settings) = @_;
	my $node = $class->prepare_node($name, %settings);

	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION leanstore_am');
	return $node;
}

# new_standby(NAME, PRIMARY, BACKUP, SETTING => VALUE ...): a started standby that streams, of a
# backup of the primary.
sub new_standby
{
	my ($class, $name, $primary, $backup, %settings) = @_;
	my $standby = $class->new($name);

	$standby->init_from_backup($primary, $backup, has_streaming => 1);
	$standby->set_config(%settings);
	$standby->start;
	return $standby;
}

# As new_node(), only initialized: not started, no extension.  The pseudo-setting
# `init` holds parameters of PostgreSQL::Test::Cluster::init, `install_path` is an installation
# other than the usual one.
sub prepare_node
{
	my ($class, $name, %settings) = @_;
	my $stage = $ENV{LEANSTORE_STAGE}
	  or croak 'LEANSTORE_STAGE is not set: run the tests by make test-tap';
	my %init = %{ delete $settings{init} // {} };
	my $path = delete $settings{install_path};

	my $node = $class->new($name, defined $path ? (install_path => $path) : ());
	$node->init(%init);

	my %all = (
		extension_control_path => "$stage/share:\$system",
		dynamic_library_path => "$stage/lib:\$libdir",
		shared_preload_libraries => 'leanstore_am',
		fsync => 'on',
		restart_after_crash => 'on',
		log_statement => 'none',
		# a test that names btree means btree
		'leanstore.replace_btree' => 'off',
		$ENV{LOG} ? ('leanstore.log' => $ENV{LOG}) : (),
		%settings);
	$node->set_config(%all);
	return $node;
}

# Do the tests' servers have leanstore.log = wal?
sub in_wal
{
	return ($ENV{LOG} // 'engine') eq 'wal';
}

# Appends settings to postgresql.conf; they count at the next start or reload.
sub set_config
{
	my ($self, %settings) = @_;
	my $text = '';

	foreach my $name (sort keys %settings)
	{
		(my $value = $settings{$name}) =~ s/'/''/g;
		$text .= "$name = '$value'\n";
	}
	$self->append_conf('postgresql.conf', $text);
	return;
}

# installation(): the path of a copy of the server's installation, with leanstore_am in it.  For
# pg_upgrade, which looks for libraries where they are installed only.
sub installation
{
	my $stage = $ENV{LEANSTORE_STAGE};
	my %path = map {
		my $output = `pg_config --$_`;
		chomp $output;
		($_ => $output)
	} qw(bindir libdir pkglibdir sharedir);
	my $copy = PostgreSQL::Test::Utils::tempdir();
	my $prefix = dirname($path{bindir});
	my $place = sub { my $place = shift; $place =~ s/^\Q$prefix\E/$copy/; return $place };

	# The server finds what is its own by where it lies itself, so links will not do for it.
	system('cp', '-R', $path{bindir}, $place->($path{bindir})) == 0
	  && system('mkdir', '-p', $place->($path{pkglibdir}), dirname($place->($path{sharedir}))) == 0
	  && system('ln', '-s', $path{sharedir}, $place->($path{sharedir})) == 0
	  or croak 'cannot copy the installation';
	foreach my $directory ($path{libdir}, $path{pkglibdir})
	{
		system('ln', '-s', $_, $place->($directory)) == 0 or croak "cannot link $_"
		  foreach grep { -f } glob "$directory/*";
	}
	system('ln', '-sf', $_, $place->($path{pkglibdir})) == 0 or croak "cannot link $_"
	  foreach glob "$stage/lib/*.so";
	return $copy;
}

# compile_library(NAME, FLAG ...): the path of NAME.c, which lies beside this file, as a shared
# library.
sub compile_library
{
	my ($name, @flags) = @_;
	my $library = PostgreSQL::Test::Utils::tempdir() . "/$name.so";

	system('cc', '-shared', '-fPIC', '-O1', '-o', $library, dirname(__FILE__) . "/$name.c",
		@flags) == 0
	  or croak "cannot compile $name.c";
	return $library;
}

# --- Processes --------------------------------------------------------------

# The postmaster's children, from the operating system: (pid => title).  Works
# when SQL does not.
sub children
{
	my ($self) = @_;
	my $postmaster = $self->{_pid} or return ();
	my %children;

	opendir(my $proc, '/proc') or croak "cannot read /proc: $!";
	foreach my $pid (grep { /^\d+$/ } readdir $proc)
	{
		my $stat = _slurp("/proc/$pid/stat") // next;
		# The command name, in parentheses, may contain anything.
		$stat =~ s/^.*\) //s;
		my ($state, $parent) = split / /, $stat;
		next unless $parent == $postmaster && $state ne 'Z';
		(my $title = _slurp("/proc/$pid/cmdline") // '') =~ s/\0+/ /g;
		$children{$pid} = $title;
	}
	closedir $proc;
	return %children;
}

# PID of the process with TEXT in its title, or undef.
sub child_pid
{
	my ($self, $text) = @_;
	my %children = $self->children;
	my ($pid) = sort { $a <=> $b } grep { index($children{$_}, $text) >= 0 } keys %children;

	return $pid;
}

# PID of the engine worker: by SQL, or else by the process title.
sub engine_worker_pid
{
	my ($self) = @_;
	my ($status, $pid) = $self->psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = '$ENGINE_WORKER'");

	return $pid if $status == 0 && $pid =~ /^\d+$/;
	return $self->child_pid($ENGINE_WORKER);
}

# --- Crashes ----------------------------------------------------------------

# Kills one process with SIGKILL and waits until the server has restarted
# itself and answers again.
sub kill9_process
{
	my ($self, $pid) = @_;
	my $checkpointer = $self->child_pid('checkpointer')
	  // croak 'no checkpointer: is the server up?';

	# A signal to a process that has ended and is not reaped yet is no error, and does nothing.
	croak "process $pid has ended by itself" unless process_runs($pid);
	kill('KILL', $pid) == 1 or croak "cannot kill process $pid: $!";
	_wait_gone($pid);
	$self->wait_for_restart($checkpointer);
	return;
}

# Waits until a checkpointer other than OLD runs and the server answers.
sub wait_for_restart
{
	my ($self, $old) = @_;

	for (my $i = 0; $i < $DEFAULT_TIMEOUT * 10; $i++)
	{
		my $now = $self->child_pid('checkpointer');
		if (defined $now && $now != $old)
		{
			# A refused psql may be gone before it has read the query; that pipe is broken.
			my ($status, $out) = eval { $self->psql('postgres', 'SELECT 1') };
			return if defined $status && $status == 0 && $out eq '1';
		}
		usleep(100_000);
	}
	croak 'the server did not come back after a crash; see its log ' . $self->logfile;
}

# --- pgbench ----------------------------------------------------------------

# Fills pgbench's tables.  ACCESS_METHOD: leanstore if not given.
sub pgbench_init
{
	my ($self, $database, $scale, $access_method) = @_;
	$access_method //= 'leanstore';

	local $ENV{PGOPTIONS} = "-c default_table_access_method=$access_method";
	$self->_pgbench(qw(-i -q -s), $scale, $database);
	return;
}

# Runs pgbench to its end and returns what it printed; dies when it fails.
sub run_pgbench
{
	my ($self, $database, @options) = @_;

	return $self->_pgbench(qw(-n), @options, $database);
}

# Starts pgbench and returns at once: an IPC::Run handle, to be given to
# finish_pgbench.
sub start_pgbench
{
	my ($self, $database, @options) = @_;
	my $output = '';
	local %ENV = $self->_get_env();
	my $run = IPC::Run::start(
		[ $self->installed_command('pgbench'), '-n', @options, $database ],
		'<' => \undef, '>&' => \$output);

	return { run => $run, output => \$output };
}

# Waits for a pgbench from start_pgbench.  Returns its output; whether it
# failed does not matter, as the server may have been killed under it.
sub finish_pgbench
{
	my ($self, $handle) = @_;

	$handle->{run}->finish;
	return ${ $handle->{output} };
}

# Ends one before its time; else as finish_pgbench.
sub stop_pgbench
{
	my ($self, $handle) = @_;

	kill 'TERM', $handle->{run}{KIDS}[0]{PID};
	return $self->finish_pgbench($handle);
}

# Tests that the four balances of pgbench agree, that is, that each
# transaction was kept or lost as a whole.  Only for databases where nothing
# but pgbench's default script (tpcb-like) has run.
sub pgbench_balanced_ok
{
	my ($self, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $sums = $self->safe_psql($database, q{
		SELECT (SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts),
			   (SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches),
			   (SELECT coalesce(sum(tbalance), 0) FROM pgbench_tellers),
			   (SELECT coalesce(sum(delta), 0) FROM pgbench_history)});
	my ($first, @others) = split /\|/, $sums;

	return Test::More::ok(!(grep { $_ != $first } @others),
		"pgbench balances agree: $name")
	  || Test::More::diag("accounts|branches|tellers|history: $sums");
}

# --- Checks -----------------------------------------------------------------

# Databases that have the extension.
sub leanstore_databases
{
	my ($self) = @_;
	my @databases = split /\n/, $self->safe_psql('postgres',
		'SELECT datname FROM pg_database WHERE datallowconn AND datname <> $$template0$$
			ORDER BY 1');

	return grep {
		$self->safe_psql($_,
			q{SELECT count(*) FROM pg_extension WHERE extname = 'leanstore_am'}) eq '1'
	} @databases;
}

# Runs leanstore_check over every leanstore table of every database.  Returns
# the number of tables and a list of complaints.
sub leanstore_check
{
	my ($self) = @_;
	my $count = 0;
	my @complaints;

	foreach my $database ($self->leanstore_databases)
	{
		my $schema = $self->safe_psql($database,
			q{SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'leanstore_am'});
		my @tables = split /\n/, $self->safe_psql($database, q{
			SELECT c.oid
			FROM pg_class c JOIN pg_am a ON a.oid = c.relam
			WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm')
			  AND c.relpersistence <> 't'
			ORDER BY 1});
		foreach my $table (@tables)
		{
			my ($status, $out, $error) =
			  $self->psql($database, "SELECT $schema.leanstore_check(${table}::regclass)");
			$count++;
			push @complaints, "$database, table $table: $error" if $status != 0;
		}
	}
	return ($count, @complaints);
}

# Tests that no leanstore table is damaged.
sub leanstore_check_ok
{
	my ($self, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($count, @complaints) = $self->leanstore_check;

	return Test::More::ok(!@complaints, "leanstore_check of $count tables: $name")
	  || Test::More::diag(join("\n", @complaints));
}

# --- Internals --------------------------------------------------------------

sub _pgbench
{
	my ($self, @arguments) = @_;
	local %ENV = $self->_get_env();
	my ($out, $error) = ('', '');

	IPC::Run::run([ $self->installed_command('pgbench'), @arguments ],
		'<' => \undef, '>' => \$out, '2>' => \$error)
	  or croak "pgbench @arguments failed: $error";
	return $out;
}

sub _slurp
{
	my ($path) = @_;

	open(my $file, '<', $path) or return undef;
	local $/ = undef;
	return scalar <$file>;
}

# Does a process run?  A zombie does not, but one with threads may have a zombie for its first while
# others still leave, attached to shared memory.
sub process_runs
{
	my ($pid) = @_;

	return scalar grep { (_slurp($_) // '') =~ /\) [^ZX] / } glob "/proc/$pid/task/*/stat";
}

# Waits until processes have gone.
sub _wait_gone
{
	my @pids = @_;

	for (my $i = 0; $i < $DEFAULT_TIMEOUT * 10; $i++)
	{
		@pids = grep { process_runs($_) } @pids;
		return unless @pids;
		usleep(100_000);
	}
	croak "processes do not end: @pids";
}

1;

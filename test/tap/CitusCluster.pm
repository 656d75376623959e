# CitusCluster: a coordinator and two workers with Citus and leanstore_am.
#
#   my $cluster = CitusCluster->new('citus.shard_count' => 6);
#   $cluster->database('other');          # one more database on all nodes, with both extensions
#   $cluster->{coordinator}->safe_psql('other', ...);
#   $cluster->check('after that');        # leanstore_check of all nodes
#   $cluster->stop;
#
# Environment: CITUS_PG, the prefix of a PostgreSQL 18 with Citus in it.
package CitusCluster;

use strict;
use warnings FATAL => 'all';

use LeanstoreTest;

# available(): is there a server with Citus?
sub available
{
	return -x ($ENV{CITUS_PG} // '') . '/bin/postgres';
}

# new(SETTING => VALUE ...): three started servers.  The database postgres knows both extensions and
# all nodes; their tables are leanstore's by default.
sub new
{
	my ($class, %settings) = @_;
	my $prefix = $ENV{CITUS_PG};

	# Newer servers want to know which libraries may decode.
	my @decoders = `"$prefix/bin/postgres" --describe-config` =~ /^output_plugin_libraries\t/m
	  ? (output_plugin_libraries => 'pgoutput, citus') : ();
	my @nodes = map {
		my $node = LeanstoreTest->prepare_node($_,
			install_path => $prefix,
			shared_preload_libraries => 'citus,leanstore_am',
			default_table_access_method => 'leanstore',
			'leanstore.replace_btree' => 'on',
			'leanstore.buffer_pool_size' => '32MB',
			max_prepared_transactions => 50,
			wal_level => 'logical',
			max_wal_senders => 20,
			max_replication_slots => 20,
			max_worker_processes => 32,
			max_logical_replication_workers => 16,
			# its decoder takes the place of pgoutput where a table is distributed while written
			dynamic_library_path =>
				"$ENV{LEANSTORE_STAGE}/lib:\$libdir/citus_decoders:\$libdir",
			@decoders,
			'citus.node_conninfo' => 'sslmode=disable',
			%settings);
		$node->set_config('citus.local_hostname' => $node->host);
		$node->start;
		$node;
	} 'coordinator', 'worker1', 'worker2';
	my $self = bless { coordinator => $nodes[0], workers => [ @nodes[1, 2] ],
		nodes => \@nodes }, $class;

	$self->_connect('postgres');
	return $self;
}

# Two arguments of Citus' functions that say where a node is.
sub place
{
	my ($node) = @_;

	return sprintf q{'%s', %d}, $node->host, $node->port;
}

# database(NAME): a database on all nodes, and the nodes known in it.
sub database
{
	my ($self, $database) = @_;

	# Of its own on each node: Citus can make databases, but not extensions within.
	$_->safe_psql('postgres', "SET citus.enable_create_database_propagation = off;"
		. " SET client_min_messages = error; CREATE DATABASE $database")
	  foreach @{ $self->{nodes} };
	return $self->_connect($database);
}

# set(SETTING => VALUE ...): on all nodes, for sessions that begin.
sub set
{
	my ($self, %settings) = @_;

	foreach my $node (@{ $self->{nodes} })
	{
		$node->set_config(%settings);
		$node->reload;
	}
	return;
}

# check(NAME): tests that no leanstore table of any node is damaged.
sub check
{
	my ($self, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$_->leanstore_check_ok($name . ': ' . $_->name) foreach @{ $self->{nodes} };
	return;
}

sub stop
{
	my ($self) = @_;

	$_->stop foreach @{ $self->{nodes} };
	return;
}

sub _connect
{
	my ($self, $database) = @_;
	my $coordinator = $self->{coordinator};

	$_->safe_psql($database, 'CREATE EXTENSION citus; CREATE EXTENSION leanstore_am')
	  foreach @{ $self->{nodes} };
	$coordinator->safe_psql($database,
		'SELECT citus_set_coordinator_host(' . place($coordinator) . ')');
	$coordinator->safe_psql($database, 'SELECT citus_add_node(' . place($_) . ')')
	  foreach @{ $self->{workers} };
	return;
}

1;

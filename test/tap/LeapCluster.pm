# LeapCluster: several servers with leanstore_leap, joined, for TAP tests.
#
#   my $cluster = LeapCluster->new(3);
#   my ($a, $b, $c) = $cluster->nodes;
#   $cluster->create('account', 'id int PRIMARY KEY, v int');
#   my $key = $cluster->key_of_home('account', 2);
package LeapCluster;

use strict;
use warnings FATAL => 'all';

use Carp;
use LeanstoreTest;
use Test::More ();

# new(COUNT, SETTING => VALUE ...): nodes a, b, c, ... in one cluster.  The pseudo-setting `names`
# is an array of other names.
sub new
{
	my ($class, $count, %settings) = @_;
	my $names = delete $settings{names} // [ 'a' .. 'z' ];
	my @nodes = map {
		my $node = LeanstoreTest->prepare_node($_,
			shared_preload_libraries => 'leanstore_am, leanstore_leap',
			'leanstore.buffer_pool_size' => '32MB',
			'leap.minimum_hold' => 0,
			max_prepared_transactions => 20,
			%settings);
		$node->start;
		$node->safe_psql('postgres', 'CREATE EXTENSION leanstore_am;
			CREATE EXTENSION leanstore_leap');
		$node;
	} @{$names}[ 0 .. $count - 1 ];
	my $self = bless { nodes => \@nodes }, $class;

	$nodes[0]->safe_psql('postgres', sprintf(q{SELECT leap.init('%s', '%s')},
		$nodes[0]->name, conninfo($nodes[0])));
	foreach my $node (@nodes[ 1 .. $#nodes ])
	{
		$nodes[0]->safe_psql('postgres', sprintf(q{SELECT leap.add_node('%s', '%s')},
			$node->name, conninfo($node)));
	}
	return $self;
}

sub nodes { return @{ $_[0]->{nodes} } }

sub conninfo
{
	my ($node) = @_;

	return sprintf('host=%s port=%d dbname=postgres', $node->host, $node->port);
}

# create(TABLE, COLUMNS): a leap table of leanstore.
sub create
{
	my ($self, $table, $columns) = @_;

	$self->{nodes}[0]->safe_psql('postgres',
		"CREATE TABLE $table ($columns) USING leanstore; SELECT leap.create('$table')");
	return;
}

# The n-th integer key of a table with this home.
sub key_of_home
{
	my ($self, $table, $home, $n) = @_;

	return $self->{nodes}[0]->safe_psql('postgres', sprintf(q{
		SELECT i FROM leap.member m, generate_series(1, 1000) i
		WHERE m.relation = '%s'::regclass AND leap.home(m.family, i::text) = %d
		ORDER BY i OFFSET %d LIMIT 1}, $table, $home, $n // 0));
}

# Rows that are on a node, whatever it owns.
sub here
{
	my ($node, $table) = @_;

	return $node->safe_psql('postgres',
		"SET leap.scans = local; SELECT * FROM $table ORDER BY 1");
}

1;

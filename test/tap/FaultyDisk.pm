# FaultyDisk: a server with system calls that fail on chosen files as long as a
# test wants them to.
#
#   my $disk = FaultyDisk->new;
#   my $node = LeanstoreTest->prepare_node('main');
#   $disk->start($node);
#   $disk->fail(fallocate => ENOSPC, 'base/');
#   ...
#   $disk->heal;
#   $disk->hold(pwrite => 'leanstore/wal');	# these calls wait until it heals
#
# Calls: access, pread, pwrite, fallocate, fdatasync.  See fault_preload.c.
package FaultyDisk;

use strict;
use warnings FATAL => 'all';

use Carp;
use LeanstoreTest;
use PostgreSQL::Test::Utils;

sub new
{
	my ($class) = @_;
	my $directory = PostgreSQL::Test::Utils::tempdir();

	return bless { library => LeanstoreTest::compile_library('fault_preload', '-ldl'),
		rules => "$directory/faults", lines => [] }, $class;
}

# Starts the server so that it can be made to fail.
sub start
{
	my ($self, $node, %parameters) = @_;
	local $ENV{LD_PRELOAD} = $self->{library};
	local $ENV{LS_FAULTS} = $self->{rules};

	return $node->start(%parameters);
}

# From now on CALL on files with PART in their paths gives ERROR, too.
sub fail
{
	my ($self, $call, $error, $part) = @_;

	push @{ $self->{lines} }, sprintf("%s %d %s\n", $call, $error, $part);
	# By a new name: no process reads half a rule.
	append_to_file("$self->{rules}.new", join('', @{ $self->{lines} }));
	rename "$self->{rules}.new", $self->{rules} or croak "cannot rename: $!";
	return;
}

sub hold
{
	my ($self, $call, $part) = @_;

	return $self->fail($call, 0, $part);
}

sub heal
{
	my ($self) = @_;

	$self->{lines} = [];
	unlink $self->{rules};
	return;
}

1;

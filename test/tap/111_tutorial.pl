# The commands of docs/tutorial.md, as they stand there.  Packages and `make install` are not tried
# here: the server finds the extension in the image of the installed files.  With
# LEANSTORE_INSTALLED=1 it finds what has been installed into it, as packaging/first_hour wants.
use strict;
use warnings FATAL => 'all';

use DocumentedCommands;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $tutorial = 'docs/tutorial.md';
my $stage = $ENV{LEANSTORE_STAGE};
my $node = LeanstoreTest->new('yours');
my $backup = $node->basedir . '/saved';
my %names = (
	DATA => $node->data_dir,
	BACKUP => $backup,
	PORT => PostgreSQL::Test::Cluster::get_free_port());

# A server that has never seen the extension.
$node->init(allows_streaming => 1);
$node->set_config(
	extension_control_path => "$stage/share:\$system",
	dynamic_library_path => "$stage/lib:\$libdir") unless $ENV{LEANSTORE_INSTALLED};
$node->set_config(
	autovacuum => 'off',
	fsync => 'on',
	listen_addresses => '');
$node->start;

sub rows
{
	return $node->safe_psql('postgres', 'SELECT count(*), sum(balance) FROM account');
}

sub size
{
	return $node->safe_psql('postgres', "SELECT pg_total_relation_size('account')");
}

# Runs a section; the server is another process where a command has restarted it.
sub section
{
	my ($section) = @_;

	note $section;
	foreach my $command (DocumentedCommands::of($tutorial, $section))
	{
		DocumentedCommands::run_ok($node, $command, \%names);
		$node->_update_pid(1) if $command->{text} =~ /pg_ctl -D DATA/;
	}
	return;
}

my %before = ('A heap table' => '100000|200000', 'See what has changed' => '100000|400000');
my $size;
my @sections = slurp_file($tutorial) =~ /^## (.*)$/mg;
is(shift @sections, 'Install', 'the first section');
foreach my $section (@sections)
{
	section($section);
	is(rows(), $before{$section}, "rows after: $section") if $before{$section};
	is(rows(), '100000|400000', "all rows are there again") if $section eq 'Restore it';
	$node->leanstore_check_ok($section) if $section eq 'Tune memory';
	$size = size() if $section eq 'Move it';
	cmp_ok(size(), '<', $size * 1.1, 'updates do not make it grow')
	  if $section eq 'See what has changed';
}
is(rows(), '100000|400000', 'all rows are in heap');
is($node->safe_psql('postgres', 'SHOW shared_preload_libraries'), '', 'nothing is loaded');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_settings WHERE name LIKE 'leanstore%'"),
	0, 'and nothing set');
$node->stop;
done_testing();

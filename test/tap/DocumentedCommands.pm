# DocumentedCommands: the commands of a document, to be run as they stand there.
#
# Shell commands are lines indented by four spaces, one each, or lines of a block ```sh; a block
# ```sql is given to psql as a whole.  A block ```text behind it tells what psql prints.
#
#   foreach my $command (DocumentedCommands::of('docs/tutorial.md', 'Move it'))
#   {
#       DocumentedCommands::run_ok($node, $command, { DATA => $node->data_dir });
#   }
package DocumentedCommands;

use strict;
use warnings FATAL => 'all';

use File::Basename qw(basename);
use PostgreSQL::Test::Utils;
use Test::More;

my $count = 0;

# The commands of a section, in order: {kind => sh or sql, text => ..., prints => ... or undef}.
sub of
{
	my ($file, $section) = @_;
	my ($kind, @commands);

	slurp_file($file) =~ /^## \Q$section\E\n(.*?)(?=^## |\z)/ms
	  or die "$file has no section $section";
	foreach my $line (split /\n/, $1)
	{
		if ($line =~ /^```(\w*)$/)
		{
			$kind = defined $kind ? undef : $1 || 'none';
			push @commands, { kind => 'sql', text => '' } if ($kind // '') eq 'sql';
			$commands[-1]{prints} = '' if ($kind // '') eq 'text';
		}
		elsif (defined $kind && $kind ne 'sh')
		{
			my $part = { sql => 'text', text => 'prints' }->{$kind};

			$commands[-1]{$part} .= "$line\n" if $part;
		}
		elsif ($line =~ /\S/ && (defined $kind || $line =~ s/^    //))
		{
			push @commands, { kind => 'sh', text => $line };
		}
	}
	return @commands;
}

# Output without what differs from run to run: figures, sizes, the width of columns.
sub shape
{
	my ($output) = @_;

	$output =~ s/\d+(\.\d+)?( (bytes|kB|MB|GB)\b)?/N/g;
	$output =~ s/-+/-/g;
	$output =~ s/ +/ /g;
	$output =~ s/ $//mg;
	return $output =~ s/\n+\z//r;
}

# Runs a command for a server, after names as DATA have been replaced, and tests that it succeeds
# and prints what it should.  What it prints, and what a server that it starts logs, is kept beside
# the logs of other servers.
sub run_ok
{
	my ($node, $command, $names) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	local %ENV = $node->_get_env(PGDATABASE => 'postgres', PSQLRC => '/dev/null');
	my $log = sprintf('%s/%s_command%d.log', $PostgreSQL::Test::Utils::log_path,
		basename($0, '.pl'), ++$count);
	my ($filled, $name) = ($command->{text}) x 2;

	$filled =~ s/\b$_\b/$names->{$_}/g foreach keys %$names;
	if ($command->{kind} eq 'sql')
	{
		append_to_file("$log.sql", $filled);
		$filled = "psql -q -v ON_ERROR_STOP=1 -f '$log.sql'";
	}
	my $status = system("($filled) > '$log' 2>&1");
	my $output = slurp_file($log);
	unlink "$log.sql";
	is($status, 0, $name) or diag $output;
	is(shape($output), shape($command->{prints}), "... prints what the document says")
	  or diag $output
	  if defined $command->{prints};
	return;
}

1;

# The commands of leap/README.md, as they stand there, on three servers.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($readme) = grep { -e } map { "$_/README.md" } "$ENV{LEANSTORE_STAGE}/../leap",
  "$ENV{LEANSTORE_STAGE}/../../../leap";
plan skip_all => 'leap/README.md is not here' unless defined $readme;
my $text = slurp_file($readme);
my ($settings) = $text =~ /^(shared_preload_libraries.*leap.*)$/m or die 'no settings';
my ($sql) = $text =~ /```sql\n(-- on each\n.*?)```/s or die 'no commands';
# Parts by the comments that say where: each, first, second, first.
my @parts = grep { /\S/ } split /^-- on (?=each|the )/m, $sql;

my %node = map {
	my $node = LeanstoreTest->prepare_node($_, 'leanstore.buffer_pool_size' => '32MB');
	$node->append_conf('postgresql.conf', $settings);
	$node->start;
	($_ => $node)
} qw(a b c);

# Names of hosts of the README are those of servers here.
sub here
{
	my ($part) = @_;

	$part =~ s/host=(\w)\b/sprintf('host=%s port=%d', $node{$1}->host, $node{$1}->port)/ge;
	return $part;
}

my %places = (each => [ 'a', 'b', 'c' ], 'the first' => ['a'], 'the second' => ['b']);
my $output = '';
foreach my $part (@parts)
{
	$part =~ s/^(each|the first|the second)\b(.*?)\n//s or die "where? $part";
	foreach my $name (@{ $places{$1} })
	{
		my ($status, $out, $error) =
		  $node{$name}->psql('postgres', here($part), on_error_stop => 1);
		is($status, 0, "on $name") or diag($error);
		$output .= "$name: $_\n" foreach split /\n/, $out;
	}
}
like($output, qr/^b: public\.account\|1\|b\|1\|/m, 'the second owns what it has changed');
like($output, qr/^a: 3\|30\n\z/m, 'the first has what is left');
is($node{c}->safe_psql('postgres', 'SELECT v FROM account WHERE id IN (1, 3) ORDER BY id'),
	"11\n30", 'and the third sees all');
$_->stop foreach values %node;
done_testing();

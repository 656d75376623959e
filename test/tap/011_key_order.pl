# The keys of leanstore indexes against the comparison procedures, as in
# sql/key_order.sql, with other random values each time and more of them.
#
#   LS_SEED=n LS_KEY_VALUES=m make test-tap T=011
use strict;
use warnings FATAL => 'all';

use FindBin;
use LeanstoreTest;
use PostgreSQL::Test::Utils qw(run_log slurp_file);
use Test::More;

my $top = "$FindBin::Bin/../..";
my $node = LeanstoreTest->new_node(
	'main',
	fsync => 'off',
	init => { extra =>
		[qw(--encoding=UTF8 --locale=C --locale-provider=builtin --builtin-locale=C.UTF-8)] });
my %expected = map { $_ => 1 } split /\n/, slurp_file("$top/expected/key_order.out");

local $ENV{LS_SEED} = $ENV{LS_SEED} // int(rand(1_000_000));
local $ENV{LS_KEY_VALUES} = $ENV{LS_KEY_VALUES} // 200;
note "LS_SEED=$ENV{LS_SEED}";

# As pg_regress runs it.
my $output = '';
run_log(
	[ 'psql', '-X', '-a', '-q', '-f', "$top/sql/key_order.sql", $node->connstr('postgres') ],
	'>&' => \$output);
my @strange = grep { !$expected{$_} } split /\n/, $output;
is(scalar @strange, 0, "keys are in the order of their values, seed $ENV{LS_SEED}")
  or diag(join "\n", splice @strange, 0, 20);
like($output, qr/DROP SCHEMA key_order CASCADE;/, 'to the end');

done_testing();

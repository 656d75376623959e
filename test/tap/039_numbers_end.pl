# A relation that has as many pages as a file can have, and a table that has used up
# its row ids: the files say so, for no test can count that far.  What needs another
# one is refused with 54000 and the way out; what needs none works.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use SealedPage;
use Test::More;

# Of the meta page (engine/buffer/page.hpp), and the last values (buffer/page_allocator.hpp,
# engine.h).
my ($PAGE_COUNT, $ROW_ID_HIGH) = (56, 64);
my $MOST_PAGES = pack 'V', 0xf0000000;
my $LAST_ROW_ID = pack 'Q<', (1 << 63) | ((1 << 40) - (1 << 24));

my $node = LeanstoreTest->new_node('numbers', autovacuum => 'off');
$node->safe_psql('postgres', qq{
	CREATE TABLE $_ (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO $_ SELECT i, repeat('t', 300) FROM generate_series(1, 1000) i}) foreach 't', 'k';

sub change_meta
{
	my ($name, $offset, $bytes) = @_;
	my $path = $node->safe_psql('postgres', "SELECT pg_relation_filepath('$name')");

	$node->stop('fast');
	my $before = SealedPage::overwrite($node->data_dir . "/$path", 0, $offset, $bytes);
	$node->start;
	return $before;
}

sub refused_ok
{
	my ($table, $query, $error, $hint, $name) = @_;
	my (undef, undef, $text) = $node->psql('postgres', "\\set VERBOSITY verbose\n$query");

	like($text, qr/ERROR:  54000: [^\n]*$error.*HINT:  [^\n]*$hint/s, $name);
	my $rows = $node->safe_psql('postgres', "SELECT count(v) FROM $table");
	is($rows, 1000, "$name: nothing of it is left");
	return;
}

foreach my $file (['t', 't'], ['k', 'k_pkey'])
{
	my ($table, $name) = @$file;
	my $many = "INSERT INTO $table SELECT i, repeat('m', 300) FROM generate_series(1001, 4000) i";
	my $before = change_meta($name, $PAGE_COUNT, $MOST_PAGES);
	refused_ok($table, $many, 'as many pages as a file can have', 'Partition', "$name: pages");
	$node->safe_psql('postgres', "UPDATE $table SET v = repeat('u', 300) WHERE id = 500");
	change_meta($name, $PAGE_COUNT, $before);
	$node->safe_psql('postgres', "BEGIN; $many; DELETE FROM $table WHERE id > 1000; COMMIT");
	$node->leanstore_check_ok("$name: with its count as it was");
}

change_meta('t', $ROW_ID_HIGH, $LAST_ROW_ID);
my $one = q{INSERT INTO t VALUES (0, 'x')};
refused_ok('t', $one, 'used up its row ids', 'VACUUM FULL', 'row ids');
$node->safe_psql('postgres', "VACUUM FULL t; $one");
is($node->safe_psql('postgres', 'SELECT v FROM t WHERE id = 0'), 'x', 'new ids after a rewrite');
$node->leanstore_check_ok('after a rewrite');
$node->stop('fast');

done_testing();

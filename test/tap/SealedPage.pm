# SealedPage: bytes of a page in a file of a stopped server are changed, and its
# checksum with them: as memory that fails leaves them, or as a store that has
# counted that far.
#
#   my $before = SealedPage::overwrite($path, $page, $offset, $bytes);
package SealedPage;

use strict;
use warnings FATAL => 'all';

our $BYTES = 4096;
my ($CHECKSUM, $CHECKSUM_BYTES) = (8, 4);

my @CRC32C = map {
	my $crc = $_;
	$crc = $crc & 1 ? 0x82F63B78 ^ ($crc >> 1) : $crc >> 1 foreach 1 .. 8;
	$crc;
} 0 .. 255;

sub crc32c
{
	my ($bytes) = @_;
	my $crc = 0xFFFFFFFF;

	$crc = $CRC32C[ ($crc ^ $_) & 0xFF ] ^ ($crc >> 8) foreach unpack 'C*', $bytes;
	return $crc ^ 0xFFFFFFFF;
}

# Bytes of which the checksum at an offset is right.
sub seal
{
	my ($content, $at) = @_;

	substr($content, $at, $CHECKSUM_BYTES) = "\0" x $CHECKSUM_BYTES;
	substr($content, $at, $CHECKSUM_BYTES) = pack 'V', crc32c($content);
	return $content;
}

# What was there.
sub overwrite
{
	my ($path, $page, $offset, $bytes) = @_;

	open(my $file, '+<:raw', $path) or die "cannot open $path: $!";
	sysseek $file, $page * $BYTES, 0;
	(sysread($file, my $content, $BYTES) // 0) == $BYTES or die "cannot read $path: $!";
	my $before = substr($content, $offset, length $bytes, $bytes);
	$content = seal($content, $CHECKSUM);
	sysseek $file, $page * $BYTES, 0;
	(syswrite($file, $content) // 0) == $BYTES or die "cannot write $path: $!";
	close $file or die "cannot close $path: $!";
	return $before;
}

1;

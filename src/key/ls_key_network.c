/*
 * ls_key_network.c - inet and cidr.
 *
 *	  family | network, zeros behind its bits (4 or 16 bytes) | bits |
 *	  the bytes of the address that are not all network
 *
 * which is how they compare: networks first, shorter ones before those within, and
 * hosts within a network last.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "utils/inet.h"
#include "varatt.h"

#include <sys/socket.h>

/* Bits of byte i of an address that are network, of `bits` in all. */
static uint8
network_mask(int i, int bits)
{
	int			here = Max(Min(bits - 8 * i, 8), 0);

	return (uint8) (0xFF00 >> here);
}

static void
encode_inet(const LsKeyColumn *column, Datum value, StringInfo out)
{
	inet	   *address = DatumGetInetPP(value);
	const uint8 *bytes = ip_addr(address);
	int			size = ip_addrsize(address);
	int			bits = ip_bits(address);
	uint8	   *to = ls_key_extend(out, size + 2);

	*to++ = ip_family(address);
	for (int i = 0; i < size; i++)
		*to++ = bytes[i] & network_mask(i, bits);
	*to = (uint8) bits;
	ls_key_put(out, bytes + bits / 8, size - bits / 8);
	if ((Pointer) address != DatumGetPointer(value))
		pfree(address);
}

static Datum
decode_inet(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	LsKeyReader reader = {bytes, len};
	inet	   *address = palloc0(sizeof(inet));
	const uint8 *network;
	int			size;
	int			bits;

	ip_family(address) = *ls_key_read(&reader, 1);
	if (ip_family(address) != PGSQL_AF_INET && ip_family(address) != PGSQL_AF_INET6)
		ls_key_damaged();
	size = ip_addrsize(address);
	network = ls_key_read(&reader, size);
	memcpy(ip_addr(address), network, size);
	bits = ip_bits(address) = *ls_key_read(&reader, 1);
	if (bits > ip_maxbits(address) || reader.left != size - bits / 8)
		ls_key_damaged();
	memcpy(ip_addr(address) + bits / 8, reader.bytes, reader.left);
	for (int i = 0; i < size; i++)
		if (network[i] != (ip_addr(address)[i] & network_mask(i, bits)))
			ls_key_damaged();
	SET_INET_VARSIZE(address);
	return InetPGetDatum(address);
}

const LsKeyEncoding ls_key_inet = {.encode = encode_inet, .decode = decode_inet};

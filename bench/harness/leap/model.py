"""What the cost model of LEAP's paper says of messages and forced writes of a transaction.

n accesses, of which a share p = P(R) is remote, of these a share P(L|R) with locality.  An access
needs a transfer with the probability pq (2 - pq), q = 1 - P(L|R): equation 1 of the paper.  Other
nodes are equally likely.  A way that asks a node once for several rows is counted so.

Two-phase commit: of the paper's five messages for a participant the last one, the acknowledgment,
is waited for here, too; and a call, or a statement, has an answer: six.
"""


def nodes_asked(others, n, p):
    """Expected number of other nodes that one of n accesses goes to."""
    return others * (1 - (1 - p / others)**n)


def expected(way, case, n, write_share):
    """(messages, forced writes) of a transaction."""
    others = case['nodes'] - 1
    p = case['remote'] / 100
    if way.startswith('leap'):
        pq = p * (1 - case['locality'] / 100)
        transfer = pq * (2 - pq)
        asked = n * transfer if way == 'leap rows' else nodes_asked(others, n, transfer)
        # two messages where the home is requester or owner, as most are here
        return 2 * asked, 1 + asked
    writers = nodes_asked(others, n, p * write_share)
    all_asked = nodes_asked(others, n, p)
    readers = all_asked - writers
    executed = all_asked if way == 'delegated' else n * p
    return (2 * executed + 4 * writers + 2 * readers,
            2 * writers + 1)

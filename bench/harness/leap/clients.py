"""Clients: a process for each, which does one transaction after the other."""
import multiprocessing
import os
import random
import resource
import time

from ..errors import BenchError
from .pq import Connection, Failed
from .ways import AGAIN, WAYS

RETRY_SECONDS = 0.002  # a mean, for a transaction that failed
PATIENCE = 60
LATE = 0.1  # of a turn: counters that are read later than that are of another time


class Client:

    def __init__(self, turn, number):
        self.nodes, self.workload, self.case = turn.nodes, turn.workload, turn.case
        self.number, self.clients = number, turn.clients
        self.home = number % len(turn.nodes)
        self.name = f'c{number}-{os.getpid()}-{time.time():.3f}'
        self.random = random.Random(turn.seed * 1000 + number)
        self.way = WAYS[turn.way](self)
        self.table = turn.table
        self.turn = 0
        self.serial = turn.serial * 100 + number   # no other client has it
        self.done = self.failed = self.writes = 0

    def work(self, until):
        while time.time() < until:
            transaction = self.workload.transaction(self, self.table)
            while True:
                try:
                    self.way.run(transaction)
                except Failed as error:
                    self.way.give_up()
                    if error.args[0] not in AGAIN:
                        raise
                    self.failed += 1
                    time.sleep(self.random.random() * 2 * RETRY_SECONDS)
                    continue
                break
            self.done += 1
            self.writes += transaction.writes()

    def figures(self):
        return (self.done, self.failed, self.writes, self.way.messages, self.way.sequence)


def process(turn, number, times, queue):
    try:
        Connection.load(turn.libdir)
        client = Client(turn, number)
        client.way.connect()
        begin, end = times
        client.work(begin)
        before = client.figures()
        client.work(end)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        queue.put((before, client.figures(), usage.ru_utime + usage.ru_stime))
    except Exception as error:  # the parent tells it
        queue.put(f'{turn.way}, client {number}: {type(error).__name__}: {error}')
        raise


def play(turn, warm, seconds):
    """(begin, end) figures of all clients together, and the counters of the nodes at both ends."""
    begin = time.time() + warm + 0.3
    end = begin + seconds
    queue = multiprocessing.Queue()
    clients = [multiprocessing.Process(target=process, args=(turn, i, (begin, end), queue))
               for i in range(turn.clients)]
    for client in clients:
        client.start()
    time.sleep(max(0, begin - time.time()))
    counted = turn.nodes.counters()
    if counted['time'] > begin + LATE * seconds:
        raise BenchError('the machine is too busy: counters were read too late')
    found = []
    for _ in clients:
        found.append(queue.get(timeout=warm + seconds + PATIENCE))
        if isinstance(found[-1], str):
            for client in clients:
                client.terminate()
            raise BenchError(found[-1])
    for client in clients:
        client.join()
    after = turn.nodes.counters()
    time.sleep(1.1)     # statistics of the servers come once a second
    after['syncs'] = turn.nodes.counters()['syncs']
    sums = [[sum(values) for values in zip(*part)] for part in zip(*(f[:2] for f in found))]
    used = {name: after[name] - counted[name] for name in after}
    used['clients'] = sum(f[2] for f in found)
    return sums[0], sums[1], used

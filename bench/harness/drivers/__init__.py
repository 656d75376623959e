"""The ways to measure that a workload can name."""
from .citus import Citus
from .engine import Engine
from .hammerdb import Hammerdb
from .leap import Leap
from .load import Load
from .long_snapshot import LongSnapshot
from .plans import Plans
from .range_lock import RangeLock
from .recovery import Recovery
from .restart import Restart
from .sampled import Sampled
from .session_memory import SessionMemory
from .standby_reader import StandbyReader
from .statements import Statements
from .sysbench import Sysbench
from .tpcc import Tpcc
from .upgrade import Upgrade
from .values import Values

DRIVERS = {
    'citus': Citus,
    'engine': Engine,
    'hammerdb': Hammerdb,
    'leap': Leap,
    'load': Load,
    'long_snapshot': LongSnapshot,
    'plans': Plans,
    'range_lock': RangeLock,
    'recovery': Recovery,
    'restart': Restart,
    'sampled': Sampled,
    'session_memory': SessionMemory,
    'standby_reader': StandbyReader,
    'statements': Statements,
    'sysbench': Sysbench,
    'tpcc': Tpcc,
    'upgrade': Upgrade,
    'values': Values
}

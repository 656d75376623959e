"""libpq, as far as the clients need it: several connections that are asked at once."""
import ctypes

TUPLES, FATAL = 2, 7


class Failed(Exception):
    """A statement failed; args[0] is its SQLSTATE."""


class Connection:
    lib = None

    @classmethod
    def load(cls, libdir):
        if cls.lib:
            return
        lib = ctypes.CDLL(f'{libdir}/libpq.so.5')
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
        for name, result, *arguments in (
            ('PQconnectdb', pointer, text), ('PQfinish', None, pointer),
            ('PQstatus', number, pointer), ('PQerrorMessage', text, pointer),
            ('PQsendQuery', number, pointer, text), ('PQgetResult', pointer, pointer),
            ('PQresultStatus', number, pointer), ('PQresultErrorField', text, pointer, number),
            ('PQresultErrorMessage', text, pointer), ('PQntuples', number, pointer),
            ('PQgetvalue', text, pointer, number, number), ('PQclear', None, pointer)):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        cls.lib = lib

    def __init__(self, conninfo):
        self.pq = self.lib.PQconnectdb(conninfo.encode())
        if self.lib.PQstatus(self.pq) != 0:
            raise Failed('08006', self.lib.PQerrorMessage(self.pq).decode())

    def close(self):
        self.lib.PQfinish(self.pq)

    def send(self, sql):
        self.lib.PQsendQuery(self.pq, sql.encode())

    def receive(self):
        """The first column of the last result with rows."""
        failed, rows = None, []
        while result := self.lib.PQgetResult(self.pq):
            status = self.lib.PQresultStatus(result)
            if status == FATAL:
                state = self.lib.PQresultErrorField(result, ord('C'))
                failed = Failed((state or b'08006').decode(),
                                self.lib.PQresultErrorMessage(result).decode())
            elif status == TUPLES:
                rows = [self.lib.PQgetvalue(result, i, 0).decode()
                        for i in range(self.lib.PQntuples(result))]
            self.lib.PQclear(result)
        if failed:
            raise failed
        return rows

    def run(self, sql):
        self.send(sql)
        return self.receive()

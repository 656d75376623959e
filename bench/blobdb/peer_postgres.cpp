// peer_postgres.cpp - a PostgreSQL server, by libpq.
//
// The operations up to a commit are one pipeline, and so one transaction: a commit costs one
// journey to the server, whatever the number of operations.
#include <libpq-fe.h>

#include <cstring>

#include "store.hpp"

namespace ls::blobdb {
namespace {

constexpr const char *kStatements[] = {"INSERT INTO v (id, value) VALUES ($1::int8, $2::bytea)",
                                       "UPDATE v SET value = $2::bytea WHERE id = $1::int8",
                                       "SELECT value FROM v WHERE id = $1::int8"};
constexpr const char *kNames[] = {"insert", "update", "read"};
constexpr int kBinary = 1;

class PostgresSession : public Session {
 public:
  explicit PostgresSession(bool is_snapshot) : connection_(PQconnectdb("")) {
    if (PQstatus(connection_) != CONNECTION_OK) fail("connection");
    if (is_snapshot) execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    for (int i = 0; i < 3; i++) {
      PGresult *result = PQprepare(connection_, kNames[i], kStatements[i], 0, nullptr);
      if (PQresultStatus(result) != PGRES_COMMAND_OK) fail("prepare");
      PQclear(result);
    }
    // The first query takes the snapshot.
    if (is_snapshot) execute("SELECT id FROM v LIMIT 1");
    if (!PQenterPipelineMode(connection_)) fail("pipeline");
  }
  ~PostgresSession() override { PQfinish(connection_); }

  void put(const Operation &operation) override {
    fill(operation.content, &bytes_);
    const bool is_insert = operation.kind == Kind::kInsert;
    send(operation.key, kNames[is_insert ? 0 : 1], 2);
    pending_.push_back({operation.key, {}, false, false});
  }
  void read(u32 key, const Content &expected, bool all) override {
    send(key, kNames[2], 1);
    pending_.push_back({key, expected, true, all});
  }
  void commit() override {
    if (pending_.empty()) return;
    if (!PQpipelineSync(connection_)) fail("sync");
    for (const Pending &pending : pending_) {
      PGresult *result = PQgetResult(connection_);
      check(result, pending);
      PQclear(result);
      if (PQgetResult(connection_) != nullptr) fail("a second result");
    }
    pending_.clear();
    PGresult *result = PQgetResult(connection_);
    if (PQresultStatus(result) != PGRES_PIPELINE_SYNC) fail("commit");
    PQclear(result);
  }

 private:
  struct Pending {
    u32 key;
    Content expected;
    bool is_read, all;
  };

  [[noreturn]] void fail(const char *what) {
    give_up(std::string(what) + ": " + PQerrorMessage(connection_));
  }
  void execute(const char *statement) {
    PGresult *result = PQexec(connection_, statement);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail(statement);
    PQclear(result);
  }
  void send(u32 key, const char *name, int count) {
    const u64 id = __builtin_bswap64(key);
    char id_bytes[sizeof(id)];
    memcpy(id_bytes, &id, sizeof(id));
    const char *values[] = {id_bytes, reinterpret_cast<const char *>(bytes_.data())};
    const int lengths[] = {sizeof(id), static_cast<int>(bytes_.size())};
    const int formats[] = {kBinary, kBinary};
    if (!PQsendQueryPrepared(connection_, name, count, values, lengths, formats, kBinary))
      fail(name);
  }
  void check(PGresult *result, const Pending &pending) {
    if (!pending.is_read) {
      if (PQresultStatus(result) != PGRES_COMMAND_OK) fail("put");
      if (strcmp(PQcmdTuples(result), "1") != 0)
        give_up("key " + std::to_string(pending.key) + " is not there once");
      return;
    }
    if (PQresultStatus(result) != PGRES_TUPLES_OK) fail("read");
    if (PQntuples(result) != 1 ||
        !is_equal(pending.expected,
                  {reinterpret_cast<const u8 *>(PQgetvalue(result, 0, 0)),
                   static_cast<size_t>(PQgetlength(result, 0, 0))},
                  pending.all))
      give_up("key " + std::to_string(pending.key) + " has another value");
  }

  PGconn *connection_;
  std::vector<u8> bytes_;
  std::vector<Pending> pending_;
};

class Postgres : public Store {
 public:
  std::unique_ptr<Session> session() override { return std::make_unique<PostgresSession>(false); }
  std::unique_ptr<Session> snapshot() override { return std::make_unique<PostgresSession>(true); }
  void settle() override {}
};

}  // namespace

std::unique_ptr<Store> open_postgres() { return std::make_unique<Postgres>(); }

}  // namespace ls::blobdb

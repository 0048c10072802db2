#pragma once
// A log of records in one SQLite file (write-ahead logging). Appended records survive a crash of
// process and machine, as whole records in the order of their numbers. A checkpoint replaces the
// records up to its number. One writer; one thread at a time.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sqlite3.h>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"

struct sqlite3;

namespace longhaul::store {

class LogFile {
  static constexpr int kApplication = 0x6C684C33;  // "lhL3": a log of this format

  struct FinishStatement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, FinishStatement>;

  static Statement prepare(sqlite3* database, const char* sql) {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
    return Statement(statement);
  }

  static std::int64_t number_of(sqlite3* database, const char* sql) {
    const Statement statement = prepare(database, sql);
    if (!statement || sqlite3_step(statement.get()) != SQLITE_ROW) return -1;
    return sqlite3_column_int64(statement.get(), 0);
  }

  static const char* remedy(int code) {
    switch (code & 0xFF) {
      case SQLITE_FULL:
      case SQLITE_IOERR:
        return "; see to the disk and start again: what was stored is continued";
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        return "; another process has it open: end that one, or choose another folder with --out";
      case SQLITE_NOTADB:
      case SQLITE_CORRUPT:
        return "; choose another folder with --out, or start again with --force";
      default:
        return "";
    }
  }

  // Returns the second column.
  static Bytes blob_of(sqlite3_stmt* row) {
    const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(row, 1));
    const auto size = std::size_t(sqlite3_column_bytes(row, 1));
    return share(bytes ? Buffer(bytes, bytes + size) : Buffer{});
  }

 public:
  // Opens the log, and creates the file if there is none. Errors: it cannot be created, is no such
  // log, or is open in another process.
  static Result<std::unique_ptr<LogFile>> open(const std::string& path) {
    sqlite3* database = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &database,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    std::unique_ptr<LogFile> log(new LogFile(path, database));
    if (code != SQLITE_OK) return log->failed("be opened");
    const std::int64_t kind = number_of(database, "PRAGMA application_id");
    const std::int64_t tables = number_of(database, "SELECT count(*) FROM sqlite_master");
    if (tables < 0) return log->failed("be read");
    if (tables > 0 && kind != kApplication)
      return malformed(path +
                       ": is no log of this version of longhaul; choose another folder with --out, "
                       "or start again with --force");
    LH_TRY(log->execute("PRAGMA locking_mode = EXCLUSIVE"));
    LH_TRY(log->execute("PRAGMA journal_mode = WAL"));
    LH_TRY(log->execute("PRAGMA synchronous = FULL"));
    if (tables == 0)
      LH_TRY(
          log->execute(fmt::format("BEGIN; CREATE TABLE log (number INTEGER PRIMARY KEY, record "
                                   "BLOB NOT NULL); CREATE TABLE checkpoint (number INTEGER NOT "
                                   "NULL, state BLOB NOT NULL); PRAGMA application_id = {}; COMMIT",
                                   kApplication)
                           .c_str()));
    return log;
  }

  // Sets the owner of the records, a line of text. Returns an Error if they have another owner.
  Status claim(const std::string& owner) {
    LH_TRY(execute("CREATE TABLE IF NOT EXISTS owner (name TEXT NOT NULL)"));
    const Statement read = prepare(database_, "SELECT name FROM owner");
    if (!read) return failed("read the owner");
    const int code = sqlite3_step(read.get());
    if (code == SQLITE_ROW) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(read.get(), 0));
      const std::string found = text ? text : "";
      if (found == owner) return Ok{};
      return invalid(fmt::format(
          "{}: is of {}, not of {}; choose another folder with --out, or start again with --force",
          path_, found, owner));
    }
    if (code != SQLITE_DONE) return failed("read the owner");
    const Statement insert = prepare(database_, "INSERT INTO owner (name) VALUES (?)");
    if (!insert) return failed("write the owner");
    sqlite3_bind_text(insert.get(), 1, owner.data(), int(owner.size()), SQLITE_STATIC);
    if (sqlite3_step(insert.get()) != SQLITE_DONE) return failed("write the owner");
    return Ok{};
  }

  ~LogFile() { sqlite3_close(database_); }

  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  struct Checkpoint {
    std::uint64_t number = 0;  // last record that it replaces; 0: no checkpoint
    Bytes state = nullptr;
  };
  Result<Checkpoint> checkpoint() const {
    const Statement read = prepare(database_, "SELECT number, state FROM checkpoint");
    if (!read) return failed("read the checkpoint");
    const int code = sqlite3_step(read.get());
    if (code == SQLITE_DONE) return Checkpoint{};
    if (code != SQLITE_ROW) return failed("read the checkpoint");
    return Checkpoint{std::uint64_t(sqlite3_column_int64(read.get(), 0)), blob_of(read.get())};
  }

  // Calls `take` for every record after the checkpoint, in order, without gaps. Errors: unreadable,
  // a missing record, or the Error of `take`.
  using Take = std::function<Status(std::uint64_t number, const Bytes&)>;
  Status each(const Take& take) const {
    const std::int64_t checkpoint =
        number_of(database_, "SELECT ifnull(max(number), 0) FROM checkpoint");
    const Statement read = prepare(database_, "SELECT number, record FROM log ORDER BY number");
    if (!read || checkpoint < 0) return failed("read the log");
    auto last = std::uint64_t(checkpoint);
    int code = sqlite3_step(read.get());
    for (; code == SQLITE_ROW; code = sqlite3_step(read.get())) {
      if (sqlite3_column_int64(read.get(), 0) != std::int64_t(++last))
        return malformed(
            fmt::format("{}: record {} is missing; start anew with --force", path_, last));
      LH_TRY(take(last, blob_of(read.get())));
    }
    if (code != SQLITE_DONE) return failed("read the log");
    return Ok{};
  }

  // Returns all of them at once; for short logs.
  Result<std::vector<Bytes>> records() const {
    std::vector<Bytes> records;
    LH_TRY(each([&](std::uint64_t, const Bytes& record) {
      records.push_back(record);
      return Status(Ok{});
    }));
    return records;
  }

  // A record for append(), which is durable when it returns: all records or none. An existing
  // number is replaced, so that appending twice changes nothing.
  struct Record {
    std::uint64_t number = 0;
    Bytes bytes;
  };
  Status append(std::span<const Record> records) {
    return transaction([&]() -> Status {
      const Statement insert =
          prepare(database_, "INSERT OR REPLACE INTO log (number, record) VALUES (?, ?)");
      if (!insert) return failed("write the log");
      for (const Record& record : records) {
        sqlite3_reset(insert.get());
        sqlite3_bind_int64(insert.get(), 1, std::int64_t(record.number));
        // Without bytes data() may be null, which SQLite would take for NULL.
        if (record.bytes->empty())
          sqlite3_bind_zeroblob(insert.get(), 2, 0);
        else
          sqlite3_bind_blob64(insert.get(), 2, record.bytes->data(), record.bytes->size(),
                              SQLITE_STATIC);
        if (sqlite3_step(insert.get()) != SQLITE_DONE) return failed("write the log");
      }
      return Ok{};
    });
  }

  // Durable when it returns; removes the records up to its number. At most kMostState bytes.
  static constexpr std::size_t kMostState = 900'000'000;  // SQLite holds 1e9 bytes in a value
  Status write_checkpoint(const Checkpoint& checkpoint) {
    if (checkpoint.state->size() > kMostState)
      return invalid(fmt::format("{}: a checkpoint of {} bytes is more than {}", path_,
                                 checkpoint.state->size(), kMostState));
    return transaction([&]() -> Status {
      LH_TRY(execute("DELETE FROM checkpoint"));
      const Statement insert =
          prepare(database_, "INSERT INTO checkpoint (number, state) VALUES (?, ?)");
      if (!insert) return failed("write the checkpoint");
      sqlite3_bind_int64(insert.get(), 1, std::int64_t(checkpoint.number));
      sqlite3_bind_blob64(insert.get(), 2, checkpoint.state->data(), checkpoint.state->size(),
                          SQLITE_STATIC);
      if (sqlite3_step(insert.get()) != SQLITE_DONE) return failed("write the checkpoint");
      return execute(fmt::format("DELETE FROM log WHERE number <= {}", checkpoint.number).c_str());
    });
  }

 private:
  LogFile(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}
  Error failed(const char* doing) const {
    return {Error::Kind::io,
            fmt::format("{}: cannot {}: {}{}", path_, doing,
                        database_ ? sqlite3_errmsg(database_) : "no memory",
                        remedy(database_ ? sqlite3_errcode(database_) : SQLITE_NOMEM))};
  }

  Status execute(const char* sql) {
    if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return failed(sql);
    return Ok{};
  }

  // Writes all changes of `work`, or nothing.
  Status transaction(const std::function<Status()>& work) {
    LH_TRY(execute("BEGIN IMMEDIATE"));
    Status written = work();
    if (written) written = execute("COMMIT");
    if (!written) (void)execute("ROLLBACK");
    return written;
  }

  std::string path_;
  sqlite3* database_;
};

}  // namespace longhaul::store

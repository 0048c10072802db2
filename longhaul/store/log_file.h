#pragma once
// A log of records in one SQLite file (write-ahead logging): what a node appended survives a crash
// of process and machine, whole records in the order of their numbers. One writer; one thread at a
// time.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"

struct sqlite3;

namespace longhaul::store {

class LogFile {
 public:
  // Creates the file where there is none. Error: it cannot be, is no such log, or another process
  // has it open.
  static Result<std::unique_ptr<LogFile>> open(const std::string& path);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // All records: number 1 first, without gaps. Error: unreadable, or one is missing.
  Result<std::vector<Bytes>> records() const;
  // Durable when it returns, all of them or none. A number that is there already is replaced, so
  // that appending twice changes nothing.
  struct Record {
    std::uint64_t number = 0;
    Bytes bytes;
  };
  Status append(std::span<const Record>);

 private:
  LogFile(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}
  Error failed(const char* doing) const;
  Status execute(const char* sql);

  std::string path_;
  sqlite3* database_;
};

}  // namespace longhaul::store

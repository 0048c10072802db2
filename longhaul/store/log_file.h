#pragma once
// A log of records in one SQLite file (write-ahead logging): what a node appended survives a crash
// of process and machine, whole records in the order of their numbers. A checkpoint stands for the
// records up to its number and takes their place. One writer; one thread at a time.
#include <cstdint>
#include <functional>
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
  // Whose records these are, in a line of text; the first one to say so has it. Error: another one.
  Status claim(const std::string& owner);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  struct Checkpoint {
    std::uint64_t number = 0;  // of the last record for which it stands; 0: there is none
    Bytes state = nullptr;
  };
  Result<Checkpoint> checkpoint() const;
  // Every record behind the checkpoint, in order, without gaps. Error: unreadable, one is missing,
  // or what `take` answers.
  using Take = std::function<Status(std::uint64_t number, const Bytes&)>;
  Status each(const Take& take) const;
  // All of them at once, for few.
  Result<std::vector<Bytes>> records() const;
  // Durable when it returns, all of them or none. A number that is there already is replaced, so
  // that appending twice changes nothing.
  struct Record {
    std::uint64_t number = 0;
    Bytes bytes;
  };
  Status append(std::span<const Record>);
  // Durable when it returns; the records up to its number are removed. At most kMostState bytes.
  static constexpr std::size_t kMostState = 900'000'000;  // SQLite holds 1e9 bytes in a value
  Status write_checkpoint(const Checkpoint&);

 private:
  LogFile(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}
  Error failed(const char* doing) const;
  Status execute(const char* sql);

  std::string path_;
  sqlite3* database_;
};

}  // namespace longhaul::store

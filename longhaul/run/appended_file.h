#pragma once
// A file of a run that grows at its end while others read it: metrics.jsonl, TensorBoard's events.
// On a full disk pieces wait in memory; flush() and sync() try again. A file that is removed while
// it grows begins again. One thread calls it.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "longhaul/base/result.h"

namespace longhaul::run {

class AppendedFile {
 public:
  static constexpr std::size_t kMostPending = 16u << 20;

  // Keeps the first `keep` bytes of an existing file and appends. A file shorter than that is an
  // Error. `head`: what a file without any begins with.
  static Result<AppendedFile> open(const std::string& path, std::uint64_t keep,
                                   std::string head = "");

  AppendedFile(AppendedFile&&) = default;
  ~AppendedFile() { (void)flush(); }

  // The whole piece or, when too much waits, nothing of it.
  void append(std::string_view piece);
  // Ok: everything so far can be read by others. The file may end with a part of a piece otherwise.
  Status flush();
  // Ok: everything so far is on disk.
  Status sync();
  std::uint64_t bytes() const { return written_ + pending_.size(); }
  std::uint64_t written() const { return written_; }  // others can read these
  std::uint64_t dropped() const { return dropped_; }  // pieces, as too many waited
  const std::string& path() const { return path_; }

 private:
  class Descriptor {  // closes itself
   public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
      std::swap(number_, other.number_);
      return *this;
    }
    ~Descriptor();
    int number() const { return number_; }

   private:
    int number_;
  };
  AppendedFile(std::string path, Descriptor file, std::uint64_t written, std::string head)
      : path_(std::move(path)), head_(std::move(head)), file_(std::move(file)), written_(written) {
    if (written == 0) pending_ = head_;
  }
  Status renew_if_removed();

  std::string path_, head_;
  Descriptor file_;
  std::string pending_;
  std::uint64_t written_ = 0, dropped_ = 0;
};

}  // namespace longhaul::run

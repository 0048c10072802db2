#pragma once
// The file format of a recording: eight magic bytes, then entries, each with its length and a
// checksum chained to that of the previous entry (docs/replay.md). Flipped bits, missing entries
// and a torn end are distinguished and located.
#include <array>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"

namespace longhaul::record {

inline constexpr std::uint32_t kVersion = 2;

enum class EntryType : std::uint8_t { header = 1, begin = 2, input = 3, answer = 4, end = 5 };

// Destination of the bytes: a file, or memory.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Status write(std::span<const std::byte>) = 0;
};

// Source of the bytes. Fewer than requested: end of file.
class Source {
 public:
  virtual ~Source() = default;
  virtual Result<std::size_t> read(std::span<std::byte>) = 0;
};

// Frames entries and gathers them until flush().
class FrameWriter {
 public:
  explicit FrameWriter(Sink& sink);
  void add(EntryType, std::span<const std::byte> payload);
  // After the sink's first Error nothing more is written.
  Status flush();

 private:
  Sink& sink_;
  Buffer waiting_;
  std::uint64_t chain_;
  std::optional<Error> failed_;
};

struct Frame {
  EntryType type{};
  std::uint64_t number = 0;  // the header is 0
  std::uint64_t offset = 0;  // position of its first byte in the file
  std::uint64_t size = 0;    // bytes with its frame
  Buffer payload;
};

// Why there is no further entry.
struct StreamEnd {
  enum class Kind {
    between,  // after a whole entry
    torn,     // inside the entry
    damaged   // wrong checksum: bits have changed, or an entry is missing before the entry
  };
  Kind kind{};
  std::uint64_t number = 0;  // number of the incomplete entry
  std::uint64_t offset = 0;  // position of its first byte
  std::uint64_t size = 0;    // damaged: bytes among which the damage is
};

// Reads entry by entry. Memory: one entry, and never more than the source holds, whatever the
// lengths in the file say.
class FrameReader {
 public:
  explicit FrameReader(Source& source) : source_(source) {}
  // Error: not a recording, another version, or a read failure.
  Result<std::variant<Frame, StreamEnd>> next();
  std::uint64_t offset() const { return offset_; }

 private:
  Result<std::size_t> fill(std::span<std::byte>);
  Status open();
  Result<bool> read_payload(std::uint64_t length, Buffer& payload);

  Source& source_;
  std::uint64_t chain_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t offset_ = 0;  // of the next entry
  bool opened_ = false;
  std::optional<StreamEnd> ending_;
};

}  // namespace longhaul::record

#include "longhaul/run/tensorboard_file.h"

#include <unistd.h>

#include <bit>
#include <filesystem>

#include <fmt/format.h>
#include <boost/crc.hpp>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/status_file.h"

namespace longhaul::run {
namespace {

// Of protocol buffers: a key is field number and wire type.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += char(value | 0x80);
  out += char(value);
}

template <class Number>
void put_fixed(std::string& out, Number value) {  // little-endian
  for (std::size_t i = 0; i < sizeof value; ++i) out += char(value >> (8 * i));
}

void put_key(std::string& out, std::uint32_t field, Wire wire) {
  put_varint(out, field << 3 | std::uint32_t(wire));
}

void put_double(std::string& out, std::uint32_t field, double value) {
  put_key(out, field, Wire::fixed64);
  put_fixed(out, std::bit_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log. Summary: 1 value, repeated.
// Value: 1 tag, 2 simple_value. SessionLog: 1 status, of which 1 is START: TensorBoard drops what
// older files of the folder say from its step on.
constexpr std::uint32_t kWallTime = 1, kStep = 2, kVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr std::uint32_t kValue = 1, kValueTag = 1, kSimpleValue = 2;
constexpr std::string_view kSessionStart = "\x08\x01";

std::string value_of(std::string_view tag, double value) {
  std::string out;
  put_bytes(out, kValueTag, tag);
  put_key(out, kSimpleValue, Wire::fixed32);
  put_fixed(out, std::bit_cast<std::uint32_t>(float(value)));
  return out;
}

std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

std::string record_of(std::string_view event) {
  std::string record;
  put_fixed(record, std::uint64_t(event.size()));
  put_fixed(record, masked_crc(record));
  record += event;
  put_fixed(record, masked_crc(event));
  return record;
}

}  // namespace

Result<TensorBoardFile> TensorBoardFile::open(const std::string& folder, double began_s,
                                              std::optional<Round> void_from) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string version;
  put_double(version, kWallTime, began_s);
  put_bytes(version, kVersion, "brain.Event:2");
  std::string head = record_of(version);
  if (void_from) {
    std::string start;
    put_double(start, kWallTime, began_s);
    put_key(start, kStep, Wire::varint);
    put_varint(start, *void_from);
    put_bytes(start, kSessionLog, kSessionStart);
    head += record_of(start);
  }
  const std::string known = host_name(), host = known.empty() ? "host" : known;
  // Its name says when and where it was made; one more number if there is such a file.
  for (std::uint32_t session = 0;; ++session) {
    const std::string path = fmt::format("{}/events.out.tfevents.{:010d}.{}.{}.{}", folder,
                                         std::int64_t(began_s), host, getpid(), session);
    if (std::filesystem::exists(path, error)) continue;
    LH_LET(file, AppendedFile::open(path, 0, std::move(head)));
    return TensorBoardFile(std::move(file), began_s);
  }
}

void TensorBoardFile::write(const MetricsEvent& event, bool site_has_several,
                            std::uint32_t rank_in_site) {
  std::string summary;
  for (const auto& [name, value] : event.values) {
    std::string tag(event.kind);
    if (name != "value")
      tag += "/" + std::string(name);
    else if (site_has_several)
      tag += fmt::format("/{}.{}", event.site, rank_in_site);
    else
      tag += "/" + std::string(event.site);
    put_bytes(summary, kValue, value_of(tag, value));
  }
  std::string out;
  put_double(out, kWallTime, began_s_ + exact_seconds(event.time));
  put_key(out, kStep, Wire::varint);
  put_varint(out, event.round);
  put_bytes(out, kSummary, summary);
  file_.append(record_of(out));
}

}  // namespace longhaul::run

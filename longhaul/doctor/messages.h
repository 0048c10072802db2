#pragma once
// What doctors of the sites of one job say to each other, in frames (channel.h). docs/doctor.md
//
// Nothing here is worth more trust than whoever knows the job's hash: numbers have ranges, lists
// and texts have lengths, and what a peer wrote is printed by ascii() only.
#include <cstdint>
#include <string>

#include "longhaul/base/fields.h"
#include "longhaul/base/printable.h"

namespace longhaul::doctor {

inline constexpr std::uint16_t kVersion = 2;  // of the protocol
inline constexpr double kMaxText = 1024;
inline constexpr std::uint32_t kMaxDatagrams = 2000;
inline constexpr std::uint32_t kDscp = 40;  // of datagrams: as [net] dscp marks control messages

enum class Kind : std::uint16_t {
  hello = 1,  // Hello, first each way
  refusal,    // Text: why this connection is closed
  facts,      // MachineFacts: the answer to a hello that asks for control
  ping,       // Ping
  pong,       // Pong
  count,      // Empty: how many datagrams came?
  counted,    // DatagramCount
  upload,     // MeasurementPlan: bulk follows
  bulk,       // bytes that mean nothing
  bulk_end,   // PathInfo
  received,   // BulkResult: the answer to bulk_end
  fetch,      // MeasurementPlan: send bulk
  probe,      // ProbeRequest: measure the way to a site
  result,     // PairResult
  bye,        // Empty
  last = bye
};

enum class Purpose : std::uint8_t { control, probe, last = probe };

struct Hello {
  std::uint64_t job_hash = 0;
  std::uint32_t site = 0;      // index
  std::uint32_t sites = 0;     // of the job
  std::uint64_t token = 0;     // of the one who dials: marks its datagrams
  std::uint16_t udp_port = 0;  // of the one who answers: where it echoes datagrams; 0: nowhere
  Purpose purpose = Purpose::probe;
  std::string name = {}, release = {};
  LONGHAUL_FIELDS(job_hash, site, sites, token, udp_port, (purpose, .max = double(Purpose::last)),
                  (name, .max = 256), (release, .max = 64))
};

struct Text {
  std::string text;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(text, .max = kMaxText); }
};

struct Empty {
  static void fields(auto&, auto&&) {}
};

// How a pair is measured; the same for all, as the first site says.
struct MeasurementPlan {
  std::uint32_t pings = 11;
  std::uint32_t datagrams = 200;  // one every 5 ms
  double seconds = 4;             // of bulk each way, at most
  double mbytes = 250;            // likewise
  std::string congestion = {};    // asked for, as [net] congestion; "": the system's
  LONGHAUL_FIELDS((pings, .min = 1, .max = 1000), (datagrams, .max = double(kMaxDatagrams)),
                  (seconds, .min = 0.1, .max = 60), (mbytes, .min = 0.1, .max = 100000),
                  (congestion, .max = 16))
};

// Times are of the sender's own clock, in nanoseconds since 1970.
struct Ping {
  std::int64_t sent = 0;
  LONGHAUL_FIELDS(sent)
};

struct Pong {
  std::int64_t sent = 0, came = 0, left = 0;  // the ping's; of the one who answers
  LONGHAUL_FIELDS(sent, came, left)
};

struct DatagramCount {  // datagrams that came, and how many of them bore the mark
  std::uint32_t came = 0, marked = 0;
  LONGHAUL_FIELDS(came, marked)
};

struct Datagram {            // by UDP, alone
  std::uint64_t token = 0;   // of the asking site
  std::uint32_t number = 0;  // from 0
  bool echo = false;
  LONGHAUL_FIELDS(token, number, echo)
};

struct PathInfo {         // what the kernel of the sender knows of the way
  std::uint32_t mtu = 0;  // of the path, in bytes; 0: unknown
  std::string congestion = {};
  LONGHAUL_FIELDS(mtu, (congestion, .max = 16))
};

struct BulkResult {
  double bytes = 0, seconds = 0;  // all of it
  double rate = 0;                // bytes per second once it had settled: settled_rate()
  LONGHAUL_FIELDS((bytes, .min = 0, .max = 0x1p53), (seconds, .min = 0, .max = 1e6),
                  (rate, .min = 0, .max = 0x1p53))
};

// One direction of a pair.
struct DirectionResult {
  std::uint32_t sent = 0;  // datagrams
  DatagramCount counted = {};
  BulkResult bulk = {};
  PathInfo path = {};
  // Nothing came: then nothing is known of loss, for a firewall may drop all UDP.
  bool udp_passes() const { return counted.came > 0; }
  double loss() const { return sent == 0 ? 0 : 1 - double(counted.came) / double(sent); }
  LONGHAUL_FIELDS(sent, counted, bulk, path)
};

struct PairResult {
  std::uint32_t from = 0, to = 0;  // who dialled whom
  bool reached = false;            // it answered, as a site of this job
  std::string failure = {};        // why not, or what went wrong after that; "": nothing
  std::uint32_t pongs = 0;
  double rtt_min_s = 0, rtt_median_s = 0;
  double offset_s = 0;  // the clock of `to` minus that of `from`
  DirectionResult there = {}, back = {};
  LONGHAUL_FIELDS(from, to, reached, (failure, .max = kMaxText), pongs,
                  (rtt_min_s, .min = 0, .max = 1e6), (rtt_median_s, .min = 0, .max = 1e6),
                  (offset_s, .min = -1e12, .max = 1e12), there, back)
};

struct ProbeRequest {
  std::uint32_t to = 0;
  MeasurementPlan plan;
  LONGHAUL_FIELDS(to, plan)
};

// What a machine says of itself.
struct MachineFacts {
  std::uint64_t disk_free = 0;         // bytes, where the run's folder is or will be
  std::uint64_t memory_available = 0;  // bytes
  std::string congestion = {};         // names that the kernel has now, with blanks
  bool has_bbr = false;                // it has or can load it
  // "mybox is 127.0.1.1": the host of its own address, where that leads to itself; "": elsewhere.
  std::string own_name = {};
  bool is_alone = false;  // the site listens at its loopback alone, and its address is elsewhere
  LONGHAUL_FIELDS(disk_free, memory_available, (congestion, .max = kMaxText), has_bbr,
                  (own_name, .max = kMaxText), is_alone)
};

// Of a text that may be too long for a message.
inline std::string cut(std::string text) {
  if (text.size() > std::size_t(kMaxText)) text.resize(std::size_t(kMaxText));
  return text;
}

}  // namespace longhaul::doctor

#pragma once
// Messages between the doctors of one job's sites, sent in frames (channel.h). docs/doctor.md
//
// A peer can be any program that knows the job's hash. Therefore numbers have ranges, and lists and
// texts have maximum lengths. Text from a peer is printed by ascii() only.
#include <cstdint>
#include <string>

#include "longhaul/base/fields.h"
#include "longhaul/base/printable.h"

namespace longhaul::doctor {

inline constexpr std::uint16_t kVersion = 3;  // protocol version
inline constexpr double kMaxText = 1024;
inline constexpr std::uint32_t kMaxDatagrams = 2000;
inline constexpr std::uint32_t kDscp = 40;  // DSCP of datagrams, as with [net] dscp

enum class Kind : std::uint16_t {
  hello = 1,  // Hello, the first message in each direction
  refusal,    // Text: reason for closing this connection
  facts,      // MachineFacts: the answer to a hello that asks for control
  ping,       // Ping
  pong,       // Pong
  count,      // Empty: requests the number of received datagrams
  counted,    // DatagramCount
  upload,     // MeasurementPlan: bulk follows
  bulk,       // bytes without meaning
  bulk_end,   // PathInfo
  received,   // BulkResult: the answer to bulk_end
  fetch,      // MeasurementPlan: send bulk
  probe,      // ProbeRequest: measure the path to a site
  result,     // PairResult
  bye,        // Empty
  last = bye
};

enum class Purpose : std::uint8_t { control, probe, last = probe };

struct Hello {
  std::uint64_t job_hash = 0;
  std::uint32_t site = 0;      // index
  std::uint32_t sites = 0;     // number of sites of the job
  std::uint64_t token = 0;     // token of the dialling site: identifies its datagrams
  std::uint16_t udp_port = 0;  // echo port of the answering site; 0: none
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

// Settings of the measurement of a pair. The first site sets them for all sites.
struct MeasurementPlan {
  std::uint32_t pings = 11;
  std::uint32_t datagrams = 200;  // one every 5 ms
  double seconds = 4;             // maximum time of bulk in each direction
  double mbytes = 250;            // maximum size of bulk in each direction
  std::string congestion = {};    // request, as [net] congestion; "": the system's
  LONGHAUL_FIELDS((pings, .min = 1, .max = 1000), (datagrams, .max = double(kMaxDatagrams)),
                  (seconds, .min = 0.1, .max = 60), (mbytes, .min = 0.1, .max = 100000),
                  (congestion, .max = 16))
};

// Times by the sender's own clock, in nanoseconds since 1970.
struct Ping {
  std::int64_t sent = 0;
  LONGHAUL_FIELDS(sent)
};

struct Pong {
  std::int64_t sent = 0, came = 0, left = 0;  // `sent` of the ping; times at the answering site
  LONGHAUL_FIELDS(sent, came, left)
};

struct DatagramCount {  // received datagrams, and those with the mark
  std::uint32_t came = 0, marked = 0;
  LONGHAUL_FIELDS(came, marked)
};

struct Datagram {            // the whole payload of a UDP datagram
  std::uint64_t token = 0;   // token of the asking site
  std::uint32_t number = 0;  // from 0
  bool echo = false;
  bool beside = false;  // sent during bulk: neither marked nor counted
  LONGHAUL_FIELDS(token, number, echo, beside)
};

struct PathInfo {         // properties of the path in the sender's kernel
  std::uint32_t mtu = 0;  // MTU of the path, in bytes; 0: unknown
  std::string congestion = {};
  double rtt_max_s = 0;  // longest smoothed round trip of the bulk
  LONGHAUL_FIELDS(mtu, (congestion, .max = 16), (rtt_max_s, .min = 0, .max = 1e6))
};

struct BulkResult {
  double bytes = 0, seconds = 0;  // totals
  double rate = 0;                // steady rate in bytes per second: steady_rate()
  LONGHAUL_FIELDS((bytes, .min = 0, .max = 0x1p53), (seconds, .min = 0, .max = 1e6),
                  (rate, .min = 0, .max = 0x1p53))
};

// One direction of a pair.
struct DirectionResult {
  std::uint32_t sent = 0;  // datagrams
  DatagramCount counted = {};
  BulkResult bulk = {};
  PathInfo path = {};
  double beside_rtt_s = 0;  // long_round_trip() of the datagrams during the bulk; 0: unknown
  // Returns true if datagrams arrived. Otherwise the loss is unknown, because a firewall may drop
  // all UDP.
  bool udp_passes() const { return counted.came > 0; }
  double loss() const { return sent == 0 ? 0 : 1 - double(counted.came) / double(sent); }
  LONGHAUL_FIELDS(sent, counted, bulk, path, (beside_rtt_s, .min = 0, .max = 1e6))
};

struct PairResult {
  std::uint32_t from = 0, to = 0;  // dialling and dialled site
  bool reached = false;            // whether `to` answered, as a site of this job
  std::string failure = {};        // why it did not, or a later error; "": none
  std::uint32_t pongs = 0;
  double rtt_min_s = 0, rtt_median_s = 0;
  double offset_s = 0;  // clock of `to` minus clock of `from`
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

// Properties that a machine reports about itself.
struct MachineFacts {
  std::uint64_t disk_free = 0;         // bytes on the disk of the run's folder
  std::uint64_t memory_available = 0;  // bytes
  std::string congestion = {};         // names that the kernel offers now, separated by blanks
  bool has_bbr = false;                // the kernel has bbr or can load it
  // "mybox is 127.0.1.1": host of the site's own address, if that leads to the machine itself; "":
  // it does not.
  std::string own_name = {};
  bool is_alone = false;  // the site listens on loopback only, but its address is elsewhere
  LONGHAUL_FIELDS(disk_free, memory_available, (congestion, .max = kMaxText), has_bbr,
                  (own_name, .max = kMaxText), is_alone)
};

// Shortens a text to the maximum length of a message.
inline std::string cut(std::string text) {
  if (text.size() > std::size_t(kMaxText)) text.resize(std::size_t(kMaxText));
  return text;
}

}  // namespace longhaul::doctor

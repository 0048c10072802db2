#pragma once
// One end of a TCP connection, packet by packet. It sends, acknowledges and finds losses as Linux
// does by default: selective acknowledgements (RFC 2018), loss by time (RFC 8985), an
// acknowledgement of every second packet (RFC 5681), the pace of bbr (flow/bbr.h). It counts bytes
// and holds none.
//
// A machine without clock. The owner (PacketNetwork) passes times, carries the packets, and calls
// send() after each event and at wake_up(). Both ends are open from the start. One thread.
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "longhaul/core/types.h"
#include "longhaul/flow/bbr.h"
#include "longhaul/flow/tcp.h"

namespace longhaul::sim {

struct ByteRange {
  std::uint64_t begin = 0, end = 0;
};

// A packet of the connection. Without data it is a bare acknowledgement.
struct TcpSegment {
  std::uint64_t begin = 0;
  std::uint32_t length = 0;
  std::uint64_t acknowledged = 0;     // all bytes before it have arrived
  std::array<ByteRange, 3> beyond{};  // ranges that have arrived behind a hole, latest first
  std::uint32_t ranges = 0;

  // Returns the bytes of the IP packet.
  std::uint32_t ip_bytes() const {
    const std::uint32_t options = ranges > 0 ? 4 + 8 * ranges : 0;
    return length + flow::kTcpHeaders + options;
  }
};

class TcpEndpoint {
 public:
  static constexpr std::uint32_t kMost = flow::kMtu - flow::kTcpHeaders;  // bytes of a segment

  TcpEndpoint(double rtt_s, Random random, Time now);

  void write(std::uint64_t bytes, Time now);
  std::uint64_t written() const { return written_; }
  std::uint64_t sent() const { return next_; }                    // bytes, first transmissions only
  std::uint64_t received() const { return received_; }            // in order
  std::uint64_t retransmitted() const { return retransmitted_; }  // packets
  const flow::Bbr& control() const { return control_; }
  void limit_pacing(double bytes_per_second) { control_.limit_pacing(bytes_per_second / kMost); }

  void receive(const TcpSegment&, Time now);
  // Sends the packets that are allowed now.
  void send(Time now, const std::function<void(const TcpSegment&)>& emit);
  // Returns the time to call send() if no event precedes; Time::max(): never.
  Time wake_up() const;

 private:
  struct Sent {  // a sent packet, not yet acknowledged in order
    std::uint64_t begin = 0;
    std::uint32_t length = 0;
    enum class State : std::uint8_t { in_flight, arrived, lost } state{};
    bool again = false, app_limited = false;
    Time at{0}, first_at{0}, delivered_at{0};
    std::uint64_t delivered = 0;
    std::uint64_t end() const { return begin + length; }
  };
  struct Acked {  // packets acknowledged by one segment
    std::uint32_t packets = 0;
    std::optional<Sent> newest;       // latest sent of them
    std::optional<Time> newest_once;  // send time of the newest that was sent once
    bool in_order = false;
  };

  void on_data(const TcpSegment&, Time now);
  void on_acknowledgement(const TcpSegment&, Time now);
  Acked acked_by(const TcpSegment&);
  void note(Sent&, Acked&);
  void measure_trip(double rtt_s);
  flow::RateSample sample_of(const Acked&, std::uint64_t prior_in_flight, Time now);
  std::uint32_t find_lost(Time now);
  void lose(Sent&);
  void begin_recovery();
  void set_timer(Time now);
  void on_timer(Time now);
  std::uint32_t unsent() const;  // bytes of the next new segment
  Sent* next_lost();
  void transmit(Sent&, Time now);
  void acknowledge(TcpSegment&);
  flow::Counts counts() const;
  Time timeout() const;

  // Sending.
  flow::Bbr control_;
  std::uint64_t written_ = 0, next_ = 0, acknowledged_ = 0;
  std::deque<Sent> sent_;
  std::uint64_t in_flight_ = 0, lost_waiting_ = 0, arrived_waiting_ = 0;
  std::uint64_t delivered_ = 0, lost_ = 0, retransmitted_ = 0;
  std::uint64_t app_limited_until_ = 0;  // delivered
  Time delivered_at_{0}, first_sent_at_{0};
  Time newest_at_{-1};  // send time of the newest arrived packet
  std::uint64_t newest_end_ = 0;
  bool recovering_ = false;
  std::uint64_t recovery_end_ = 0;
  Time next_send_{0};
  double srtt_s_, variance_s_, least_rtt_s_, base_rtt_s_;
  Time timer_{Time::max()}, loss_timer_{Time::max()};
  std::uint32_t backoff_ = 0;
  bool probed_ = false;
  bool retries_tail_ = false;
  Time idle_since_{0}, renewed_{0};

  // Receiving.
  std::uint64_t received_ = 0;
  std::map<std::uint64_t, std::uint64_t> beyond_;  // begin -> end
  std::vector<std::uint64_t> recent_;              // begins, latest first
  std::uint64_t unanswered_ = 0;                   // bytes
  bool answer_now_ = false;
  std::uint32_t quick_ = 16;  // packets at the start that are acknowledged at once
  std::uint32_t same_answers_ = 0;
  Time answer_at_{Time::max()};
};

}  // namespace longhaul::sim

#pragma once
// The window of one CUBIC connection that loses packets, a round trip at a time. RFC 9438: growth
// (4.2, 4.3), slow start (4.10), decrease (4.6), fast convergence (4.7); RFC 6298: time-outs, with
// Linux's least of 200 ms. Beyond its response function, as real connections with few packets in
// flight show: windows are whole packets. They do not grow in the round trip in which lost packets
// are sent again, and grow one later than they could. A packet that is lost again is found by a
// timer. docs/simulator.md compares the window with sockets.
//
// A plain value; the caller draws the losses. Windows in packets.
#include <chrono>

namespace longhaul::flow {

// Returns a round trip plus Linux's least time-out: without an answer for this time, all packets
// count as lost.
inline double timeout_s(double rtt_s) { return rtt_s + 0.2; }

// Returns the mean window by RFC 9438's response function (5.1), or Reno's where that is larger
// (4.3). 0 < loss < 1.
double cubic_mean_window(double loss, double rtt_s);

// Returns the packets by which a window grows in this time after slow start without a loss (4.2).
double cubic_growth(double after_s);

class CubicWindow {
 public:
  using Time = std::chrono::nanoseconds;

  // Begins with this number of packets, in slow start.
  explicit CubicWindow(double packets = 10) : packets_(packets) {}

  // Returns the packets that may be in flight now; 0 during a time-out.
  double packets() const { return silent_ ? 0 : packets_; }

  struct Lost {
    bool any = false;    // a packet of the round trip was lost
    bool again = false;  // and one of these was lost again
  };
  // Called after a round trip or a time-out. `used`: the window limited the connection; else it
  // does not grow. Returns the time until the next call.
  double round(Time now, double rtt_s, Lost lost, bool used);
  // Called after a pause without data: Linux halves the window for every time-out in it, not below
  // `first`.
  void idle(double idle_s, double rtt_s, double first);

  void state(auto& ar) {
    ar(packets_, threshold_, peak_, least_, reno_, since_, recovering_, silent_);
  }
  bool good() const { return packets_ >= 1 && threshold_ >= 1 && peak_ >= 0 && least_ >= 0; }

 private:
  void lose(bool again);
  void grow(Time now, double rtt_s);
  void begin_epoch(Time now);
  double cubic(double after_s) const;

  double packets_;
  double threshold_ = 1e9;  // threshold of slow start
  double peak_ = 0;         // W_max
  double least_ = 0;        // cwnd_epoch: the window at the start of the epoch
  double reno_ = 0;         // W_est
  Time since_{0};           // start of the epoch
  bool recovering_ = false;
  bool silent_ = false;
};

}  // namespace longhaul::flow

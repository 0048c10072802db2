#pragma once
// UDP between two sites: how many datagrams come, each way, and with which mark (DSCP).
#include <vector>

#include "longhaul/doctor/handshake.h"

namespace longhaul::doctor {

inline constexpr Time kSendInterval = std::chrono::milliseconds(5);  // two datagrams
inline constexpr Time kLate = std::chrono::seconds(2);               // one that comes later is lost

struct Datagram {
  std::uint64_t token = 0;   // of the one who asked
  std::uint32_t number = 0;  // from 0
  bool echo = false;
  LONGHAUL_FIELDS(token, number, echo)
};

// What came, each number once; of `most` numbers.
class DatagramCounter {
 public:
  explicit DatagramCounter(std::uint32_t most) : seen_(most, false) {}
  void add(std::uint32_t number, bool marked);
  DatagramCount counted() const { return counted_; }

 private:
  std::vector<bool> seen_;
  DatagramCount counted_;
};

// Answers those who know the token with a datagram of the same size, marked alike. One
// socket; used by one thread.
class EchoSocket {
 public:
  // Beside the TCP connection to the one who asks, at the port where the site listens if that is
  // free: what lets one through may let the other through.
  EchoSocket(const Socket& beside, std::uint16_t port, std::uint64_t token);
  int descriptor() const { return socket_.get(); }  // -1: there is no UDP here
  std::uint16_t port() const { return port_; }
  void answer();  // those that wait, a few hundred at a time
  DatagramCount counted() const { return counter_.counted(); }

 private:
  Socket socket_;
  std::uint16_t port_ = 0;
  std::uint64_t token_;
  DatagramCounter counter_;
};

// Sends plan.datagrams to where the other side of `beside` echoes, and counts what comes back.
// Nothing at all if UDP cannot be sent: then nothing came.
DatagramCount send_datagrams(const Socket& beside, std::uint16_t port, std::uint64_t token,
                             const MeasurementPlan&, const Deadline&);

}  // namespace longhaul::doctor

#pragma once
// UDP between two sites: how many datagrams arrive, each way, and with which DSCP.
#include <vector>

#include "longhaul/doctor/handshake.h"

namespace longhaul::doctor {

inline constexpr Time kSendInterval = std::chrono::milliseconds(5);  // between two datagrams
inline constexpr Time kLate = std::chrono::seconds(2);               // one that comes later is lost

struct Datagram {
  std::uint64_t token = 0;   // of the asking site
  std::uint32_t number = 0;  // from 0
  bool echo = false;
  LONGHAUL_FIELDS(token, number, echo)
};

// Counts received datagrams, each number below `most` once.
class DatagramCounter {
 public:
  explicit DatagramCounter(std::uint32_t most) : seen_(most, false) {}
  void add(std::uint32_t number, bool marked);
  DatagramCount counted() const { return counted_; }

 private:
  std::vector<bool> seen_;
  DatagramCount counted_;
};

// Answers datagrams that carry the token with one of the same size and DSCP. One socket; used by
// one thread.
class EchoSocket {
 public:
  // On the address of the TCP connection `beside`, at the site's TCP port if that is free: a
  // firewall may pass both.
  EchoSocket(const Socket& beside, std::uint16_t port, std::uint64_t token);
  int descriptor() const { return socket_.get(); }  // -1: no UDP on this machine
  std::uint16_t port() const { return port_; }
  void answer();  // the waiting ones, a few hundred at a time
  DatagramCount counted() const { return counter_.counted(); }

 private:
  Socket socket_;
  std::uint16_t port_ = 0;
  std::uint64_t token_;
  DatagramCounter counter_;
};

// Sends plan.datagrams to the peer's echo socket and counts the answers. Zero if UDP cannot be
// sent.
DatagramCount send_datagrams(const Socket& beside, std::uint16_t port, std::uint64_t token,
                             const MeasurementPlan&, const Deadline&);

}  // namespace longhaul::doctor

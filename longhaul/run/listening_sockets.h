#pragma once
// Listening sockets for child processes on this machine, so that all ports are known before any
// child starts. Closes its own copies when destroyed.
#include <span>
#include <string>
#include <vector>

#include "longhaul/net/tcp.h"
#include "longhaul/run/lab.h"

namespace longhaul::run {

class ListeningSockets {
 public:
  ListeningSockets() = default;
  ListeningSockets(const ListeningSockets&) = delete;
  ListeningSockets& operator=(const ListeningSockets&) = delete;
  ~ListeningSockets();

  // One for each process, given the index of its site. `lab`: each in its site's network; null: on
  // the loopback.
  Status open(std::span<const std::uint32_t> sites, const Lab* lab);
  int descriptor(std::size_t i) const { return sockets_[i].descriptor; }
  const std::string& addresses() const { return addresses_; }  // of all, with commas

 private:
  std::vector<net::ListeningSocket> sockets_;
  std::string addresses_;
};

}  // namespace longhaul::run

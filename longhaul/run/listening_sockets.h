#pragma once
// Listening sockets for child processes on this machine, so that all ports are known before any
// child starts. Closes its own copies when destroyed.
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "longhaul/net/tcp.h"
#include "longhaul/run/lab.h"

namespace longhaul::run {

class ListeningSockets {
 public:
  ListeningSockets() = default;
  ListeningSockets(const ListeningSockets&) = delete;
  ListeningSockets& operator=(const ListeningSockets&) = delete;
  ~ListeningSockets() {
    for (const net::ListeningSocket& listening_socket : sockets_)
      close(listening_socket.descriptor);
  }

  // One for each process, given the index of its site. `lab`: each in its site's network; null: on
  // the loopback.
  Status open(std::span<const std::uint32_t> sites, const Lab* lab) {
    for (const std::uint32_t site : sites) {
      LH_LET(listening_socket,
             lab ? lab->open_listening_socket(site) : net::open_listening_socket({"127.0.0.1", 0}));
      sockets_.push_back(listening_socket);
      addresses_ += fmt::format("{}{}:{}", addresses_.empty() ? "" : ",",
                                lab ? Lab::address(site) : "127.0.0.1", listening_socket.port);
    }
    return Ok{};
  }

  int descriptor(std::size_t i) const { return sockets_[i].descriptor; }
  const std::string& addresses() const { return addresses_; }  // of all, with commas

 private:
  std::vector<net::ListeningSocket> sockets_;
  std::string addresses_;
};

}  // namespace longhaul::run

#include "longhaul/run/listening_sockets.h"

#include <unistd.h>

#include <fmt/format.h>

namespace longhaul::run {

ListeningSockets::~ListeningSockets() {
  for (const net::ListeningSocket& listening_socket : sockets_) close(listening_socket.descriptor);
}

Status ListeningSockets::open(std::span<const std::uint32_t> sites, const Lab* lab) {
  for (const std::uint32_t site : sites) {
    auto listening_socket =
        lab ? lab->open_listening_socket(site) : net::open_listening_socket({"127.0.0.1", 0});
    if (!listening_socket) return listening_socket.error();
    sockets_.push_back(*listening_socket);
    addresses_ += fmt::format("{}{}:{}", addresses_.empty() ? "" : ",",
                              lab ? Lab::address(site) : "127.0.0.1", listening_socket->port);
  }
  return Ok{};
}

}  // namespace longhaul::run

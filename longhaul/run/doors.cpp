#include "longhaul/run/doors.h"

#include <unistd.h>

#include <fmt/format.h>

namespace longhaul::run {

Doors::~Doors() {
  for (const net::Door& door : doors_) close(door.descriptor);
}

Status Doors::open(std::span<const std::uint32_t> sites, const Lab* lab) {
  for (const std::uint32_t site : sites) {
    auto door = lab ? lab->open_door(site) : net::open_door({"127.0.0.1", 0});
    if (!door) return door.error();
    doors_.push_back(*door);
    addresses_ += fmt::format("{}{}:{}", addresses_.empty() ? "" : ",",
                              lab ? Lab::address(site) : "127.0.0.1", door->port);
  }
  return Ok{};
}

}  // namespace longhaul::run

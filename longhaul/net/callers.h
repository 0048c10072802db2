#pragma once
// Places at a port that strangers reach, too. An incoming connection keeps one until it has said
// hello. Hosts of members may take all kMost; strangers together take kMostStrangers of them,
// and those of one host kMostOfOne.
//
// Where no place is left, a new caller takes that of the one that has been silent for longest. If
// none is silent it takes that of the oldest that has had kPatience; otherwise it has to go. Each
// limit displaces its own: a stranger never displaces a member.
#include <optional>
#include <span>
#include <string>

#include "longhaul/core/types.h"

namespace longhaul::net {

struct Caller {
  std::string host;        // see host_of()
  bool is_member = false;  // members are known to have that host
  bool is_silent = true;   // and has nothing to answer
  Time since{0};
};

struct Callers {
  static constexpr std::size_t kMost = 128, kMostStrangers = 96, kMostOfOne = 16;
  static constexpr Time kPatience = std::chrono::seconds(2);

  // Which of `others`, the oldest first, goes to make room for `next`; their number: none has to.
  // Nothing: `next` has to go.
  static std::optional<std::size_t> place_of(const Caller& next, std::span<const Caller> others,
                                             Time now);
};

// The part of "10.0.0.7:7000" or "[2001:db8::7]:7000" that one machine cannot change at will: the
// address, for IPv6 its network of 64 bits.
std::string host_of(const std::string& peer);

}  // namespace longhaul::net

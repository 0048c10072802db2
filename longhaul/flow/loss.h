#pragma once
// Loss of packets, one by one or in bursts. Pure functions; packets of one ordered pair of sites,
// in order of sending.
//
// Source of bursts: Gilbert, "Capacity of a burst-noise channel", Bell System Technical Journal
// 39(5), 1960. A chain of two states: in one every packet is lost, in the other none. A burst has
// `burst` packets in the mean, and the share `p` of all packets is lost.
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace longhaul::flow {

struct Loss {
  double p = 0;      // share of packets lost, in [0, 1)
  double burst = 0;  // mean number of packets lost in a row, >= 1; 0: each packet by itself

  // Probability that the next packet is lost, after one that was lost or arrived.
  double after(bool lost) const {
    if (burst == 0 || p <= 0) return p;
    if (lost) return 1 - 1 / burst;
    return std::min(1.0, p / (burst * (1 - p)));  // in balance: p (1 / burst) = (1 - p) this
  }

  // Probability that `count` packets in a row arrive, the one before them unknown.
  double survival(double count) const {
    if (count <= 0) return 1;
    return (1 - p) * std::pow(1 - after(false), count - 1);
  }

  // The least mean burst at this share: with shorter ones not so many packets could be lost.
  static double shortest_burst(double p) { return p <= 0.5 ? 1 : p / (1 - p); }
};

}  // namespace longhaul::flow

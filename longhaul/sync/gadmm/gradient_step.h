#pragma once
// Decentralised methods without local solves, the baselines of GADMM, on the same chain: every
// worker mixes its vector with its neighbours' and adds its gradient. W are Metropolis weights,
// W_nm = 1 / (1 + max(deg_n, deg_m)), W_nn the rest of 1.
//   dgd             theta_n <- sum_m W_nm theta_m - step grad f_n(theta_n)
//   dual_averaging  z_n <- sum_m W_nm z_m + grad f_n(theta_n);  theta_n = x_0 - step / sqrt(k) z_n
// Nedic, Ozdaglar, "Distributed subgradient methods for multi-agent optimization", IEEE TAC 2009;
// Duchi, Agarwal, Wainwright, "Dual averaging for distributed optimization", IEEE TAC 2012.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::gadmm {

// A neighbour's vector, and how many neighbours it has itself.
struct Neighbour {
  std::span<const double> values;
  std::size_t degree = 0;
};

// sum_m W_nm v_m; the neighbours in the order of the ranks.
inline std::vector<double> metropolis_mean(std::span<const double> own,
                                           const std::vector<Neighbour>& neighbours) {
  std::vector<double> mean(own.begin(), own.end());
  for (const Neighbour& one : neighbours) {
    LH_CHECK(one.values.size() == own.size());
    const double weight = 1 / (1 + double(std::max(one.degree, neighbours.size())));
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += weight * (one.values[i] - own[i]);
  }
  return mean;
}

// theta after `k` iterations of dual averaging.
inline std::vector<double> averaged_point(std::span<const double> start, std::span<const double> z,
                                          double step, Round k) {
  std::vector<double> point(start.begin(), start.end());
  for (std::size_t i = 0; k > 0 && i < point.size(); ++i)
    point[i] -= step / std::sqrt(double(k)) * z[i];
  return point;
}

}  // namespace longhaul::sync::gadmm

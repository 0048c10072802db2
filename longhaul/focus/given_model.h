#pragma once
// A specialised cheap model that sites are given while they run (docs/focus.md), as bytes of
// base/wire.h: on its way between sites, in a log, and from a user.
#include <compare>
#include <map>
#include <memory>
#include <string>

#include "longhaul/base/wire.h"
#include "longhaul/core/types.h"

namespace longhaul::focus {

// Ordered; the later one wins everywhere, whichever comes first. Number 0: no model was given.
struct ModelVersion {
  std::uint64_t number = 0;
  Rank origin = 0;  // the site that was given it; decides between two of one number
  friend auto operator<=>(const ModelVersion&, const ModelVersion&) = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(number, .max = 0x1p50);  // one more always fits
    LONGHAUL_FIELD(origin);
  }
};

struct GivenModel {
  static constexpr std::size_t kMostFile = 64 << 20;  // bytes
  ModelVersion version;
  // The classes that it tells apart, in the order of its scores, before OTHER; empty: all.
  std::vector<std::uint32_t> classes;
  double seconds = 0;   // for an object, for hosts that model it
  std::uint32_t K = 0;  // 0: as before
  double T = -1;        // below 0: as before, or chosen on a sample where the job leaves it out
  std::string file;     // bytes of a TorchScript file; "noise = N" for the stream tracks
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(version);
    LONGHAUL_FIELD(classes, .max = 1000);
    LONGHAUL_FIELD(seconds, .min = 0, .max = 1000);
    LONGHAUL_FIELD(K, .max = 1000);
    LONGHAUL_FIELD(T, .min = -1, .max = 1e12);
    LONGHAUL_FIELD(file, .max = double(kMostFile));
  }
};

// The models that a site keeps, by the number under which its learner has them: the one that
// indexes, and the newest one.
using KeptModels = std::map<std::uint32_t, std::shared_ptr<const GivenModel>>;

}  // namespace longhaul::focus

#pragma once
// What the accurate model said of clusters' representatives. A representative never changes, so a
// verdict holds until the accurate model does: verdicts belong to (cluster, version).
#include <map>
#include <optional>

#include "longhaul/base/archive.h"

namespace longhaul::focus {

class Verdicts {
 public:
  explicit Verdicts(std::uint32_t version) : version_(version) {}

  // The class; absent: not known of the current version.
  std::optional<std::uint32_t> find(std::uint64_t cluster) const {
    const auto it = verdicts_.find(cluster);
    return it == verdicts_.end() ? std::nullopt : std::optional(it->second);
  }
  // True: stored; false: known already, or of another version. Error: another class is known of
  // the pair; that one is kept.
  Result<bool> put(std::uint64_t cluster, std::uint32_t version, std::uint32_t cls) {
    if (version != version_) return false;
    const auto [it, is_new] = verdicts_.emplace(cluster, cls);
    if (!is_new && it->second != cls)
      return malformed("two verdicts on cluster " + std::to_string(cluster) + ": class " +
                       std::to_string(it->second) + " is kept, " + std::to_string(cls) + " is not");
    return is_new;
  }
  std::uint32_t version() const { return version_; }
  std::size_t size() const { return verdicts_.size(); }
  void state(Archive& ar) { ar(verdicts_); }

 private:
  std::uint32_t version_;
  std::map<std::uint64_t, std::uint32_t> verdicts_;
};

}  // namespace longhaul::focus

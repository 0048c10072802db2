#pragma once
// Sites by name: which of a list a name is, in O(log n). Refers to the list, which must stay.
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "longhaul/base/check.h"

namespace longhaul::run {

class SiteIndex {
 public:
  // `sites`: elements with a name, such as the sites of a Job or a flow::Wan. If several have the
  // same name, the first counts.
  template <class Sites>
  explicit SiteIndex(const Sites& sites) {
    for (const auto& site : sites) {
      index_.emplace(site.name, std::uint32_t(names_.size()));
      names_.push_back(site.name);
    }
  }
  template <class Sites>
  explicit SiteIndex(const Sites&&) = delete;

  std::optional<std::uint32_t> find(std::string_view name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  // Returns the index of that name. CHECKs that it exists: check_job verifies all names.
  std::uint32_t at(std::string_view name) const {
    const auto found = find(name);
    LH_CHECK(found);
    return *found;
  }
  const std::vector<std::string_view>& names() const { return names_; }  // in order

 private:
  std::vector<std::string_view> names_;
  std::map<std::string_view, std::uint32_t> index_;
};

}  // namespace longhaul::run

#include "longhaul/report/changes.h"

#include <algorithm>

namespace longhaul::report {
namespace {

using nlohmann::ordered_json;

bool has_same_keys(const ordered_json& a, const ordered_json& b) {
  if (a.size() != b.size()) return false;
  for (auto at = a.begin(); at != a.end(); ++at)
    if (!b.contains(at.key())) return false;
  return true;
}

class Changes {
 public:
  void add(const ordered_json& before, const ordered_json& after) {
    if (list_.size() > kMaxChanges || before == after) return;
    if (before.is_object() && after.is_object() && has_same_keys(before, after)) {
      for (auto at = after.begin(); at != after.end(); ++at)
        inside(at.key(), before[at.key()], at.value());
    } else if (before.is_array() && after.is_array() && !before.empty() &&
               before.size() <= after.size()) {
      add_list(before, after);
    } else {
      list_.push_back({path_, after});
    }
  }
  std::optional<ordered_json> take() {
    if (list_.size() > kMaxChanges) return std::nullopt;
    return std::move(list_);
  }

 private:
  void inside(const ordered_json& step, const ordered_json& before, const ordered_json& after) {
    path_.push_back(step);
    add(before, after);
    path_.erase(path_.size() - 1);
  }
  void add_list(const ordered_json& before, const ordered_json& after) {
    for (std::size_t i = 0; i < before.size(); ++i) inside(i, before[i], after[i]);
    if (before.size() == after.size()) return;
    ordered_json more = ordered_json::array();
    for (std::size_t i = before.size(); i < after.size(); ++i) more.push_back(after[i]);
    list_.push_back({path_, "+", std::move(more)});
  }

  ordered_json list_ = ordered_json::array(), path_ = ordered_json::array();
};

}  // namespace

std::optional<ordered_json> changes_of(const ordered_json& before, const ordered_json& after) {
  Changes changes;
  changes.add(before, after);
  return changes.take();
}

}  // namespace longhaul::report

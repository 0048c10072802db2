#include "longhaul/sync/gadmm/inbox.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::sync::gadmm {

Status Inbox::admit(Kind kind, Rank from, Round iteration) {
  const bool has_joined =
      kind == Kind::join && std::any_of(admitted_.begin(), admitted_.end(), [&](const Key& key) {
        return std::get<Kind>(key) == kind && std::get<1>(key) == from;
      });
  if (has_joined || !admitted_.emplace(kind, from, iteration).second)
    return malformed("a second vector of iteration " + std::to_string(iteration));
  return Ok{};
}

void Inbox::keep(const GadmmHeader& header, Rank from, VectorContent content) {
  items_[{header.kind, from, header.iteration}] = {header.steps, std::move(content)};
}

Inbox::Item Inbox::take(Kind kind, Rank from, Round iteration) {
  const auto found = items_.find({kind, from, iteration});
  LH_CHECK(found != items_.end());
  Item item = std::move(found->second);
  items_.erase(found);
  return item;
}

std::map<Rank, Round> Inbox::joins() const {
  std::map<Rank, Round> all;
  for (const auto& [key, item] : items_)
    if (std::get<Kind>(key) == Kind::join) all[std::get<1>(key)] = std::get<2>(key);
  return all;
}

void Inbox::pass(Round iteration) {
  const auto is_old = [&](const Key& key) {
    return std::get<Kind>(key) != Kind::join && std::get<2>(key) < iteration;
  };
  std::erase_if(admitted_, is_old);
  std::erase_if(items_, [&](const auto& item) { return is_old(item.first); });
}

void Inbox::clear() {
  admitted_.clear();
  items_.clear();
}

}  // namespace longhaul::sync::gadmm

#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"

namespace longhaul {

// A Transform maps an update to an update and may keep state between calls: outer momentum,
// clipping, scaling. It neither sends nor waits. All nodes apply it to equal bits and so keep
// equal state.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual void apply(std::span<float> update) = 0;
  virtual void state(Archive&) {}
  // Can its state, which may come from a peer, be that of updates of this length?
  virtual bool fits(std::size_t /*length*/) const { return true; }
};

class Chain final : public Transform {
 public:
  explicit Chain(std::vector<std::unique_ptr<Transform>> parts) : parts_(std::move(parts)) {}
  void apply(std::span<float> update) override {
    for (auto& part : parts_) part->apply(update);
  }
  void state(Archive& ar) override {
    for (auto& part : parts_) part->state(ar);
  }
  bool fits(std::size_t length) const override {
    return std::ranges::all_of(parts_, [&](const auto& part) { return part->fits(length); });
  }

 private:
  std::vector<std::unique_ptr<Transform>> parts_;
};

}  // namespace longhaul

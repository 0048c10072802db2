#pragma once
// ParameterStore is the server's model: a flat vector in layout order, and a version, the number of
// updates that have changed it. A snapshot shares the vector. The next change copies the vector
// first if a snapshot is still held. Memory: the model, and one vector for each version held.
//
// Snapshots must not leave the thread of their node; other threads must use a copy().
#include <memory>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/work.h"

namespace longhaul::sync::server {

class ParameterStore {
 public:
  bool filled() const { return values_ != nullptr; }
  void fill(std::span<const float> values) {  // version 0; empty for a phantom
    values_ = std::make_shared<std::vector<float>>(values.begin(), values.end());
  }
  // Fills with the version that the values have at another node.
  void restore(std::span<const float> values, std::uint64_t version) {
    fill(values);
    version_ = version;
  }
  void clear() { values_.reset(); }
  std::uint64_t version() const { return version_; }
  std::span<const float> values() const { return *values_; }
  Snapshot snapshot() const { return values_; }
  Snapshot copy() const { return snapshot_of(*values_); }

  // Returns the values to change in place. Call committed() afterwards.
  std::span<float> change() {
    LH_CHECK(filled());
    if (values_.use_count() > 1) values_ = std::make_shared<std::vector<float>>(*values_);
    return *values_;
  }
  void committed() { ++version_; }

  void state(Archive& ar) {
    bool full = filled();
    ar(full, version_);
    if (!full) return values_.reset();
    std::vector<float> values;
    if (!ar.loading()) values = *values_;
    ar(values);
    if (ar.loading()) fill(values);
  }

 private:
  std::shared_ptr<std::vector<float>> values_;
  std::uint64_t version_ = 0;
};

}  // namespace longhaul::sync::server

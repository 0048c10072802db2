#pragma once
// The vectors that a worker of GADMM has received and not used yet. A channel delivers each vector
// once and in order. The inbox decides which vectors can be genuine. So it bounds the memory: one
// vector of each kind, peer and iteration, and iterations near the worker's own.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "longhaul/base/check.h"
#include "longhaul/core/message.h"
#include "longhaul/core/vector_content.h"

namespace longhaul::sync {

struct GadmmHeader {
  LONGHAUL_MESSAGE(0, "header");  // part of another message
  enum class Kind : std::uint8_t {
    model,  // theta of this iteration, to the neighbours
    hello,  // theta as last sent, to a new neighbour, before the first iteration of a chain
    join,   // in a new view, to all others: next iteration, theta, and the receiver's dual
    figure  // to the lowest live worker: value for a stopping rule; no vector
  };
  Kind kind = Kind::model;
  Epoch epoch = 0;  // epoch of the view
  Round iteration = 0;
  std::uint64_t steps = 0;  // join: steps of the dual; 0 if there is none
  Round end_at = 0;         // iterations after which a stopping rule ends the run; 0: unknown
  double value = 0;         // figure
  bool knows_model = true;  // join: false if the sender has returned, and sends no vector
  LONGHAUL_FIELDS((kind, .max = 3), epoch, (iteration, .max = 0x1p50), (steps, .max = 0x1p50),
                  (end_at, .max = 0x1p50), (value, .min = -1e300, .max = 1e300), knows_model)
};

namespace gadmm {

class Inbox {
 public:
  using Kind = GadmmHeader::Kind;
  struct Item {
    std::uint64_t steps = 0;  // join
    VectorContent content;
    void state(Archive& ar) { ar(steps, content); }
  };

  // Called once for each announced vector. Returns Malformed if the peer has sent it before.
  Status admit(Kind kind, Rank from, Round iteration) {
    const bool has_joined =
        kind == Kind::join && std::ranges::any_of(admitted_, [&](const Key& key) {
          return std::get<Kind>(key) == kind && std::get<1>(key) == from;
        });
    if (has_joined || !admitted_.emplace(kind, from, iteration).second)
      return malformed("a second vector of iteration " + std::to_string(iteration));
    return Ok{};
  }

  void keep(const GadmmHeader& header, Rank from, VectorContent content) {
    items_[{header.kind, from, header.iteration}] = {header.steps, std::move(content)};
  }

  bool has(Kind kind, Rank from, Round iteration) const {
    return items_.contains({kind, from, iteration});
  }
  // Returns an item once; has() must be true.
  Item take(Kind kind, Rank from, Round iteration) {
    const auto found = items_.find({kind, from, iteration});
    LH_CHECK(found != items_.end());
    Item item = std::move(found->second);
    items_.erase(found);
    return item;
  }

  // Returns the iterations of the joins, by rank.
  std::map<Rank, Round> joins() const {
    std::map<Rank, Round> all;
    for (const auto& [key, item] : items_)
      if (std::get<Kind>(key) == Kind::join) all[std::get<1>(key)] = std::get<2>(key);
    return all;
  }

  // Discards vectors of earlier iterations, except joins.
  void pass(Round iteration) {
    const auto is_old = [&](const Key& key) {
      return std::get<Kind>(key) != Kind::join && std::get<2>(key) < iteration;
    };
    std::erase_if(admitted_, is_old);
    std::erase_if(items_, [&](const auto& item) { return is_old(item.first); });
  }

  void clear() {
    admitted_.clear();
    items_.clear();
  }

  void state(Archive& ar) { ar(admitted_, items_); }

 private:
  using Key = std::tuple<Kind, Rank, Round>;
  std::set<Key> admitted_;
  std::map<Key, Item> items_;
};

}  // namespace gadmm
}  // namespace longhaul::sync

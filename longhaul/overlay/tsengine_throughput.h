#pragma once
// What a coordinator has learned of links: bytes a second of whole transfers, by the clock of the
// run, each new figure mixed with what was known. Forgotten after `expire` rounds without a report.
// Owned by the coordinator; unknown at a new one.
#include <algorithm>
#include <map>
#include <optional>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay::tsengine {

class Throughput {
 public:
  // `weight`: of a new figure, in (0, 1]; the first one counts whole.
  Throughput(double weight, Round expire) : weight_(weight), expire_(expire) {}

  void learn(Rank from, Rank to, std::uint64_t bytes, Time elapsed, Round round) {
    const double rate = double(bytes) / seconds(std::max(elapsed, Time{1}));
    const auto known = of(from, to, round);
    links_[{from, to}] = {known ? weight_ * rate + (1 - weight_) * *known : rate, round};
  }

  // counts as 0
  void failed(Rank from, Rank to, Round round) { links_[{from, to}] = {0, round}; }

  // Bytes/s; nothing: unknown, or too old.
  std::optional<double> of(Rank from, Rank to, Round now) const {
    const auto link = links_.find({from, to});
    if (link == links_.end() || old(link->second, now)) return std::nullopt;
    return link->second.rate;
  }

  // what is too old
  void forget(Round now) {
    std::erase_if(links_, [&](const auto& entry) { return old(entry.second, now); });
  }

  std::size_t size() const { return links_.size(); }
  void state(Archive& ar) { ar(links_); }

 private:
  struct Link {
    double rate = 0;
    Round round = 0;  // of the last report
    void state(auto& ar) { ar(rate, round); }
  };
  bool old(const Link& link, Round now) const { return now > link.round + expire_; }

  double weight_;
  Round expire_;
  std::map<std::pair<Rank, Rank>, Link> links_;
};

}  // namespace longhaul::overlay::tsengine

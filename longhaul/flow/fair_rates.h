#pragma once
// Max-min fair rates of flows that start and stop (fair_share.h), kept up to date incrementally:
// settle() recomputes only what changes since the last call can affect. Its rates are those of a
// computation from scratch, bit for bit.
//
// A change can affect flows that share a link with it, directly or through other flows, if the link
// is full before or after. A link with spare capacity before and after limits no flow and does not
// propagate the change. A flow on such links that only its cap limits changes alone.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/flow/fair_share.h"

namespace longhaul::flow {

class FairRates {
 public:
  // Links and flows are numbered from 0 in order of adding, and stay. A flow is idle at first.
  // `capacity`: finite, >= 0.
  std::uint32_t add_link(double capacity) {
    LH_CHECK(capacity >= 0 && std::isfinite(capacity));
    links_.push_back({.capacity = capacity, .settled = capacity, .uses = {}});
    return std::uint32_t(links_.size() - 1);
  }

  std::uint32_t add_flow(const std::vector<std::uint32_t>& links, std::uint8_t priority = 0,
                         std::uint32_t weight = 1) {
    LH_CHECK(weight > 0);
    flows_.push_back({.first = std::uint32_t(crossings_.size()),
                      .links = std::uint32_t(links.size()),
                      .room = std::uint32_t(links.size()),
                      .weight = weight,
                      .priority = priority});
    for (const std::uint32_t link : links) {
      LH_CHECK(link < links_.size());
      crossings_.push_back({link});
    }
    return std::uint32_t(flows_.size() - 1);
  }

  // Sets the flow's links, one at least, each once: for a multicast whose receivers change.
  void set_links(std::uint32_t index, const std::vector<std::uint32_t>& links) {
    LH_CHECK(!links.empty());
    Flow& flow = flows_.at(index);
    const double rate = flow.rate == kUnlimited ? 0 : flow.rate;
    if (flow.was_busy) {
      leave(index);
      note_other_flows(flow, -rate);
    }
    if (links.size() > flow.room) {
      flow.first = std::uint32_t(crossings_.size());
      flow.room = std::uint32_t(2 * links.size());
      crossings_.resize(crossings_.size() + flow.room);
    }
    flow.links = std::uint32_t(links.size());
    for (std::uint32_t i = 0; i < flow.links; ++i) {
      LH_CHECK(links[i] < links_.size());
      crossings_[flow.first + i] = {links[i]};
    }
    if (!flow.was_busy) return;
    enter(index);
    note_other_flows(flow, rate);
  }

  void set_capacity(std::uint32_t index, double capacity) {
    LH_CHECK(capacity >= 0 && std::isfinite(capacity));
    Link& link = links_.at(index);
    const bool was = link.capacity != link.settled;
    link.capacity = capacity;
    unsettled_ += std::uint32_t(link.capacity != link.settled) - std::uint32_t(was);
    if (!std::exchange(link.touched, true)) touched_links_.push_back(index);
  }

  void set_busy(std::uint32_t index, bool busy) {
    Flow& flow = flows_.at(index);
    const bool was = flow.changed();
    flow.busy = busy;
    touch(index, was);
  }

  void set_cap(std::uint32_t index, double cap) {
    LH_CHECK(cap >= 0);
    Flow& flow = flows_.at(index);
    const bool was = flow.changed();
    // If neither the old nor the new cap limits the flow, nothing changes.
    if (flow.was_busy && flow.rate_of(std::min(cap, flow.was_cap)) > flow.rate) flow.was_cap = cap;
    flow.cap = cap;
    touch(index, was);
  }

  // Returns true if anything differs from the last settle(). A flow that paused and continued
  // meanwhile does not count.
  bool unsettled() const { return unsettled_ > 0; }
  // Returns the flows whose rates have changed, ascending; valid until the next call.
  const std::vector<std::uint32_t>& settle() {
    moved_.clear();
    near_links_.clear();
    near_flows_.clear();
    ++walk_;
    std::ranges::sort(touched_flows_);
    for (const std::uint32_t index : touched_flows_) {
      Flow& flow = flows_[index];
      flow.touched = false;
      if (!flow.changed()) {
        flow.was_cap = flow.cap;
        continue;
      }
      const bool alone = is_alone(flow);
      if (alone) change_alone(index);
      if (flow.busy != flow.was_busy) flow.busy ? enter(index) : leave(index);
      flow.was_busy = flow.busy;
      flow.was_cap = flow.cap;
      if (!alone) change_with_others(index);
    }
    for (const std::uint32_t index : touched_links_) {
      Link& link = links_[index];
      link.touched = false;
      const bool other_capacity = std::exchange(link.settled, link.capacity) != link.capacity;
      if (std::exchange(link.other_flows, false) || other_capacity) visit(index);
    }
    touched_flows_.clear();
    touched_links_.clear();
    unsettled_ = 0;
    solve();
    // A flow that moved twice may have its old rate.
    changed_.clear();
    std::ranges::stable_sort(moved_, {}, [](const auto& one) { return one.first; });
    for (std::size_t i = 0; i < moved_.size(); ++i) {
      const auto [index, was] = moved_[i];
      if (i > 0 && moved_[i - 1].first == index) continue;
      if (flows_[index].rate != was) changed_.push_back(index);
    }
    return changed_;
  }

  double rate(std::uint32_t flow) const { return flows_[flow].rate; }  // as of settle(); idle: 0
  double cap(std::uint32_t flow) const { return flows_[flow].cap; }
  std::uint32_t weight(std::uint32_t flow) const { return flows_[flow].weight; }
  bool has_link(std::uint32_t link) const { return link < links_.size(); }
  double capacity(std::uint32_t link) const { return links_[link].capacity; }
  // Returns the least capacity on the flow's path.
  double narrowest(std::uint32_t index) const {
    const Flow& flow = flows_[index];
    double least = kUnlimited;
    for (std::uint32_t i = 0; i < flow.links; ++i)
      least = std::min(least, links_[crossings_[flow.first + i].link].capacity);
    return least;
  }

  // Saves the state that changes; loads into an object with the same links and flows, on the same
  // paths.
  void state(Archive& ar) {
    ar.expect("shares of " + std::to_string(links_.size()) + " links and " +
              std::to_string(flows_.size()) + " flows");
    for (Link& link : links_) ar(link.capacity, link.settled, link.other_flows);
    for (Flow& flow : flows_) ar(flow.busy, flow.was_busy, flow.cap, flow.was_cap, flow.rate);
    if (!ar.loading()) return;
    touched_flows_.clear();
    touched_links_.clear();
    unsettled_ = 0;
    for (std::uint32_t i = 0; i < links_.size(); ++i) {
      Link& link = links_[i];
      if (!(link.capacity >= 0 && std::isfinite(link.capacity))) ar.fail("has a bad capacity");
      link.load = 0;
      link.uses.clear();
      link.touched = link.capacity != link.settled || link.other_flows;
      if (link.touched) touched_links_.push_back(i);
      unsettled_ += std::uint32_t(link.capacity != link.settled) + std::uint32_t(link.other_flows);
    }
    for (std::uint32_t i = 0; i < flows_.size(); ++i) {
      Flow& flow = flows_[i];
      if (!(flow.cap >= 0 && flow.rate >= 0)) ar.fail("has a bad rate");
      if (flow.was_busy) enter(i);
      for (std::uint32_t k = 0; k < flow.links; ++k)
        links_[crossings_[flow.first + k].link].load += flow.rate;
      flow.touched = flow.busy != flow.was_busy || flow.cap != flow.was_cap;
      if (flow.touched) touched_flows_.push_back(i);
      unsettled_ += std::uint32_t(flow.changed());
    }
  }

 private:
  // A link below this share of its capacity limits no flow. Loads are sums in order of history;
  // their rounding affects only the work saved.
  static constexpr double kRoom = 1 - 1e-6;
  // Above this share a link is likely to be full soon, and leaving it out at first saves nothing.
  static constexpr double kMuchRoom = 0.7;
  struct Use {  // a busy flow of a link
    std::uint32_t flow = 0;
    std::uint32_t crossing = 0;
  };
  struct Link {
    double capacity = 0;
    double settled = 0;  // the capacity at the last settle()
    double load = 0;     // sum of rates, approximate
    bool touched = false;
    bool other_flows = false;  // set_links() added or removed a busy flow
    std::uint32_t seen = 0;    // the last walk that visited it
    std::uint32_t local = 0;   // index in the part that is solved
    bool roomy = false;        // not in that part, but its load changes by `more`
    double more = 0;
    std::vector<Use> uses;
    bool has_room() const { return load < settled * kMuchRoom; }
  };
  struct Flow {
    std::uint32_t first = 0, links = 0;  // range of crossings_
    std::uint32_t room = 0;              // crossings that it may use, from `first` on
    std::uint32_t weight = 1;
    std::uint8_t priority = 0;
    bool busy = false, was_busy = false;  // now, and at the last settle()
    bool touched = false;
    double cap = kUnlimited, was_cap = kUnlimited;
    double rate = 0;
    std::uint32_t seen = 0;

    bool changed() const { return busy != was_busy || (busy && cap != was_cap); }
    // Returns the rate of a flow that only this cap limits, as FairShare rounds it.
    double rate_of(double limit) const { return std::min(limit / weight * weight, limit); }
    double rate_of_cap() const { return busy ? rate_of(cap) : 0; }
  };
  struct Crossing {
    std::uint32_t link = 0;
    std::uint32_t place = 0;  // in uses, while the flow is busy
  };

  void touch(std::uint32_t index, bool was) {
    Flow& flow = flows_[index];
    unsettled_ += std::uint32_t(flow.changed()) - std::uint32_t(was);
    if (!std::exchange(flow.touched, true)) touched_flows_.push_back(index);
  }

  // Returns true if the change of this flow affects no other flow.
  bool is_alone(const Flow& flow) const {
    const double before = flow.rate, after = flow.rate_of_cap();
    if (flow.links > 0 &&
        (after == kUnlimited || (flow.was_busy && before < flow.rate_of(flow.was_cap))))
      return false;
    for (std::uint32_t i = 0; i < flow.links; ++i) {
      const Link& link = links_[crossings_[flow.first + i].link];
      if (link.capacity != link.settled || link.other_flows) return false;
      if (std::max(link.load, link.load + after - before) > link.capacity * kRoom) return false;
    }
    return true;
  }

  void change_alone(std::uint32_t index) {
    Flow& flow = flows_[index];
    const double rate = flow.rate_of_cap();
    for (std::uint32_t i = 0; i < flow.links; ++i)
      links_[crossings_[flow.first + i].link].load += rate - flow.rate;
    move(index, rate);
  }

  void move(std::uint32_t index, double rate) {
    if (flows_[index].rate != rate) moved_.emplace_back(index, flows_[index].rate);
    flows_[index].rate = rate;
  }

  void enter(std::uint32_t index) {
    const Flow& flow = flows_[index];
    for (std::uint32_t c = flow.first; c < flow.first + flow.links; ++c) {
      auto& uses = links_[crossings_[c].link].uses;
      crossings_[c].place = std::uint32_t(uses.size());
      uses.push_back({index, c});
    }
  }

  void leave(std::uint32_t index) {
    const Flow& flow = flows_[index];
    for (std::uint32_t c = flow.first; c < flow.first + flow.links; ++c) {
      auto& uses = links_[crossings_[c].link].uses;
      uses[crossings_[c].place] = uses.back();
      crossings_[uses.back().crossing].place = crossings_[c].place;
      uses.pop_back();
    }
  }

  // Changes the load of the flow's links by `load`, and marks them for settle().
  void note_other_flows(const Flow& flow, double load) {
    for (std::uint32_t c = flow.first; c < flow.first + flow.links; ++c) {
      const std::uint32_t index = crossings_[c].link;
      Link& link = links_[index];
      link.load += load;
      if (!std::exchange(link.other_flows, true)) ++unsettled_;
      if (!std::exchange(link.touched, true)) touched_links_.push_back(index);
    }
  }

  // Visits a flow that begins or has another cap, so that it is solved; removes one that ends.
  void change_with_others(std::uint32_t index) {
    if (flows_[index].busy) return visit_flow(index);
    const Flow& flow = flows_[index];
    for (std::uint32_t c = flow.first; c < flow.first + flow.links; ++c) {
      Link& link = links_[crossings_[c].link];
      if (!link.has_room()) visit(crossings_[c].link);
      link.load -= flow.rate;
    }
    move(index, 0);
  }

  void visit_flow(std::uint32_t index) {
    Flow& flow = flows_[index];
    if (std::exchange(flow.seen, walk_) == walk_) return;
    near_flows_.push_back(index);
    for (std::uint32_t c = flow.first; c < flow.first + flow.links; ++c)
      if (!links_[crossings_[c].link].has_room()) visit(crossings_[c].link);
  }

  void visit(std::uint32_t index) {
    Link& link = links_[index];
    if (std::exchange(link.seen, walk_) == walk_) return;
    link.local = std::uint32_t(near_links_.size());
    near_links_.push_back(index);
  }

  // Solves the part that links without room connect with the links and flows visited so far. A link
  // with room takes part only if it has none afterwards.
  void solve() {
    std::size_t next = 0;
    do {
      for (; next < near_links_.size(); ++next)
        for (const Use& use : links_[near_links_[next]].uses) visit_flow(use.flow);
      if (near_flows_.size() > flows_.size() / 4) {  // in order of memory: quicker from now on
        near_flows_.clear();
        for (std::uint32_t i = 0; i < flows_.size(); ++i)
          if (flows_[i].seen == walk_) near_flows_.push_back(i);
      }
      part_.clear();
      part_crossings_.clear();
      for (const std::uint32_t index : near_flows_) {
        const Flow& flow = flows_[index];
        const auto first = std::uint32_t(part_crossings_.size());
        for (std::uint32_t c = flow.first; c < flow.first + flow.links; ++c)
          if (const Link& link = links_[crossings_[c].link]; link.seen == walk_)
            part_crossings_.push_back(link.local);
        part_.push_back({first, std::uint32_t(part_crossings_.size()) - first, flow.weight,
                         flow.priority, flow.cap});
      }
      capacities_.clear();
      for (const std::uint32_t link : near_links_) capacities_.push_back(links_[link].capacity);
      rates_ = &fair_.solve(capacities_, part_, part_crossings_);
    } while (overflows());
    for (const std::uint32_t link : near_links_) links_[link].load = 0;
    for (const std::uint32_t link : roomy_) links_[link].load += links_[link].more;
    for (std::size_t i = 0; i < near_flows_.size(); ++i) {
      const double rate = (*rates_)[i];
      move(near_flows_[i], rate);
      for (std::uint32_t k = 0; k < part_[i].links; ++k)
        links_[near_links_[part_crossings_[part_[i].first + k]]].load += rate;
    }
  }

  // Returns true if links that were left out have no room with the new rates; visits them.
  bool overflows() {
    roomy_.clear();
    const std::size_t visited = near_links_.size();
    for (std::size_t i = 0; i < near_flows_.size(); ++i) {
      const Flow& flow = flows_[near_flows_[i]];
      const double more = (*rates_)[i] - flow.rate;
      if (flow.links == part_[i].links || more == 0) continue;
      for (std::uint32_t c = flow.first; c < flow.first + flow.links; ++c) {
        Link& link = links_[crossings_[c].link];
        if (link.seen == walk_) continue;
        if (!std::exchange(link.roomy, true)) roomy_.push_back(crossings_[c].link), link.more = 0;
        link.more += more;
      }
    }
    for (const std::uint32_t index : roomy_) {
      links_[index].roomy = false;
      if (links_[index].load + links_[index].more > links_[index].capacity * kRoom) visit(index);
    }
    return near_links_.size() > visited;
  }

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<Crossing> crossings_;
  std::vector<std::uint32_t> touched_flows_, touched_links_;
  std::uint32_t unsettled_ = 0;  // flows and links that have changed
  // Scratch.
  std::uint32_t walk_ = 0;
  std::vector<std::uint32_t> near_links_, near_flows_, roomy_, changed_;
  const std::vector<double>* rates_ = nullptr;           // by near_flows_
  std::vector<std::pair<std::uint32_t, double>> moved_;  // flows, and their rates before
  std::vector<double> capacities_;
  std::vector<FairFlow> part_;
  std::vector<std::uint32_t> part_crossings_;
  FairShare fair_;
};

}  // namespace longhaul::flow

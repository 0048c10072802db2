#pragma once
// Max-min fair rates of flows that start and stop (fair_share.h), kept up to date incrementally:
// settle() recomputes only what changes since the last call can affect. Its rates are those of a
// computation from scratch, bit for bit.
//
// A change can affect flows that share a link with it, directly or through other flows, if the link
// is full before or after. A link with spare capacity before and after limits no flow and does not
// propagate the change; a flow on such links that only its cap limits changes alone.
#include <cstdint>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/flow/fair_share.h"

namespace longhaul::flow {

class FairRates {
 public:
  // Links and flows are numbered from 0 in order of adding and stay. A flow is idle at first.
  std::uint32_t add_link(double capacity);  // finite, >= 0
  std::uint32_t add_flow(const std::vector<std::uint32_t>& links, std::uint8_t priority = 0,
                         std::uint32_t weight = 1);

  // Its links from now on, one at least, each once: a multicast whose receivers change.
  void set_links(std::uint32_t flow, const std::vector<std::uint32_t>& links);

  void set_capacity(std::uint32_t link, double capacity);
  void set_busy(std::uint32_t flow, bool busy);
  void set_cap(std::uint32_t flow, double cap);

  // Whether anything is otherwise than at the last settle(): a flow that paused and went on
  // meanwhile is not.
  bool unsettled() const { return unsettled_ > 0; }
  // Answers with the flows whose rates have changed, ascending; valid until the next call.
  const std::vector<std::uint32_t>& settle();
  double rate(std::uint32_t flow) const { return flows_[flow].rate; }  // as of settle(); idle: 0
  double cap(std::uint32_t flow) const { return flows_[flow].cap; }
  std::uint32_t weight(std::uint32_t flow) const { return flows_[flow].weight; }
  bool has_link(std::uint32_t link) const { return link < links_.size(); }
  double capacity(std::uint32_t link) const { return links_[link].capacity; }
  // The least capacity on its way.
  double narrowest(std::uint32_t flow) const;

  // Saves what changes; loads into one with the same links and flows, which pass the same links.
  void state(Archive&);

 private:
  // A link with so much of its capacity to spare does not limit anybody. Loads are sums in order of
  // history; nothing but the work saved depends on how they round.
  static constexpr double kRoom = 1 - 1e-6;
  // With less than this it is likely to be full soon, and to leave it out at first is no saving.
  static constexpr double kMuchRoom = 0.7;
  struct Use {  // a busy flow of a link
    std::uint32_t flow = 0;
    std::uint32_t crossing = 0;
  };
  struct Link {
    double capacity = 0;
    double settled = 0;  // the capacity at the last settle()
    double load = 0;     // sum of rates, about
    bool touched = false;
    bool other_flows = false;  // a busy flow came to it, or left it, by set_links()
    std::uint32_t seen = 0;    // in which walk
    std::uint32_t local = 0;   // its number in the part that is solved
    bool roomy = false;        // left out of that, but its load changes by `more`
    double more = 0;
    std::vector<Use> uses;
    bool has_room() const { return load < settled * kMuchRoom; }
  };
  struct Flow {
    std::uint32_t first = 0, links = 0;  // of crossings_
    std::uint32_t room = 0;              // crossings that it may use, from `first` on
    std::uint32_t weight = 1;
    std::uint8_t priority = 0;
    bool busy = false, was_busy = false;  // now, and at the last settle()
    bool touched = false;
    double cap = kUnlimited, was_cap = kUnlimited;
    double rate = 0;
    std::uint32_t seen = 0;

    bool changed() const { return busy != was_busy || (busy && cap != was_cap); }
    // The rate of a flow that only this cap limits, as FairShare rounds it.
    double rate_of(double limit) const { return std::min(limit / weight * weight, limit); }
    double rate_of_cap() const { return busy ? rate_of(cap) : 0; }
  };
  struct Crossing {
    std::uint32_t link = 0;
    std::uint32_t place = 0;  // in uses, while the flow is busy
  };

  void touch(std::uint32_t flow, bool was);
  bool is_alone(const Flow&) const;
  void change_alone(std::uint32_t flow);
  void move(std::uint32_t flow, double rate);
  void enter(std::uint32_t flow);
  void leave(std::uint32_t flow);
  void note_other_flows(const Flow&, double load);
  void change_with_others(std::uint32_t flow);
  void visit_flow(std::uint32_t flow);
  void visit(std::uint32_t link);
  void solve();
  bool overflows();

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<Crossing> crossings_;
  std::vector<std::uint32_t> touched_flows_, touched_links_;
  std::uint32_t unsettled_ = 0;  // flows and links that have changed
  // Scratch.
  std::uint32_t walk_ = 0;
  std::vector<std::uint32_t> near_links_, near_flows_, roomy_, changed_;
  const std::vector<double>* rates_ = nullptr;           // of near_flows_
  std::vector<std::pair<std::uint32_t, double>> moved_;  // flows, and their rates before
  std::vector<double> capacities_;
  std::vector<FairFlow> part_;
  std::vector<std::uint32_t> part_crossings_;
  FairShare fair_;
};

}  // namespace longhaul::flow

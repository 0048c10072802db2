#pragma once
// The fair rates of flows that come and go (fair_share.h), kept up to date: settle() computes what
// the changes since the last one can touch and no more. Its rates are those of a computation from
// scratch, bit for bit.
//
// What a change can touch: flows that share a limited link with what has changed, directly or by
// other flows. And if a flow is limited by nothing but its cap and its links have room to spare
// before and after the change, no other than itself.
#include <cstdint>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/flow/fair_share.h"

namespace longhaul::flow {

class Shares {
 public:
  // Links and flows are numbered from 0 in order of adding and stay. A flow is idle at first.
  std::uint32_t add_link(double capacity);  // finite, >= 0
  std::uint32_t add_flow(const std::vector<std::uint32_t>& links, std::uint8_t priority = 0,
                         std::uint32_t weight = 1);

  void set_capacity(std::uint32_t link, double capacity);
  void set_busy(std::uint32_t flow, bool busy);
  void set_cap(std::uint32_t flow, double cap);

  // Whether anything is otherwise than at the last settle(): a flow that paused and went on
  // meanwhile is not.
  bool unsettled() const { return unsettled_ > 0; }
  // Answers with the flows whose rates have changed, ascending; valid until the next call.
  const std::vector<std::uint32_t>& settle();
  double rate(std::uint32_t flow) const { return flows_[flow].rate; }  // as of settle(); idle: 0
  double capacity(std::uint32_t link) const { return links_[link].capacity; }
  double cap(std::uint32_t flow) const { return flows_[flow].cap; }
  std::uint32_t flows() const { return std::uint32_t(flows_.size()); }
  // The least capacity on its way.
  double narrowest(std::uint32_t flow) const;

  // Saves what changes; loads into one with the same links and flows.
  void state(Archive&);

 private:
  struct Use {  // a busy flow of a link
    std::uint32_t flow = 0;
    std::uint32_t crossing = 0;
  };
  struct Link {
    double capacity = 0;
    double settled = 0;  // the capacity at the last settle()
    double load = 0;     // sum of rates, about
    bool touched = false;
    std::uint32_t seen = 0;   // in which walk
    std::uint32_t local = 0;  // its number in the part that is solved
    std::vector<Use> uses;
  };
  struct Flow {
    std::uint32_t first = 0, links = 0;  // of crossings_
    std::uint32_t weight = 1;
    std::uint8_t priority = 0;
    bool busy = false, was_busy = false;  // now, and at the last settle()
    bool touched = false;
    double cap = kUnlimited, was_cap = kUnlimited;
    double rate = 0;
    std::uint32_t seen = 0;

    bool changed() const { return busy != was_busy || (busy && cap != was_cap); }
    double rate_of_cap() const {  // as FairShare rounds it
      return busy ? std::min(cap / weight * weight, cap) : 0;
    }
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
  void visit(std::uint32_t link);
  void solve();

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<Crossing> crossings_;
  std::vector<std::uint32_t> touched_flows_, touched_links_;
  std::uint32_t unsettled_ = 0;  // flows and links that have changed
  // Scratch.
  std::uint32_t walk_ = 0;
  std::vector<std::uint32_t> near_links_, near_flows_, changed_;
  std::vector<std::pair<std::uint32_t, double>> moved_;  // flows, and their rates before
  std::vector<double> capacities_;
  std::vector<FairFlow> part_;
  std::vector<std::uint32_t> part_crossings_;
  FairShare fair_;
};

}  // namespace longhaul::flow

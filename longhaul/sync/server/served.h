#pragma once
// Served is the strategy of a node in a job with a parameter server: its halves, a worker if it has
// a learner and the server if it is the one, and the Courier between them and other nodes.
//   Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014,
//   section 3; here with one server, which holds the whole model.
#include "longhaul/core/registry.h"
#include "longhaul/sync/server/server_half.h"
#include "longhaul/sync/server/worker_half.h"

namespace longhaul::sync::server {

class Served final : public Strategy, public Reader {
 public:
  // The overlay of `parts` is not used; its outer transform is none.
  Served(std::string_view name, SyncParts parts, const Place&);
  const Setup& setup() const { return setup_; }
  // Of the strategy, before setup() is given to its halves.
  void commits_a_round(std::uint64_t commits) { setup_.commits = commits; }
  // Once, before anything else: the worker if the node has a learner, the server if it is the one.
  void put(std::unique_ptr<WorkerHalf>, std::unique_ptr<ServerHalf>);

  void on_computed(const Computed&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override;
  std::string waiting_for() const override;
  Status admit(Rank from, const Label&) override;
  void state(Archive&) override;

 private:
  Setup setup_;
  std::unique_ptr<Courier> courier_;
  std::unique_ptr<WorkerHalf> worker_;
  std::unique_ptr<ServerHalf> server_;
  bool over_ = false;  // finished, or failed
};

}  // namespace longhaul::sync::server

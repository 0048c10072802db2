#pragma once
// ServerStrategy is the strategy of a node in a job with a parameter server: a worker if the node
// has a learner, the server if it is the one, and the channel between them and other nodes.
//   Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014,
//   section 3; here with one server, which holds the whole model.
//
// With [server] standby_every the loss of the server does not end the run: the senior worker that
// is left takes its place with the newest copy of its state (standby.h). Updates since then are
// lost, and so is what workers compute at that moment. Every worker's node has a server for that,
// which does nothing before.
//
// Updates go to the server in the job's codec, with the worker's error feedback. Models go to the
// workers in another codec, or in fp32. Buffers are exact, and so are the models that a run starts
// from and ends with. A worker beside the server sends it the same envelopes, at no cost.
#include "longhaul/core/registry.h"
#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"
#include "longhaul/sync/server/standby.h"

namespace longhaul::sync::server {

class ServerStrategy final : public Strategy {
 public:
  // The overlay of `parts` is not used; its outer transform is none.
  ServerStrategy(std::string_view name, SyncParts parts, const Place&);
  const Setup& setup() const { return setup_; }
  // Of the strategy, before setup() is given to worker and server.
  void commits_a_round(std::uint64_t commits) { setup_.commits = commits; }
  // May this node come to serve?
  bool may_serve() const;
  // Of the strategy: its workers may return. Before anything else.
  void let_return(bool lets_return) { lets_return_ = lets_return; }
  // Once, before anything else: the worker if the node has a learner, the server if it may serve.
  void put(std::unique_ptr<ParameterServerWorker>, std::unique_ptr<ParameterServer>);

  void on_computed(const Computed&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override;
  std::string waiting_for() const override;
  bool lets_return() const override { return lets_return_; }
  void state(Archive&) override;

 private:
  // Unread vectors of a peer, of a channel whose owner reads at once: what may be on its way.
  static constexpr std::uint32_t kModelsOnTheWay = 16;

  bool serves() const { return knows_server_ && server_ && setup_.place.self == server_rank_; }
  void follow(Rank server, Turn&);
  void hear_server(const Envelope&, Turn&);
  void fail_without_server(std::string_view why, Turn&);
  Result<bool> admit(Rank from, const ServerHeader&, const ContentShape&);
  void send(Envelope, Turn& below);
  void follow_service(Turn& below);

  Setup setup_;
  std::unique_ptr<ServerChannel> channel_;
  std::unique_ptr<ParameterServerWorker> worker_;
  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<Standby> standby_;  // null without [server] standby_every
  bool lets_return_ = false;
  // A node that has returned hears it from the one that serves.
  bool knows_server_;
  bool heard_server_ = false;    // it is on its way to this strategy
  bool asked_to_serve_ = false;  // before that, and it cannot
  Rank server_rank_;             // who serves
  VectorHandle push_ = 0;        // the newest of the worker's vectors
  Service service_;              // that it was sent with
  bool over_ = false;            // finished, or failed
  bool finished_ = false;        // said so
};

}  // namespace longhaul::sync::server

#pragma once
// ServerAndWorkers puts the server and the workers of a strategy together without nodes, network or
// a ServerStrategy between them: envelopes are handed over at once and in order. A test says when
// what a worker computes is done, and what it came to.
#include <functional>

#include <gtest/gtest.h>

#include "longhaul/sync/server/parameter_server.h"
#include "longhaul/sync/server/parameter_server_worker.h"
#include "longhaul/sync/testing/one_node.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::sync::testing {

// Part: a strategy with a server, as in sync/registry.cpp.
template <class Part>
class ServerAndWorkers {
 public:
  ServerAndWorkers(typename Part::Config config, std::uint32_t workers, std::uint64_t size = 4,
                   double rate = 0.5)
      : config_(config) {
    setup_ = {.name = Part::entry().name, .place = {}, .server = 0, .workers = {}, .stop = {}};
    setup_.rate = rate;
    setup_.stop.max_rounds = 1000000;
    setup_.stop.report_every = 1000000;
    Members members(workers);
    for (Rank rank = 0; rank < workers; ++rank) {
      members[rank].site = "site" + std::to_string(rank);
      setup_.workers.push_back(rank);
    }
    if constexpr (requires { Part::commits(config, setup_); })
      setup_.commits = Part::commits(config, setup_);
    for (Rank rank = 0; rank < workers; ++rank) {
      nodes_.push_back(std::make_unique<OneNode>(size, Quadratic::Config{}, members));
      nodes_.back()->place.self = rank;
    }
    // All at the server: what a worker sends to itself is not coded.
    setup_.place = nodes_[0]->place;
    channel_ = std::make_unique<server::ServerChannel>(
        setup_.place,
        ChannelConfig{.stream = "models", .limits = ChannelLimits::models(1, *setup_.place.layout)},
        std::make_unique<transfer::Reliable>(setup_.place), nullptr, nullptr,
        [](Rank, const server::ServerHeader&, const ContentShape&) { return Result<bool>(true); });
    setup_.channel = channel_.get();
    server_ = std::make_unique<typename Part::Server>(config_, setup_);
    for (Rank rank = 0; rank < workers; ++rank)
      workers_.push_back(std::make_unique<typename Part::Worker>(config_, setup_));
  }

  // All begin, with this model; workers may go on from others, which a test gives them.
  void start(float value) {
    for (Rank rank = 0; rank < workers_.size(); ++rank) {
      std::fill(params(rank).begin(), params(rank).end(), value);
      workers_[rank]->on_start(nodes_[rank]->turn);
    }
    deliver();
  }
  std::span<float> params(Rank rank) { return nodes_[rank]->params(); }
  // The worker's steps are done, and took its parameters there.
  void computed(Rank rank, std::function<void(std::span<float>)> step = {}) {
    if (step) step(params(rank));
    nodes_[rank]->context.wanted.clear();
    workers_[rank]->on_computed({.steps = 1, .samples = 1}, nodes_[rank]->turn);
    deliver();
  }
  // A push past the worker, by hand, from the model that it was last given.
  void push(Rank rank, std::vector<float> values, std::uint64_t shard = 0) {
    server::ServerHeader header = push_header(given_[rank]);
    if constexpr (requires { Part::update_extension(shard); })
      header.extension = Part::update_extension(shard);
    push(rank, std::move(header), std::move(values));
  }
  static server::ServerHeader push_header(std::uint64_t version) {
    server::ServerHeader header;
    header.kind = server::ServerHeader::Kind::push;
    header.asks = true;
    header.version = version;
    return header;
  }
  void push(Rank rank, server::ServerHeader header, std::vector<float> values) {
    const Status admitted = server_->admit(rank, header, /*carries=*/true);
    ASSERT_TRUE(admitted) << admitted.error().what;
    server_->take({rank, header, std::make_shared<const std::vector<float>>(values)},
                  nodes_[0]->turn);
    collect();
  }
  void timer(TimerId id) {
    server_->on_timer(id, nodes_[0]->turn);
    collect();
  }
  void lose(Rank rank) {
    const View before = nodes_[0]->view;
    nodes_[0]->view.live.erase(rank);
    server_->on_view(before, nodes_[0]->turn);
    collect();
  }
  // The model as it stands, told to somebody who only looks.
  void read_by_hand(Rank rank) {
    server_->take({rank, {}, nullptr}, nodes_[0]->turn);
    collect();
    to_workers_.clear();
  }
  std::uint64_t given(Rank rank) { return given_[rank]; }  // the version it was given last
  const std::vector<float>& model() { return *models_.at(newest_); }  // given last, to whomever
  std::vector<double> records(const std::string& name) const {
    std::vector<double> values;
    for (const Record& record : nodes_[0]->template done<Record>())
      if (record.name == name) values.push_back(record.value);
    return values;
  }
  server::ParameterServer& server() { return *server_; }
  server::ParameterServerWorker& worker(Rank rank) { return *workers_.at(rank); }
  OneNode& node(Rank rank) { return *nodes_.at(rank); }

  std::vector<std::pair<Rank, server::ServerHeader>> headers;  // of all that the server sent

 private:
  void collect() {
    while (auto envelope = server_->outgoing()) {
      headers.push_back({envelope->peer, envelope->header});
      if (envelope->header.kind == server::ServerHeader::Kind::notice) continue;
      given_[envelope->peer] = envelope->header.version;
      newest_ = envelope->header.version;
      if (envelope->values) models_[newest_] = envelope->values;
      to_workers_.push_back(*std::move(envelope));
    }
  }
  void deliver() {
    for (bool more = true; more;) {
      more = false;
      for (Rank rank = 0; rank < workers_.size(); ++rank)
        while (auto envelope = workers_[rank]->outgoing()) {
          envelope->peer = rank;
          EXPECT_TRUE(server_->admit(rank, envelope->header, envelope->carries()));
          server_->take(*envelope, nodes_[0]->turn);
          collect();
          more = true;
        }
      for (; !to_workers_.empty(); to_workers_.pop_front()) {
        const server::Envelope& one = to_workers_.front();
        nodes_[one.peer]->context.wanted.clear();
        const Status status = workers_[one.peer]->admit(one.header, one.carries());
        EXPECT_TRUE(status) << status.error().what;
        workers_[one.peer]->take(one, nodes_[one.peer]->turn);
        more = true;
      }
    }
  }

  const typename Part::Config config_;
  server::Setup setup_;
  std::vector<std::unique_ptr<OneNode>> nodes_;
  std::unique_ptr<server::ServerChannel> channel_;
  std::unique_ptr<server::ParameterServer> server_;
  std::vector<std::unique_ptr<server::ParameterServerWorker>> workers_;
  std::deque<server::Envelope> to_workers_;
  std::map<Rank, std::uint64_t> given_;
  std::map<std::uint64_t, Snapshot> models_;  // by version
  std::uint64_t newest_ = 0;
};

}  // namespace longhaul::sync::testing

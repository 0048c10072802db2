#pragma once
// Halves puts a server's half and workers' halves of a strategy together without nodes, network or
// a Served between them: letters are handed over at once and in order, and a test says when what a
// worker computes is done, and what it came to.
#include <functional>

#include <gtest/gtest.h>

#include "longhaul/sync/server/server_half.h"
#include "longhaul/sync/server/worker_half.h"
#include "longhaul/sync/testing/one_node.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::sync::testing {

// Part: a strategy with a server, as in sync/registry.cpp.
template <class Part>
class Halves : public server::Reader {
 public:
  Halves(typename Part::Config config, std::uint32_t workers, std::uint64_t size = 4,
         double rate = 0.5)
      : config_(config) {
    setup_ = {.name = Part::kName, .place = {}, .server = 0, .workers = {}, .stop = {}};
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
    courier_ = std::make_unique<server::Courier>(setup_.place, 0,
                                                 std::make_unique<transfer::Reliable>(setup_.place),
                                                 nullptr, nullptr, *this);
    setup_.courier = courier_.get();
    server_ = Part::server(config_, setup_);
    for (Rank rank = 0; rank < workers; ++rank) workers_.push_back(Part::worker(config_, setup_));
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
    server::Label label{.kind = server::Label::Kind::push, .version = given_[rank]};
    label.asks = true;
    label.shard = shard;
    push(rank, std::move(label), std::move(values));
  }
  void push(Rank rank, server::Label label, std::vector<float> values) {
    const Status admitted = server_->admit(rank, label);
    ASSERT_TRUE(admitted) << admitted.error().what;
    server_->take({rank, label, std::make_shared<const std::vector<float>>(values)},
                  nodes_[0]->turn);
    collect();
  }
  void timer(TimerId id) {
    server_->on_timer(id, nodes_[0]->turn);
    collect();
  }
  void lose(Rank rank) {
    const View before = nodes_[0]->view;
    std::erase(nodes_[0]->view.live, rank);
    server_->on_view(before, nodes_[0]->turn);
    collect();
  }
  // The model as it stands, told to somebody who only looks.
  void read_by_hand(Rank rank) {
    const server::Label label{.kind = server::Label::Kind::pull};
    server_->take({rank, label, nullptr}, nodes_[0]->turn);
    collect();
    down_.clear();
  }
  std::uint64_t given(Rank rank) { return given_[rank]; }  // the version it was given last
  const std::vector<float>& model() { return *models_.at(newest_); }  // given last, to whomever
  std::vector<double> records(const std::string& name) const {
    std::vector<double> values;
    for (const Record& record : nodes_[0]->template done<Record>())
      if (record.name == name) values.push_back(record.value);
    return values;
  }
  Status admit(Rank, const server::Label&) override { return Ok{}; }
  server::ServerHalf& server() { return *server_; }
  server::WorkerHalf& worker(Rank rank) { return *workers_.at(rank); }
  OneNode& node(Rank rank) { return *nodes_.at(rank); }

  std::vector<std::pair<Rank, server::Label>> labels;  // of all letters of the server

 private:
  void collect() {
    while (auto letter = server_->letter()) {
      labels.push_back({letter->peer, letter->label});
      if (letter->label.kind == server::Label::Kind::urge) continue;
      given_[letter->peer] = letter->label.version;
      newest_ = letter->label.version;
      letter->label.carries = letter->values != nullptr;
      if (letter->values) models_[newest_] = letter->values;
      down_.push_back(*std::move(letter));
    }
  }
  void deliver() {
    for (bool more = true; more;) {
      more = false;
      for (Rank rank = 0; rank < workers_.size(); ++rank)
        while (auto letter = workers_[rank]->letter()) {
          letter->peer = rank;
          letter->label.carries = letter->values != nullptr;
          EXPECT_TRUE(server_->admit(rank, letter->label));
          server_->take(*letter, nodes_[0]->turn);
          collect();
          more = true;
        }
      for (; !down_.empty(); down_.pop_front()) {
        const server::Letter& letter = down_.front();
        nodes_[letter.peer]->context.wanted.clear();
        const Status status = workers_[letter.peer]->admit(letter.label);
        EXPECT_TRUE(status) << status.error().what;
        workers_[letter.peer]->take(letter, nodes_[letter.peer]->turn);
        more = true;
      }
    }
  }

  const typename Part::Config config_;
  server::Setup setup_;
  std::vector<std::unique_ptr<OneNode>> nodes_;
  std::unique_ptr<server::Courier> courier_;
  std::unique_ptr<server::ServerHalf> server_;
  std::vector<std::unique_ptr<server::WorkerHalf>> workers_;
  std::deque<server::Letter> down_;
  std::map<Rank, std::uint64_t> given_;
  std::map<std::uint64_t, Snapshot> models_;  // by version
  std::uint64_t newest_ = 0;
};

}  // namespace longhaul::sync::testing

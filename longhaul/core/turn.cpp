#include "longhaul/core/turn.h"

#include "longhaul/core/machine.h"

namespace longhaul {

void Credits::give(Rank peer, unsigned service_class) {
  auto it = held_.find({peer, service_class});
  if (it == held_.end()) return;  // the peer was forgotten meanwhile
  LH_CHECK(it->second > 0);
  if (--it->second == 0) held_.erase(it);
}

void Credits::forget(Rank peer) {
  std::erase_if(held_, [&](const auto& entry) { return entry.first.first == peer; });
}

std::span<float> Turn::params() {
  LH_CHECK(context_->learner && !context_->busy);
  return context_->learner->params();
}

std::span<float> Turn::grads() {
  LH_CHECK(context_->learner && !context_->busy);
  return context_->learner->grads();
}

void Turn::send(Rank to, Message message, Service service) {
  LH_CHECK(to < place().size());
  message.machine = path_;
  message.epoch = view().epoch;
  if (message.is_bulk() && to != self()) {
    LH_CHECK(room(to, service) > 0);
    context_->credits->take(to, service);
  }
  act(Send{to, std::move(message), service});
}

void Turn::act(Action action) { context_->actions.push_back(std::move(action)); }

void Turn::set_timer(const Machine& of, TimerId id, Time at) { act(SetTimer{of.way(), id, at}); }
void Turn::cancel_timer(const Machine& of, TimerId id) { act(CancelTimer{of.way(), id}); }

void Turn::report(Round round, Snapshot model) { act(Report{round, std::move(model)}); }
void Turn::record(std::string name, Round round, double value) {
  act(Record{std::move(name), round, value});
}
void Turn::append(std::uint64_t number, Buffer record) {
  act(Append{number, share(std::move(record))});
}
void Turn::reply(std::uint64_t client, Buffer answer, bool last) {
  act(Reply{client, share(std::move(answer)), last});
}
void Turn::diverge(std::string_view what) {
  fail(not_finite("site " + place().me().site + " (rank " + std::to_string(self()) +
                  "): " + std::string(what) +
                  " has grown too large to be sent; training has diverged: "
                  "lower its rate, or make its steps shorter"));
}

void Turn::finish() { act(Finish{}); }
void Turn::fail(Error error) { act(Fail{std::move(error)}); }

void Turn::compute(Work work, std::uint32_t steps) {
  LH_CHECK(context_->learner && steps > 0);
  LH_CHECK(!context_->busy && !context_->working && context_->wanted.empty());
  context_->wanted.emplace_back(std::move(work), steps);
}

}  // namespace longhaul

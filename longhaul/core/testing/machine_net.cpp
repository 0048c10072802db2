#include "longhaul/core/testing/machine_net.h"

#include "longhaul/base/testing/archived.h"

namespace longhaul::testing {

MachineNet::MachineNet(Config config, Factory make)
    : config_(std::move(config)), make_(std::move(make)), random_(config_.seed, Stream{}) {
  auto members = std::make_shared<Members>(config_.members);
  for (Rank rank = 0; members->size() < config_.ranks; ++rank)
    members->push_back({"site" + std::to_string(rank), 0, 0, std::uint8_t(Role::worker)});
  newest_.live = RankList::below(std::uint32_t(members->size()));
  nodes_.resize(members->size());
  for (Rank rank = 0; rank < nodes_.size(); ++rank) {
    NodeState& node = nodes_[rank];
    node.place = {.self = rank,
                  .members = members,
                  .layout = config_.layout,
                  .seed = config_.seed,
                  .chunk_bytes = config_.chunk_bytes,
                  .phantom = config_.phantom};
    node.view = newest_;
    node.machine = make_(node.place);
  }
}

void MachineNet::turn(Rank rank, const std::function<void(Turn&)>& input) {
  NodeState& node = nodes_[rank];
  TurnContext context{.now = Time(std::int64_t(events_)),
                      .place = &node.place,
                      .view = &node.view,
                      .credits = &node.credits};
  Turn turn(context);
  input(turn);
  node.machine->on_progress(turn);
  carry(rank, context.actions);
}

void MachineNet::carry(Rank rank, std::vector<Action>& actions) {
  std::vector<Message> to_self;
  for (Action& action : actions) {
    if (auto* s = std::get_if<Send>(&action)) {
      if (s->to == rank) {
        to_self.push_back(std::move(s->message));
      } else {
        send(rank, std::move(*s));
      }
    } else if (auto* t = std::get_if<SetTimer>(&action)) {
      nodes_[rank].timers[{t->machine.bits(), t->id}] = t->at;
    } else if (auto* c = std::get_if<CancelTimer>(&action)) {
      nodes_[rank].timers.erase({c->machine.bits(), c->id});
    } else if (auto* r = std::get_if<Record>(&action)) {
      records[r->name] += r->value;
    } else if (auto* f = std::get_if<Fail>(&action)) {
      failed[rank] = f->error.what;
    } else if (std::holds_alternative<Finish>(action)) {
      ++finished[rank];
    }
  }
  for (const Message& message : to_self) deliver(rank, rank, message);
}

void MachineNet::send(Rank from, Send&& s) {
  ++messages_;
  bytes_[{from, s.to}] += frame_size(s.message);
  if (!nodes_[s.to].alive) {
    if (s.message.is_bulk()) writable_.emplace_back(from, s.to, s.service.service_class());
    return;
  }
  const Line line{from, s.to, s.service.service_class()};
  lines_[line].push_back({std::move(s.message), s.service});
}

void MachineNet::act(Rank rank, const std::function<void(Turn&)>& what) {
  if (nodes_[rank].alive) turn(rank, what);
}

Status MachineNet::inject(Rank from, Rank to, Message message) {
  Status status = Ok{};
  turn(to, [&](Turn& t) {
    status = nodes_[to].machine->feed_message(from, message, message.machine, t);
  });
  return status;
}

void MachineNet::deliver(Rank from, Rank to, const Message& message) {
  NodeState& node = nodes_[to];
  if (!node.alive) return;
  // As hosts do: what was sent to an earlier incarnation does not reach this one.
  if (message.epoch < node.view.since(to)) return;
  if (message.epoch > node.view.epoch) {
    node.early.push_back(message);
    node.early_from.push_back(from);
    return;
  }
  if (!node.view.has(from)) return;
  turn(to, [&](Turn& t) {
    Status status = node.machine->feed_message(from, message, message.machine, t);
    if (!status) {
      errors.push_back("rank " + std::to_string(to) + " of " + std::to_string(from) + ": " +
                       status.error().what);
    }
  });
}

void MachineNet::crash(Rank rank) {
  nodes_[rank].alive = false;
  for (auto& [line, packets] : lines_) {
    const auto [from, to, service_class] = line;
    if (from == rank && !packets.empty())
      packets.resize(random_.below(packets.size() + 1));  // what was on its way may arrive
    if (to != rank) continue;
    for (const Packet& p : packets)
      if (p.message.is_bulk()) writable_.emplace_back(from, to, service_class);
    packets.clear();
  }
  std::erase_if(writable_, [&](const auto& w) { return std::get<0>(w) == rank; });
  ++newest_.epoch;
  newest_.live.erase(rank);
  newest_.returned.erase(rank);
  for (Rank r : newest_.live) nodes_[r].views_to_come.push_back(newest_);
}

void MachineNet::come_back(Rank rank) {
  NodeState& node = nodes_[rank];
  LH_CHECK(!node.alive);
  for (auto& [line, packets] : lines_)
    if (std::get<0>(line) == rank || std::get<1>(line) == rank) packets.clear();
  std::erase_if(writable_, [&](const auto& w) { return std::get<1>(w) == rank; });
  ++newest_.epoch;
  newest_.live.insert(rank);
  newest_.returned[rank] = newest_.epoch;
  for (Rank r : newest_.live)
    if (r != rank) nodes_[r].views_to_come.push_back(newest_);
  const View before = node.view;
  node.alive = true;
  node.view = newest_;
  node.credits = {};
  node.views_to_come.clear();
  node.timers.clear();
  node.early.clear();
  node.early_from.clear();
  node.machine = make_(node.place);
  turn(rank, [&](Turn& t) {
    node.machine->feed_all([&](Machine& m, Turn& inner) { m.on_view(before, inner); }, t);
  });
}

void MachineNet::next_view(Rank rank) {
  NodeState& node = nodes_[rank];
  const View before = node.view;
  node.view = node.views_to_come.front();
  node.views_to_come.erase(node.views_to_come.begin());
  for (Rank r : before.live)
    if (!node.view.has(r)) node.credits.forget(r);
  turn(rank, [&](Turn& t) {
    node.machine->feed_all([&](Machine& m, Turn& inner) { m.on_view(before, inner); }, t);
  });
  const auto early = std::exchange(node.early, {});
  const auto early_from = std::exchange(node.early_from, {});
  for (std::size_t i = 0; i < early.size(); ++i) deliver(early_from[i], rank, early[i]);
}

void MachineNet::save_and_load(Rank rank) {
  NodeState& node = nodes_[rank];
  const Buffer bytes = longhaul::testing::saved(*node.machine);
  node.machine = make_(node.place);
  LH_CHECK(longhaul::testing::load(*node.machine, bytes));
}

void MachineNet::add_timers(std::vector<std::function<void()>>& choices) {
  for (Rank rank = 0; rank < nodes_.size(); ++rank) {
    if (!nodes_[rank].alive || nodes_[rank].timers.empty()) continue;
    choices.push_back([this, rank] {
      const auto timer = nodes_[rank].timers.begin()->first;
      nodes_[rank].timers.erase(timer);
      turn(rank, [&](Turn& t) {
        nodes_[rank].machine->feed_timer(Path::from_bits(timer.first), timer.second, t);
      });
    });
  }
}

bool MachineNet::step() {
  std::vector<std::function<void()>> choices;
  for (auto& [line, packets] : lines_) {
    if (packets.empty()) continue;
    choices.push_back([this, line = line] {
      auto& queue = lines_.at(line);
      const Packet packet = std::move(queue.front());
      queue.erase(queue.begin());
      const auto [from, to, service_class] = line;
      if (packet.message.is_bulk() && nodes_[from].alive)
        writable_.emplace_back(from, to, service_class);
      deliver(from, to, packet.message);
    });
  }
  for (std::size_t i = 0; i < writable_.size(); ++i) {
    choices.push_back([this, i] {
      const auto [from, to, service_class] = writable_[i];
      writable_.erase(writable_.begin() + std::ptrdiff_t(i));
      if (!nodes_[from].alive) return;
      nodes_[from].credits.give(to, service_class);
      if (!nodes_[from].view.has(to)) return;
      turn(from, [&, to = to](Turn& t) {
        nodes_[t.self()].machine->feed_all(
            [&](Machine& m, Turn& inner) { m.on_writable(to, inner); }, t);
      });
    });
  }
  for (Rank rank = 0; rank < nodes_.size(); ++rank) {
    if (!nodes_[rank].alive) continue;
    if (!nodes_[rank].views_to_come.empty()) choices.push_back([this, rank] { next_view(rank); });
  }
  // Timers are slow: they fire when nothing else can happen, and now and then before.
  if (choices.empty() || random_.below(50) == 0) add_timers(choices);
  if (choices.empty()) return false;
  choices[random_.below(choices.size())]();
  ++events_;
  if (watch) watch();
  return true;
}

std::uint64_t MachineNet::run(std::uint64_t most) {
  const std::uint64_t before = events_;
  while (step()) LH_CHECK(events_ - before < most);
  return events_ - before;
}

std::uint64_t MachineNet::bytes(Rank from, Rank to) const {
  auto it = bytes_.find({from, to});
  return it == bytes_.end() ? 0 : it->second;
}

std::size_t MachineNet::in_flight(Rank from, Rank to, unsigned service_class) const {
  const auto found = lines_.find({from, to, service_class});
  return found == lines_.end() ? 0 : found->second.size();
}

std::uint64_t MachineNet::bytes_from(Rank from) const {
  std::uint64_t sum = 0;
  for (const auto& [pair, bytes] : bytes_)
    if (pair.first == from) sum += bytes;
  return sum;
}

}  // namespace longhaul::testing

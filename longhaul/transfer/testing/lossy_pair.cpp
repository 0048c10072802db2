#include "longhaul/transfer/testing/lossy_pair.h"

#include <cstring>

#include "longhaul/base/testing/archived.h"

namespace longhaul::transfer::testing {
namespace {

constexpr std::uint32_t kChunk = 80;  // 20 values: several stretches a vector

std::shared_ptr<const Layout> four_tensors() {
  std::vector<LayerRange> layers;
  std::uint64_t at = 0;
  for (const std::uint64_t length : {50u, 3u, 40u, 10u}) {
    layers.push_back({"t" + std::to_string(at), {at, length}, {std::int64_t(length)}});
    at += length;
  }
  return std::make_shared<const Layout>(std::move(layers));
}

Payload bytes_of(std::span<const float> values) {
  Buffer bytes(values.size_bytes());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return Payload(longhaul::share(std::move(bytes)));
}

}  // namespace

// fp32. Wants each round once, in order.
class LossyPair::Port final : public VectorPort {
 public:
  explicit Port(LossyPair& pair, bool phantom) : pair_(pair), phantom_(phantom) {}
  Payload encoded(const TransferKey& key, Range range) override {
    return encode_part(key, range, part_values(key, range));
  }
  Payload encode_part(const TransferKey&, Range range, std::span<const float> values) override {
    return phantom_ ? Payload::phantom(4 * range.length) : bytes_of(values);
  }
  std::span<const float> part_values(const TransferKey& key, Range range) override {
    if (phantom_) return {};
    return std::span(pair_.given.at(key.vector.round)).subspan(range.offset, range.length);
  }
  Status admit(Rank, const TransferKey& key, Range) override {
    if (key.vector.round == pair_.rounds_done) return Ok{};
    return malformed("round " + std::to_string(key.vector.round) + " out of turn");
  }
  Result<std::vector<float>> decode(const TransferKey&, Range range, const Payload& b) override {
    if (b.size() != 4 * range.length) return malformed("wrong length");
    std::vector<float> values(phantom_ ? 0 : range.length);
    if (!phantom_) std::memcpy(values.data(), b.view().data(), b.size());
    return values;
  }

 private:
  LossyPair& pair_;
  const bool phantom_;
};

LossyPair::LossyPair(LossyOptions options)
    : options_(std::move(options)), random_(options_.seed, Stream{}) {
  auto members = std::make_shared<Members>(Members{{"here"}, {"there"}});
  const auto layout = options_.layout ? options_.layout : four_tensors();
  for (Rank rank : {kSender, kReceiver}) {
    Node& node = nodes_.emplace_back();
    node.place = {.self = rank,
                  .members = members,
                  .layout = layout,
                  .seed = options_.seed,
                  .chunk_bytes = kChunk,
                  .phantom = options_.phantom};
    node.view.live = {kSender, kReceiver};
    node.port = std::make_shared<Port>(*this, options_.phantom);
    node.dgt = make(node);
  }
}

std::unique_ptr<Dgt> LossyPair::make(Node& node) {
  auto dgt = std::make_unique<Dgt>(options_.config, node.place);
  dgt->attach(*node.port);
  return dgt;
}

void LossyPair::turn(Rank rank, const std::function<void(Turn&)>& input) {
  Node& node = nodes_[rank];
  TurnContext context{
      .now = now_, .place = &node.place, .view = &node.view, .credits = &node.credits};
  Turn turn(context);
  input(turn);
  node.dgt->on_progress(turn);
  carry(rank, context.actions);
  if (rank == kReceiver) collect();
  most_kept = std::max(most_kept, receiver().receiver().kept(kSender));
  if (!options_.save_and_load) return;
  const Buffer bytes = longhaul::testing::saved(*node.dgt);
  node.dgt = make(node);
  LH_CHECK(longhaul::testing::load(*node.dgt, bytes));
}

void LossyPair::carry(Rank rank, std::vector<Action>& actions) {
  for (Action& action : actions) {
    if (auto* s = std::get_if<Send>(&action)) send(rank, std::move(*s));
    if (auto* t = std::get_if<SetTimer>(&action)) nodes_[rank].timers[t->id] = t->at;
    if (auto* c = std::get_if<CancelTimer>(&action)) nodes_[rank].timers.erase(c->id);
    if (auto* r = std::get_if<Record>(&action)) records[r->name] += r->value;
  }
}

void LossyPair::send(Rank from, Send&& send) {
  if (from == kSender) watch(send.message);
  const unsigned service_class = send.service.service_class();
  if (send.service.delivery == Service::Delivery::reliable)
    return lines_[{from, service_class}].push_back({from, std::move(send.message), service_class});
  writable_.emplace_back(from, service_class);
  if (random_.uniform() < options_.loss) return void(++dropped);
  datagrams_.push_back({from, send.message, service_class});
  if (random_.uniform() < options_.duplicated)
    datagrams_.push_back({from, std::move(send.message), service_class});
}

// --- the watcher

void LossyPair::watch(const Message& message) {
  if (!message.machine.empty()) return;  // of the reliable transfer below
  (void)bool(dispatch(dgt::Messages{}, message, [&](const auto& one) -> Status {
    using One = std::decay_t<decltype(one)>;
    if constexpr (std::is_same_v<One, dgt::End>) {
      ends[one.push] = one;
      push_of_[one.key.vector.round] = one.push;
    }
    if constexpr (std::is_same_v<One, dgt::Blocks>) {
      std::size_t at = 0;
      for (std::size_t i = 0; i < one.numbers.size(); ++i) {
        auto& values = blocks[{one.push, one.numbers[i]}];
        if (!options_.phantom) {
          values.resize(one.sizes[i] / 4);
          std::memcpy(values.data(), message.body.view().data() + at, one.sizes[i]);
        }
        at += one.sizes[i];
      }
    }
    return Ok{};
  }));
}

// At the receiver, before it sees them: the first time that a block comes decides.
void LossyPair::watch_blocks(const dgt::Blocks& one) {
  for (const std::uint32_t number : one.numbers) {
    const Id id{one.push, number};
    if (outcome.contains(id)) continue;
    const bool fresh = one.push >= next_push_;
    outcome[id] = fresh ? 1 : 2;
    if (fresh) fresh_[one.push].insert(number);
    const bool carries = options_.config.late == "carry" && options_.config.mode != "bounded_loss";
    if (!fresh && carries && next_push_ - one.push <= options_.config.max_late)
      carried_[id] = blocks.at(id);
  }
}

std::vector<dgt::Block> LossyPair::blocks_of(const dgt::End& end, const Layout& layout,
                                             const dgt::Config& config) {
  return dgt::cut(end.ranges, layout, std::min(config.block_bytes, kChunk) / 4);
}

void LossyPair::expect(std::uint64_t push, Round round) {
  const Layout& layout = *nodes_[0].place.layout;
  std::vector<double> out(layout.size());
  const auto add = [&](const Range& at, const std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) out[at.offset + i] += double(values[i]);
  };
  const auto cut = blocks_of(ends.at(push), layout, options_.config);
  for (const std::uint32_t number : fresh_[push]) add(cut[number].range, blocks.at({push, number}));
  for (const auto& [id, values] : carried_)
    if (push - id.push <= options_.config.max_late && ends.at(id.push).key.vector.round < round)
      add(blocks_of(ends.at(id.push), layout, options_.config)[id.number].range, values);
  carried_.clear();
  expected[round].assign(out.begin(), out.end());
}

// --- the receiver's owner

void LossyPair::collect() {
  Dgt& dgt = receiver();
  std::vector<float>* values = nullptr;
  Round round = 0;
  while (auto arrival = dgt.arrived()) {
    round = arrival->key.vector.round;
    values = &handed_on[round];
    values->resize(nodes_[0].place.layout->size());
    std::copy(arrival->values.begin(), arrival->values.end(),
              values->begin() + std::ptrdiff_t(arrival->range.offset));
  }
  if (!values) return;
  if (const auto push = push_of_.find(round); push != push_of_.end()) {
    next_push_ = push->second + 1;
    expect(push->second, round);
    if (random_.uniform() >= options_.repeats) return void(rounds_done = round + 1);
    sender().cancel(key_of(round), std::nullopt);
    ++epoch_;
    begun_ = round;
    return;
  }
  // The first vector comes in pieces; wait for the last one.
  if (sender().remaining(key_of(round), kReceiver) == 0 &&
      lines_[{kSender, Service{}.service_class()}].empty())
    rounds_done = round + 1;
}

void LossyPair::push_round() {
  const Round round = begun_++;
  const std::uint64_t size = nodes_[0].place.layout->size();
  std::vector<float> values;
  if (options_.gradient) values = options_.gradient(round);
  Random random(options_.seed, {Purpose::test, round + 1, 0, 0});
  while (values.size() < size) values.push_back(float(random.normal()));
  given[round] = std::move(values);
  Outgoing out{key_of(round), kReceiver, {}, 1, {}};
  for (std::uint64_t at = 0; at < size; at += kChunk / 4)
    out.ranges.push_back({at, std::min<std::uint64_t>(kChunk / 4, size - at)});
  if (options_.training_loss) sender().training_loss(options_.training_loss(round));
  turn(kSender, [&](Turn& turn) { sender().begin(std::move(out), turn); });
}

// --- events

void LossyPair::deliver(const Sent& sent) {
  const Rank to = 1 - sent.from;
  if (to == kSender && !alive_) return;
  if (to == kReceiver && !nodes_[to].view.has(sent.from)) return;
  if (to == kReceiver && sent.message.machine.empty())
    (void)bool(
        dispatch(MessageList<dgt::Blocks>{}, sent.message, [&](const dgt::Blocks& one) -> Status {
          watch_blocks(one);
          return Ok{};
        }));
  turn(to, [&](Turn& turn) {
    const Status status =
        nodes_[to].dgt->feed_message(sent.from, sent.message, sent.message.machine, turn);
    if (!status) errors.push_back(status.error().what);
  });
}

void LossyPair::deliver_datagram(std::size_t i) {
  std::swap(datagrams_[i], datagrams_.back());
  const Sent sent = std::move(datagrams_.back());
  datagrams_.pop_back();
  deliver(sent);
}

void LossyPair::deliver_first(std::deque<Sent>& line) {
  const Sent sent = std::move(line.front());
  line.pop_front();
  if (sent.message.is_bulk()) writable_.emplace_back(sent.from, sent.service_class);
  deliver(sent);
}

void LossyPair::free_room(std::size_t i) {
  const auto [from, service_class] = writable_[i];
  writable_.erase(writable_.begin() + std::ptrdiff_t(i));
  if (from == kSender && !alive_) return;
  nodes_[from].credits.give(1 - from, service_class);
  turn(from, [&, from = from](Turn& turn) {
    nodes_[from].dgt->feed_all(
        [&](Machine& machine, Turn& inner) { machine.on_writable(1 - from, inner); }, turn);
  });
}

bool LossyPair::fire_timer() {
  for (Rank rank : {kSender, kReceiver}) {
    if (nodes_[rank].timers.empty()) continue;
    const auto [id, at] = *nodes_[rank].timers.begin();
    nodes_[rank].timers.erase(id);
    now_ = std::max(now_, at);
    turn(rank, [&, id = id](Turn& turn) { nodes_[rank].dgt->feed_timer({}, id, turn); });
    return true;
  }
  return false;
}

// Any of what may come next; timers when nothing else is left.
bool LossyPair::step() {
  std::vector<std::deque<Sent>*> lines;
  for (auto& [line, queue] : lines_)
    if (!queue.empty()) lines.push_back(&queue);
  const bool may_push = alive_ && begun_ == rounds_done && begun_ < options_.rounds;
  const std::size_t choices =
      lines.size() + datagrams_.size() + writable_.size() + (may_push ? 1 : 0);
  now_ += Time{1};
  if (choices == 0) return fire_timer();
  std::size_t choice = random_.below(choices);
  if (choice < lines.size()) return deliver_first(*lines[choice]), true;
  choice -= lines.size();
  if (choice < datagrams_.size()) return deliver_datagram(choice), true;
  choice -= datagrams_.size();
  if (choice < writable_.size()) return free_room(choice), true;
  push_round();
  return true;
}

void LossyPair::run() {
  for (std::uint64_t events = 0; step(); ++events) LH_CHECK(events < 1'000'000);
}

void LossyPair::crash_sender() {
  alive_ = false;
  const View before = nodes_[kReceiver].view;
  nodes_[kReceiver].view = {1, {kReceiver}};
  turn(kReceiver, [&](Turn& turn) {
    receiver().feed_all([&](Machine& machine, Turn& inner) { machine.on_view(before, inner); },
                        turn);
  });
}

Status LossyPair::inject(const Message& message, Rank from) {
  Status status = Ok{};
  turn(1 - from, [&](Turn& turn) {
    status = nodes_[1 - from].dgt->feed_message(from, message, message.machine, turn);
  });
  return status;
}

}  // namespace longhaul::transfer::testing

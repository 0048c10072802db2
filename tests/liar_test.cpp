// A node that lies in fields whose values are possible. It may spoil its own contribution. No other
// node fails, waits for ever or is taken for a liar.
#include <set>

#include <gtest/gtest.h>

#include "longhaul/core/testing/machine_net.h"
#include "longhaul/overlay/testing/exchange.h"
#include "longhaul/sync/gaia/headers.h"
#include "longhaul/sync/peer_strategy.h"
#include "longhaul/transfer/dgt.h"
#include "tests/job_checks.h"
#include "tests/wrapped_network.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

constexpr Rank kLiar = 2, kReturned = 3;  // neighbours

// Shows each message that arrives to `lie`, which may change it.
class LyingNetwork final : public WrappedNetwork {
 public:
  using Lie = std::function<void(sim::Packet&)>;
  LyingNetwork(std::unique_ptr<sim::Network> honest, Lie lie)
      : WrappedNetwork(std::move(honest)), lie_(std::move(lie)) {}
  std::optional<sim::NetworkEvent> advance() override {
    std::optional<sim::NetworkEvent> notice = network_->advance();
    if (notice && notice->kind == sim::NetworkEvent::Kind::delivered) lie_(notice->packet);
    return notice;
  }

 private:
  const Lie lie_;
};

// The message of the strategy itself, if it is one of these.
template <MessageStruct M>
std::optional<M> read(const sim::Packet& packet) {
  const Message& m = packet.message;
  if (m.machine.bits() != Path().child(2).bits() || m.kind != M::kKind) return std::nullopt;
  const auto fields = from_wire<M>(m.head.view());
  return fields ? std::optional(*fields) : std::nullopt;
}

template <MessageStruct M>
void write(sim::Packet& packet, const M& fields) {
  packet.message.head = Payload(share(to_wire(fields)));
}

// Five workers over sockets of the simulator; one is lost and returns among the lies.
struct ReturnAmongLies {
  ReturnAmongLies(const std::string& sync, LyingNetwork::Lie lie) : job(spec(sync, lie)) {}
  static JobSpec spec(const std::string& sync, const LyingNetwork::Lie& lie) {
    JobSpec spec{.parts = plain(variant_named(sync_variants(), sync), overlay_variants().at(0)),
                 .workers = 5,
                 .one_site_each = true,
                 .rounds = 20};
    spec.world.detect = 20ms;
    spec.wrap = [lie](std::unique_ptr<sim::Network> honest) {
      return std::make_unique<LyingNetwork>(std::move(honest), lie);
    };
    return spec;
  }
  // Answers whether the node was lost and let in again before the run was over.
  bool lose_and_return() {
    job.kill(kReturned, 150);
    while (!job.declared_lost(kReturned))
      if (!job.step()) return false;
    job.restart(kReturned);
    return true;
  }
  Job job;
};

// One that enters ahead of all others would be taken for a liar itself.
TEST(Liar, CannotSendAReturnedWorkerAheadOfAllOthers) {
  using Entered = sync::PeerStrategy::EnteredView;
  // It enters late: in a round that no peer has begun. What peers can be apart is no lie.
  const std::set<std::string> late = {"dpsgd", "noloco"};
  for (const char* sync : {"dpsgd", "noloco", "gaia", "staleness_lab"}) {
    SCOPED_TRACE(sync);
    const bool is_late = late.contains(sync);
    Job* running = nullptr;
    std::uint64_t lies = 0, entered = 0;
    ReturnAmongLies run(sync, [&](sim::Packet& packet) {
      auto one = read<Entered>(packet);
      if (!one || one->epoch < 2) return;  // the loss, the return
      if (packet.from == kLiar && packet.to == kReturned) {
        one->round += is_late ? 200 : 2;
        ++lies;
        write(packet, *one);
      }
      if (packet.from != kReturned) return;
      ++entered;
      Round furthest = 0;
      for (const Rank honest : {0u, 1u, 4u})
        furthest = std::max(furthest, running->world().node(honest).strategy().rounds_done());
      EXPECT_LE(one->round, furthest + is_late) << "to " << packet.to;
    });
    running = &run.job;
    ASSERT_TRUE(run.lose_and_return());
    for (int i = 0; i < 20000 && entered == 0 && run.job.step(); ++i) {
    }
    EXPECT_FALSE(run.job.failure()) << run.job.failure()->what;
    EXPECT_GT(lies, 0u);
    EXPECT_GT(entered, 0u);
  }
}

// Its answer would be awaited for ever.
TEST(Liar, CannotStopAPeerByAnEntryBeforeTheRoundThatItWasTold) {
  using Entered = sync::PeerStrategy::EnteredView;
  constexpr Rank kPeer = 0;
  Job* running = nullptr;
  std::optional<Round> before;
  ReturnAmongLies run("dpsgd_complete", [&](sim::Packet& packet) {
    auto one = read<Entered>(packet);
    if (!one || !one->is_back || packet.from != kReturned || packet.to != kPeer) return;
    one->round = 0;
    before = running->world().node(kPeer).strategy().rounds_done();
    write(packet, *one);
  });
  running = &run.job;
  ASSERT_TRUE(run.lose_and_return());
  const auto done = [&] { return run.job.world().node(kPeer).strategy().rounds_done(); };
  for (int i = 0; i < 20000 && (!before || done() < *before + 2) && run.job.step(); ++i) {
  }
  ASSERT_TRUE(before);
  EXPECT_GE(done(), *before + 2) << "the round that it was in, and the one that it told";
}

// All begin the latest iteration of all again: a false one would skip iterations of all.
TEST(Liar, CannotMakeAllSkipIterations) {
  using Entered = sync::PeerStrategy::EnteredView;
  std::uint64_t lies = 0;
  ReturnAmongLies run("gadmm", [&](sim::Packet& packet) {
    auto one = read<Entered>(packet);
    if (!one || packet.from != kLiar) return;
    one->round += 18;
    ++lies;
    write(packet, *one);
  });
  ASSERT_TRUE(run.lose_and_return());
  Round before = 0;
  for (bool more = true; more;) {
    more = run.job.step();
    const Round now = run.job.world().node(0).strategy().rounds_done();
    EXPECT_LE(now, before + 7) << "as far as workers can be apart";
    before = now;
  }
  EXPECT_GT(lies, 0u);
  expect_ended_alike(run.job);
}

// The base would be a clock that no site has.
TEST(Liar, CannotMakeAReturnedSiteWaitForABaseOfTheFuture) {
  std::uint64_t lies = 0;
  ReturnAmongLies run("gaia", [&](sim::Packet& packet) {
    auto one = read<sync::gaia::BaseClock>(packet);
    if (!one || packet.from != kLiar || packet.to != kReturned) return;
    one->clock = 1000;
    ++lies;
    write(packet, *one);
  });
  ASSERT_TRUE(run.lose_and_return());
  while (run.job.step()) {
  }
  EXPECT_GT(lies, 0u);
  expect_ended_alike(run.job);
}

// With dgt, vectors wait behind one that lacks a block: both are admitted before the first is
// taken.
TEST(Liar, CannotAbortAReceiverByAVectorThatItSendsTwice) {
  namespace dgt = transfer::dgt;
  using overlay::testing::ExchangeConfig;
  ExchangeConfig config{.kind = "direct", .workers = 2, .length = 16, .rounds = 1};
  config.chunk_bytes = 16;
  config.transfer = [](const Place& place) {
    return std::make_unique<transfer::Dgt>(dgt::Config{}, place);
  };
  overlay::testing::Exchange exchange(config);
  const auto say = [&](Path to, const auto& fields, Buffer body = {}) {
    Message message = longhaul::testing::message_of(fields);
    message.machine = to;
    message.body = Payload(share(std::move(body)));
    return bool(exchange.net().inject(1, 0, std::move(message)));
  };
  const Path overlay = Path().child(0), transfer = overlay.child(0);
  const CodecKey vector{{0, 0, 0}, 1};
  ASSERT_TRUE(say(overlay, overlay::Announcement{0, vector, 16, false, 1}));
  const std::vector<Range> ranges = {{0, 4}, {4, 4}};  // those that rank 0 owns
  dgt::Bitmap all = dgt::empty_bitmap(2);
  for (const std::size_t block : {0u, 1u}) dgt::insert(all, block);
  for (const std::uint64_t push : {0u, 1u})
    ASSERT_TRUE(say(transfer, dgt::End{.stream = {},
                                       .push = push,
                                       .key = {0, vector, 0, Coding::up},
                                       .weight = 1,
                                       .ranges = ranges,
                                       .blocks = 2,
                                       .offered = all,
                                       .reliable = all}));
  for (const std::uint64_t push : {1u, 0u})
    EXPECT_TRUE(say(transfer, dgt::Blocks{{}, push, {0, 1}, {16, 16}}, Buffer(32)));
  EXPECT_EQ(exchange.net().records.at("refused"), 2) << "the second ones";
  exchange.run();  // rank 0 begins: its own parts were awaited
  EXPECT_EQ(exchange.at(0).outcomes().size(), 1u);
}

}  // namespace
}  // namespace longhaul::conformance

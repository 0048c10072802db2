#include "longhaul/core/input.h"

namespace longhaul {
namespace {

struct ArchiveInput {
  Archive& ar;
  void operator()(Started&) const {}
  void operator()(Stepped& i) const { ar(i.result); }
  void operator()(Delivered& i) const {
    ar(i.from, i.message);
    // A phantom stands for a vector; what a message says is always there.
    if (i.message.head.is_phantom()) ar.fail("holds a message without its head");
  }
  void operator()(TimerFired& i) const {
    std::uint32_t machine = i.machine.bits();
    ar(machine, i.id);
    i.machine = Path::from_bits(machine);
  }
  void operator()(Departed& i) const { ar(i.peer, i.service_class); }
  void operator()(Scored& i) const { ar(i.round, i.evaluation); }
  void operator()(Reachability& i) const { ar(i.peer, i.unreachable); }
  void operator()(Returned& i) const { ar(i.peer); }
  void operator()(Arrived& i) const { ar(i.items); }
  void operator()(Requested& i) const { ar(i.client, i.request); }
  void operator()(Stored& i) const { ar(i.number); }
  void operator()(Remembered& i) const { ar(i.votes); }
};

template <std::size_t... I>
void emplace_nth(Input& input, std::size_t index, std::index_sequence<I...>) {
  ((index == I ? (void)input.emplace<I>() : void()), ...);
}

}  // namespace

void archive_input(Archive& ar, Input& input) {
  auto index = std::uint32_t(input.index());
  ar(index);
  if (index >= std::variant_size_v<Input>) return ar.fail("holds an unknown kind of input");
  if (ar.loading())
    emplace_nth(input, index, std::make_index_sequence<std::variant_size_v<Input>>());
  std::visit(ArchiveInput{ar}, input);
}

}  // namespace longhaul

#include "longhaul/record/entries.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "longhaul/base/overloaded.h"

namespace longhaul::record {

namespace {

constexpr std::uint64_t kMaxValues = std::uint64_t{1} << 40;

// Returns true if the layers of a file pass the CHECKs of Layout.
bool is_layout(const std::vector<LayerRange>& layers) {
  std::uint64_t end = 0;
  bool buffers = false;
  for (const LayerRange& layer : layers) {
    const bool buffer = layer.role == LayerRange::Role::buffer;
    if (layer.role > LayerRange::Role::buffer || (buffers && !buffer)) return false;
    if (layer.range.offset != end || layer.range.length > kMaxValues - end) return false;
    end += layer.range.length;
    buffers = buffer;
  }
  return true;
}

void archive_layout(Archive& ar, std::shared_ptr<const Layout>& layout) {
  std::vector<LayerRange> layers = layout->layers();
  std::uint64_t count = layers.size();
  ar(count);
  if (ar.loading()) layers.clear();
  for (std::uint64_t i = 0; i < count && !ar.failed(); ++i) {
    if (ar.loading()) layers.emplace_back();
    LayerRange& layer = layers[i];
    ar(layer.name, layer.range, layer.shape, layer.role);
  }
  if (!ar.loading() || ar.failed()) return;
  if (!is_layout(layers)) return ar.fail("holds ranges that are no layout");
  layout = std::make_shared<const Layout>(std::move(layers));
}

std::uint64_t hash_of(std::span<const float> values) {
  return XXH3_64bits(values.data(), values.size_bytes());
}

}  // namespace

void Header::state(Archive& ar) {
  ar(cpu, job, job_hash, seed, mode, rank, nodes, site, rank_in_site, incarnation, learner, phantom,
     training_samples);
  archive_layout(ar, layout);
  if (mode > Mode::full || rank >= nodes) ar.fail("names a mode or a rank that is not there");
}

LearnerVectors LearnerVectors::of(Learner* learner, Mode mode) {
  if (!learner) return {};
  const std::span<const float> params = learner->params(), grads = learner->grads();
  LearnerVectors v{hash_of(params), hash_of(grads), {}, {}};
  if (mode == Mode::full) {
    v.params.assign(params.begin(), params.end());
    v.grads.assign(grads.begin(), grads.end());
  }
  return v;
}

bool same_layout(const Layout& a, const Layout& b) {
  const auto same = [](const LayerRange& x, const LayerRange& y) {
    return x.name == y.name && x.range == y.range && x.shape == y.shape && x.role == y.role;
  };
  return std::equal(a.layers().begin(), a.layers().end(), b.layers().begin(), b.layers().end(),
                    same);
}

namespace {

// Each value's bytes, hashed with the hash so far as the seed.
class Digest {
 public:
  void bytes(const void* data, std::size_t size) {
    hash_ = XXH3_64bits_withSeed(data, size, hash_);
  }
  template <class... Number>
  void numbers(Number... values) {
    (bytes(&values, sizeof values), ...);
  }
  void text(const std::string& value) {
    numbers(std::uint64_t(value.size()));
    bytes(value.data(), value.size());
  }
  void payload(const Payload& value) {
    numbers(std::uint8_t(value.is_phantom()), std::uint64_t(value.size()));
    if (!value.is_phantom()) bytes(value.view().data(), value.size());
  }
  void vectors(Learner* learner) {
    const LearnerVectors v = LearnerVectors::of(learner, Mode::hashes);
    numbers(v.params_hash, v.grads_hash);
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0;
};

std::string way(Path path) {
  std::string text;
  for (; !path.empty(); path = path.tail()) text += fmt::format("/{}", path.head());
  return text.empty() ? "/" : text;
}

std::string about(const Message& m) {
  return fmt::format("{} kind {}, {} + {}{} bytes", way(m.machine), m.kind, m.head.size(),
                     m.body.size(), m.body.is_phantom() ? " phantom" : "");
}

struct Mix {
  Digest& digest;
  Learner* idle;
  void operator()(const Send& a) const {
    const Message& m = a.message;
    digest.numbers(a.to, a.service.delivery, a.service.priority, std::uint32_t(a.service.order));
    digest.numbers(m.machine.bits(), m.kind, m.epoch);
    digest.payload(m.head);
    digest.payload(m.body);
  }
  void operator()(const SetTimer& a) const {
    digest.numbers(a.machine.bits(), a.id, std::int64_t(a.at.count()));
  }
  void operator()(const CancelTimer& a) const { digest.numbers(a.machine.bits(), a.id); }
  void operator()(const ComputeStep& a) const {
    Archive ar;
    Work work = a.work;
    archive_work(ar, work);
    const Buffer bytes = ar.take();
    digest.bytes(bytes.data(), bytes.size());
    digest.vectors(idle);
  }
  void operator()(const Report& a) const {
    digest.numbers(a.round, std::uint8_t(a.model != nullptr));
    if (!a.model) return digest.vectors(idle);
    digest.bytes(a.model->data(), a.model->size() * sizeof(float));
  }
  void operator()(const Record& a) const {
    digest.text(a.name);
    digest.numbers(a.round, std::bit_cast<std::uint64_t>(a.value));
  }
  void operator()(const Append& a) const {
    digest.numbers(a.number);
    digest.payload(Payload(a.record));
  }
  void operator()(const Reply& a) const {
    digest.numbers(a.client, std::uint8_t(a.last));
    digest.payload(Payload(a.answer));
  }
  void operator()(const Finish&) const { digest.vectors(idle); }
  void operator()(const Fail& a) const {
    digest.numbers(a.error.kind);
    digest.text(a.error.what);
  }
};

}  // namespace

std::string describe(Time time) {
  const std::int64_t ns = time.count();
  const std::uint64_t size = ns < 0 ? 0 - std::uint64_t(ns) : std::uint64_t(ns);
  return fmt::format("{}{}.{:09} s", ns < 0 ? "-" : "", size / 1000000000, size % 1000000000);
}

std::string describe(const Input& input) {
  const auto text = Overloaded{
      [](const Started&) { return std::string("start"); },
      [](const Stepped& i) { return fmt::format("step done, loss {}", i.result.loss); },
      [](const Delivered& i) {
        return fmt::format("message from rank {} for {}", i.from, about(i.message));
      },
      [](const TimerFired& i) {
        return fmt::format("timer {} of {}", std::uint32_t(i.id), way(i.machine));
      },
      [](const Departed& i) {
        return fmt::format("bulk to rank {} has left, class {}", i.peer, i.service_class);
      },
      [](const Scored& i) { return fmt::format("score of round {}", i.round); },
      [](const Reachability& i) {
        return fmt::format("rank {} {}", i.peer, i.unreachable ? "is unreachable" : "is back");
      },
      [](const Returned& i) { return fmt::format("rank {} asks to rejoin", i.peer); },
      [](const Arrived& i) { return fmt::format("{} items arrived", i.items.size()); },
      [](const Requested& i) {
        return fmt::format("request of client {}, {} bytes", i.client,
                           i.request ? i.request->size() : 0);
      },
      [](const Stored& i) { return fmt::format("records up to {} are stored", i.number); },
      [](const Remembered& i) {
        return fmt::format("{} bytes of votes of the process before",
                           i.votes ? i.votes->size() : 0);
      }};
  return std::visit(text, input);
}

std::string describe(const Action& action) {
  const auto text = Overloaded{
      [](const Send& a) {
        return fmt::format("message to rank {} for {}, class {}", a.to, about(a.message),
                           a.service.service_class());
      },
      [](const SetTimer& a) {
        return fmt::format("timer {} of {} at {}", std::uint32_t(a.id), way(a.machine),
                           describe(a.at));
      },
      [](const CancelTimer& a) {
        return fmt::format("no timer {} of {}", std::uint32_t(a.id), way(a.machine));
      },
      [](const ComputeStep& a) { return fmt::format("compute: {}", name_of(a.work)); },
      [](const Report& a) {
        return fmt::format("report round {}{}", a.round, a.model ? "" : ", the model as it stands");
      },
      [](const Record& a) {
        return fmt::format("record {} of round {}: {}", a.name, a.round, a.value);
      },
      [](const Append& a) { return fmt::format("append record {}", a.number); },
      [](const Reply& a) { return fmt::format("reply to client {}", a.client); },
      [](const Finish&) { return std::string("finish"); },
      [](const Fail& a) { return "fail: " + a.error.what; }};
  return std::visit(text, action);
}

Answer answer_of(const Action& action, Learner* idle) {
  Digest digest;
  digest.numbers(std::uint32_t(action.index()));
  std::visit(Mix{digest, idle}, action);
  return {digest.value(), describe(action)};
}

Answer refusal(const Error& error) {
  Digest digest;
  digest.text("refusal");
  digest.numbers(error.kind);
  digest.text(error.what);
  return {digest.value(), "refuses the message: " + error.what};
}

}  // namespace longhaul::record

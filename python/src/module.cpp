// The extension longhaul._longhaul: the command line with the loops of a Python program as its
// learners. It is linked to no libtorch: tensors are reached by their addresses, so it works with
// the PyTorch that the program has imported, whichever that is.
#include <algorithm>
#include <csignal>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <xxhash.h>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/rates.h"
#include "longhaul/learn/data/batches.h"
#include "longhaul/learn/models/registry.h"
#include "longhaul/learn/models/spec.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/workload.h"
#include "loop.h"

namespace py = pybind11;

namespace longhaul::python {
namespace {

using Address = std::uintptr_t;  // values that the caller keeps alive

py::tuple none_but(const char* name) { return py::make_tuple(name); }

// As the loop's thread reads it: a name, then what belongs to it.
struct InPython {
  py::tuple operator()(const Work* work) const { return std::visit(*this, *work); }
  py::tuple operator()(const Save&) const { return none_but("save"); }
  py::tuple operator()(const Load& load) const { return py::make_tuple("load", bytes(load.bytes)); }
  py::tuple operator()(const Fetch&) const { return none_but("fetch"); }
  py::tuple operator()(const Put&) const { return none_but("put"); }
  py::tuple operator()(const End&) const { return none_but("end"); }

  py::tuple operator()(const LocalStep&) const { return none_but("local step"); }
  py::tuple operator()(const Gradient&) const { return none_but("gradient"); }
  py::tuple operator()(const ApplyGradient& work) const {
    return none_but(work.whole() ? "apply gradient" : "apply a part of the gradient");
  }
  py::tuple operator()(const ProximalStep& work) const {
    return py::make_tuple("proximal step", work.mu, address(work.anchor->data()));
  }
  py::tuple operator()(const ScratchStep&) const { return none_but("scratch step"); }
  py::tuple operator()(const Score& work) const {
    return py::make_tuple("score", work.model ? address(work.model->data()) : Address(0));
  }
  py::tuple operator()(const ResetOptimizer&) const { return none_but("reset optimizer"); }
  py::tuple operator()(const OptimizerState& work) const {
    if (!work.whole)
      return py::make_tuple("optimizer state", bytes(std::as_bytes(std::span(work.set))));
    Buffer state;
    if (!work.set.empty())
      if (auto read = unpack_bytes(work.set)) state = *std::move(read);
    return py::make_tuple("whole optimizer state", bytes(state));
  }
  py::tuple operator()(const FixedGradient& work) const {
    return py::make_tuple("fixed gradient", work.samples);
  }
  template <class Other>
  py::tuple operator()(const Other& work) const {  // no loop of one's own can
    return none_but(std::string(name_of(work)).c_str());
  }

 private:
  static Address address(const float* values) { return reinterpret_cast<Address>(values); }
  static py::bytes bytes(std::span<const std::byte> of) {
    return {reinterpret_cast<const char*>(of.data()), of.size()};
  }
};

py::tuple next(Loop& loop) {
  Request request = [&] {
    const py::gil_scoped_release others;
    return loop.next();
  }();
  return std::visit(InPython(), request);
}

// `parameters`: how many of the tensors are; the others are buffers. `fixed`: name and digest of
// each frozen tensor.
void attach(Loop& loop, Address params, Address grads,
            const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors,
            std::size_t parameters, const std::vector<Learner::FixedPart>& fixed, bool mirrored,
            bool wants_put, bool has_gradients, bool uses_rate) {
  std::vector<LayerRange> layers;
  std::uint64_t offset = 0;
  for (const auto& [name, shape] : tensors) {
    std::uint64_t length = 1;
    for (const std::int64_t extent : shape) length *= std::uint64_t(extent);
    const auto role =
        layers.size() < parameters ? LayerRange::Role::parameter : LayerRange::Role::buffer;
    layers.push_back({name, {offset, length}, shape, role});
    offset += length;
  }
  Attached to{.layout = std::make_shared<const Layout>(std::move(layers)),
              .params = reinterpret_cast<float*>(params),
              .grads = reinterpret_cast<float*>(grads),
              .mirrored = mirrored,
              .wants_put = wants_put,
              .has_gradients = has_gradients,
              .uses_rate = uses_rate};
  // Neighbours together where there are too many for each to be compared by itself.
  const std::size_t each = (fixed.size() + Learner::kMostFixedParts - 1) / Learner::kMostFixedParts;
  for (std::size_t i = 0; i < fixed.size(); i += each) {
    const std::size_t last = std::min(i + each, fixed.size()) - 1;
    Learner::FixedPart part = fixed[i];
    if (last > i) part.name += " to " + fixed[last].name;
    for (std::size_t k = i + 1; k <= last; ++k)
      part.digest = XXH3_64bits_withSeed(&fixed[k].digest, sizeof fixed[k].digest, part.digest);
    to.fixed.push_back(std::move(part));
  }
  loop.attach(std::move(to));
}

void answer(Loop& loop, double loss, std::uint64_t samples, std::uint64_t shard_size,
            bool exhausted, double accuracy, const py::object& outputs, bool packed) {
  Reply reply{.step = {.loss = loss,
                       .samples = samples,
                       .shard_size = shard_size,
                       .exhausted = exhausted,
                       .accuracy = accuracy}};
  if (!outputs.is_none()) {
    const std::string_view bytes = outputs.cast<py::bytes>();
    if (packed) {
      reply.step.outputs = pack_bytes(std::as_bytes(std::span(bytes)));
    } else {
      reply.step.outputs.resize(bytes.size() / sizeof(float));
      std::copy_n(bytes.data(), reply.step.outputs.size() * sizeof(float),
                  reinterpret_cast<char*>(reply.step.outputs.data()));
    }
  }
  loop.answer(std::move(reply));
}

void answer_bytes(Loop& loop, const py::bytes& bytes) {
  const std::string_view view = bytes;
  const auto* const first = reinterpret_cast<const std::byte*>(view.data());
  loop.answer(Reply{.bytes = Buffer(first, first + view.size())});
}

// One call of run().
class Program {
 public:
  ~Program() {
    const py::gil_scoped_release loops;
    for (const auto& [rank, loop] : fresh_) loop->end();
  }
  Program(py::function start, py::object scorer)
      : start_(std::move(start)), score_(std::move(scorer)) {
    learners_.make = [this](Rank rank, const Member& member, std::uint64_t seed) {
      return make(rank, member, seed);
    };
    learners_.begin = [this](const run::Job& job) {
      for (const run::SiteTable& site : job.sites) rates_[site.name] = cli::rate_of_site(job, site);
      needs_accuracy_ = job.stop.target_accuracy.has_value();
    };
    learners_.layout = [this](Rank rank, const Member& member, std::uint64_t seed) {
      return layout(rank, member, seed);
    };
    learners_.uses_rate = [this](const run::Job& job) -> Result<bool> {
      learners_.begin(job);
      const Members members = job.members();
      Rank rank = 0;
      while (!members[rank].is(Role::worker)) ++rank;  // a job has a worker
      LH_TRY(layout(rank, members[rank], job.job.seed));
      return uses_rate_;
    };
    if (!score_.is_none())
      learners_.score = [this](Rank rank, std::span<const float> model) {
        return score(rank, model);
      };
    learners_.can = [this](std::string_view work) {
      if (work == "score") return !score_.is_none();
      if (work == "gradient" || work == "proximal step") return has_gradients_;
      return std::ranges::find(kCannot, work) == std::end(kCannot);
    };
    learners_.take_turns = true;
    learners_.uses_libtorch = false;
  }

  Result<std::unique_ptr<Learner>> make(const run::Job& job, Rank rank) {
    const py::gil_scoped_release loops;
    learners_.begin(job);
    return make(rank, job.members().at(rank), job.job.seed);
  }

  int run(const std::vector<std::string>& words, std::vector<std::string> program) {
    std::vector<const char*> argv = {"longhaul"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    int code = 0;
    {
      const py::gil_scoped_release loops;
      run::forget_signals();
      code = cli::run(int(argv.size()), argv.data(),
                      {&learners_, std::move(program), /*own_jobs=*/true});
    }
    throw_if_asked_to_stop();
    return code;
  }

  void throw_if_asked_to_stop() {
    if (asked_to_stop_) throw py::error_already_set(*std::move(asked_to_stop_));
  }

  // The learner of a node; the caller does not hold the GIL.
  Result<std::unique_ptr<Learner>> make(Rank rank, const Member& member, std::uint64_t seed) {
    const std::string site =
        member.site + (member.rank_in_site > 0 ? fmt::format("/{}", member.rank_in_site) : "");
    const auto give_back = [this, rank](std::shared_ptr<Loop> fresh) {
      fresh_[rank] = std::move(fresh);
    };
    if (const auto found = fresh_.extract(rank))
      return learner_of(std::move(found.mapped()), give_back);
    auto loop = std::make_shared<Loop>(
        site, [](const std::string& text) { fmt::print(stderr, "longhaul: {}\n", text); },
        [this] { return look(); });
    {
      const py::gil_scoped_acquire python;
      try {
        const auto rate = rates_.find(member.site);  // not there: of a server of [roles]
        start_(rank, member.site, member.rank_in_site, member.is(Role::worker), seed,
               rate == rates_.end() ? std::nullopt : rate->second, loop);
      } catch (const py::error_already_set& error) {
        return invalid(fmt::format("site {}: {}", site, error.what()));
      }
    }
    return learner_of(std::move(loop), give_back);
  }

 private:
  // Work that no loop of one's own can do.
  static constexpr std::string_view kCannot[] = {"sufficient factors", "local solve",
                                                 "full gradient",      "infer",
                                                 "backward part",      "forward part"};

  Result<std::unique_ptr<Learner>> learner_of(std::shared_ptr<Loop> loop,
                                              const LoopLearner::GiveBack& give_back) {
    LH_LET(learner, LoopLearner::make(std::move(loop), give_back));
    has_gradients_ = learner->has_gradients();
    uses_rate_ = learner->uses_rate();
    return std::unique_ptr<Learner>(std::move(learner));
  }

  // plan asks for it hundreds of times: the loop attaches once, or fails once.
  Result<std::shared_ptr<const Layout>> layout(Rank rank, const Member& member,
                                               std::uint64_t seed) {
    if (!layout_) {
      const auto learner = make(rank, member, seed);
      if (learner)
        layout_ = (*learner)->layout();
      else
        layout_ = learner.error();
    }
    return *layout_;
  }

  // Ctrl-C while the host waits for a loop, when Python has the signal's handler and this is its
  // main thread.
  Status look() {
    const py::gil_scoped_acquire python;
    if (!asked_to_stop_ && PyErr_CheckSignals() == 0) return Ok{};
    if (!asked_to_stop_) asked_to_stop_.emplace();
    return unavailable("interrupted");
  }

  Result<Evaluation> score(Rank rank, std::span<const float> model) {
    const auto alone = Loop::hold_all();
    const py::gil_scoped_acquire python;
    try {
      const auto [loss, accuracy, samples] =
          score_(rank, reinterpret_cast<Address>(model.data()), model.size())
              .cast<std::tuple<double, std::optional<double>, std::uint64_t>>();
      if (!accuracy && needs_accuracy_ && samples > 0)
        return invalid(
            "score() returned no \"accuracy\", which [stop] target_accuracy needs: how many of the "
            "samples are right");
      return Evaluation{loss, accuracy, samples};
    } catch (const py::error_already_set& error) {
      return invalid(std::string(py::str(error.value())));
    }
  }

  const py::function start_;
  const py::object score_;
  run::OwnLearners learners_;
  std::map<std::string, std::optional<double>> rates_;  // by site
  std::optional<Result<std::shared_ptr<const Layout>>> layout_;
  bool has_gradients_ = true, uses_rate_ = false;
  bool needs_accuracy_ = false;                  // the job has a target accuracy
  std::map<Rank, std::shared_ptr<Loop>> fresh_;  // given back, of nodes that begin again
  std::optional<py::error_already_set> asked_to_stop_;
};

// Returns the start values of a job's built-in learners, as bytes of float32, and for each rank the
// rows of its first batches. A loop that uses both repeats the built-in learners.
py::tuple builtin(const std::string& path, std::size_t batches) {
  const auto read = [&]() -> Result<py::tuple> {
    LH_LET(job, run::load_job(path));
    LH_LET(work, run::Workload::load(job, /*numbers=*/false));
    LH_LET(model, learn::read_model(job.model));
    LH_LET(data, learn::read_data(job.data));
    LH_LET(spec, learn::model_spec(model, work.data().train->shape));
    std::vector<float> start(work.whole_layout()->size());
    learn::initialise(spec, job.job.seed, start);
    std::vector<std::vector<std::vector<std::uint32_t>>> rows;
    for (std::uint32_t rank = 0; rank < work.shards().size(); ++rank) {
      rows.emplace_back();
      if (work.shards()[rank].empty()) continue;
      learn::Batches order(work.shards()[rank], data.batch, job.job.seed, rank);
      for (std::size_t i = 0; i < batches; ++i, order.advance())
        rows.back().emplace_back(order.peek().begin(), order.peek().end());
    }
    return py::make_tuple(
        py::bytes(reinterpret_cast<const char*>(start.data()), start.size() * sizeof(float)), rows);
  };
  auto made = read();
  if (!made) throw py::value_error(made.error().what);
  return *std::move(made);
}

// `start` is None for the commands of the C++ program as they are.
int run(const std::vector<std::string>& words, std::vector<std::string> program,
        const py::object& start, py::object score) {
  if (!start.is_none()) return Program(start, std::move(score)).run(words, std::move(program));
  std::vector<const char*> argv = {"longhaul"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const py::gil_scoped_release others;
  run::forget_signals();
  return cli::run(int(argv.size()), argv.data(), {nullptr, std::move(program), /*own_jobs=*/true});
}

// The site of that name, or the first with a worker, and what each of its first local steps takes
// here, in s.
std::pair<std::string, std::vector<double>> time_steps(const std::string& path,
                                                       const std::vector<std::string>& sets,
                                                       const std::string& site, std::size_t steps,
                                                       const py::function& start) {
  Program program(start, py::none());
  const auto timed = [&]() -> Result<std::pair<std::string, std::vector<double>>> {
    LH_LET(job, run::load_job(path, {.sets = sets, .wan = "", .own = true}));
    Rank rank = 0;
    if (!site.empty()) {
      LH_LET(found, run::find_node(job, site));
      rank = found;
    }
    const Members members = job.members();
    while (site.empty() && !members[rank].is(Role::worker)) ++rank;
    const py::gil_scoped_release loop;
    LH_LET(learner, program.make(rank, members[rank], job.job.seed));
    std::vector<double> seconds;
    for (std::size_t i = 0; i < steps; ++i) {
      const auto begun = std::chrono::steady_clock::now();
      LH_TRY(learner->step(LocalStep{}));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
      seconds.push_back(took.count());
    }
    learner.reset();
    return std::pair(members[rank].site, seconds);
  };
  auto result = timed();
  program.throw_if_asked_to_stop();
  if (!result) throw py::value_error(result.error().what);
  return *std::move(result);
}

}  // namespace
}  // namespace longhaul::python

PYBIND11_MODULE(_longhaul, module) {
  using namespace longhaul::python;
  namespace run = longhaul::run;
  module.doc() = "The command line of longhaul, for loops of one's own. Use longhaul.main().";
  module.attr("__version__") = LONGHAUL_VERSION;
  py::class_<Loop, std::shared_ptr<Loop>>(module, "Loop")
      .def(
          "attach",
          [](Loop& loop, Address params, Address grads,
             const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors,
             std::size_t parameters,
             const std::vector<std::pair<std::string, std::uint64_t>>& fixed, bool mirrored,
             bool wants_put, bool has_gradients, bool uses_rate) {
            std::vector<longhaul::Learner::FixedPart> parts;
            for (const auto& [name, digest] : fixed) parts.push_back({name, digest});
            attach(loop, params, grads, tensors, parameters, parts, mirrored, wants_put,
                   has_gradients, uses_rate);
          },
          py::arg("params"), py::arg("grads"), py::arg("tensors"), py::arg("parameters"),
          py::arg("fixed"), py::arg("mirrored"), py::arg("wants_put"), py::arg("has_gradients"),
          py::arg("uses_rate"))
      .def("next", &next)
      .def("answer", &answer, py::arg("loss") = 0.0, py::arg("samples") = 0,
           py::arg("shard_size") = 0, py::arg("exhausted") = false, py::arg("accuracy") = 0.0,
           py::arg("outputs") = py::none(), py::arg("packed") = false)
      .def("answer_bytes", &answer_bytes)
      .def("refuse",
           [](Loop& loop, const std::string& why) {
             loop.answer(longhaul::invalid(fmt::format("site {}: {}", loop.site(), why)));
           })
      .def("leave", &Loop::leave);
  module.def(
      "digest",
      [](Address values, std::size_t bytes) {
        const py::gil_scoped_release others;
        return XXH3_64bits(reinterpret_cast<const void*>(values), bytes);
      },
      py::arg("values"), py::arg("bytes"));
  module.def(
      "seed_and_rate",
      [](const std::string& path, const std::vector<std::string>& sets, const std::string& name) {
        const auto job = run::load_job(path, {.sets = sets, .wan = "", .own = true});
        if (!job) throw py::value_error(job.error().what);
        const auto site = std::ranges::find(job->sites, name, &run::SiteTable::name);
        return std::pair(job->job.seed, site == job->sites.end()
                                            ? std::nullopt
                                            : longhaul::cli::rate_of_site(*job, *site));
      },
      py::arg("job"), py::arg("sets"), py::arg("site"));
  module.def("reset_signals", [] {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
      struct sigaction now;
      const bool handled = ::sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN;
      if (handled) std::signal(number, SIG_DFL);
    }
  });
  module.def("time_steps", &longhaul::python::time_steps, py::arg("job"), py::arg("sets"),
             py::arg("site"), py::arg("steps"), py::arg("start"));
  module.def("builtin", &builtin, py::arg("job"), py::arg("batches"));
  module.def("run", &longhaul::python::run, py::arg("words"), py::arg("program"), py::arg("start"),
             py::arg("score") = py::none());
}

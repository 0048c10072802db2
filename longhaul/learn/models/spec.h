#pragma once
// A ModelSpec is a model before it has memory: its tensors in layout order, how they start, and the
// TorchScript statements that turn an input into an output. Layouts, dry runs and fuzzers need no
// more; learn/net.h gives it memory and runs it, learn/model_file.h writes it to model.pt. There is
// no second definition of a model that could disagree with this one.
#include <span>
#include <string>
#include <vector>

#include "longhaul/core/layout.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

struct TensorSpec {
  enum class Init : std::uint8_t { zeros, ones, uniform, normal };
  std::string name;  // "conv1.weight", as in a state_dict
  std::vector<std::int64_t> shape;
  LayerRange::Role role = LayerRange::Role::parameter;
  LayerRange::Linear linear = LayerRange::Linear::none;
  Init init = Init::zeros;
  double scale = 0;  // uniform: in [-scale, scale); normal: the standard deviation

  std::uint64_t size() const;
};

// A product with a weight matrix: output = input * weight^T + bias.
struct LinearSpec {
  std::string weight;      // the name of the weight tensor, shape {out, in}
  std::uint32_t index;     // statement k leaves its input in `in_k` and its output in `out_k`
  std::size_t begins = 0;  // where in ModelSpec::body its statements begin
};

// Of a table the model reads those rows alone that this number of each sample says.
struct LookupSpec {
  std::string table;  // the name of its tensor, shape {rows, width}
  std::size_t column = 0;
};

struct ModelSpec {
  std::string kind;                 // "lenet"
  std::vector<TensorSpec> tensors;  // parameters first, then buffers: the order of the layout
  std::string body;                 // statements over `x`, two spaces in front, no return
  std::vector<LinearSpec> linears;
  // All that is computed before a linear layer reaches the output through its input alone: a
  // backward pass may stop there and go on later.
  bool is_chain = true;
  std::vector<LookupSpec> lookups = {};  // empty: a step reads every parameter
};

// Writes a ModelSpec layer by layer. Every method appends one statement that replaces `x` (or the
// variable named) and declares the tensors that it reads.
class SpecBuilder {
 public:
  explicit SpecBuilder(std::string kind) { spec_.kind = std::move(kind); }

  enum class Start : std::uint8_t { zeros, torch_default, he_normal, he_inputs };
  // weight {out, in}, bias {out}
  void linear(const std::string& name, std::int64_t in, std::int64_t out,
              Start start = Start::torch_default, bool bias = true);
  // weight {out, in} normal, bias {out} zero, applied to `variable`
  struct Linear {
    std::int64_t in, out;
    double deviation;
    std::string variable;
  };
  void linear(const std::string& name, const Linear&);
  // weight {rows, width} normal: no statement
  void table(const std::string& name, std::int64_t rows, std::int64_t width, double deviation);
  // ... of which a batch reads the rows that this number of its samples says
  void looks_up(const std::string& name, std::size_t column);
  // LayerNorm over the last dimension
  void layer_norm(const std::string& name, std::int64_t width, const std::string& variable);
  struct Conv {
    std::int64_t in, out, kernel;
    std::int64_t stride = 1, padding = 0;
    bool bias = true;
    Start start = Start::torch_default;
  };
  // weight {out, in, kernel, kernel}, bias {out}
  void conv(const std::string& name, const Conv&, const std::string& variable = "x");
  // GroupNorm: no state. BatchNorm: running_mean and running_var are buffers, since a model that is
  // averaged without them is another model; num_batches_tracked is not: with momentum 0.1 nothing
  // reads it, and an integer has no mean.
  enum class Norm : std::uint8_t { group, batch };
  void norm(const std::string& name, std::int64_t channels, Norm,
            const std::string& variable = "x");
  void line(const std::string& statement);

  ModelSpec finish() &&;

 private:
  void tensor(const std::string& name, std::vector<std::int64_t> shape, TensorSpec::Init init,
              double scale = 0, LayerRange::Role role = LayerRange::Role::parameter);
  void product(const std::string& name, const std::string& variable, bool bias = true);
  void weight(const std::string& name, std::vector<std::int64_t> shape, bool bias, Start);

  ModelSpec spec_;
};

std::shared_ptr<const Layout> layout_of(const ModelSpec&);
// The parameters that a step on these samples reads, ascending and apart: rows of the tables that
// are looked up, all of the others. Empty: the model looks up none, and reads every parameter.
std::vector<Range> reads_of(const ModelSpec&, const DataSet&,
                            std::span<const std::uint32_t> samples);
// The initial parameters: the same for all nodes of a job, drawn per tensor from
// (seed, Purpose::init, its index), so that they depend on neither host nor thread.
// `flat` has layout_of(spec)->size() elements.
void initialise(const ModelSpec&, std::uint64_t seed, std::span<float> flat);

}  // namespace longhaul::learn

#pragma once
// Internal to learn/ (includes torch): Muon (Jordan et al., "Muon: an optimizer for hidden layers
// in neural networks", 2024), beside AdamW (Loshchilov and Hutter, "Decoupled weight decay
// regularization", 2019) for what is no matrix.
#include <ATen/ATen.h>

#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/layout.h"
#include "longhaul/learn/models/optimizer_config.h"

namespace longhaul::learn {

// Near U V^T of matrix = U S V^T: five steps of the Newton-Schulz iteration
//   X <- a X + (b X X^T + c (X X^T)^2) X,   a = 3.4445, b = -4.7750, c = 2.0315,
// from X = matrix / |matrix|. Its singular values come to 0.7 .. 1.2, not to 1: the coefficients
// are chosen for speed. Two dimensions; a zero matrix stays zero.
at::Tensor orthogonalised(const at::Tensor& matrix);

// Parameters and gradients are flat vectors of the layout's trained part. For a matrix W {rows,
// columns} with gradient G (tensors of more dimensions: rows x the rest):
//   M <- momentum M + G,   D = G + momentum M with nesterov, else M
//   W <- (1 - rate decay) W - rate sqrt(max(1, rows / columns)) orthogonalised(D)
// Everything else, and matrices whose names begin with one of config.by_adamw: AdamW with
// config.adamw_rate, on the schedule of the rate.
class Muon {
 public:
  Muon(const OptimizerConfig&, const Layout&, const at::Tensor& params, const at::Tensor& grads);

  void step(double rate);
  void reset();  // forgets momentum and moments
  // Calls visit(tensor) for the three flat vectors, and archives the number of steps.
  template <class Visit>
  void state(Archive& ar, Visit&& visit) {
    ar(steps_);
    for (at::Tensor* tensor : {&momentum_, &first_, &second_}) visit(*tensor);
  }

 private:
  struct Part {
    std::int64_t offset, length, rows;  // rows: 0: no matrix
  };
  void step_matrix(const Part&, double rate);
  void step_rest(const Part&, double rate);

  OptimizerConfig config_;
  at::Tensor params_, grads_;
  std::vector<Part> parts_;
  at::Tensor momentum_, first_, second_;  // as long as the parameters
  std::int64_t steps_ = 0;
};

}  // namespace longhaul::learn

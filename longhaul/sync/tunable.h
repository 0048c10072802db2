#pragma once
// A strategy that can be tuned while it trains (sync/skewscout.h): one number decides how much it
// communicates. Optional: a strategy that has such a number implements it beside Strategy.
namespace longhaul::sync {

class Tunable {
 public:
  virtual ~Tunable() = default;
  // Sets the number. Called between two computations, never while one runs.
  virtual void tune(double value) = 0;
  // Returns true if all sites must have the same number at the same step.
  virtual bool needs_agreement() const = 0;
  // Returns the amount that this node has sent since the start, in exchanges of the whole model. A
  // step of bsp over the same links sends 1.
  virtual double exchanges() const = 0;
};

}  // namespace longhaul::sync

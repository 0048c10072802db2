#pragma once
// A strategy that can be tuned while it trains (sync/skewscout.h): one number decides how much it
// communicates. Optional: a strategy that has such a number implements it beside Strategy.
namespace longhaul::sync {

class Tunable {
 public:
  virtual ~Tunable() = default;
  // The number from here on. Called between two computations, never while one runs.
  virtual void tune(double value) = 0;
  // Must all sites have the same number at the same step?
  virtual bool needs_agreement() const = 0;
  // What this node has sent since the start, in exchanges of the whole model: 1 is what bsp sends
  // in a step over the same links.
  virtual double exchanges() const = 0;
};

}  // namespace longhaul::sync

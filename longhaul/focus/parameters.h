#pragma once
// Choice of K, T and Ls on a labelled sample of a site's objects (Focus, OSDI 2018, in outline; the
// details are our own). The points of a grid that miss a target or are dominated are dropped, and a
// policy chooses one of the rest. A sample only shows results for its own objects. For later
// objects an estimate must exceed its target by a margin of standard errors. Pure functions.
#include <string_view>

#include "longhaul/focus/index.h"

namespace longhaul::focus {

// The quality of an index with these parameters for queries of the sample's classes. Means over the
// classes of at least `least` objects, each of which is one query.
struct Estimate {
  std::uint64_t clusters = 0;
  double recall = 0;                // share of the class's objects in the returned clusters
  double precision = 0;             // share of the returned objects; 0 if nothing is returned
  double precision_of_answers = 0;  // the same over the classes with returned objects
  double gt_calls = 0;
  double recall_error = 0, precision_error = 0;  // standard errors; 0 without tracks
};
// Estimates from `labels`, the accurate model's class of each object. `tracks`: the track of each
// object, or empty. Objects of one track have similar errors, so tracks are the independent draws.
// The standard errors are those of the jackknife that leaves out one track at a time, with the
// clusters unchanged.
Estimate estimate(const IndexConfig&, std::span<const Seen>, std::span<const std::uint32_t> labels,
                  std::uint64_t least, std::span<const std::uint64_t> tracks = {});

// One cheap model, and its output for the sample.
struct CheapModel {
  double seconds = 0;  // per object
  std::uint32_t specialised = 0;
  std::vector<Seen> seen;
  std::vector<std::uint32_t> list = {};  // as IndexConfig::list
};
struct Grid {
  std::vector<std::uint32_t> K = {1, 2, 4, 8, 16};
  std::vector<double> T = {0, 0.25, 0.5, 1, 2};
  bool in_usual_distances = false;  // T in units of usual_distance() of the model
};
// Returns the distance within which half of the objects have one of the 100 before: about that of
// two objects of one track. Returns 1 if there are fewer than two.
double usual_distance(std::span<const Seen>);
struct Targets {
  double recall = 0.95, precision = 0.95;
  std::uint64_t least = 20;  // minimum objects of a counted class
  double margin = 1.64;      // standard errors above both; 1.64: 95 % sure, one-sided
};
bool reaches(const Estimate&, const Targets&);
struct Point {
  std::size_t model = 0;
  std::uint32_t K = 0;
  double T = 0;
  double ingest_s = 0;  // seconds of the cheap model per object
  Estimate estimate = {};
};
// Returns all points of the grid. `base`: the parameters that the grid leaves unchanged.
std::vector<Point> evaluate(const IndexConfig& base, std::span<const CheapModel>,
                            std::span<const std::uint32_t> labels,
                            std::span<const std::uint64_t> tracks, const Grid&,
                            std::uint64_t least);
// Returns true if a costs no more than b in both, and less in one.
bool dominates(const Point& a, const Point& b);
// Chooses a point. `policy`: opt_ingest, opt_query or balance. The Error says that no point reaches
// both targets, and names the best one.
Result<Point> choose(std::vector<Point>, const Targets&, std::string_view policy);

// Returns the total variation between two histograms of classes, 0 to 1; 0.2 is a usual limit.
double drift(std::span<const double> before, std::span<const double> now);

}  // namespace longhaul::focus

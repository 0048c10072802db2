#pragma once
// Choice of K, T and Ls on a labelled sample of a site's objects (Focus, OSDI 2018, in outline; the
// details are ours): of a grid those that reach both targets are kept, dominated ones are dropped,
// a policy takes one. A sample says what its own objects reach; to reach the same on later ones, an
// estimate must be above its target by a margin of standard errors. Pure functions.
#include <string_view>

#include "longhaul/focus/index.h"

namespace longhaul::focus {

// How an index answers queries for the sample's classes, if it is made with these parameters. Means
// over the classes of at least `least` objects, each of which is one query.
struct Estimate {
  std::uint64_t clusters = 0;
  double recall = 0;                // objects of the class in the clusters returned
  double precision = 0;             // of the objects returned; 0 where nothing is returned
  double precision_of_answers = 0;  // the same over the classes for which something is returned
  double gt_calls = 0;
  double recall_error = 0, precision_error = 0;  // standard errors; 0 where tracks are not known
};
// `labels`: what the accurate model says of each object. `tracks`: on which track each is, or
// empty. Objects of one track err alike, so tracks are what is drawn independently: the standard
// errors are those of the jackknife that leaves out one track at a time, of the clusters as they
// are.
Estimate estimate(const IndexConfig&, std::span<const Seen>, std::span<const std::uint32_t> labels,
                  std::uint64_t least, std::span<const std::uint64_t> tracks = {});

// One cheap model, and what it says of the sample.
struct CheapModel {
  double seconds = 0;  // for an object
  std::uint32_t specialised = 0;
  std::vector<Seen> seen;
  std::vector<std::uint32_t> list = {};  // as IndexConfig::list
};
struct Grid {
  std::vector<std::uint32_t> K = {1, 2, 4, 8, 16};
  std::vector<double> T = {0, 0.25, 0.5, 1, 2};
  bool in_usual_distances = false;  // T: times usual_distance() of the model
};
// At this distance half of the objects have a nearest one among the 100 before: about that of two
// objects of one track. 1 where there are fewer than two.
double usual_distance(std::span<const Seen>);
struct Targets {
  double recall = 0.95, precision = 0.95;
  std::uint64_t least = 20;  // objects of a class that counts
  double margin = 1.64;      // standard errors above both; 1.64: 95 % sure, one-sided
};
bool reaches(const Estimate&, const Targets&);
struct Point {
  std::size_t model = 0;
  std::uint32_t K = 0;
  double T = 0;
  double ingest_s = 0;  // cheap seconds for an object
  Estimate estimate = {};
};
// All points of the grid; `base`: what the grid leaves as it is.
std::vector<Point> evaluate(const IndexConfig& base, std::span<const CheapModel>,
                            std::span<const std::uint32_t> labels,
                            std::span<const std::uint64_t> tracks, const Grid&,
                            std::uint64_t least);
// a costs no more than b in both, and less in one.
bool dominates(const Point& a, const Point& b);
// `policy`: opt_ingest, opt_query or balance. Error: no point reaches both targets; it names the
// best that can be reached.
Result<Point> choose(std::vector<Point>, const Targets&, std::string_view policy);

// Total variation between two histograms of classes, 0 to 1: a sample is drawn anew beyond 0.2.
double drift(std::span<const double> before, std::span<const double> now);

}  // namespace longhaul::focus

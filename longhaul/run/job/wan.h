#pragma once
// The network that a job file describes: [wan] with its preset or matrices, [[wan.link]] and the
// sites' own links, put together as a flow::Wan. Who wins for one pair, strongest first:
// [[wan.link]], the window model, the preset or matrices, [wan] mbps and delay_ms; for a site:
// [[site]], [wan] up_mbps and down_mbps, the preset. rate_scale multiplies what is between sites,
// not the sites' own links.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/flow/wan.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/job/site_index.h"

namespace longhaul::run {

// One connection carries at most min(max, window / round trip): the window model.
struct Window {
  double mbytes = 10.5;
  double max_mbps = 1140;
};

// A network that comes with the program, from a file of presets/ that is compiled in: measured,
// synthetic, or made up to show one thing. docs/wan.md has them with sources and caveats.
struct WanPreset {
  std::string name, summary;
  std::string standing;  // "measured", "synthetic", "made"
  std::vector<std::string> sources, caveats;
  flow::Wan wan;  // rates at their highest; without what the window model adds
  enum class Windowed { no, pair, connection };
  Windowed windowed = Windowed::no;  // what the window model limits
  bool any_sites = false;            // takes sites of any name; `wan` has those it takes by default
  struct Redraw {                    // every pair's rate, on its own
    double every_s = 0, lowest_mbps = 0, highest_mbps = 0;
  };
  std::optional<Redraw> redraw;
};

// Measured ones first, then synthetic ones, then those made up; by name.
const std::vector<WanPreset>& wan_presets();
const WanPreset* find_wan_preset(std::string_view name);
std::vector<std::string_view> wan_preset_names();

struct TextFile {
  std::string_view name, text;
};
std::span<const TextFile> preset_files();  // written by cmake/LonghaulEmbed.cmake

// Reads one preset; its matrices are among `files`. What is wrong with it is an Error.
Result<WanPreset> parse_wan_preset(const TextFile&, std::span<const TextFile> files);

// In bytes per second, seconds and shares; rates times `rate_scale`.
flow::Trace trace_of(const TraceTable&, double rate_scale);

// Both with the index of the job's sites.
void add_shared(flow::Wan&, const Job&, const SiteIndex&);
// A quantity that an earlier table follows stays with it; the preset's come last. `preset`: nullptr
// if there is none. A table all of whose quantities earlier ones follow is an Error; so is none of
// the preset's, and a pair whose rate a [[wan.link]] says keeps that.
Status add_traces(flow::Wan&, const Document&, const Job&, const SiteIndex&,
                  const WanPreset* preset);

// A job without [[site]] tables takes all sites of its preset or matrices; else nothing happens.
Status add_sites(Document&);

// As if the file said nothing of the network but this preset, or, where it ends in .toml, the [wan]
// of that file: --wan. Keys of the command line, which are laid over it afterwards, still count.
Status replace_wan(Document&, const std::string& network);

// The job's network, its sites in the job's order; the tables must agree (check_job). Sets
// [wan] matrices, by which a job goes on only with the matrices that it began with.
Result<flow::Wan> build_wan(const Document&, Job&);

// The preset as a job gets it that says nothing else.
flow::Wan preset_network(const WanPreset&);

// min(max, window / round trip) in bytes a second.
double window_rate(const Window&, double round_trip_s);

}  // namespace longhaul::run

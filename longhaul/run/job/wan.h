#pragma once
// The network that a job file describes: [wan] with its preset or matrices, [[wan.link]] and the
// sites' own links, put together as a flow::Wan. Who wins for one pair, strongest first:
// [[wan.link]], the window model, the preset or matrices, [wan] mbps and delay_ms; for a site:
// [[site]], [wan] up_mbps and down_mbps, the preset. rate_scale multiplies what is between sites,
// not the sites' own links.
#include <string>

#include "longhaul/run/job/job.h"
#include "longhaul/run/job/wan_preset.h"

namespace longhaul::run {

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

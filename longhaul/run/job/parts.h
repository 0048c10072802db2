#pragma once
// Builds a node's training from the parts of the five registries.
#include <memory>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

// Facts that are the same at all nodes of a job and depend on all sites; computed once for them.
struct SharedFacts {
  // `wire_scale`: equal to that of the places (core/place.h).
  SharedFacts(const Job&, std::uint64_t training_samples, bool phantom, double wire_scale = 1);
  std::optional<Rank> server;
  StopConfig stop;
  // The nodes' belief of the network, in bytes as counted in their vectors; null: none.
  std::shared_ptr<const flow::Wan> network;
};

// Returns the strategy of the node at `place`. `training_samples`: samples of all sites, for
// max_epochs; 0 if not known yet. Errors name the table and key, or say why the parts cannot be
// combined.
Result<std::unique_ptr<Strategy>> build_strategy(const Job&, const Place&,
                                                 std::uint64_t training_samples);
Result<std::unique_ptr<Strategy>> build_strategy(const Job&, const Place&, const SharedFacts&);
// Lanes of shadowsync that compute on threads of their own over sockets (lane_learner.h); 0: none.
std::uint32_t threads_of_lanes(const Job&);
// The same for a node over sockets: its strategy sees lanes on threads as one.
Result<std::unique_ptr<Strategy>> build_socket_strategy(const Job&, const Place&,
                                                        std::uint64_t training_samples);

// The overlay alone, on its transfer and codec.
Result<std::unique_ptr<Overlay>> build_overlay(const Job&, const Place&);
Result<std::unique_ptr<Overlay>> build_overlay(const Job&, const Place&, std::optional<Rank> server,
                                               std::shared_ptr<const flow::Wan> network);

// Samples that all workers use in one round together.
std::uint64_t samples_per_round(const Job&);
// Samples per second of all workers if none ever waits, without drift.
double most_samples_per_s(const Job&);
// Rounds between two reports.
Round report_every(const Job&);
// Returns true if each site holds out test samples of its own: there is no common test set.
bool tests_at_sites(const Job&);
// Returns true if all workers end with bit-identical models.
bool models_are_equal(const Job&);
StopConfig stop_config(const Job&, std::uint64_t training_samples, bool phantom);
// Returns the place of the node of that rank.
Place place_of(const Job&, Rank, SharedMembers, std::shared_ptr<const Layout>, bool phantom);

}  // namespace longhaul::run

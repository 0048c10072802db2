#pragma once
// Puts a node's training together from the five registries.
#include <memory>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

// What is the same at all nodes of a job and takes a look at all sites: found once for them.
struct SharedFacts {
  // `wire_scale`: as of the places (core/place.h).
  SharedFacts(const Job&, std::uint64_t training_samples, bool phantom, double wire_scale = 1);
  std::optional<Rank> server;
  StopConfig stop;
  // What nodes believe of the network, in bytes as their vectors have them; null: nothing.
  std::shared_ptr<const flow::Wan> network;
};

// The strategy of the node at `place`. `training_samples`: of all sites, for max_epochs; 0 if not
// known yet. Errors name the table and key, or say why the parts cannot be combined.
Result<std::unique_ptr<Strategy>> build_strategy(const Job&, const Place&,
                                                 std::uint64_t training_samples);
Result<std::unique_ptr<Strategy>> build_strategy(const Job&, const Place&, const SharedFacts&);
// Lanes of shadowsync that compute on threads of their own over sockets (lane_learner.h); 0: none.
std::uint32_t threads_of_lanes(const Job&);
// As above, of a node over sockets: lanes on threads are one to their strategy.
Result<std::unique_ptr<Strategy>> build_socket_strategy(const Job&, const Place&,
                                                        std::uint64_t training_samples);

// The overlay alone, on its transfer and codec.
Result<std::unique_ptr<Overlay>> build_overlay(const Job&, const Place&);
Result<std::unique_ptr<Overlay>> build_overlay(const Job&, const Place&, std::optional<Rank> server,
                                               std::shared_ptr<const flow::Wan> network);

// Samples that all workers use in one round together, and the rounds between two reports.
std::uint64_t samples_per_round(const Job&);
Round report_every(const Job&);
// The job's sites hold out test samples of their own: there is no test set that all have.
bool tests_at_sites(const Job&);
// All workers end with the same model, to the bit.
bool models_are_equal(const Job&);
StopConfig stop_config(const Job&, std::uint64_t training_samples, bool phantom);
// Where the node of that rank stands.
Place place_of(const Job&, Rank, SharedMembers, std::shared_ptr<const Layout>, bool phantom);

}  // namespace longhaul::run

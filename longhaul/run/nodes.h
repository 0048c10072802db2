#pragma once
// The nodes of a job by name, and where they listen.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/net/tcp.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

// "virginia", or "virginia/1" for the second node of that site.
std::string node_name(const Member&);
// The rank of "virginia/1". Error: an unknown name, as given to --site.
Result<Rank> find_node(const Job&, const std::string& name);
// A node's folder within its run: RUN/virginia, RUN/virginia-1.
std::string node_folder(const std::string& run, const Member&);
// Where the node listens, as [[site]] bind says; nothing: see net::listening_address(). Error: a
// bad one.
Result<std::optional<net::Address>> bind_of(const Job&, Rank);
// "host:port" of all nodes, by rank, as [[site]] address says: nodes of one site listen on
// consecutive ports. Error: a site has none, or its ports exceed 65535.
Result<std::vector<std::string>> addresses_of(const Job&);

// getenv(), or a test's own.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

// Which node of a job this process is, by the environment variables of its launcher:
//
//   torchrun           RANK, WORLD_SIZE (MASTER_ADDR, MASTER_PORT for the addresses)
//   Open MPI (mpirun)  OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
//   PMI (MPICH, Intel) PMI_RANK, PMI_SIZE
//   Slurm (srun)       SLURM_PROCID, SLURM_NTASKS
//
// Process i of those is the node of rank i: of the first site all nodes, then of the second. The
// first launcher whose variables are set counts, in this order: mpirun inside a Slurm job sets
// both.
struct LauncherIdentity {
  std::string launcher;  // "torchrun"
  std::uint32_t rank = 0, size = 0;
};
// Empty: no launcher's variables. Error: a variable is missing or no number, or rank >= size.
Result<std::optional<LauncherIdentity>> launcher_identity(const Environment&);

// Default addresses when the job has none: all nodes on this machine. `base`: the port of rank 0,
// else MASTER_PORT + 1 (torchrun has MASTER_PORT itself), else 29600.
Result<std::vector<std::string>> local_addresses(const Environment&, std::size_t nodes,
                                                 std::optional<std::uint16_t> base);

// The listening socket inherited by systemd's rules (sd_listen_fds): LISTEN_PID is this process
// and LISTEN_FDS 1; -1: none.
int inherited_socket(const Environment&);

}  // namespace longhaul::run

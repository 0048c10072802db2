// What a simulation allocates must grow with the sites, not with their square: a list of all
// members at every node, or made by every node, shows here whatever the machine and its load.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "longhaul/run/simulation.h"

namespace {
std::atomic<std::uint64_t> allocated_bytes = 0;  // by operator new, in all
}  // namespace

void* operator new(std::size_t size) {
  allocated_bytes += size;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace longhaul::run {
namespace {

std::string scale_job(int sites, double fraction) {
  std::string text =
      "[stop]\nmax_rounds = 1\n[report]\nevery_rounds = 100\n"
      "[model]\nkind = \"phantom\"\nmbytes = 44.7\n"
      "[sync]\nkind = \"fedavg\"\nsteps = 5\nfraction = " +
      std::to_string(fraction) +
      "\n[overlay]\nkind = \"hub\"\nphases = \"sequential\"\n"
      "[roles]\nserver = \"s0\"\n[transfer]\nchunk_run = 256\n[wan]\ndelay_ms = 20\nmbps = 100\n";
  for (int site = 0; site < sites; ++site)
    text += "[[site]]\nname = \"s" + std::to_string(site) + "\"\nstep_ms = 50\n";
  return text;
}

// From the job's text to the end of its round.
std::uint64_t bytes_allocated(int sites, double fraction) {
  const std::uint64_t before = allocated_bytes;
  const auto document = parse_document(scale_job(sites, fraction), "scale_test");
  const auto job = resolve_job(*document);
  EXPECT_TRUE(job);
  auto simulation = Simulation::make(*job, *Workload::load(*job), 1);
  const auto ended = (*simulation)->world().run();
  EXPECT_TRUE(ended && *ended == sim::World::Ended::finished);
  EXPECT_EQ((*simulation)->rounds(), 1u);
  return allocated_bytes - before;
}

double growth_of_twice(int sites, double fraction) {
  (void)bytes_allocated(10, fraction);  // what is made once
  const double one = double(bytes_allocated(sites, fraction));
  const double two = double(bytes_allocated(2 * sites, fraction));
  return two / one;
}

// A list of 4 bytes a member at every node, made once, would be an eighth more at this size.
TEST(Scale, AllSitesOverAHub) { EXPECT_LT(growth_of_twice(2000, 1), 2.1); }

TEST(Scale, OnePercentOfTheSitesOverAHub) { EXPECT_LT(growth_of_twice(2000, 0.01), 2.1); }

}  // namespace
}  // namespace longhaul::run

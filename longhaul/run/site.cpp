#include "longhaul/run/site.h"

#include <algorithm>
#include <utility>

#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/site_session.h"

namespace longhaul::run {
namespace {

constexpr int kMostTurns = 16;  // between resuming and rejoining, without a round between

}  // namespace

Result<Summary> run_site(const Job& job, const SiteOptions& options) {
  LH_TRY(fits_frames(
      job, options.faults_are_made));  // the job's own mistakes before those of keys and addresses
  auto sockets =
      node_sockets(job, options.rank, options.addresses, options.listening, options.security);
  if (!sockets) return sockets.error();
  if (const std::string name = job.members()[options.rank].site; job.leaves_out(name)) {
    Progress(options.progress, job.job.name)
        .note(name + ": [run] without leaves this site out; the others go on without it");
    return summary_of(job);
  }
  SiteOptions now = options;
  if (options.existing != ExistingFolder::force && !options.folder.empty()) {
    auto over = nothing_left(options.folder, job);
    if (!over) return over.error();
    if (*over) {
      Progress(options.progress, job.job.name)
          .note(options.folder + ": this run is over already; --force begins anew");
      return **over;
    }
  }
  Round reached = 0;
  for (int turns = 0;; ++turns) {
    now.existing = RunFolder::resolve(options.folder, now.existing);
    auto site = SiteSession::make(job, now, *sockets);
    if (!site) return site.error();
    auto summary = (*site)->run();
    if (summary && summary->rounds > std::exchange(reached, std::max(reached, summary->rounds)))
      turns = 0;
    // The others say so: rejoin with a new incarnation, or, as they have stopped since, resume.
    const bool rejoins = (*site)->left_out() && !interrupted();
    const bool resumes = (*site)->must_resume() && !options.rejoin && !interrupted();
    if ((!rejoins && !resumes) || turns == kMostTurns) return summary;
    (*site)->note((summary ? summary->failure : summary.error().what) +
                  (rejoins ? "; asks to rejoin" : "; resumes"));
    now.rejoin = rejoins;
    now.insists = options.rejoin;
    now.existing = ExistingFolder::resume_or_begin;
  }
}

}  // namespace longhaul::run

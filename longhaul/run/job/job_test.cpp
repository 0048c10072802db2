#include "longhaul/run/job/job.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/job/testing/job_text.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using testing::good_job;
using ::testing::HasSubstr;
using testing::job_error;
using testing::read_job;

constexpr const char* kModel = "[model]\nkind = \"logistic\"\n[data]\nkind = \"synthetic\"\n";
constexpr const char* kSites = "[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"\n";

std::string job_text(const std::string& middle, const std::string& sites = kSites) {
  return kModel + middle + sites;
}

std::string value_of(const Job& job, const std::string& table, const std::string& key) {
  for (const ResolvedTable& t : resolved(job))
    if (t.name == table)
      for (const ResolvedKey& k : t.keys)
        if (k.key == key) return k.value;
  return "";
}

TEST(Job, FillsInDefaults) {
  const Job job = good_job(job_text("[sync]\nkind = \"bsp\"\n"));
  EXPECT_EQ(job.overlay.entry->name, "direct");
  EXPECT_EQ(job.codec.entry->name, "fp32");
  EXPECT_EQ(job.kind("optimizer"), "sgd");
  EXPECT_EQ(job.job.name, "job");  // the file's name
  EXPECT_EQ(job.members().size(), 2u);
  EXPECT_EQ(job.workers(), 2u);
}

TEST(Job, NeedsAModelASyncAndASite) {
  EXPECT_THAT(job_error(std::string(kModel) + "[sync]\nkind = \"bsp\"\n"), HasSubstr("[[site]]"));
  EXPECT_THAT(job_error(std::string("[sync]\nkind = \"bsp\"\n") + kSites),
              HasSubstr("[model] kind"));
  EXPECT_THAT(job_error(job_text("")), HasSubstr("[sync] kind: missing"));
}

TEST(Presets, AreOverruledByTheFileKeyByKey) {
  const Job plain = good_job(job_text("[sync]\nkind = \"diloco\"\n"));
  EXPECT_EQ(plain.outer.entry->name, "nesterov");
  EXPECT_EQ(value_of(plain, "outer", "rate"), "0.7");
  EXPECT_EQ(value_of(plain, "optimizer", "kind"), "\"adamw\"");

  const Job own = good_job(job_text("[sync]\nkind = \"diloco\"\n[outer]\nrate = 0.5\n"));
  EXPECT_EQ(own.outer.entry->name, "nesterov");
  EXPECT_EQ(value_of(own, "outer", "rate"), "0.5");
  EXPECT_EQ(value_of(own, "outer", "momentum"), "0.9");
}

TEST(Presets, OfATableWhoseKindTheFileChoosesAreDropped) {
  const Job job =
      good_job(job_text("[sync]\nkind = \"diloco\"\n[outer]\nkind = \"none\"\n"
                        "[optimizer]\nkind = \"sgd\"\nrate = 0.1\n"));
  EXPECT_EQ(job.outer.entry->name, "none");
  EXPECT_EQ(value_of(job, "optimizer", "rate"), "0.1");
  EXPECT_TRUE(std::all_of(job.presets.begin(), job.presets.end(),
                          [](const AppliedPreset& p) { return p.overruled; }));
}

TEST(Variants, HoldForTheirSyncKindOnly) {
  const std::string text = job_text(
      "[sync]\nkind = \"bsp\"\n[for.fedavg.sync]\nsteps = 7\n[for.fedavg.optimizer]\nrate = 0.3\n");
  const Job bsp = good_job(text);
  EXPECT_NE(value_of(bsp, "optimizer", "rate"), "0.3");
  const Job fedavg = good_job(text, {"sync.kind=fedavg"});
  EXPECT_EQ(value_of(fedavg, "sync", "steps"), "7");
  EXPECT_EQ(value_of(fedavg, "optimizer", "rate"), "0.3");
  const Job set = good_job(text, {"sync.kind=fedavg", "sync.steps=9"});
  EXPECT_EQ(value_of(set, "sync", "steps"), "9");
  EXPECT_THAT(job_error(job_text("[sync]\nkind = \"bsp\"\n[for.fedavk.sync]\nsteps = 7\n")),
              AllOf(HasSubstr("job.toml:7"), HasSubstr("'fedavg'")));
  EXPECT_THAT(job_error(job_text("[sync]\nkind = \"fedavg\"\n[for.fedavg.sync]\nstebs = 7\n")),
              AllOf(HasSubstr("job.toml:8"), HasSubstr("'steps'")));
}

// Of tables of the run itself too.
TEST(Variants, HoldForEveryTable) {
  const std::string text =
      "[sync]\nkind = \"bsp\"\n[stop]\nmax_rounds = 9\n[for.bsp.stop]\nmax_rounds = 4\n"
      "[for.bsp.wan]\nmbps = 1\n[for.fedavg.wan]\nmbps = 2\n";
  const Job job = good_job(job_text(text));
  EXPECT_EQ(job.stop.max_rounds, 4u);
  EXPECT_EQ(job.wan.mbps, 1.0);
  EXPECT_THAT(job_error(job_text("[sync]\nkind = \"bsp\"\n[for.bsp.wan]\nmbbs = 1\n")),
              HasSubstr("mbbs"));
}

TEST(Variants, WithAnotherKindTakeTheTablesPlace) {
  const std::string text = job_text(
      "[sync]\nkind = \"fedavg\"\n[optimizer]\nkind = \"sgd\"\nmomentum = 0.9\nrate = 0.3\n"
      "[for.fedavg.optimizer]\nkind = \"adam\"\n[for.bsp.optimizer]\nkind = \"sgd\"\n"
      "rate = 0.1\n");
  const Job adam = good_job(text);
  EXPECT_EQ(value_of(adam, "optimizer", "kind"), "\"adam\"");
  EXPECT_EQ(value_of(adam, "optimizer", "momentum"), "");
  EXPECT_NE(value_of(adam, "optimizer", "rate"), "0.3");
  const Job same = good_job(text, {"sync.kind=bsp"});
  EXPECT_EQ(value_of(same, "optimizer", "momentum"), "0.9");
  EXPECT_EQ(value_of(same, "optimizer", "rate"), "0.1");
}

TEST(Job, TwoMistakesAreToldEachByItself) {
  // What is said of other tables is for the strategy that was meant.
  const std::string two = job_error(
      job_text("[sync]\nkind = \"fedasynk\"\nalpha = 2.5\n[server]\ndown_codec = \"fp99\"\n"));
  EXPECT_THAT(two, HasSubstr("[sync] kind: expected a known kind, found \"fedasynk\"; did you mean "
                             "'fedasync'? (known: "));
  EXPECT_THAT(two, HasSubstr("[server] down_codec: "));
  EXPECT_THAT(two, ::testing::Not(HasSubstr("kind = \"bsp\"")));
}

std::string bsp(const std::string& more, const std::string& sites = kSites) {
  return job_text("[sync]\nkind = \"bsp\"\n" + more, sites);
}

TEST(Check, RatesOfZeroOrBelowAreErrors) {
  for (const char* rate : {"0", "0.0", "-3"}) {
    const std::string key = std::string(" = ") + rate;
    EXPECT_THAT(job_error(bsp("", "[[site]]\nname = \"a\"\nup_mbps" + key + "\n")),
                AllOf(HasSubstr("job.toml:9: [site.a] up_mbps: "), HasSubstr("above 0")));
    EXPECT_THAT(job_error(bsp("[wan]\nmbps" + key + "\n")), HasSubstr("job.toml:8: [wan] mbps: "));
    EXPECT_THAT(job_error(bsp("[wan]\nlan_mbps" + key + "\n")), HasSubstr("[wan] lan_mbps: "));
    EXPECT_THAT(job_error(bsp("[[wan.link]]\nfrom = \"a\"\nto = \"b\"\nmbps" + key + "\n")),
                HasSubstr("job.toml:10: [wan.link[0]] mbps: "));
  }
}

TEST(Check, AllMistakesAreToldInTheOrderOfTheFile) {
  const std::string text = job_error(job_text(
      "[sync]\nkind = \"fedavg\"\nstebs = 3\n[overlay]\nkind = \"rung\"\n[stop]\nmax_rounds = 0\n"
      "[wan]\nmbps = -1\ndelay_ms = \"far\"\n"));
  std::istringstream lines(text);
  std::string line;
  for (const char* part : {"[sync] stebs: unknown key", "[overlay] kind: ", "[stop] max_rounds: ",
                           "[wan] mbps: ", "[wan] delay_ms: "}) {
    ASSERT_TRUE(std::getline(lines, line)) << part;
    EXPECT_THAT(line, AllOf(::testing::StartsWith("job.toml:"), HasSubstr(part)));
  }
  EXPECT_FALSE(std::getline(lines, line)) << line;
}

// What follows from a mistake is none of its own.
TEST(Check, TheKeysOfABadKindAreNotJudged) {
  const std::string text =
      job_error(job_text("[sync]\nkind = \"fedavgg\"\nsteps = 3\nmin_sites = 1\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0) << text;
  EXPECT_THAT(text, HasSubstr("'fedavg'"));
}

TEST(Check, LinksNameTwoSitesOnce) {
  EXPECT_THAT(job_error(bsp("[[wan.link]]\nfrom = \"a\"\nto = \"bb\"\n")),
              AllOf(HasSubstr("job.toml:9: [wan.link[0]] to: "), HasSubstr("'b'")));
  EXPECT_THAT(job_error(bsp("[[wan.link]]\nfrom = \"a\"\nto = \"a\"\n")),
              HasSubstr("another site"));
  const std::string link = "[[wan.link]]\nfrom = \"a\"\nto = \"b\"\n";
  const std::string back = "[[wan.link]]\nfrom = \"b\"\nto = \"a\"\n";
  EXPECT_THAT(job_error(bsp(link + link)), HasSubstr("[wan.link[1]] from: "));
  EXPECT_EQ(job_error(bsp(link + back)), "no error");
  EXPECT_THAT(job_error(bsp(link + "both = true\n" + back)), HasSubstr("earlier [[wan.link]]"));
}

TEST(Check, RefusesWhatTheLinkModelCannotDo) {
  for (const char* key :
       {"loss = 0.01", "jitter_ms = 1", "tcp = \"cubic\"", "queue = \"drop_tail\""}) {
    const std::string text = std::string("[wan]\n") + key + "\n";
    EXPECT_THAT(job_error(bsp(text)), AllOf(HasSubstr("job.toml:8: [wan] "), HasSubstr("fifo")));
    EXPECT_EQ(job_error(bsp(text + "model = \"fair\"\n")), "no error");
  }
  const std::string link = "[[wan.link]]\nfrom = \"a\"\nto = \"b\"\nloss = 0.1\n";
  EXPECT_THAT(job_error(bsp(link)), HasSubstr("[wan.link[0]] loss = 0.1 has no effect"));
  EXPECT_EQ(job_error(bsp("[wan]\nmodel = \"fair\"\n" + link)), "no error");
  EXPECT_THAT(job_error(bsp("[[wan.trace]]\nat_s = [0]\nvalues = [1]\n")),
              HasSubstr("model = \"fair\""));
}

std::string fair(const std::string& more) { return bsp("[wan]\nmodel = \"fair\"\n" + more); }

TEST(Check, QueuesHaveATimeAndBurstsSomethingToLose) {
  EXPECT_EQ(job_error(fair("queue = \"drop_tail\"\n")), "no error");
  EXPECT_EQ(job_error(fair("queue = \"drop_tail\"\nqueue_ms = 30\n")), "no error");
  EXPECT_THAT(job_error(fair("queue_ms = 30\n")), HasSubstr("drop_tail"));
  EXPECT_THAT(job_error(fair("queue = \"drop_tail\"\nqueue_ms = 0\n")), HasSubstr("queue_ms"));
  EXPECT_THAT(job_error(bsp("[wan]\nloss_burst = 4\n")), HasSubstr("fifo"));
  EXPECT_THAT(job_error(fair("loss_burst = 4\n")), HasSubstr("nothing is lost"));
  EXPECT_THAT(job_error(fair("loss = 0.9\nloss_burst = 4\n")), HasSubstr("at least 9"));
  EXPECT_EQ(job_error(fair("loss = 0.1\nloss_burst = 4\n")), "no error");
  EXPECT_EQ(job_error(fair("loss_burst = 4\n[[wan.link]]\nfrom = \"a\"\nto = \"b\"\nloss = 0.1\n")),
            "no error");
}

TEST(Check, SharedLinksHaveNamesRatesAndSites) {
  const std::string link = "[[wan.shared]]\nname = \"s\"\nmbps = 5\nfrom = [\"a\"]\n";
  EXPECT_EQ(job_error(fair(link + "to = [\"a\", \"b\"]\n")), "no error");
  EXPECT_THAT(job_error(fair(link + "to = [\"c\"]\n")), HasSubstr("[wan.shared[0]] to: "));
  EXPECT_THAT(job_error(fair(link + "to = [\"a\"]\n")), HasSubstr("another site"));
  EXPECT_THAT(job_error(fair(link)), HasSubstr("names of sites"));
  EXPECT_THAT(job_error(fair(link + "to = [\"b\"]\n" + link + "to = [\"b\"]\n")),
              HasSubstr("[wan.shared[1]] name: "));
  EXPECT_THAT(job_error(fair("[[wan.shared]]\nname = \"s\"\n")), HasSubstr("mbps: missing"));
}

TEST(Check, TracesSayWhatTheyMoveAndHow) {
  const std::string trace = "[[wan.trace]]\n", steps = "at_s = [0, 5]\nvalues = [1, 2]\n";
  EXPECT_EQ(job_error(fair(trace + steps)), "no error");
  EXPECT_EQ(job_error(fair(trace + "what = \"up\"\nsite = \"a\"\n" + steps)), "no error");
  EXPECT_EQ(job_error(fair(trace + "kind = \"redraw\"\nlow = 20\nhigh = 155\n")), "no error");
  const std::pair<std::string, std::string> bad[] = {
      {"at_s = [0, 5]\nvalues = [1]\n", "values: expected as many values as times"},
      {"at_s = [1]\nvalues = [1]\n", "first time of 0"},
      {"kind = \"day\"\nlow = 2\nhigh = 1\n", "high: expected 0 <= low <= high"},
      {"site = \"a\"\n" + steps, "site: expected no such key"},
      {"what = \"up\"\nsite = \"c\"\n" + steps, "site: expected a site's name"},
      {"from = \"a\"\nto = \"a\"\n" + steps, "another site"},
      {"what = \"shared\"\nshared = \"s\"\n" + steps, "shared: expected the name of"},
      {"what = \"loss\"\n" + steps, "at most 0.99"},
      {steps + trace + steps, "[wan.trace[1]] what: "},
  };
  for (const auto& [text, error] : bad)
    EXPECT_THAT(job_error(fair(trace + text)), HasSubstr(error)) << text;
}

TEST(Check, SitesHaveNamesAndWorkers) {
  EXPECT_THAT(job_error(bsp("", "[[site]]\nnodes = 1\n")), HasSubstr("[site[0]] name: missing"));
  EXPECT_THAT(job_error(bsp("", "[[site]]\nname = \"a b\"\n")), HasSubstr("letters"));
  EXPECT_THAT(job_error(bsp("", "[[site]]\nname = \"a\"\n[[site]]\nname = \"a\"\n")),
              HasSubstr("no other site"));
  EXPECT_THAT(job_error(bsp("", "[[site]]\nname = \"a\"\nroles = [\"server\"]\n")),
              HasSubstr("worker"));
  EXPECT_THAT(job_error(bsp("", "[[site]]\nname = \"a\"\nroles = [\"worker\", \"witness\"]\n")),
              HasSubstr("no other role beside witness"));
  EXPECT_THAT(job_error(bsp("[roles]\nserver = \"c\"\n")), HasSubstr("[roles] server: "));
}

TEST(Check, RefusesAnIllegalCombinationWithTheReason) {
  EXPECT_THAT(job_error(bsp("[overlay]\nkind = \"ring\"\n[codec]\nkind = \"int8\"\n"
                            "error_feedback = true\n")),
              AllOf(HasSubstr("job.toml"), HasSubstr("ring"), HasSubstr("error_feedback")));
}

TEST(Check, WhoTalksToAServerTakesTheHubWithoutItsPhases) {
  const std::string asp = "[sync]\nkind = \"asp\"\n", over = "[overlay]\nkind = ";
  const Job job = good_job(job_text(asp));
  EXPECT_EQ(job.overlay.entry->name, "hub");
  EXPECT_TRUE(read_job(job_text(asp + "[server]\ndown_codec = \"same\"\n")));
  EXPECT_THAT(
      job_error(job_text(asp + "[server]\ndown_codec = \"same\"\n[codec]\nkind = \"sign\"\n")),
      HasSubstr("[server] down_codec: expected \"fp32\""));
  EXPECT_THAT(job_error(bsp("[server]\ndown_codec = \"same\"\n")),
              HasSubstr("[server] down_codec"));
  EXPECT_THAT(job_error(job_text(asp + over + "\"ring\"\n")), HasSubstr("kind = \"hub\""));
  EXPECT_THAT(job_error(job_text(asp + over + "\"hub\"\nphases = \"streamed\"\n")),
              HasSubstr("[overlay] phases"));
  const std::vector<std::string> bn = {"model.kind=lenet", "model.norm=batch", "model.bn=local"};
  EXPECT_THAT(job_error(job_text(asp), bn), HasSubstr("[model] bn: expected \"mean\""));
  EXPECT_TRUE(read_job(bsp(""), bn));
  const std::string feedback = "[codec]\nkind = \"int8\"\nerror_feedback = true\n";
  EXPECT_TRUE(read_job(job_text(asp + feedback)));
  EXPECT_THAT(job_error(job_text(asp + "compensation = \"constant\"\n" + feedback)),
              HasSubstr("error_feedback = false"));
  const std::string senders = "[codec]\nkind = \"q_top_k\"\nmean_of_senders = true\n";
  EXPECT_THAT(job_error(job_text(asp + senders)), HasSubstr("[codec] mean_of_senders"));
  EXPECT_TRUE(read_job(bsp(senders)));
  EXPECT_THAT(job_error(job_text(asp), {"site.a.roles=[\"state_server\"]", "roles.server=b"}),
              HasSubstr("name it in [roles] server"));
}

TEST(Members, AServerOfItsOwnComesLast) {
  const Job job = good_job(bsp("[overlay]\nkind = \"hub\"\n[roles]\nserver = \"a\"\n",
                               "[[site]]\nname = \"a\"\nnodes = 2\n[[site]]\nname = \"b\"\n"));
  const Members members = job.members();
  ASSERT_EQ(members.size(), 4u);
  EXPECT_EQ(members[3].site, "a");
  EXPECT_EQ(members[3].rank_in_site, 2u);
  EXPECT_FALSE(members[3].is(Role::worker));
  EXPECT_EQ(job.server(), Rank{3});
  EXPECT_EQ(job.workers(), 3u);
}

TEST(Members, ASiteThatHasAServerGetsNoOther) {
  const Job job =
      good_job(bsp("[overlay]\nkind = \"hub\"\n[roles]\nserver = \"b\"\n",
                   "[[site]]\nname = \"a\"\n[[site]]\nname = \"b\"\nroles = [\"server\"]\n"
                   "[[site]]\nname = \"c\"\nroles = [\"server\"]\n"));
  EXPECT_EQ(job.members().size(), 3u);
  EXPECT_EQ(job.server(), Rank{1});
  EXPECT_EQ(job.workers(), 1u);
}

TEST(Report, CountsSamplesInRounds) {
  const Job job = good_job(job_text("[sync]\nkind = \"fedavg\"\nsteps = 10\n[report]\n"
                                    "every_samples = 2000\n"),
                           {"data.batch=20"});
  EXPECT_EQ(samples_per_round(job), 400u);
  EXPECT_EQ(report_every(job), 5u);
  const Job rounds = good_job(bsp("[report]\nevery_rounds = 3\nevery_samples = 2000\n"));
  EXPECT_EQ(report_every(rounds), 3u);
}

TEST(Dump, ReadsBackAsTheSameJob) {
  for (const char* middle :
       {"[sync]\nkind = \"bsp\"\n", "[sync]\nkind = \"diloco\"\nsteps = 5\n",
        "[sync]\nkind = \"asp\"\n[server]\ndown_codec = \"same\"\n",
        "[sync]\nkind = \"fedavg\"\n[overlay]\nkind = \"hub\"\n[codec]\nkind = \"int8\"\n"
        "error_feedback = true\n[wan]\nmbps = 8\n[[wan.link]]\nfrom = \"a\"\nto = \"b\"\n",
        "[sync]\nkind = \"bsp\"\n[optimizer]\nkind = \"adam\"\nrate = 1\nschedule = "
        "\"cosine\"\n"}) {
    const Job job = good_job(job_text(middle));
    const std::string text = to_toml(job);
    auto again = read_job(text);
    ASSERT_TRUE(again) << again.error().what << "\n" << text;
    EXPECT_EQ(to_toml(*again), text);
    EXPECT_EQ(job_hash(*again), job_hash(job));
    EXPECT_EQ(difference(job, *again), std::nullopt);
  }
}

TEST(Dump, EqualNumbersAreEqualJobs) {
  auto whole = read_job(bsp(""), {"optimizer.rate=1"});
  auto real = read_job(bsp(""), {"optimizer.rate=1.0"});
  ASSERT_TRUE(whole && real);
  EXPECT_EQ(job_hash(*whole), job_hash(*real));
  EXPECT_EQ(difference(*whole, *real), std::nullopt);
}

TEST(Dump, HashSkipsLocalKeysAndNothingElse) {
  auto job = read_job(bsp(""));
  auto local = read_job(bsp(""), {"site.a.address=10.0.0.1:70", "job.checkpoint_every=3"});
  auto other = read_job(bsp(""), {"site.a.step_ms=21"});
  ASSERT_TRUE(job && local && other);
  EXPECT_EQ(job_hash(*job), job_hash(*local));
  EXPECT_NE(job_hash(*job), job_hash(*other));
  EXPECT_EQ(difference(*job, *local), std::nullopt);
  EXPECT_EQ(difference(*job, *other), "[site.a] step_ms: was 20.0, is 21.0");
}

TEST(Dump, AResumedRunMayGetSitesAfterAllOthers) {
  const std::string site = "[[site]]\nname = \"zz\"\nstep_ms = 7\n";
  auto job = read_job(bsp(""));
  auto more = read_job(bsp("") + site, {"wan.mbps=77"});
  auto first = read_job(bsp(site));
  auto other = read_job(bsp("") + site, {"site.a.step_ms=21"});
  ASSERT_TRUE(job && more && first && other);
  const std::size_t sites = job->sites.size();
  EXPECT_EQ(difference(*job, *more, true), std::nullopt);
  EXPECT_NE(difference(*job, *more, false), std::nullopt);
  EXPECT_EQ(resume_hash(*more, sites), resume_hash(*job, sites));
  EXPECT_NE(resume_hash(*more, sites + 1), resume_hash(*job, sites));
  EXPECT_NE(resume_hash(*other, sites), resume_hash(*job, sites));
  EXPECT_EQ(difference(*job, *other, true), "[site.a] step_ms: was 20.0, is 21.0");
  EXPECT_EQ(difference(*job, *first, true),
            "[[site]] 1: was a, is zz; sites are added after all others");
  EXPECT_NE(difference(*more, *job, true), std::nullopt) << "none is taken away";
}

// What overlays plan by: one object, whose sites have names.
TEST(Job, BelievesWhatItSaysOfTheNetwork) {
  auto job = read_job(bsp("[wan]\nmbps = 80\n"));
  ASSERT_TRUE(job && job->believed);
  ASSERT_EQ(job->believed->sites.size(), job->sites.size());
  for (std::size_t i = 0; i < job->sites.size(); ++i)
    EXPECT_EQ(job->believed->sites[i].name, job->sites[i].name);
  EXPECT_EQ(job->believed->usual.rate, 10e6);
}

}  // namespace
}  // namespace longhaul::run

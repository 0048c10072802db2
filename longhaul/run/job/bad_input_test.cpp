// Bad input, generated from fields(): every key of every table and of every kind of part is
// misspelt, mistyped and set out of its range. Each must be one Error that names the file, the
// line, the table, the key, and for a misspelt one the key that was meant.
#include <gmock/gmock.h>

#include <cmath>

#include <fmt/format.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/job/reference.h"
#include "longhaul/run/job/testing/job_text.h"

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;

// A job of two sites with one line added to one table. The tables stand in a fixed order; a line
// that sets a key of the plain job again replaces it.
struct Sample {
  std::string text;
  int line = 0;  // of what was added
};

Sample job_with(const std::string& table, const std::string& kind, const std::string& added) {
  struct Part {
    std::string name, header;
    std::vector<std::string> lines;
  };
  std::vector<Part> parts = {
      {"job", "[job]", {"name = \"sample\""}},
      {"stop", "[stop]", {}},
      {"report", "[report]", {}},
      {"model", "[model]", {"kind = \"logistic\""}},
      {"data", "[data]", {"kind = \"synthetic\""}},
      {"optimizer", "[optimizer]", {"kind = \"sgd\""}},
      {"sync", "[sync]", {"kind = \"bsp\""}},
      {"overlay", "[overlay]", {"kind = \"hub\""}},
      {"roles", "[roles]", {}},
      {"server", "[server]", {}},
      {"net", "[net]", {}},
      {"cost", "[cost]", {}},
      {"transfer", "[transfer]", {}},
      {"codec", "[codec]", {}},
      {"outer", "[outer]", {}},
      {"wan", "[wan]", {"model = \"fair\""}},
      {"wan.link[0]", "[[wan.link]]", {"from = \"a\"", "to = \"b\""}},
      {"wan.shared[0]",
       "[[wan.shared]]",
       {"name = \"s\"", "mbps = 5", "from = [\"a\"]", "to = [\"b\"]"}},
      {"wan.trace[0]", "[[wan.trace]]", {"at_s = [0]", "values = [1]"}},
      {"hetero", "[hetero]", {}},
      {"site.a", "[[site]]", {"name = \"a\""}},
      {"site.b", "[[site]]", {"name = \"b\""}},
  };
  Sample sample;
  int line = 0;
  auto write = [&](const std::string& text) {
    sample.text += text + "\n";
    ++line;
  };
  const std::string key = added.substr(0, added.find(' '));
  for (const Part& part : parts) {
    write(part.header);
    const bool here = part.name == table;
    for (const std::string& text : part.lines) {
      const std::string old = text.substr(0, text.find(' '));
      if (here && (old == key || (old == "kind" && !kind.empty()))) continue;
      write(text);
    }
    if (here && !kind.empty() && key != "kind") write(fmt::format("kind = \"{}\"", kind));
    if (here) {
      write(added);
      sample.line = line;
    }
  }
  return sample;
}

struct Case {
  std::string table, kind;
  FieldDoc doc;
};

template <class Config>
void add_table(std::vector<Case>& cases, const std::string& table) {
  for (const FieldDoc& doc : describe(Config{})) cases.push_back({table, "", doc});
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_table<JobTable>(cases, "job");
  add_table<StopTable>(cases, "stop");
  add_table<ReportTable>(cases, "report");
  add_table<RolesTable>(cases, "roles");
  add_table<ServerTable>(cases, "server");
  add_table<NetTable>(cases, "net");
  add_table<CostTable>(cases, "cost");
  add_table<TransferCommon>(cases, "transfer");
  add_table<WanTable>(cases, "wan");
  add_table<LinkTable>(cases, "wan.link[0]");
  add_table<SharedTable>(cases, "wan.shared[0]");
  add_table<TraceTable>(cases, "wan.trace[0]");
  add_table<HeteroTable>(cases, "hetero");
  add_table<SiteTable>(cases, "site.a");
  for (const PartInfo& part : all_parts())
    for (const FieldDoc& doc : part.keys)
      if (doc.field.name != "kind") cases.push_back({part.table, part.name, doc});
  return cases;
}

std::string label(const Case& c) {
  return fmt::format("[{}] kind {} key {}", c.table, c.kind, c.doc.field.name);
}

void expect_error(const Case& c, const std::string& key, const std::string& value) {
  const Sample sample = job_with(c.table, c.kind, fmt::format("{} = {}", key, value));
  const std::string error = testing::job_error(sample.text);
  // A site whose name is spoilt is known by its number.
  const std::string table = c.table == "site.a" && (key != c.doc.field.name || key != "name")
                                ? "site"
                                : c.table.substr(0, c.table.find('.'));
  EXPECT_THAT(error, HasSubstr(fmt::format("job.toml:{}: [{}", sample.line, table)))
      << label(c) << "\n"
      << key << " = " << value;
  EXPECT_THAT(error, HasSubstr(fmt::format("] {}: ", key))) << label(c);
}

// Values of another type than the key's.
std::vector<std::string> mistyped(const FieldDoc& doc) {
  if (doc.field.lenient) return {"true", "1.5", "-1"};
  if (doc.type == "flag") return {"1", "\"true\"", "[true]"};
  if (doc.type == "integer") return {"\"3\"", "1.5", "true", "[3]"};
  if (doc.type == "number") return {"\"3\"", "true", "[3]", "nan", "inf"};
  if (doc.type == "string") return {"3", "true", "[\"a\"]"};
  return {"3", "\"a\"", "[true]"};  // a list
}

std::vector<std::string> out_of_range(const FieldDoc& doc) {
  const Field& f = doc.field;
  if (!f.choices.empty())
    return {doc.type == "list" ? fmt::format("[\"{}x\"]", f.choices.front())
                               : fmt::format("\"{}x\"", f.choices.front())};
  std::vector<std::string> values;
  const bool whole = doc.type == "integer";
  if (!whole && doc.type != "number") return {};
  auto add = [&](double value) {
    if (std::abs(value) < 9e18)
      values.push_back(whole ? fmt::format("{}", std::int64_t(value))
                             : fmt::format("{:.17g}", value));
  };
  if (whole) add(-1);
  if (f.positive) {
    add(0);
    add(-1);
  }
  if (std::isfinite(f.min)) add(f.min - 1);
  if (std::isfinite(f.max)) add(f.max * 2 + 1);
  return values;
}

TEST(BadInput, ThePlainJobIsGood) {
  EXPECT_EQ(testing::job_error(job_with("job", "", "seed = 1").text), "no error");
}

// In the gate one in seventeen, others for each kind of mistake, and of each one of the wrong
// values.
constexpr std::size_t kEvery = longhaul::testing::kGate ? 17 : 1;
std::vector<Case> tried_cases() {
  static std::size_t turn = 0;
  std::vector<Case> some;
  for (const Case& c : all_cases())
    if (turn++ % kEvery == 0) some.push_back(c);
  return some;
}

void expect_errors(const Case& c, const std::vector<std::string>& values) {
  static std::size_t turn = 0;
  const std::size_t one = values.empty() ? 0 : turn++ % values.size();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!longhaul::testing::kGate || i == one)
      expect_error(c, std::string(c.doc.field.name), values[i]);
}

TEST(BadInput, EveryMisspeltKeyIsRefusedWithTheNearest) {
  for (const Case& c : tried_cases()) {
    std::string key(c.doc.field.name);
    key.insert(1, 1, key[1]);  // "steps" -> "stteps"
    const Sample sample =
        job_with(c.table, c.kind, fmt::format("{} = {}", key, c.doc.absent ? "1" : c.doc.value));
    const std::string error = testing::job_error(sample.text);
    EXPECT_THAT(error, HasSubstr(fmt::format("job.toml:{}: [", sample.line))) << label(c);
    EXPECT_THAT(error, HasSubstr(fmt::format("] {}: unknown key; did you mean '{}'?", key,
                                             c.doc.field.name)))
        << label(c);
  }
}

TEST(BadInput, EveryMistypedKeyIsRefused) {
  for (const Case& c : tried_cases()) expect_errors(c, mistyped(c.doc));
}

TEST(BadInput, EveryKeyOutOfRangeIsRefused) {
  for (const Case& c : tried_cases()) expect_errors(c, out_of_range(c.doc));
}

TEST(BadInput, EveryMisspeltKindIsRefusedWithTheNearest) {
  std::size_t number = 0;
  for (const PartInfo& part : all_parts()) {
    if (longhaul::testing::kGate && number++ % 5 != 0) continue;
    const std::string wrong = part.name + "t";
    const Sample sample = job_with(part.table, "", fmt::format("kind = \"{}\"", wrong));
    const std::string error = testing::job_error(sample.text);
    EXPECT_THAT(error, HasSubstr(fmt::format("job.toml:{}: [{}] kind: ", sample.line, part.table)));
    EXPECT_THAT(error, HasSubstr(fmt::format("'{}'", part.name))) << error;
  }
}

}  // namespace
}  // namespace longhaul::run

// docs/cli.md has the help of every command. To write it anew: scripts/generate-docs
#include "longhaul/cli/cli.h"

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "longhaul/run/job/reference.h"
#include "longhaul/run/job/testing/generated.h"

namespace longhaul::cli {
namespace {

const std::string kPage = "docs/cli.md";
// The page lists an option once if this many commands have it with the same text.
constexpr int kSeveral = 3;

struct OptionDoc {
  std::string name;  // with the name of its value: "--jobs N", "JOB"
  bool positional, required;
  std::string item;  // of a Markdown list
};
using Uses = std::map<std::string, int>;  // commands by OptionDoc::item

std::string with_links(const std::string& text) {
  static const std::regex page(R"(docs/([\w-]+)\.md)");
  return std::regex_replace(text, page, "[$1]($1.md)");
}

// Returns "1..9" for CLI11's "N:UINT in [1 - 9]", "a, b" for "KIND:{a,b}", "" for any value.
std::string values_of(const std::string& type) {
  static const std::regex range(R"(\w+ in \[(.*) - (.*)\])"), braces("[{}]"), comma(",");
  const std::size_t colon = type.find(':');
  if (colon == type.npos) return "";
  const std::string values = type.substr(colon + 1);
  if (values == "POSITIVE") return "> 0";
  return std::regex_replace(
      std::regex_replace(std::regex_replace(values, range, "$1..$2"), braces, ""), comma, ", ");
}

std::string facts_of(const CLI::Option& option, const std::vector<const CLI::Option*>& earlier) {
  std::vector<std::string> facts;
  if (std::string values = values_of(option.get_type_name()); !values.empty())
    facts.push_back(std::move(values));
  const auto excluded = option.get_excludes();  // also those that exclude this one
  std::string others;
  for (const CLI::Option* other : earlier)
    if (std::find(excluded.begin(), excluded.end(), other) != excluded.end())
      others += fmt::format("{}`{}`", others.empty() ? "not with " : ", ", other->get_name());
  if (!others.empty()) facts.push_back(others);
  for (const CLI::Option* other : option.get_needs())
    facts.push_back(fmt::format("only with `{}`", other->get_name()));
  return facts.empty() ? "" : fmt::format(" ({})", fmt::join(facts, ", "));
}

std::vector<OptionDoc> options_of(const CLI::App& command) {
  const auto options = command.get_options([&](const CLI::Option* one) {
    return one != command.get_help_ptr() && !one->get_group().empty();
  });
  std::vector<OptionDoc> docs;
  std::vector<const CLI::Option*> earlier;
  for (const CLI::Option* option : options) {
    const bool positional = option->get_positional();
    std::string name = option->get_name(positional, !positional);
    name.resize(std::min(name.find('{'), name.size()));  // "--record{hashes}"
    const std::string type = option->get_type_name(), value = type.substr(0, type.find(':'));
    if (!positional && !value.empty()) name += " " + value;
    const std::string item =
        fmt::format("- `{}`{}: {}.", name, facts_of(*option, earlier), option->get_description());
    if (positional && option->get_expected_max() == CLI::detail::expected_max_vector_size)
      name += "...";
    docs.push_back({std::move(name), positional, option->get_required(),
                    run::wrapped(with_links(item), "  ")});
    earlier.push_back(option);
  }
  return docs;
}

// Returns the commands for users.
std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
}

Uses uses_of(const CLI::App& app) {
  Uses uses;
  for (const CLI::App* command : commands_of(app)) {
    for (const OptionDoc& option : options_of(*command))
      if (!option.positional) ++uses[option.item];
    for (const auto& [item, count] : uses_of(*command)) uses[item] += count;
  }
  return uses;
}

// Returns the help of the command and its subcommands as Markdown. `path`: "longhaul keys".
std::string help_of(const CLI::App& command, const std::string& path, const Uses& uses) {
  std::string usage = path, items, examples;
  std::vector<std::string> shared;
  bool has_options = false;
  for (const OptionDoc& option : options_of(command)) {
    if (option.required)
      usage += " " + option.name;
    else if (option.positional)
      usage += fmt::format(" [{}]", option.name);
    else
      has_options = true;
    const auto count = uses.find(option.item);
    if (count == uses.end() || count->second < kSeveral)
      items += option.item;
    else
      shared.push_back(fmt::format("`{}`", option.name.substr(0, option.name.find(' '))));
  }
  if (has_options) usage += " [OPTIONS]";
  std::string text = fmt::format("`{}` {}.", usage, command.get_description());
  // CLI11 gives a subcommand the footer of its command.
  const bool inherited = command.get_footer() == command.get_parent()->get_footer();
  std::istringstream footer(inherited ? "" : command.get_footer());
  for (std::string line; std::getline(footer, line);) {
    if (line.starts_with("  "))
      examples += "  " + line + "\n";
    else if (!line.starts_with("Example"))
      text += " " + line;
  }
  text = with_links(text);
  const std::size_t codes = std::min(text.find(" Exit codes: "), text.size());
  std::string help = "\n" + run::wrapped(text.substr(0, codes), "");
  for (const std::string& part : {examples, items})
    if (!part.empty()) help += "\n" + part;
  if (!shared.empty())
    help += "\n" + run::wrapped(fmt::format("[Shared](#options-of-several-commands): {}.",
                                            fmt::join(shared, ", ")),
                                "");
  if (codes < text.size()) help += "\n" + run::wrapped(text.substr(codes + 1) + ".", "");
  for (const CLI::App* one : commands_of(command))
    help += help_of(*one, path + " " + one->get_name(), uses);
  return help;
}

struct CliDoc : ::testing::Test {
  CLI::App app{"", "longhaul"};
  int code = kDone;
  CliDoc() { add_commands(app, code); }
};

TEST_F(CliDoc, HasTheHelpOfEveryCommand) {
  const Uses uses = uses_of(app);
  std::string shared;
  for (const auto& [item, count] : uses)
    if (count >= kSeveral) shared += item;
  expect_generated(kPage, "<!-- options of several commands -->\n", "<!-- end -->\n",
                   "\n" + shared + "\n");
  for (const CLI::App* command : commands_of(app))
    expect_generated(kPage, fmt::format("<!-- options of {} -->\n", command->get_name()),
                     "<!-- end -->\n",
                     help_of(*command, "longhaul " + command->get_name(), uses) + "\n");
}

TEST_F(CliDoc, EveryCommandSaysItsExitCodes) {
  for (const CLI::App* command : commands_of(app))
    EXPECT_NE(command->get_footer().find("\nExit codes: "), std::string::npos)
        << command->get_name();
}

}  // namespace
}  // namespace longhaul::cli

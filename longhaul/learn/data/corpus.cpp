#include "longhaul/learn/data/corpus.h"

#include <fnmatch.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "longhaul/base/decimal.h"

namespace longhaul::learn {
namespace {

bool matches(const std::string& alternatives, const std::string& name) {
  for (std::size_t at = 0; at <= alternatives.size();) {
    const std::size_t end = std::min(alternatives.find('|', at), alternatives.size());
    if (fnmatch(alternatives.substr(at, end - at).c_str(), name.c_str(), 0) == 0) return true;
    at = end + 1;
  }
  return false;
}

struct Group {
  std::string name;
  std::vector<std::uint8_t> bytes = {};
};

void add_text(Group& group, const NamedText& text) {
  group.bytes.push_back(0);
  for (const std::byte byte : text.bytes)
    group.bytes.push_back(std::to_integer<std::uint8_t>(byte));
}

Result<std::vector<Group>> by_patterns(std::span<const NamedText> texts, const std::string& folder,
                                       const std::vector<std::string>& patterns) {
  std::vector<Group> groups;
  for (const std::string& pattern : patterns) groups.push_back({pattern});
  for (const NamedText& text : texts) {
    const auto found = std::ranges::find_if(
        groups, [&](const Group& group) { return matches(group.name, text.name); });
    if (found == groups.end())
      return invalid(fmt::format("{}/{}: matches no pattern of [data] groups", folder, text.name));
    add_text(*found, text);
  }
  return groups;
}

std::vector<Group> by_folders(std::span<const NamedText> texts) {
  std::vector<Group> groups;
  for (const NamedText& text : texts) {
    const std::size_t slash = text.name.rfind('/');
    const std::string name = slash == std::string::npos ? text.name : text.name.substr(0, slash);
    // Names are in order, but a folder's texts need not stand together: "a/b", "a/b/c", "a/d".
    auto found = std::ranges::find(groups, name, &Group::name);
    if (found == groups.end()) found = groups.insert(found, {name});
    add_text(*found, text);
  }
  return groups;
}

}  // namespace

Result<Corpus> read_corpus(std::span<const NamedText> texts, const std::string& folder,
                           const CorpusOptions& options) {
  LH_CHECK(options.context > 0);
  const std::size_t context = options.context;
  std::vector<Group> groups;
  if (options.groups.empty()) {
    groups = by_folders(texts);
  } else {
    auto found = by_patterns(texts, folder, options.groups);
    if (!found) return found.error();
    groups = *std::move(found);
  }
  Corpus corpus;
  DataSet& data = corpus.samples;
  data.shape = {{std::int64_t{options.context}}, 256, Task::text};
  for (const Group& group : groups) {
    const std::size_t samples = group.bytes.empty() ? 0 : (group.bytes.size() - 1) / context;
    for (std::size_t k = 0; k < samples; ++k) {
      const auto from = group.bytes.begin() + std::ptrdiff_t(k * context);
      data.text.insert(data.text.end(), from, from + std::ptrdiff_t(context + 1));
    }
    data.labels.insert(data.labels.end(), samples, std::int64_t(data.names.size()));
    data.names.push_back(group.name);
    corpus.sizes.push_back(samples);
  }
  if (data.labels.empty())
    return invalid(fmt::format(
        "{}: {} texts, and no group of them has the {} bytes of a sample: lower [data] context, or "
        "put more texts into one sub-folder",
        folder, texts.size(), context));
  return corpus;
}

std::vector<std::uint32_t> corpus_tails(const Corpus& corpus, double share) {
  std::vector<std::uint32_t> tails;
  std::size_t end = 0;
  for (const std::size_t size : corpus.sizes) {
    end += size;
    const auto count = std::min(size, std::size_t(whole_nearest(share * double(size))));
    for (std::size_t i = end - count; i < end; ++i) tails.push_back(std::uint32_t(i));
  }
  return tails;
}

}  // namespace longhaul::learn

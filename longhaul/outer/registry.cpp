#include "longhaul/outer/registry.h"

#include "longhaul/outer/optimisers.h"

namespace longhaul::outer {
namespace {

template <class Kind, class Config>
Result<std::unique_ptr<Transform>> make(const Settings& settings, const Place&) {
  Config config;
  LH_TRY(read_settings(settings, config));
  return std::unique_ptr<Transform>(std::make_unique<Kind>(config));
}

template <class Config>
std::vector<FieldDoc> describe_default() {
  return describe(Config{});
}

template <class Kind, class Config>
constexpr OuterEntry entry(std::string_view name, std::string_view summary,
                           OuterTraits traits = {}) {
  return {name, summary, make<Kind, Config>, describe_default<Config>, traits};
}

constexpr OuterEntry kEntries[] = {
    entry<None, NoneConfig>("none", "the mean update as it is", {.changes = false}),
    entry<Momentum, MomentumConfig>("momentum", "heavy-ball momentum"),
    entry<Nesterov, NesterovConfig>("nesterov", "Nesterov momentum, as DiLoCo"),
    entry<Adam, AdamConfig>("adam", "Adam on the mean update"),
};

}  // namespace

std::span<const OuterEntry> registry() { return kEntries; }

Result<const OuterEntry*> entry_of(const Settings& settings) {
  std::string name(registry().front().name);
  if (const Setting* kind = settings.find("kind"))
    LH_TRY(read_value(settings, *kind, Field{.name = "kind"}, name));
  return find_entry(registry(), settings, name);
}

}  // namespace longhaul::outer

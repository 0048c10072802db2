#include "longhaul/run/security.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include <fmt/format.h>

namespace longhaul::run {
namespace {

constexpr std::int64_t kHour = 3600, kYear = 365 * 24 * kHour;

}  // namespace

Result<std::shared_ptr<secure::Credentials>> open_credentials(const Job& job,
                                                              const std::string& site,
                                                              const Security& security) {
  if (security.insecure) return std::shared_ptr<secure::Credentials>();
  const std::string folder = security.keys.empty() ? job.net.keys : security.keys;
  std::vector<std::string> sites;
  for (const SiteTable& one : job.sites) sites.push_back(one.name);
  auto opened = secure::Credentials::open(secure::KeyFolder(folder), site, std::move(sites));
  if (opened) return std::shared_ptr<secure::Credentials>(*std::move(opened));
  return invalid(opened.error().what +
                 " (docs/security.md; within a network that only you reach, --insecure does "
                 "without keys)");
}

Result<std::shared_ptr<ThrowawayKeys>> ThrowawayKeys::make(const Job& job) {
  std::error_code code;
  const auto base = std::filesystem::temp_directory_path(code);
  std::string name = (base / "longhaul-keys-XXXXXX").string();
  if (code || mkdtemp(name.data()) == nullptr)
    return Error{Error::Kind::io, fmt::format("{}: no folder for the keys of this run: {}", name,
                                              code ? code.message() : std::strerror(errno))};
  std::shared_ptr<ThrowawayKeys> keys(new ThrowawayKeys(name));
  const std::int64_t now = std::time(nullptr);
  const secure::KeyFolder folder(name);
  const auto authority = secure::make_authority({now - kHour, now + kYear});
  if (!authority) return authority.error();
  LH_TRY(folder.write_authority(authority->certificate));
  for (const SiteTable& site : job.sites) {
    const auto pair = secure::issue(*authority, site.name, {now - kHour, now + kYear});
    if (!pair) return pair.error();
    LH_TRY(folder.write_site(site.name, *pair));
  }
  return keys;
}

ThrowawayKeys::~ThrowawayKeys() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace longhaul::run

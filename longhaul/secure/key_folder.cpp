#include "longhaul/secure/key_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

namespace longhaul::secure {
namespace {

constexpr off_t kLongestFile = 256 * 1024;
constexpr mode_t kPrivate = 0600, kPublic = 0644, kOthers = S_IRWXG | S_IRWXO;

Error io(const std::string& file) {
  return {Error::Kind::io, fmt::format("{}: {}", file, std::strerror(errno))};
}

struct Descriptor {
  explicit Descriptor(int d) : descriptor(d) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor >= 0) close(descriptor);
  }
  const int descriptor;
};

Status check_private(const std::string& file, const struct stat& at) {
  if ((at.st_mode & kOthers) != 0)
    return invalid(fmt::format(
        "{}: others than its owner may use this private key (mode {:04o}); say: chmod 600 {}", file,
        unsigned(at.st_mode) & 07777u, file));
  if (at.st_uid != geteuid() && at.st_uid != 0)
    return invalid(
        fmt::format("{}: this private key belongs to another user (uid {})", file, at.st_uid));
  return Ok{};
}

// Checks that other users cannot write the authority's certificate or its folder: a user who can
// decides which certificates are trusted.
Status check_unwritable(const std::string& file, const struct stat& at) {
  const bool is_sticky = S_ISDIR(at.st_mode) && (at.st_mode & S_ISVTX) != 0;
  if ((at.st_mode & S_IWOTH) == 0 || is_sticky) return Ok{};
  return invalid(
      fmt::format("{}: everybody on this machine may write it, and so choose whom this site trusts "
                  "(mode {:04o}); say: chmod o-w {}",
                  file, unsigned(at.st_mode) & 07777u, file));
}

Status check_folder(const std::string& path) {
  struct stat at {};
  return stat(path.c_str(), &at) == 0 ? check_unwritable(path, at) : Status(Ok{});
}

Result<std::string> read_text(const std::string& file, bool is_private) {
  const Descriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.descriptor < 0) return io(file);
  struct stat at {};
  if (fstat(opened.descriptor, &at) != 0) return io(file);
  if (!S_ISREG(at.st_mode)) return malformed(file + ": is no file");
  LH_TRY(is_private ? check_private(file, at) : check_unwritable(file, at));
  if (at.st_size > kLongestFile)
    return malformed(fmt::format("{}: {} bytes are too many for keys", file, at.st_size));
  std::string text(std::size_t(at.st_size), '\0');
  for (std::size_t got = 0; got < text.size();) {
    const ssize_t count = read(opened.descriptor, text.data() + got, text.size() - got);
    if (count < 0) return io(file);
    if (count == 0) text.resize(got);
    got += std::size_t(count);
  }
  return text;
}

// Writes the file. Its mode is set before the first byte is written.
Status write_text(const std::string& file, const std::string& text, mode_t mode) {
  const std::string temporary = file + ".new";
  (void)unlink(temporary.c_str());
  {
    const Descriptor made(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (made.descriptor < 0 || fchmod(made.descriptor, mode) != 0) return io(temporary);
    for (std::size_t put = 0; put < text.size();) {
      const ssize_t count = write(made.descriptor, text.data() + put, text.size() - put);
      if (count < 0) return io(temporary);
      put += std::size_t(count);
    }
    if (fsync(made.descriptor) != 0) return io(temporary);
  }
  if (rename(temporary.c_str(), file.c_str()) != 0) return io(file);
  return Ok{};
}

Error with_file(const std::string& file, const Error& error) {
  return {error.kind, file + ": " + error.what};
}

}  // namespace

Status KeyFolder::make_authority(Validity valid) const {
  std::error_code code;
  for (const std::string& file : {authority_file(), authority_key_file()})
    if (std::filesystem::exists(file, code))
      return invalid(fmt::format(
          "{}: there is an authority already; with a new one all certificates must be issued "
          "again: choose another folder, or remove the file",
          file));
  const bool is_new = std::filesystem::create_directories(path_, code);
  if (code) return Error{Error::Kind::io, fmt::format("{}: {}", path_, code.message())};
  if (is_new && chmod(path_.c_str(), 0700) != 0) return io(path_);
  LH_TRY(check_folder(path_));
  LH_LET(made, secure::make_authority(valid));
  LH_TRY(write_text(authority_key_file(), made.key, kPrivate));
  return write_authority(made.certificate);
}

Status KeyFolder::write_authority(const std::string& certificate) const {
  return write_text(authority_file(), certificate, kPublic);
}

Status KeyFolder::write_site(const std::string& site, const KeyPair& pair) const {
  return write_text(site_file(site), pair.key + pair.certificate, kPrivate);
}

Status KeyFolder::issue(const std::string& site, Validity valid) const {
  LH_LET(authority, read_authority());
  const auto key = read_text(authority_key_file(), true);
  if (!key)
    return Error{key.error().kind,
                 key.error().what + "; certificates are issued where longhaul keys init was said"};
  const auto made = secure::issue({authority, *key}, site, valid);
  if (!made)
    return made.error().kind == Error::Kind::invalid_argument
               ? made.error()
               : with_file(authority_key_file(), made.error());
  return write_site(site, *made);
}

Result<std::string> KeyFolder::read_authority() const {
  LH_TRY(check_folder(path_));
  auto text = read_text(authority_file(), false);
  if (!text) {
    std::error_code code;
    if (std::filesystem::exists(authority_file(), code)) return text.error();
    return unavailable(fmt::format(
        "{}: there is no such file; make an authority once (longhaul keys init {}), and copy its "
        "ca.crt to every site",
        authority_file(), path_));
  }
  const auto facts = facts_of(*text);
  if (!facts) return with_file(authority_file(), facts.error());
  for (std::size_t i = 0; i < facts->size(); ++i)
    if (!(*facts)[i].is_authority)
      return malformed(
          fmt::format("{}: certificate {} in it is of no authority", authority_file(), i + 1));
  return text;
}

Result<KeyPair> KeyFolder::read_site(const std::string& site) const {
  const std::string file = site_file(site);
  std::error_code code;
  if (!std::filesystem::exists(file, code))
    return unavailable(fmt::format(
        "{}: there is no such file; issue it where the authority is (longhaul keys issue {}), and "
        "copy it here",
        file, site));
  LH_LET(text, read_text(file, true));
  LH_LET(authority, read_authority());
  KeyPair pair{text, text};
  if (const auto match = check_match(pair, authority); !match)
    return with_file(file, match.error());
  const auto facts = facts_of(text);
  if (!facts) return with_file(file, facts.error());
  const auto& sites = facts->front().sites;
  if (std::find(sites.begin(), sites.end(), site) == sites.end())
    return malformed(fmt::format("{}: this certificate does not name {}", file, site));
  return pair;
}

Result<std::vector<KeyFolder::Entry>> KeyFolder::list() const {
  LH_LET(authority, read_authority());
  std::vector<Entry> entries;
  const auto authorities = facts_of(authority);
  if (!authorities) return with_file(authority_file(), authorities.error());
  for (const CertificateFacts& one : *authorities) entries.push_back({"ca.crt", one, ""});
  std::error_code code;
  std::vector<std::string> sites;
  for (const auto& entry : std::filesystem::directory_iterator(path_, code))
    if (entry.path().extension() == ".pem") sites.push_back(entry.path().stem().string());
  std::sort(sites.begin(), sites.end());
  for (const std::string& site : sites) {
    Entry entry{site + ".pem", {}, ""};
    const auto pair = read_site(site);
    if (pair) {
      const auto facts = facts_of(pair->certificate);
      entry.facts = facts->front();
      entry.facts.valid = *check_match(*pair, authority);
    } else {
      entry.problem = pair.error().what;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::uint64_t version_of(const std::string& file) {
  struct stat at {};
  if (stat(file.c_str(), &at) != 0) return 0;
  const auto nanoseconds =
      std::uint64_t(at.st_mtim.tv_sec) * 1000000000u + std::uint64_t(at.st_mtim.tv_nsec);
  return nanoseconds ^ (std::uint64_t(at.st_ino) << 32) ^ (std::uint64_t(at.st_size) << 16);
}

}  // namespace longhaul::secure

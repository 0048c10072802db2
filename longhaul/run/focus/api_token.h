#pragma once
// The secret with which the users of a site may change what it does (POST): a file in the folder of
// the site that its owner alone may read. Programs of other users reach loopback, too.
#include <array>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>
#include <unistd.h>

#include "longhaul/base/result.h"
#include "longhaul/lab/descriptor.h"
#include "longhaul/run/atomic_file.h"

namespace longhaul::run {

// FOLDER/api.token.
inline std::string token_file(const std::string& folder) { return folder + "/api.token"; }

// Draws a token and replaces the file with it, mode 0600.
inline Result<std::string> make_token(const std::string& path) {
  std::array<unsigned char, 32> drawn = {};
  LH_CHECK(getrandom(drawn.data(), drawn.size(), 0) == ssize_t(drawn.size()));
  const std::string token = fmt::format("{:02x}", fmt::join(drawn, "")), line = token + "\n";
  unlink(path.c_str());  // its mode, and what it may be a link to, are another's
  const lab::Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return io_failed(path, "creating it");
  if (::write(file.get(), line.data(), line.size()) != ssize_t(line.size()))
    return io_failed(path, "writing it");
  return token;
}

inline Result<std::string> read_token(const std::string& path) {
  const auto bytes = read_file(path);
  if (!bytes)
    return Error{bytes.error().kind,
                 bytes.error().what +
                     "; it is the token of a serving site, which only the user who "
                     "runs longhaul serve may read"};
  std::string token(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  while (token.ends_with('\n')) token.pop_back();
  return token;
}

// Takes equal time for all headers of one length.
inline bool has_token(const std::string& authorization, const std::string& token) {
  const std::string expected = "Bearer " + token;
  if (authorization.size() != expected.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    difference |= (unsigned char)(authorization[i] ^ expected[i]);
  return difference == 0;
}

}  // namespace longhaul::run

#pragma once
// The keys by which a node proves its site and verifies its peers. They are read from a folder when
// the node starts and again when the files change. Open connections stay unchanged.
//
// One thread at a time, or several that only call dial() and accept(). May be destroyed before its
// sessions.
#include <memory>
#include <string>
#include <vector>

#include "longhaul/secure/key_folder.h"
#include "longhaul/secure/session.h"

namespace longhaul::secure {

struct SessionContext;

class Credentials {
 public:
  // `sites`: sites of the job; other sites are refused with any certificate. Errors: see KeyFolder;
  // a certificate that has expired or is not valid yet.
  static Result<std::unique_ptr<Credentials>> open(KeyFolder, std::string site,
                                                   std::vector<std::string> sites);
  // Makes credentials from PEM text, without files. For tests and for keys that are never written.
  static Result<std::unique_ptr<Credentials>> make(const KeyPair&, const std::string& authority,
                                                   std::string site,
                                                   std::vector<std::string> sites);
  // Reads files that have changed. Returns true if there are new keys. After an Error (unusable
  // files) the old keys stay, and the next call reads again.
  Result<bool> refresh();

  // Returns the end that dials the site, or that accepts any other site; null: out of memory.
  std::unique_ptr<Session> dial(const std::string& site) const;
  std::unique_ptr<Session> accept() const;
  // Returns the end of the certificate's validity, in seconds since 1970.
  std::int64_t valid_until() const { return valid_until_; }

 private:
  Credentials(KeyFolder folder, std::string site, std::vector<std::string> sites)
      : folder_(std::move(folder)), site_(std::move(site)), sites_(std::move(sites)) {}
  Status read();
  Status use(const KeyPair&, const std::string& authority);
  std::pair<std::uint64_t, std::uint64_t> versions() const;

  const KeyFolder folder_;
  const std::string site_;
  const std::vector<std::string> sites_;
  std::pair<std::uint64_t, std::uint64_t> versions_;
  std::int64_t valid_until_ = 0;
  std::shared_ptr<const SessionContext> context_;
};

}  // namespace longhaul::secure

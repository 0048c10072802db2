#pragma once
// A folder of keys:
//
//   ca.crt     the authority's certificate, or those of several; at every site
//   ca.key     its private key, or that of one of them; only where certificates are issued
//   SITE.pem   a site's private key and certificate, and behind that those between it and the
//              authority; only there
//
// Files with a private key have mode 0600, and are refused when group or others may read them, or
// when they belong to another user. Every file is replaced as a whole (rename), so that a site
// which reads it while it is renewed gets the old one or the new one.
#include <cstdint>
#include <string>
#include <vector>

#include "longhaul/secure/certificates.h"

namespace longhaul::secure {

class KeyFolder {
 public:
  explicit KeyFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string authority_file() const { return path_ + "/ca.crt"; }
  std::string authority_key_file() const { return path_ + "/ca.key"; }
  std::string site_file(const std::string& site) const { return path_ + "/" + site + ".pem"; }

  // Makes the folder, with mode 0700, and an authority. Error: there is one already.
  Status make_authority(Validity) const;
  // Makes or renews a site's key and certificate.
  Status issue(const std::string& site, Validity) const;

  // Of keys that were made elsewhere; the folder exists.
  Status write_authority(const std::string& certificate) const;
  Status write_site(const std::string& site, const KeyPair&) const;

  // Errors name the file, what is wrong with it, and the remedy.
  Result<std::string> read_authority() const;
  Result<KeyPair> read_site(const std::string& site) const;

  // All files of the folder, sorted by name; an entry for each certificate of ca.crt.
  struct Entry {
    std::string file;
    CertificateFacts facts;  // not where there is a problem; valid: with all it depends on
    std::string problem;     // "": none
  };
  Result<std::vector<Entry>> list() const;

 private:
  std::string path_;
};

// Changes whenever the file does; 0 without one.
std::uint64_t version_of(const std::string& file);

}  // namespace longhaul::secure

#pragma once
// How the connections of a node are protected, for all commands that open some, and the keys of
// runs that begin and end on this machine.
#include <memory>
#include <string>

#include "longhaul/run/job/job.h"
#include "longhaul/secure/credentials.h"

namespace longhaul::run {

struct Security {
  std::string keys = {};  // folder (secure/key_folder.h); "": [net] keys of the job
  // Plain text: everyone who reaches the ports can read and change the model, and take part.
  bool insecure = false;
};

// Null if insecure. Error: keys are missing or unusable, and what to do.
Result<std::shared_ptr<secure::Credentials>> open_credentials(const Job&, const std::string& site,
                                                              const Security&);

// An authority and keys for all sites of a job in a temporary folder, which is removed with this.
// The authority's private key is never written.
class ThrowawayKeys {
 public:
  static Result<std::shared_ptr<ThrowawayKeys>> make(const Job&);
  ~ThrowawayKeys();
  ThrowawayKeys(const ThrowawayKeys&) = delete;
  ThrowawayKeys& operator=(const ThrowawayKeys&) = delete;
  const std::string& folder() const { return folder_; }

 private:
  explicit ThrowawayKeys(std::string folder) : folder_(std::move(folder)) {}
  const std::string folder_;
};

}  // namespace longhaul::run

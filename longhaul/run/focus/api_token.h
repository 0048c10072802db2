#pragma once
// The secret with which the users of a site may change what it does (POST): a file in the folder of
// the site that its owner alone may read. Programs of other users reach loopback, too.
#include <string>

#include "longhaul/base/result.h"

namespace longhaul::run {

// FOLDER/api.token.
std::string token_file(const std::string& folder);
// Draws a token and replaces the file with it, mode 0600.
Result<std::string> make_token(const std::string& path);
Result<std::string> read_token(const std::string& path);
// Takes equal time for all headers of one length.
bool has_token(const std::string& authorization, const std::string& token);

}  // namespace longhaul::run

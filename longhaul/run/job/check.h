#pragma once
// Checks that the tables of a job agree with each other.
#include <string>

#include "longhaul/run/job/job.h"
#include "longhaul/run/job/site_index.h"

namespace longhaul::run {

// Checks names, links, roles, limits of this version, illegal combinations, and the settings of
// every part.
Status check_job(const Document&, const Job&);
// The part of check_job for [[wan.shared]] and [[wan.trace]] of a job whose links are shared
// fairly. SiteIndex: index of the job's sites.
Status check_fair(const Document&, const Job&, const SiteIndex&);
// Returns an Error unless `name`, the key's value, is one of the sites.
Status check_site(const Settings& table, std::string_view key, const std::string& name,
                  const SiteIndex&);

bool is_name(std::string_view);  // letters, digits, - and _
// Returns an Error about a key of a table, at the key if it was written, else at the table.
Error about(const Settings& table, std::string_view key, const std::string& expected);
Error about(const Document&, std::string_view table, std::string_view key,
            const std::string& expected);
std::string default_name(const std::string& file);
std::uint8_t role_bit(std::string_view role);

}  // namespace longhaul::run

#pragma once
// What one table cannot know: whether the tables of a job agree with each other.
#include <string>

#include "longhaul/run/job/job.h"
#include "longhaul/run/job/site_index.h"

namespace longhaul::run {

// Names, links, roles, limits of this version, illegal combinations, and every part's own settings.
Status check_job(const Document&, const Job&);
// Of it: [[wan.shared]] and [[wan.trace]] of a job whose links are shared fairly. An index is that
// of the job's sites.
Status check_fair(const Document&, const Job&, const SiteIndex&);
// Whether the key's value, a name, is one of them.
Status check_site(const Settings& table, std::string_view key, const std::string& name,
                  const SiteIndex&);

bool is_name(std::string_view);  // letters, digits, - and _
// An Error about a key of a table, at the key if it was written, else at the table.
Error about(const Settings& table, std::string_view key, const std::string& expected);
Error about(const Document&, std::string_view table, std::string_view key,
            const std::string& expected);
std::string default_name(const std::string& file);
std::uint8_t role_bit(std::string_view role);

}  // namespace longhaul::run

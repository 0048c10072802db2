#pragma once
// What `ps` and /proc/PID/cmdline show of this process.
#include <string>
#include <vector>

namespace longhaul::run {

// Shows these words from now on: a copy of a process (ChildSpec::instead) would show its parent's.
// False, and nothing changes: the kernel does not let it (no CONFIG_CHECKPOINT_RESTORE). One
// thread.
bool show_command_line(const std::vector<std::string>& words);

}  // namespace longhaul::run

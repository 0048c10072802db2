#pragma once
// What a node over sockets does, as its event loop knows it, in the words of status.json.
#include "longhaul/net/event_loop.h"
#include "longhaul/run/status_file.h"
#include "longhaul/run/summary.h"

namespace longhaul::run {

// Without rounds and live workers, which the loop does not know. `ended`: the run is over.
NodeStatus site_status(const Members&, Rank self, const net::EventLoop&, bool ended);
// Error: the folder's status.json is of another node.
Status is_folder_of(const std::string& folder, const Members&, Rank self);
// What an earlier process of the node had sent and computed, by its status.
net::EventLoop::Counters counters_of(const NodeStatus&);
// Of a run that could not begin.
Summary failed_summary(const Job&, const Error& why);

}  // namespace longhaul::run

#include "longhaul/cli/live_page.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <httplib.h>

#include "longhaul/cli/output.h"
#include "longhaul/cli/report_runs.h"
#include "longhaul/report/page.h"
#include "longhaul/report/run_reader.h"

namespace longhaul::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kEvery = 400ms;  // a page shows the news of a run within about a second

constexpr auto kDrawnEvery = 5s;  // for the map of the sent bytes

using DataPtr = std::shared_ptr<const nlohmann::ordered_json>;

// Returns one gauge of Prometheus' text format; "" without a value.
std::string gauge(const char* name, const char* help, const std::string& run,
                  const nlohmann::ordered_json& value) {
  if (!value.is_number()) return "";
  return fmt::format(
      "# HELP longhaul_{0} {1}\n# TYPE longhaul_{0} gauge\nlonghaul_{0}{{run=\"{2}\"}} {3}\n", name,
      help, run, value.get<double>());
}

// Returns a label's value without the characters that the format forbids.
std::string label_value(std::string text) {
  std::erase_if(text, [](char c) { return c == '"' || c == '\\' || c == '\n'; });
  return text;
}

// Returns true for local pages only. Another site whose name leads here must not read the run.
bool is_local(const httplib::Request& request) {
  const std::string host = request.get_header_value("Host");
  const std::string name = host.substr(0, host.rfind(':'));
  return name == "127.0.0.1" || name == "localhost";
}

nlohmann::ordered_json last_of(const nlohmann::ordered_json& run, const char* key) {
  const auto& list = run["scores"][key];
  return list.empty() ? nlohmann::ordered_json(nullptr) : list.back();
}

std::string prometheus_text(const nlohmann::ordered_json& run) {
  const std::string name = label_value(run["name"].get<std::string>());
  const auto& summary = run["summary"];
  const auto figure = [&](const char* key) {
    return summary.is_object() && summary.contains(key) ? nlohmann::ordered_json(summary[key])
                                                        : nlohmann::ordered_json(nullptr);
  };
  return gauge("round", "Newest round with an event.", name, run["round"]) +
         gauge("time_seconds", "Virtual time, or over sockets real time.", name, run["time_s"]) +
         gauge("loss", "Of the newest score.", name, last_of(run, "loss")) +
         gauge("score", "Accuracy, or bits per byte, of the newest score.", name,
               last_of(run, "score")) +
         gauge("wan_bytes", "Sent between sites; of a site's folder, by that site.", name,
               run["wan_bytes"]) +
         gauge("compute_utilisation", "Of a finished run.", name, figure("compute_utilisation")) +
         gauge("finished", "1 when the run has ended.", name, summary.is_object() ? 1 : 0);
}

}  // namespace

struct LivePage::State {
  std::mutex mutex;
  std::condition_variable news;
  report::RunReader reader;
  PlanAdder plans;
  const bool with_plan;
  nlohmann::ordered_json plan;  // from PlanAdder
  bool plan_known = false, ended = false;
  std::chrono::steady_clock::time_point drawn_at = {};
  std::chrono::steady_clock::time_point read_at = {};
  bool closing = false;
  std::size_t clients = 0;
  DataPtr data_;
  std::uint64_t data_of_ = 0;  // version of the reader
  httplib::Server server;
  std::thread thread;

  State(std::string folder, std::vector<std::string> nodes, bool with)
      : reader(std::move(folder), std::move(nodes)), with_plan(with) {}

  // Reads the run's files, at most once in kEvery unless `now`. Returns false without a run yet.
  bool refresh(bool now) {
    const auto time = std::chrono::steady_clock::now();
    if (!now && time - read_at < kEvery) return reader.version() > 0;
    read_at = time;
    return bool(reader.refresh());
  }
  nlohmann::ordered_json run_data() {
    nlohmann::ordered_json run = reader.data();
    // The sent bytes grow, and a picture of them is large.
    const auto time = std::chrono::steady_clock::now();
    const bool at_end = !ended && !run["summary"].is_null();
    if (at_end || drawn_at == decltype(drawn_at){} || time - drawn_at > kDrawnEvery) {
      drawn_at = time;
      ended = at_end || ended;
      nlohmann::ordered_json drawn = run;
      if (!plans.add_sent(drawn, reader.job_folder()) && with_plan && !plan_known) {
        plan_known = true;
        drawn = plans.add(std::move(drawn), reader.job_folder());
      }
      for (const char* key : {"plan", "plan_svg", "busiest"})
        if (drawn.contains(key)) plan[key] = drawn[key];
    }
    for (const auto& [key, value] : plan.items()) run[key] = value;
    return run;
  }
  // Returns the data of the page, made once for all open pages.
  DataPtr data(bool there) {
    if (!there) return std::make_shared<nlohmann::ordered_json>(report::page_data({}));
    if (!data_ || data_of_ != reader.version()) {
      std::vector<nlohmann::ordered_json> runs;
      runs.push_back(run_data());
      data_ = std::make_shared<nlohmann::ordered_json>(report::page_data(std::move(runs)));
      data_of_ = reader.version();
    }
    return data_;
  }
  void page(httplib::Response&);
  void events(httplib::Response&);
  struct Follower {  // an open page
    DataPtr sent;
    bool asked = false;  // the first answer is immediate
  };
  bool write(Follower&, httplib::DataSink&);
};

void LivePage::State::page(httplib::Response& response) {
  const std::lock_guard lock(mutex);
  const bool there = refresh(true);
  const auto page = report::page_html(reader.folder(), *data(there), /*live=*/true);
  if (!page) {
    response.status = 500;
    return response.set_content(page.error().what + "\n", "text/plain");
  }
  response.set_content(*page, "text/html; charset=utf-8");
}

void LivePage::State::events(httplib::Response& response) {
  {
    const std::lock_guard lock(mutex);
    if (clients >= kMaxClients) {
      response.status = 503;
      return response.set_content("too many pages are open; close one\n", "text/plain");
    }
    ++clients;
  }
  response.set_header("Cache-Control", "no-store");
  response.set_chunked_content_provider(
      "text/event-stream",
      [this, follower = Follower{}](std::size_t, httplib::DataSink& sink) mutable {
        return write(follower, sink);
      },
      [this](bool) {
        const std::lock_guard lock(mutex);
        --clients;
        news.notify_all();
      });
}

// Returns an event with all data, or with the changes since `sent`, or a line that is no event.
std::string news_text(const DataPtr& sent, const DataPtr& now) {
  if (sent == now) return ": nothing new\n\n";
  if (sent)
    if (const auto changes = report::changes_of(*sent, *now))
      return "event: changes\ndata: " + json_text(*changes, /*indent=*/-1) + "\n\n";
  return "event: runs\ndata: " + json_text(*now, /*indent=*/-1) + "\n\n";
}

// Writes the news, at most once in kEvery. Returns false if the page is gone.
bool LivePage::State::write(Follower& follower, httplib::DataSink& sink) {
  DataPtr now;
  bool last = false;
  {
    std::unique_lock lock(mutex);
    if (follower.asked) news.wait_for(lock, kEvery, [&] { return closing; });
    follower.asked = true;
    last = closing;
    now = refresh(closing) ? data(true) : follower.sent;
  }
  const std::string text = news_text(follower.sent, now);
  follower.sent = std::move(now);
  if (!sink.write(text.data(), text.size())) return false;
  if (last) sink.done();
  return true;
}

LivePage::LivePage(std::string folder, bool with_plan, std::vector<std::string> nodes)
    : state_(std::make_unique<State>(std::move(folder), std::move(nodes), with_plan)) {
  State& state = *state_;
  state.server.new_task_queue = [] { return new httplib::ThreadPool(kMaxClients + 4); };
  state.server.set_tcp_nodelay(true);
  // The library's own options let two processes listen to one port.
  state.server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    (void)setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  state.server.set_pre_routing_handler(
      [](const httplib::Request& request, httplib::Response& response) {
        if (is_local(request)) return httplib::Server::HandlerResponse::Unhandled;
        response.status = 403;
        return httplib::Server::HandlerResponse::Handled;
      });
  state.server.set_payload_max_length(0);    // read only
  state.server.set_keep_alive_max_count(1);  // an open connection holds a thread
  state.server.Get("/", [&state](const httplib::Request&, httplib::Response& response) {
    state.page(response);
  });
  state.server.Get("/events", [&state](const httplib::Request&, httplib::Response& response) {
    state.events(response);
  });
  state.server.Get("/metrics", [&state](const httplib::Request&, httplib::Response& response) {
    const std::lock_guard lock(state.mutex);
    const std::string text = state.refresh(false) ? prometheus_text(state.reader.data()) : "";
    response.set_content(text, "text/plain; version=0.0.4");
  });
}

LivePage::~LivePage() {
  {
    std::unique_lock lock(state_->mutex);
    state_->closing = true;
    state_->news.notify_all();
    // A page that is no longer read does not delay the end.
    state_->news.wait_for(lock, 2s, [this] { return state_->clients == 0; });
  }
  state_->server.stop();
  if (state_->thread.joinable()) state_->thread.join();
}

Result<std::uint16_t> LivePage::start(std::uint16_t port) {
  if (const auto page = report::page_html("", report::page_data({}), true); !page)
    return page.error();
  const char* const host = "127.0.0.1";
  const int bound = port == 0 ? state_->server.bind_to_any_port(host)
                              : (state_->server.bind_to_port(host, port) ? int(port) : -1);
  if (bound <= 0)
    return unavailable(fmt::format(
        "port {} of {} cannot be listened to: choose another, or 0 for any", port, host));
  state_->thread = std::thread([this] { state_->server.listen_after_bind(); });
  // A stop() before it listens would be lost, and the destructor would wait forever.
  for (int i = 0; i < 5000 && !state_->server.is_running(); ++i) std::this_thread::sleep_for(1ms);
  return std::uint16_t(bound);
}

Result<std::unique_ptr<LivePage>> view_if_asked(const std::string& folder, int port, bool quiet) {
  if (port < 0) return std::unique_ptr<LivePage>{};
  auto page = std::make_unique<LivePage>(folder, /*with_plan=*/false);
  const auto bound = page->start(std::uint16_t(port));
  if (!bound) return invalid("--view: " + bound.error().what);
  if (!quiet || port == 0) fmt::print(stderr, "view: http://127.0.0.1:{}/\n", *bound);
  return page;
}

}  // namespace longhaul::cli

#include "longhaul/run/focus/api.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "longhaul/base/settings.h"
#include "longhaul/net/tcp.h"
#include "longhaul/run/nodes.h"

namespace longhaul::run {
namespace {

using namespace std::chrono_literals;

constexpr double kMostSeconds = 1e9;
constexpr std::size_t kMostOpen = 32;     // answers in progress, each of which holds a thread
constexpr std::size_t kMoreThreads = 4;   // for all other requests, refusals included
constexpr std::size_t kMostBytes = 64e6;  // answers not yet read by a slow user

constexpr time_t kMostPatience_s = 2'000'000;  // 23 days; the library counts milliseconds in an int

struct NumberParameter {
  const char* name;
  double most;
  double* into;  // unchanged if the parameter is absent
  bool whole = true;
};

// Reads the parameters of a request. Each must be one of these or of `others`, and occur once.
Status read_parameters(const httplib::Request& request, std::initializer_list<NumberParameter> all,
                       std::initializer_list<std::string_view> others = {}) {
  std::vector<std::string> names(others.begin(), others.end());
  for (const NumberParameter& one : all) names.push_back(one.name);
  for (const auto& [name, value] : request.params) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return invalid(fmt::format("{}: unknown; expected {}", name, fmt::join(names, ", ")));
    if (request.params.count(name) > 1) return invalid(name + ": given twice");
  }
  for (const NumberParameter& one : all) {
    if (!request.has_param(one.name)) continue;
    const std::string text = request.get_param_value(one.name);
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *one.into);
    const bool is_number = code == std::errc() && end == text.data() + text.size();
    if (!is_number || !(*one.into >= 0 && *one.into <= one.most) ||
        (one.whole && *one.into != std::floor(*one.into)))
      return invalid(fmt::format("{}: expected a {}number from 0 to {:g}", one.name,
                                 one.whole ? "whole " : "", one.most));
  }
  return Ok{};
}

Result<focus::Wanted> wanted_of(const httplib::Request& request) {
  double cls = -1, from = 0, to = kMostSeconds, limit = 0, follow = 0;
  LH_TRY(read_parameters(request, {{"class", 1e6, &cls},
                                   {"from", kMostSeconds, &from, false},
                                   {"to", kMostSeconds, &to, false},
                                   {"limit", 1e9, &limit},
                                   {"follow", 1, &follow}}));
  if (cls < 0) return invalid("class: missing; expected a number");
  if (from > to) return invalid("from: expected a time not after to");
  focus::Wanted wanted;
  wanted.cls = std::uint32_t(cls);
  wanted.window = {std::llround(from * 1e9), std::llround(to * 1e9)};
  wanted.limit = std::uint32_t(limit);
  wanted.follow = follow > 0;
  return wanted;
}

// Reads "3,7,1" as class numbers. Returns false if the text is no such list.
bool classes_of(const std::string& text, std::vector<std::uint32_t>& into) {
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    std::uint32_t cls = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), cls);
    if (code != std::errc() || end != word.data() + word.size() || into.size() >= 1000)
      return false;
    into.push_back(cls);
  }
  return true;
}

Result<focus::GivenModel> model_of(const httplib::Request& request) {
  focus::GivenModel model;
  double K = 0, ms = 0;
  LH_TRY(read_parameters(request,
                         {{"K", 1000, &K}, {"ms", 1e6, &ms, false}, {"T", 1e12, &model.T, false}},
                         {"classes"}));
  if (!classes_of(request.get_param_value("classes"), model.classes))
    return invalid("classes: expected numbers with commas, for example 3,7,1");
  model.K = std::uint32_t(K);
  model.seconds = ms / 1000;
  model.file = request.body;
  return model;
}

// Returns true for local programs and pages only. A page of another site in a local browser must
// neither read nor send anything, whatever name it uses for this host.
bool is_of_this_machine(const httplib::Request& request) {
  const auto is_local = [](std::string host) {
    const auto colon = host.rfind(':');
    if (colon != std::string::npos) host.erase(colon);
    return host == "127.0.0.1" || host == "localhost";
  };
  if (!is_local(request.get_header_value("Host"))) return false;
  if (!request.has_header("Origin")) return true;
  const std::string origin = request.get_header_value("Origin"), http = "http://";
  return origin.starts_with(http) && is_local(origin.substr(http.size()));
}

using Json = nlohmann::ordered_json;

double in_seconds(std::int64_t ns) { return double(ns) / 1e9; }

Json in_seconds(const std::vector<focus::Interval>& intervals) {
  Json list = Json::array();
  for (const focus::Interval& one : intervals)
    list.push_back({in_seconds(one.from_ns), in_seconds(one.to_ns)});
  return list;
}

std::string_view name_of(focus::Answer::Kind kind) {
  constexpr std::string_view names[] = {"found", "caught_up", "ended", "refused", "taken", "given"};
  return names[std::size_t(kind)];
}

std::string intervals_text(const Json& intervals) {
  std::string text;
  for (const Json& one : intervals)
    text += fmt::format("{}{:.1f}-{:.1f} s", text.empty() ? "" : ", ", one.at(0).get<double>(),
                        one.at(1).get<double>());
  return text;
}

// Returns a number of objects as text. 0: a part of a cluster, whose last part has the number.
std::string objects_text(std::uint64_t objects) {
  return objects > 0 ? fmt::format("{} objects", objects) : "part of it";
}

std::string found_text(const Json& answer) {
  std::string text;
  for (const Json& cluster : answer.at("clusters"))
    text += fmt::format("{} cluster {}: {}, {}\n", answer.at("site").get<std::string>(),
                        cluster.at("cluster").get<std::uint64_t>(),
                        objects_text(cluster.at("objects").get<std::uint64_t>()),
                        intervals_text(cluster.at("intervals_s")));
  return text;
}

std::string end_text(const Json& answer) {
  std::string text = answer.at("kind") == "ended" ? "ended" : "up to date";
  if (answer.at("limited").get<bool>()) text += " at the limit";
  std::uint64_t checked = 0, cached = 0;
  for (const Json& site : answer.at("sites")) {
    checked += site.at("checked").get<std::uint64_t>();
    cached += site.at("cached").get<std::uint64_t>();
  }
  text += fmt::format(": {} sites, {} clusters checked, {} known before", answer.at("sites").size(),
                      checked, cached);
  for (const Json& site : answer.at("sites"))
    if (const Json& gaps = site.at("gaps_s"); !gaps.empty())
      text += fmt::format("\n  {} has gaps: {}", site.at("site").get<std::string>(),
                          intervals_text(gaps));
  for (const Json& site : answer.at("missing"))
    text += fmt::format("\n  PARTIAL: {} is missing; last known of it: object {}, {:.1f} s",
                        site.at("site").get<std::string>(), site.at("asof").get<std::uint64_t>(),
                        site.at("asof_s").get<double>());
  return text + "\n";
}

}  // namespace

struct QueryApi::State {
  struct Client {
    std::deque<std::string> lines;
    std::size_t bytes = 0;  // size of `lines`
    bool last = false;
  };
  std::shared_ptr<const Members> members;
  std::function<void(Input)> give;
  std::mutex mutex;
  std::condition_variable news;
  std::map<std::uint64_t, Client> clients;
  std::uint64_t next = 1;
  std::string status = "{}";
  bool closing = false;
  httplib::Server server;
  std::thread thread;

  void query(const httplib::Request&, httplib::Response&);
  void model(const httplib::Request&, httplib::Response&);
  void begin(focus::Request, httplib::Response&);
  static void refuse(const Error&, httplib::Response&, int status = 400);
  bool write(std::uint64_t client, httplib::DataSink&);
  void forget(std::uint64_t client);
};

void QueryApi::State::query(const httplib::Request& request, httplib::Response& response) {
  const auto wanted = wanted_of(request);
  if (!wanted) return refuse(wanted.error(), response);
  begin({.query = {*wanted}, .model = {}}, response);
}

void QueryApi::State::model(const httplib::Request& request, httplib::Response& response) {
  auto model = model_of(request);
  if (!model) return refuse(model.error(), response);
  begin({.query = {}, .model = {*std::move(model)}}, response);
}

void QueryApi::State::refuse(const Error& error, httplib::Response& response, int status) {
  response.status = status;
  const nlohmann::ordered_json json = {{"kind", "refused"}, {"why", error.what}};
  response.set_content(json.dump() + "\n", "application/json");
}

// Begins an answer, whose lines are sent as they arrive.
void QueryApi::State::begin(focus::Request request, httplib::Response& response) {
  std::uint64_t client = 0;
  {
    const std::lock_guard lock(mutex);
    if (clients.size() >= kMostOpen)
      return refuse(unavailable(fmt::format("{} answers of this site go on: ask another, or later",
                                            kMostOpen)),
                    response, 503);
    client = next++;
    clients[client];
  }
  give(Requested{client, share(to_wire(request))});
  response.set_chunked_content_provider(
      "application/x-ndjson",
      [this, client](std::size_t, httplib::DataSink& sink) { return write(client, sink); },
      [this, client](bool) { forget(client); });
}

// Sends the lines so far. Returns false if the user has disconnected.
bool QueryApi::State::write(std::uint64_t client, httplib::DataSink& sink) {
  std::deque<std::string> lines;
  bool last = false;
  {
    std::unique_lock lock(mutex);
    Client& own = clients[client];
    news.wait_for(lock, 500ms, [&] { return closing || own.last || !own.lines.empty(); });
    lines.swap(own.lines);
    own.bytes = 0;
    last = own.last || closing;
  }
  if (lines.empty() && !last) return sink.is_writable();
  for (const std::string& line : lines)
    if (!sink.write(line.data(), line.size())) return false;
  if (last) sink.done();
  return true;
}

void QueryApi::State::forget(std::uint64_t client) {
  {
    const std::lock_guard lock(mutex);
    const auto it = clients.find(client);
    if (it == clients.end()) return;
    const bool last = it->second.last;
    clients.erase(it);
    if (last) return;
  }
  give(Requested{client, nullptr});
}

QueryApi::QueryApi(std::shared_ptr<const Members> members, std::string token,
                   std::function<void(Input)> give)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.members = std::move(members);
  state.give = std::move(give);
  state.server.new_task_queue = [] { return new httplib::ThreadPool(kMostOpen + kMoreThreads); };
  state.server.set_tcp_nodelay(true);
  state.server.set_keep_alive_max_count(1);  // one query each; an open connection holds a thread
  state.server.set_pre_routing_handler([token = std::move(token)](const httplib::Request& request,
                                                                  httplib::Response& response) {
    using Answer = httplib::Server::HandlerResponse;
    if (!is_of_this_machine(request)) {
      State::refuse(invalid("asked as another machine's page: expected 127.0.0.1 or localhost in "
                            "the headers Host and, where there is one, Origin"),
                    response, 403);
      return Answer::Handled;
    }
    if (request.method == "GET" || request.method == "HEAD" ||
        has_token(request.get_header_value("Authorization"), token))
      return Answer::Unhandled;
    State::refuse(
        invalid("no right to change anything here: expected the header \"Authorization: Bearer "
                "TOKEN\" with what is in api.token of the site's folder; longhaul model reads "
                "it"),
        response, 401);
    return Answer::Handled;
  });
  state.server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.status == 404)
      State::refuse(invalid("expected GET /query, GET /status or POST /model"), response, 404);
  });
  state.server.Get("/query",
                   [&state](const httplib::Request& request, httplib::Response& response) {
                     state.query(request, response);
                   });
  state.server.set_payload_max_length(focus::GivenModel::kMostFile);
  state.server.Post("/model",
                    [&state](const httplib::Request& request, httplib::Response& response) {
                      state.model(request, response);
                    });
  state.server.Get("/status", [&state](const httplib::Request&, httplib::Response& response) {
    const std::lock_guard lock(state.mutex);
    response.set_content(state.status + "\n", "application/json");
  });
}

QueryApi::~QueryApi() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
  }
  state_->news.notify_all();
  state_->server.stop();
  if (state_->thread.joinable()) state_->thread.join();
}

Result<std::uint16_t> QueryApi::start(std::uint16_t port) {
  const char* const host = "127.0.0.1";
  const int bound = port == 0 ? state_->server.bind_to_any_port(host)
                              : (state_->server.bind_to_port(host, port) ? int(port) : -1);
  if (bound <= 0)
    return unavailable(
        fmt::format("port {} of {} cannot be listened to: choose another with "
                    "--port",
                    port, host));
  state_->thread = std::thread([this] { state_->server.listen_after_bind(); });
  return std::uint16_t(bound);
}

void QueryApi::reply(const Reply& reply) {
  const auto answer = from_wire<focus::Answer>(*reply.answer);
  LH_CHECK(answer);
  const bool is_read = [&] {
    const std::lock_guard lock(state_->mutex);
    const auto it = state_->clients.find(reply.client);
    if (it == state_->clients.end() || it->second.last) return true;
    State::Client& client = it->second;
    std::string line = to_json(*answer, *state_->members).dump() + "\n";
    const bool has_room = client.bytes + line.size() <= kMostBytes;
    if (has_room) {
      client.bytes += line.size();
      client.lines.push_back(std::move(line));
      client.last = reply.last;
    } else {
      const nlohmann::ordered_json json = {
          {"kind", "refused"},
          {"why", fmt::format("more than {} MB of answers wait to be read: read faster, or ask "
                              "for less with limit, from and to",
                              kMostBytes / 1'000'000)}};
      client.lines = {json.dump() + "\n"};
      client.last = true;
    }
    state_->news.notify_all();
    return has_room;
  }();
  if (!is_read) state_->give(Requested{reply.client, nullptr});
}

void QueryApi::set_status(std::string json) {
  const std::lock_guard lock(state_->mutex);
  state_->status = std::move(json);
}

Status check_api_address(const std::string& address) {
  const auto parsed = net::parse_address(address);
  return parsed ? Status(Ok{}) : Status(parsed.error());
}

namespace {

// Sends `request`, which must have `path` and `body`, and passes on the lines of the answer.
Status ask(const std::string& address, httplib::Request request, double patience_s,
           const std::function<bool(const std::string&)>& line) {
  LH_LET(at, net::parse_address(address));
  httplib::Client client(at.host, at.port);
  client.set_connection_timeout(5);
  client.set_read_timeout(patience_s > 0 ? std::min(time_t(std::ceil(patience_s)), kMostPatience_s)
                                         : kMostPatience_s);
  std::string begun;
  bool ended = false;
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    begun.append(data, size);
    for (auto end = begun.find('\n'); end != std::string::npos; end = begun.find('\n')) {
      const bool goes_on = line(begun.substr(0, end));
      begun.erase(0, end + 1);
      if (!goes_on) return !(ended = true);
    }
    return true;
  };
  const httplib::Result result = client.send(request);
  if (result && result->status == 413)
    return invalid(address + ": the model is too large: expected " +
                   std::to_string(focus::GivenModel::kMostFile) + " bytes at most");
  if (ended || result) return Ok{};
  return unavailable(fmt::format("{}: no answer ({}); does longhaul serve run there?", address,
                                 httplib::to_string(result.error())));
}

}  // namespace

Status give_site(const std::string& address, const std::string& token,
                 const focus::GivenModel& model, double patience_s,
                 const std::function<bool(const std::string&)>& line) {
  httplib::Request request;
  request.method = "POST";
  request.path = fmt::format("/model?K={}&ms={}&classes={}", model.K, model.seconds * 1000,
                             fmt::join(model.classes, ","));
  if (model.T >= 0) request.path += fmt::format("&T={}", model.T);
  request.body = model.file;
  request.set_header("Content-Type", "application/octet-stream");
  request.set_header("Authorization", "Bearer " + token);
  return ask(address, std::move(request), patience_s, line);
}

Status ask_site(const std::string& address, const QueryRequest& query, double patience_s,
                const std::function<bool(const std::string&)>& line) {
  std::string path =
      fmt::format("/query?class={}&limit={}&follow={}", query.cls, query.limit, int(query.follow));
  if (query.from_s) path += fmt::format("&from={}", *query.from_s);
  if (query.to_s) path += fmt::format("&to={}", *query.to_s);
  httplib::Request request;
  request.method = "GET";
  request.path = std::move(path);
  return ask(address, std::move(request), patience_s, line);
}

Json to_json(const focus::Answer& answer, const Members& members) {
  using Kind = focus::Answer::Kind;
  Json json = {{"kind", name_of(answer.kind)}};
  if (answer.kind == Kind::refused) {
    json["why"] = answer.why;
    return json;
  }
  if (answer.kind == Kind::taken) {
    json["site"] = node_name(members.at(answer.site));
    json["model"] = answer.model;
    json["why"] = answer.why;
    return json;
  }
  if (answer.kind == Kind::given) {
    json["model"] = answer.model;
    json["partial"] = !answer.missing.empty() || !answer.why.empty();
    json["missing"] = Json::array();
    for (const focus::MissingSite& site : answer.missing)
      json["missing"].push_back(node_name(members.at(site.site)));
    return json;
  }
  if (answer.kind == Kind::found) {
    json["site"] = node_name(members.at(answer.site));
    json["clusters"] = Json::array();
    for (const focus::FoundCluster& one : answer.clusters)
      json["clusters"].push_back({{"cluster", one.cluster},
                                  {"objects", one.count},
                                  {"intervals_s", in_seconds(one.intervals)}});
    return json;
  }
  json["partial"] = !answer.missing.empty();
  json["limited"] = answer.limited;
  json["sites"] = Json::array();
  for (const focus::SiteEnd& end : answer.ends)
    json["sites"].push_back({{"site", node_name(members.at(end.site))},
                             {"asof", end.asof},
                             {"asof_s", in_seconds(end.asof_ns)},
                             {"checked", end.checked},
                             {"cached", end.cached},
                             {"gaps_s", in_seconds(end.gaps)}});
  json["missing"] = Json::array();
  for (const focus::MissingSite& site : answer.missing)
    json["missing"].push_back({{"site", node_name(members.at(site.site))},
                               {"asof", site.asof},
                               {"asof_s", in_seconds(site.asof_ns)}});
  return json;
}

std::string answer_text(const Json& answer) {
  if (answer.at("kind") == "found") return found_text(answer);
  if (answer.at("kind") == "taken") {
    const auto why = answer.at("why").get<std::string>();
    return fmt::format("{} {} model {}{}\n", answer.at("site").get<std::string>(),
                       why.empty() ? "has" : "REFUSES", answer.at("model").get<std::uint64_t>(),
                       why.empty() ? "" : ": " + why);
  }
  if (answer.at("kind") == "given") {
    std::string text = fmt::format("model {} was given\n", answer.at("model").get<std::uint64_t>());
    for (const Json& site : answer.at("missing"))
      text += fmt::format("  PARTIAL: {} is missing; it asks for the model when it comes back\n",
                          site.get<std::string>());
    return text;
  }
  if (answer.at("kind") == "refused")
    return fmt::format("refused: {}\n", answer.at("why").get<std::string>());
  return end_text(answer);
}

}  // namespace longhaul::run

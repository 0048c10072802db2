#include "longhaul/sim/trace.h"

#include <array>
#include <cinttypes>
#include <cstdio>

namespace longhaul::sim {

std::string to_string(Path path) {
  std::string text;
  for (; !path.empty(); path = path.tail()) text += "/" + std::to_string(path.head());
  return text.empty() ? "/" : text;
}

// Exact to the nanosecond: two traces that differ at all differ as text.
static std::string exact(Time time) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%" PRId64 ".%09" PRId64,
                std::int64_t(time.count() / 1000000000), std::int64_t(time.count() % 1000000000));
  return text.data();
}

std::ostream& TextTrace::begin(Time now, Rank rank) { return out_ << exact(now) << ' ' << rank; }

void TextTrace::message(const Message& m) {
  out_ << ' ' << to_string(m.machine) << " kind " << m.kind << " epoch " << m.epoch << " head "
       << m.head.size() << " body " << m.body.size() << '\n';
}

void TextTrace::acted(Time now, Rank rank, const Action& action) {
  begin(now, rank);
  if (const auto* send = std::get_if<Send>(&action)) {
    out_ << " -> " << send->to << " class " << send->service.service_class();
    message(send->message);
  } else if (const auto* timer = std::get_if<SetTimer>(&action)) {
    out_ << " timer " << to_string(timer->machine) << ' ' << std::uint32_t(timer->id) << " at "
         << exact(timer->at) << '\n';
  } else if (const auto* cancelled = std::get_if<CancelTimer>(&action)) {
    out_ << " no timer " << to_string(cancelled->machine) << ' ' << std::uint32_t(cancelled->id)
         << '\n';
  } else if (const auto* step = std::get_if<ComputeStep>(&action)) {
    out_ << " computes: " << name_of(step->work) << '\n';
  } else if (const auto* report = std::get_if<Report>(&action)) {
    out_ << " reports round " << report->round << '\n';
  } else if (const auto* record = std::get_if<Record>(&action)) {
    std::array<char, 40> value{};
    std::snprintf(value.data(), value.size(), "%.17g", record->value);
    out_ << " records " << record->name << " of round " << record->round << ": " << value.data()
         << '\n';
  } else if (const auto* fail = std::get_if<Fail>(&action)) {
    out_ << " fails: " << fail->error.what << '\n';
  } else if (const auto* append = std::get_if<Append>(&action)) {
    out_ << " appends record " << append->number << '\n';
  } else if (const auto* reply = std::get_if<Reply>(&action)) {
    out_ << " replies to client " << reply->client << '\n';
  } else {
    out_ << " finishes\n";
  }
}

void TextTrace::delivering(Time now, const Packet& packet) {
  begin(now, packet.to) << " <- " << packet.from;
  message(packet.message);
}

void TextTrace::crashed(Time now, Rank rank) { begin(now, rank) << " crashes\n"; }

}  // namespace longhaul::sim

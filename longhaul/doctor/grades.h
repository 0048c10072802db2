#pragma once
// Thresholds for each cell of the report. The tables and the findings use the same functions.
#include "longhaul/doctor/measure.h"
#include "longhaul/doctor/report.h"

namespace longhaul::doctor {

inline constexpr double kMinDisk = 1e9, kMinMemory = 1e9;  // bytes
inline constexpr double kClocksApart = 1;  // seconds; clock offsets affect logs only
inline constexpr double kLoss = 0.005;     // up to 0.5 %, as one of 200 datagrams, can be chance
inline constexpr double kMuchLoss = 0.1;   // half of the loss that bbr version 1 tolerates
inline constexpr std::uint32_t kMinMtu = 1280;  // minimum MTU of IPv6

inline Grade grade_if(bool wrong, Grade grade) { return wrong ? grade : Grade::good; }

inline Grade grade_disk(const MachineFacts& f) {
  return grade_if(double(f.disk_free) < kMinDisk, Grade::bad);
}
inline Grade grade_memory(const MachineFacts& f) {
  return grade_if(double(f.memory_available) < kMinMemory, Grade::bad);
}
inline Grade grade_release(const SiteReport& s, const Report& r) {
  return grade_if(s.release != r.sites.front().release, Grade::bad);
}
// Measured loss, or loss that the job expects, turns a note into a bad grade.
inline Grade grade_congestion(const MachineFacts& f, const Report& r, bool lossy) {
  if (f.has_bbr || (r.plan.congestion != "bbr" && !lossy)) return Grade::good;
  return lossy ? Grade::bad : Grade::note;
}
inline Grade grade_loss(const DirectionResult& w) {
  if (!w.udp_passes()) return Grade::good;  // unknown
  return w.loss() >= kMuchLoss ? Grade::bad : grade_if(w.loss() > kLoss, Grade::note);
}
inline Grade grade_bulk(const DirectionResult& w) { return grade_if(w.bulk.rate <= 0, Grade::bad); }
inline Grade grade_mtu(const DirectionResult& w) {
  return grade_if(w.path.mtu != 0 && w.path.mtu < kMinMtu, Grade::note);
}
inline bool marks_survive(const DirectionResult& w) { return w.counted.marked == w.counted.came; }
inline Grade grade_dscp(const DirectionResult& w, const Report& r) {
  return grade_if(r.dscp && w.udp_passes() && !marks_survive(w), Grade::note);
}
inline Grade grade_clock(double offset_s) {
  return grade_if(offset_s > kClocksApart || offset_s < -kClocksApart, Grade::note);
}
// The limit is half of the silence after which a peer counts as gone.
inline Grade grade_rtt(const PairResult& p, const Report& r) {
  return grade_if(p.rtt_median_s > r.silence_s / 2, Grade::bad);
}

bool lossy(const Report&);  // loss is measured anywhere, or expected by the job

inline QueueSeen queue_of(const PairResult& p, const DirectionResult& w) {
  return p.pongs == 0 ? QueueSeen{} : queue_seen(p.rtt_min_s, w.path.rtt_max_s, w.beside_rtt_s);
}

// Rates in Mbit/s: of IP packets, as in [wan], and of their payload.
inline double mbps(const DirectionResult& w) { return ip_rate(w.bulk.rate, w.path.mtu) * 8e-6; }
inline double goodput_mbps(const DirectionResult& w) { return w.bulk.rate * 8e-6; }

}  // namespace longhaul::doctor

#pragma once
// Thresholds for each cell of the report; the tables and the findings use the same functions.
#include "longhaul/doctor/measure.h"
#include "longhaul/doctor/report.h"

namespace longhaul::doctor {

inline constexpr double kMinDisk = 1e9, kMinMemory = 1e9;  // bytes
inline constexpr double kClocksApart = 1;                  // seconds; affects logs only
inline constexpr double kLoss = 0.005;                     // one of 200 datagrams is chance
inline constexpr double kMuchLoss = 0.1;        // half of the loss that bbr version 1 tolerates
inline constexpr std::uint32_t kMinMtu = 1280;  // what IPv6 asks of every link

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
// Loss that was measured or that the job expects turns a note into a bad grade.
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
// Half of the silence after which a peer counts as gone.
inline Grade grade_rtt(const PairResult& p, const Report& r) {
  return grade_if(p.rtt_median_s > r.silence_s / 2, Grade::bad);
}

bool lossy(const Report&);  // measured somewhere, or expected by the job

// IP packets, in Mbit/s, as [wan] counts; and what they carry.
inline double mbps(const DirectionResult& w) { return ip_rate(w.bulk.rate, w.path.mtu) * 8e-6; }
inline double goodput_mbps(const DirectionResult& w) { return w.bulk.rate * 8e-6; }

}  // namespace longhaul::doctor

#pragma once
// RUN/tensorboard/events.out.tfevents.*: the figures of a run as TensorBoard reads them. Records of
// length, data and their checksums (TFRecord: CRC-32C, masked), each an Event of TensorFlow's
// event.proto with scalars alone. A session writes a file of its own; TensorBoard shows those of
// one folder as one run.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "longhaul/base/result.h"
#include "longhaul/run/appended_file.h"
#include "longhaul/run/metrics.h"

namespace longhaul::run {

class TensorBoardFile {
 public:
  // Makes the folder. `began_s`: the Unix time that the run's zero is shown as. `void_from`: of a
  // run that is resumed: what the files of earlier sessions say from this step on is void.
  static Result<TensorBoardFile> open(const std::string& folder, double began_s,
                                      std::optional<Round> void_from = {});
  // Tags: kind/value of scores and views; kind/site, and the node's number where a site has
  // several, of what nodes record.
  void write(const MetricsEvent&, bool site_has_several, std::uint32_t rank_in_site);
  // As of AppendedFile.
  Status flush() { return file_.flush(); }
  Status sync() { return file_.sync(); }

 private:
  TensorBoardFile(AppendedFile file, double began_s) : file_(std::move(file)), began_s_(began_s) {}

  AppendedFile file_;
  double began_s_;
};

}  // namespace longhaul::run

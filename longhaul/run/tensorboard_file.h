#pragma once
// RUN/tensorboard/events.out.tfevents.*: the figures of a run as TensorBoard reads them. Records of
// length, data and their checksums (TFRecord: CRC-32C, masked), each an Event of TensorFlow's
// event.proto with scalars alone. A session writes a file of its own; TensorBoard shows those of
// one folder as one run.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "longhaul/base/result.h"
#include "longhaul/run/metrics.h"

namespace longhaul::run {

class TensorBoardFile {
 public:
  // Makes the folder. `began_s`: the Unix time that the run's zero is shown as.
  static Result<TensorBoardFile> open(const std::string& folder, double began_s);
  // Tags: kind/value of scores and views; kind/site, and the node's number where a site has
  // several, of what nodes record.
  void write(const MetricsEvent&, bool site_has_several, std::uint32_t rank_in_site);
  void flush() { failed_ |= std::fflush(file_.get()) != 0; }
  // An Error if writing failed at any time.
  Status sync();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  TensorBoardFile(std::string path, std::FILE* file, double began_s)
      : path_(std::move(path)), file_(file), began_s_(began_s) {}
  void put(std::string_view event);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  double began_s_;
  bool failed_ = false;
};

}  // namespace longhaul::run

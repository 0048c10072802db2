#pragma once
// The runs of a comparison as tasks for another scheduler: text for its standard input.
#include <string>
#include <vector>

namespace longhaul::cli {

struct EmittedTask {
  std::string name;                  // "fedavg-ring"
  std::vector<std::string> command;  // without the program
};

// `kind`: "parallel": a shell command a line, for GNU parallel or xargs. "slurm": a job array for
// sbatch. "k8s": one Job of Kubernetes a run; the image and the volume of the runs are to be set.
std::string emitted_tasks(const std::string& kind, const std::string& name,
                          const std::string& program, const std::vector<EmittedTask>&);

}  // namespace longhaul::cli

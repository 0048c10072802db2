#include "longhaul/cli/compare_emit.h"

#include <cctype>

#include <fmt/format.h>

namespace longhaul::cli {
namespace {

std::string quoted(const std::string& word) {
  if (word.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:") ==
          std::string::npos &&
      !word.empty())
    return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string shell_line(const std::string& program, const EmittedTask& task) {
  std::string line = quoted(program);
  for (const std::string& word : task.command) line += " " + quoted(word);
  return line;
}

// A name of Kubernetes: lower case letters, digits and -, at most 63.
std::string dns_name(const std::string& name, std::size_t number) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    text += std::isalnum(byte) ? char(std::tolower(byte)) : '-';
  }
  return fmt::format("longhaul-{}-{}", text.substr(0, 40), number);
}

std::string yaml_quoted(const std::string& word) {
  std::string text = "\"";
  for (const char c : word)
    text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return text + "\"";
}

std::string slurm(const std::string& name, const std::string& program,
                  const std::vector<EmittedTask>& tasks) {
  std::string text = fmt::format(
      "#!/bin/bash\n#SBATCH --job-name={}\n#SBATCH --array=0-{}\n#SBATCH --ntasks=1\n"
      "commands=(\n",
      quoted(name), tasks.size() - 1);
  for (const EmittedTask& task : tasks) text += "  " + quoted(shell_line(program, task)) + "\n";
  return text + ")\neval \"${commands[$SLURM_ARRAY_TASK_ID]}\"\n";
}

std::string k8s(const std::string& program, const std::vector<EmittedTask>& tasks) {
  std::string text;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::string words = yaml_quoted(program);
    for (const std::string& word : tasks[i].command) words += ", " + yaml_quoted(word);
    text += fmt::format(
        "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: {}}}\nspec:\n"
        "  backoffLimit: 2\n  template:\n    spec:\n      restartPolicy: Never\n"
        "      containers:\n      - name: run\n        image: longhaul  # yours\n"
        "        workingDir: /jobs\n        command: [{}]\n"
        "        volumeMounts: [{{name: jobs, mountPath: /jobs}}]\n"
        "      volumes: [{{name: jobs, persistentVolumeClaim: {{claimName: longhaul}}}}]  # "
        "yours\n",
        dns_name(tasks[i].name, i), words);
  }
  return text;
}

}  // namespace

std::string emitted_tasks(const std::string& kind, const std::string& name,
                          const std::string& program, const std::vector<EmittedTask>& tasks) {
  if (tasks.empty()) return "";
  if (kind == "slurm") return slurm(name, program, tasks);
  if (kind == "k8s") return k8s("longhaul", tasks);
  std::string text;
  for (const EmittedTask& task : tasks) text += shell_line(program, task) + "\n";
  return text;
}

}  // namespace longhaul::cli

#include "longhaul/run/torch_library.h"

#include <dlfcn.h>

#include <fmt/format.h>

#include "longhaul/run/job/job.h"

namespace longhaul::run {
namespace {

constexpr char kLibrary[] = "liblonghaul_torch.so";
#ifdef LONGHAUL_TORCH_OF_PIP
// Such a libtorch has a BLAS inside, whose names are those of the one that Clp has brought along.
constexpr int kScope = RTLD_LOCAL | RTLD_DEEPBIND;
#else
constexpr int kScope = RTLD_LOCAL;
#endif

// dlerror() of the call that has just failed.
std::string linker_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

Result<const learn::TorchFunctions*> load() {
  void* library = dlopen(kLibrary, RTLD_NOW | kScope);
  if (!library)
    return unavailable(fmt::format(
        "the libtorch learner cannot be loaded: {}; install {} with the program (cmake --install), "
        "or name its folder in LD_LIBRARY_PATH",
        linker_error(), kLibrary));
  const auto version =
      reinterpret_cast<const char* (*)()>(dlsym(library, learn::kTorchVersionSymbol));
  const auto functions = reinterpret_cast<const learn::TorchFunctions* (*)()>(
      dlsym(library, learn::kTorchFunctionsSymbol));
  if (!version || !functions)
    return unavailable(fmt::format("{} is no libtorch learner: {}", kLibrary, linker_error()));
  if (std::string_view(version()) != LONGHAUL_VERSION)
    return unavailable(
        fmt::format("{} is of version {}, the program of version {}; install both of one version",
                    kLibrary, version(), LONGHAUL_VERSION));
  return functions();
}

}  // namespace

Result<const learn::TorchFunctions*> torch_library() {
  static const Result<const learn::TorchFunctions*> loaded = load();
  return loaded;
}

void preload_torch_library(const Job& job) {
  if (job.kind("model") != "phantom" && job.kind("model") != "own") (void)torch_library();
}

}  // namespace longhaul::run

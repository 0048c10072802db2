// The time of day of a process that loads this with LD_PRELOAD is off by the seconds (int64) that
// the file SHIFT_FILE holds at that moment; its monotonic clock is not. For clock_test.py.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

std::int64_t shift() {
  static const volatile std::int64_t* const seconds = [] {
    static constexpr std::int64_t kNone = 0;
    const char* path = std::getenv("SHIFT_FILE");
    const int file = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void* at =
        file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    return at == MAP_FAILED ? &kNone : static_cast<const std::int64_t*>(at);
  }();
  return *seconds;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* at) noexcept {
  static const auto real =
      reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int answer = real(clock, at);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) at->tv_sec += shift();
  return answer;
}

extern "C" time_t time(time_t* at) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != nullptr) *at = now.tv_sec;
  return now.tv_sec;
}

extern "C" int gettimeofday(timeval* __restrict at, void* __restrict) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *at = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

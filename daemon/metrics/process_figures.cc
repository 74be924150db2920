#include "daemon/metrics/process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "daemon/log/audit.h"
#include "daemon/log/log.h"

namespace onecopy::metrics {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  uint64_t resident = 0;
  file >> pages >> resident;
  return file ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

uint64_t OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return 0;
  const auto count = std::distance(begin(files), end(files));
  return count > 0 ? static_cast<uint64_t>(count - 1) : 0;  // without the one of this look
}

}  // namespace

ProcessFigures ReadProcess() {
  ProcessFigures figures;
  figures.log_records_dropped = log::Dropped();
  figures.audit_records_dropped = audit::Dropped();
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    figures.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  }
  figures.resident_bytes = ResidentBytes();
  figures.open_files = OpenFiles();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.max_files = limit.rlim_cur;
  return figures;
}

}  // namespace onecopy::metrics

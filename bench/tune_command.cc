#include "bench/tune_command.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "bench/daemons/daemon.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"
#include "transport/os/machine/machine.h"

namespace onecopy::bench {
namespace {

std::string Rate(double bytes_per_second) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f GB/s", bytes_per_second / 1e9);
  return text.data();
}

std::string HostAndDate() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::array<char, 32> date{};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(date.data(), date.size(), "%Y-%m-%d", &utc);
  return std::string(host.data()) + ", " + date.data();
}

// A daemon that starts meanwhile reads the old file or the new one.
Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string beside = path + ".new";
  errno = 0;
  {
    std::ofstream file(beside);
    file << text;
    if (!file.flush()) return os::ErrnoStatus(errno == 0 ? EIO : errno, "writing " + beside);
  }
  if (::rename(beside.c_str(), path.c_str()) == 0) return OkStatus();
  return os::ErrnoStatus(errno, "replacing " + path);
}

}  // namespace

Result<int> TuneMachine(const TuneArguments& arguments, const ProgramIo& io) {
  TuneOptions options = arguments.options;
  ONECOPY_ASSIGN_OR_RETURN(options.bytes, ParseBytes(arguments.size));
  if (options.bytes == 0) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument, "--size must be at least 1");
  }
  ONECOPY_ASSIGN_OR_RETURN(options.daemon.program, DaemonProgram(arguments.onecopyd));
  ONECOPY_ASSIGN_OR_RETURN(const TuneEnds ends, FindTuneEnds(options.daemon));
  io.progress << "tcp-staged between " << ends.text << ", " << FormatBytes(options.bytes)
              << " at a time" << std::endl;
  ONECOPY_ASSIGN_OR_RETURN(
      const Search search, FindBest(os::UsableCores(), [&](const Choice& choice) {
        io.progress << "  " << choice.ToString() << ": " << std::flush;
        const Result<double> rate = MeasureChoice(options, ends, choice);
        io.progress << (rate.ok() ? Rate(*rate) : rate.status().message()) << std::endl;
        return rate;
      }));
  const std::string text =
      TunedFile(search.best.choice,
                {"By onecopy-bench tune on " + HostAndDate() + ": tcp-staged between " + ends.text,
                 "reached " + Rate(search.best.bytes_per_second) + ", with the defaults " +
                     Rate(search.trials.front().bytes_per_second) + "."});
  if (arguments.write.empty()) {
    io.out << text;
  } else {
    ONECOPY_RETURN_IF_ERROR(WriteWhole(arguments.write, text));
    io.out << arguments.write << ": " << search.best.choice.ToString() << '\n';
  }
  return 0;
}

}  // namespace onecopy::bench

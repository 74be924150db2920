#include "daemon/log/standard_error.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/details/os.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <mutex>
#include <string_view>

#include "transport/os/base/unique_fd.h"

namespace onecopy::log {
namespace {

// The standard error that the process was started with; 2 where that has not been replaced.
int waiting_fd = STDERR_FILENO;

std::string_view ColourOf(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug:
      return "\033[36m";
    case spdlog::level::info:
      return "\033[32m";
    case spdlog::level::warn:
      return "\033[33m\033[1m";
    default:
      return "\033[31m\033[1m";
  }
}

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {  // another process that shares it has made it so
      pollfd room = {fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;  // no reader is left to be told
    }
  }
}

class StandardErrorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  StandardErrorSink()
      : coloured_(spdlog::details::os::in_terminal(stderr) &&
                  spdlog::details::os::is_color_terminal()) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    constexpr std::string_view kPlain = "\033[0m";
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    if (!coloured_ || message.color_range_end <= message.color_range_start) {
      return WriteAll(waiting_fd, text);
    }
    std::string painted(text.substr(0, message.color_range_start));
    painted += ColourOf(message.level);
    painted +=
        text.substr(message.color_range_start, message.color_range_end - message.color_range_start);
    painted += kPlain;
    painted += text.substr(message.color_range_end);
    WriteAll(waiting_fd, painted);
  }

  void flush_() override {}

 private:
  const bool coloured_;
};

}  // namespace

void KeepStandardErrorFromBlocking() {
  struct stat facts {};
  if (waiting_fd != STDERR_FILENO || ::fstat(STDERR_FILENO, &facts) != 0) return;
  if (!S_ISFIFO(facts.st_mode) && !S_ISCHR(facts.st_mode)) return;
  const os::UniqueFd anew(::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!anew) return;
  os::UniqueFd kept(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!kept || ::dup2(anew.get(), STDERR_FILENO) < 0) return;
  waiting_fd = kept.Release();
}

std::shared_ptr<spdlog::sinks::sink> MakeStandardErrorSink() {
  return std::make_shared<StandardErrorSink>();
}

}  // namespace onecopy::log

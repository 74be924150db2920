#include "client/cli/output/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "client/cli/output/escape.h"
#include "client/cli/output/time.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

constexpr auto kRateWindow = std::chrono::seconds(5);
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr size_t kMaxBar = 40;
constexpr size_t kMinBar = 10;

std::string Bar(double share, size_t width) {
  const auto full = static_cast<size_t>(share * static_cast<double>(width));
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

std::string Percent(double share) {
  const std::string number = std::to_string(static_cast<int>(share * 100));
  return std::string(3 - std::min<size_t>(3, number.size()), ' ') + number + "%";
}

}  // namespace

void RateMeter::Add(Clock::time_point now, uint64_t bytes_done) {
  samples_.push_back({now, bytes_done});
  // The oldest one kept is the newest that is at least a window old.
  while (samples_.size() > 2 && now - samples_[1].when >= kRateWindow) samples_.pop_front();
}

double RateMeter::bytes_per_second() const {
  if (samples_.size() < 2) return 0;
  const std::chrono::duration<double> time = samples_.back().when - samples_.front().when;
  if (time.count() <= 0 || samples_.back().bytes < samples_.front().bytes) return 0;
  return static_cast<double>(samples_.back().bytes - samples_.front().bytes) / time.count();
}

std::optional<double> RateMeter::SecondsLeft(uint64_t bytes_total) const {
  const double rate = bytes_per_second();
  if (rate <= 0) return std::nullopt;
  const uint64_t done = std::min(bytes_total, samples_.back().bytes);
  return static_cast<double>(bytes_total - done) / rate;
}

std::string ProgressLine(uint64_t bytes_done, std::optional<uint64_t> bytes_total,
                         const RateMeter& rate, size_t width) {
  std::string text = FormatBytes(bytes_done);
  if (bytes_total.has_value()) text += " of " + FormatBytes(*bytes_total);
  text += ", " + FormatRate(rate.bytes_per_second());
  if (bytes_total.has_value()) {
    if (const auto left = rate.SecondsLeft(*bytes_total); left.has_value()) {
      text += ", " + FormatSeconds(*left) + " left";
    }
    const double share = *bytes_total == 0
                             ? 1.0
                             : static_cast<double>(std::min(bytes_done, *bytes_total)) /
                                   static_cast<double>(*bytes_total);
    text = Percent(share) + "  " + text;
    const size_t frame = 4;  // the brackets and the space after them
    if (width >= text.size() + frame + kMinBar) {
      text = Bar(share, std::min(kMaxBar, width - text.size() - frame)) + "  " + text;
    }
  }
  return text.substr(0, width);
}

void ProgressBar::Update(uint64_t bytes_done, std::optional<uint64_t> bytes_total) {
  if (!shown_) return;
  const auto now = RateMeter::Clock::now();
  if (drawn_ && now - drawn_at_ < kRedraw) return;
  rate_.Add(now, bytes_done);
  drawn_at_ = now;
  drawn_ = true;
  // One column is left free, so that no terminal wraps the line.
  terminal_ << '\r' << ProgressLine(bytes_done, bytes_total, rate_, TerminalWidth() - 1) << "\x1b[K"
            << std::flush;
}

void ProgressBar::Clear() {
  if (!drawn_) return;
  terminal_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

bool StderrIsTerminal() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

size_t TerminalWidth() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return 80;
  return size.ws_col;
}

std::optional<size_t> OutputWidth() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 1) return std::nullopt;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return 80;
  return size.ws_col;
}

size_t TerminalHeight() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return 24;
  return size.ws_row;
}

}  // namespace onecopy::cli

#include "daemon/log/log.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "daemon/log/journal_output.h"
#include "daemon/log/queued_output.h"
#include "daemon/log/standard_error.h"
#include "daemon/log/text_output.h"
#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"

namespace onecopy::log {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"debug", "info", "warning", "error"};

struct State {
  Mutex mutex;
  std::shared_ptr<Output> output ONECOPY_GUARDED_BY(mutex) = MakeStderrOutput();
};

// Never destroyed: threads may log while the process ends.
State& TheState() {
  static State& state = *new State;
  return state;
}

std::shared_ptr<Output> CurrentOutput() {
  State& state = TheState();
  const MutexLock lock(state.mutex);
  return state.output;
}

}  // namespace

std::string_view LevelName(Level level) { return kNames[static_cast<size_t>(level)]; }

Result<Level> ParseLevel(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Level>(i);
  }
  return Status(Code::kInvalidArgument, reasons::kBadArgument,
                "there is no log level \"" + std::string(name) + "\"",
                "the levels are debug, info, warning and error");
}

Result<std::string> SetLevel(std::string_view name) {
  ONECOPY_ASSIGN_OR_RETURN(const Level level, ParseLevel(name));
  return std::string(LevelName(internal::level.exchange(level, std::memory_order_relaxed)));
}

Status Open(Format format) {
  const bool connected = IsJournalStream(std::getenv("JOURNAL_STREAM"), STDERR_FILENO);
  KeepStandardErrorFromBlocking();
  std::shared_ptr<Output> output = MakeStderrOutput();
  if (format == Format::kJournal || (format == Format::kAuto && connected)) {
    Result<std::shared_ptr<Output>> journal = MakeJournalOutput();
    // Lines on a stderr that is connected reach the journal too, so nothing is lost.
    if (!journal.ok() && format == Format::kJournal) return journal.status();
    if (journal.ok()) output = *journal;
  }
  ONECOPY_ASSIGN_OR_RETURN(output, QueuedOutput::Start(std::move(output)));
  SetOutput(std::move(output));
  return OkStatus();
}

void SetOutput(std::shared_ptr<Output> output) {
  State& state = TheState();
  const MutexLock lock(state.mutex);
  state.output.swap(output);
}

bool Flush(std::chrono::milliseconds limit) { return CurrentOutput()->Flush(limit); }

uint64_t Dropped() { return CurrentOutput()->dropped(); }

namespace internal {

std::atomic<Level> level = Level::kInfo;

void Write(const Record& record) { CurrentOutput()->Write(record); }

}  // namespace internal
}  // namespace onecopy::log

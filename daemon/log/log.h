// What the daemon tells its operator: lines on stderr, or structured fields in systemd's journal.
//
//   log::Info("transfer ended", {{"transfer", id}, {"path", path.name}, {"bytes", bytes}});
//
// Any thread may do anything here at any time. A record below the level costs one comparison. What
// comes from clients and peers cannot forge lines or fields, nor steer a terminal: it is escaped.
// Secrets (tokens, tickets, keys) are never logged. After Open, logging never waits for the
// reader of the log: see queued_output.h.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "daemon/log/field.h"
#include "onecopy/result.h"

namespace onecopy::log {

enum class Level { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning", "error", and back; INVALID_ARGUMENT for any other name.
std::string_view LevelName(Level level);
Result<Level> ParseLevel(std::string_view name);

// Sets the level by its name, and returns the name of the one before. At first it is "info".
Result<std::string> SetLevel(std::string_view name);

struct Record {
  Level level;
  std::string_view message;
  std::span<const Field> fields;
  std::chrono::system_clock::time_point time = std::chrono::system_clock::now();
};

// Where records go.
class Output {
 public:
  virtual ~Output() = default;
  // Any thread, several at once. Must not log.
  virtual void Write(const Record& record) = 0;
  // Waits until all that was written before the call is out, at most so long; false where it is
  // not.
  virtual bool Flush(std::chrono::milliseconds /*limit*/) { return true; }
  // How many records were never written, and never will be.
  virtual uint64_t dropped() const { return 0; }
};

enum class Format {
  kAuto,     // kJournal where stderr is connected to the journal, else kText
  kText,     // lines on stderr
  kJournal,  // structured fields
};

// Chooses where records go; before this is called they are lines on stderr, and logging waits until
// they are written. Once, before the threads that serve. Standard error itself becomes one
// that refuses rather than waits, as libraries write there too. INVALID_ARGUMENT when the journal
// is asked for and there is none; RESOURCE_EXHAUSTED where no thread can be made.
Status Open(Format format);

// Of where records go now; see Output.
bool Flush(std::chrono::milliseconds limit);
uint64_t Dropped();

// Sends records to `output` from now on; for tests.
void SetOutput(std::shared_ptr<Output> output);

namespace internal {
extern std::atomic<Level> level;
void Write(const Record& record);
}  // namespace internal

inline bool Enabled(Level level) {
  return level >= internal::level.load(std::memory_order_relaxed);
}

inline void Write(Level level, std::string_view message, std::initializer_list<Field> fields = {}) {
  if (Enabled(level)) internal::Write({level, message, {fields.begin(), fields.size()}});
}

inline void Debug(std::string_view message, std::initializer_list<Field> fields = {}) {
  Write(Level::kDebug, message, fields);
}
inline void Info(std::string_view message, std::initializer_list<Field> fields = {}) {
  Write(Level::kInfo, message, fields);
}
inline void Warning(std::string_view message, std::initializer_list<Field> fields = {}) {
  Write(Level::kWarning, message, fields);
}
inline void Error(std::string_view message, std::initializer_list<Field> fields = {}) {
  Write(Level::kError, message, fields);
}

}  // namespace onecopy::log

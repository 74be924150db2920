// What the daemon tells its operator: lines on stderr, or structured fields in systemd's journal.
//
//   log::Info("transfer ended", {{"transfer", id}, {"path", path.name}, {"bytes", bytes}});
//
// Any thread may do anything here at any time. A record below the level costs one comparison. What
// comes from clients and peers cannot forge lines or fields, nor steer a terminal: it is escaped.
// Secrets (tokens, tickets, keys) are never logged.
#pragma once

#include <atomic>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "daemon/log/field.h"
#include "transport/core/result.h"

namespace onecopy::log {

enum class Level { kTrace, kDebug, kInfo, kWarning, kError };

// "trace", "debug", "info", "warning", "error", and back; INVALID_ARGUMENT for any other name.
std::string_view LevelName(Level level);
Result<Level> ParseLevel(std::string_view name);

// Sets the level by its name, and returns the name of the one before. At first it is "info".
Result<std::string> SetLevel(std::string_view name);

struct Record {
  Level level;
  std::string_view message;
  std::span<const Field> fields;
};

// Where records go.
class Output {
 public:
  virtual ~Output() = default;
  // Any thread, several at once. Must not log.
  virtual void Write(const Record& record) = 0;
};

enum class Format {
  kAuto,     // kJournal where stderr is connected to the journal, else kText
  kText,     // lines on stderr
  kJournal,  // structured fields
};

// Chooses where records go; before this is called they are lines on stderr. INVALID_ARGUMENT when
// the journal is asked for and there is none.
Status Open(Format format);

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

inline void Trace(std::string_view message, std::initializer_list<Field> fields = {}) {
  Write(Level::kTrace, message, fields);
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

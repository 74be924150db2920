// Where in our code a record was made is not worth a field.
#define SD_JOURNAL_SUPPRESS_LOCATION

#include "daemon/log/journal_output.h"

#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "daemon/log/text_output.h"
#include "onecopy/reasons.h"

namespace onecopy::log {
namespace {

int PriorityOf(Level level) {
  switch (level) {
    case Level::kDebug:
      return LOG_DEBUG;
    case Level::kInfo:
      return LOG_INFO;
    case Level::kWarning:
      return LOG_WARNING;
    case Level::kError:
      return LOG_ERR;
  }
  return LOG_ERR;
}

// The journal drops an entry with a field whose name is longer, or has other characters.
std::string JournalName(std::string_view name) {
  constexpr size_t kLongest = 64;
  std::string upper = "ONECOPY_";
  for (const char c : name.substr(0, kLongest - upper.size())) {
    const bool lower = c >= 'a' && c <= 'z';
    const bool allowed = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    upper += lower ? static_cast<char>(c - 'a' + 'A') : allowed ? c : '_';
  }
  return upper;
}

class JournalOutput final : public Output {
 public:
  void Write(const Record& record) override {
    std::vector<std::string> entry = EntryOf(record);
    std::vector<iovec> pieces;
    pieces.reserve(entry.size());
    for (std::string& field : entry) pieces.push_back({field.data(), field.size()});
    if (::sd_journal_sendv(pieces.data(), static_cast<int>(pieces.size())) < 0) {
      stderr_->Write(record);
    }
  }

 private:
  const std::shared_ptr<Output> stderr_ = MakeStderrOutput();
};

}  // namespace

bool IsJournalStream(const char* variable, int fd) {
  struct stat facts {};
  if (variable == nullptr || ::fstat(fd, &facts) != 0) return false;
  return variable == std::to_string(facts.st_dev) + ":" + std::to_string(facts.st_ino);
}

std::vector<std::string> EntryOf(const Record& record) {
  std::vector<std::string> entry = {"MESSAGE=" + TextOf(record),
                                    "PRIORITY=" + std::to_string(PriorityOf(record.level)),
                                    "SYSLOG_IDENTIFIER=onecopyd"};
  for (const Field& field : record.fields) {
    if (!field.absent) entry.push_back(JournalName(field.name) + "=" + ValueOf(field));
  }
  return entry;
}

Result<std::shared_ptr<Output>> MakeJournalOutput(const std::string& socket) {
  if (::access(socket.c_str(), W_OK) != 0) {
    return Status(Code::kInvalidArgument, reasons::kBadConfig,
                  "the log's format is journal, and no journal accepts entries at " + socket,
                  "set log.format to text, or to auto");
  }
  return std::shared_ptr<Output>(std::make_shared<JournalOutput>());
}

}  // namespace onecopy::log

// Records as entries of systemd's journal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/log/log.h"

namespace onecopy::log {

// Where the journal takes entries.
inline constexpr const char* kJournalSocket = "/run/systemd/journal/socket";

// Whether `fd` is the stream that JOURNAL_STREAM (as "device:inode") names: what is written there
// would go to the journal as plain lines.
bool IsJournalStream(const char* variable, int fd);

// The entry's fields, as "NAME=value": MESSAGE (the same text as on a terminal), PRIORITY,
// SYSLOG_IDENTIFIER, and each field of the record as ONECOPY_<NAME>.
std::vector<std::string> EntryOf(const Record& record);

// INVALID_ARGUMENT when nothing is at `socket`: the journal's library would drop every entry
// without an error. An entry that the journal does not take goes to stderr.
Result<std::shared_ptr<Output>> MakeJournalOutput(const std::string& socket = kJournalSocket);

}  // namespace onecopy::log

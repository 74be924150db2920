#include "daemon/log/journal_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "onecopy/ids.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"

namespace onecopy {
using Fields = std::vector<std::string>;

namespace {

Fields Entry(log::Level level, std::string_view message, std::initializer_list<log::Field> fields) {
  return log::EntryOf({level, message, {fields.begin(), fields.size()}});
}

}  // namespace

TEST_CASE("an entry has the message, and each field by its name") {
  CHECK(Entry(log::Level::kInfo, "transfer ended",
              {{"transfer", TransferId("t17")},
               {"peer", "west rack"},
               {"bytes", uint64_t{1} << 30},
               {"checksum", true}}) ==
        Fields{"MESSAGE=transfer ended transfer=t17 peer=\"west rack\" bytes=1073741824 "
               "checksum=true",
               "PRIORITY=6", "SYSLOG_IDENTIFIER=onecopyd", "ONECOPY_TRANSFER=t17",
               "ONECOPY_PEER=west rack", "ONECOPY_BYTES=1073741824", "ONECOPY_CHECKSUM=true"});
}

TEST_CASE("levels become syslog's priorities") {
  const auto [level, priority] = GENERATE(table<log::Level, const char*>({
      {log::Level::kDebug, "PRIORITY=7"},
      {log::Level::kInfo, "PRIORITY=6"},
      {log::Level::kWarning, "PRIORITY=4"},
      {log::Level::kError, "PRIORITY=3"},
  }));
  CHECK(Entry(level, "m", {})[1] == priority);
}

TEST_CASE("a hostile value stays inside its field") {
  const Fields entry = Entry(log::Level::kError, "x\nPRIORITY=0",
                             {{"peer", "west\nONECOPY_UID=0"}, {"nul", std::string_view("\0", 1)}});
  CHECK(entry == Fields{"MESSAGE=x\\nPRIORITY=0 peer=\"west\\nONECOPY_UID=0\" nul=\"\\x00\"",
                        "PRIORITY=3", "SYSLOG_IDENTIFIER=onecopyd",
                        "ONECOPY_PEER=west\\nONECOPY_UID=0", "ONECOPY_NUL=\\x00"});
}

TEST_CASE("names of fields are made such as the journal takes") {
  const std::string longest(200, 'n');
  const Fields entry = Entry(log::Level::kInfo, "m", {{"a-b c", 1}, {longest, 2}});
  CHECK(entry[3] == "ONECOPY_A_B_C=1");
  CHECK(entry[4].substr(0, 66) == "ONECOPY_" + std::string(56, 'N') + "=2");
}

TEST_CASE("the journal is recognised by the device and inode of the stream") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  struct stat facts {};
  REQUIRE(::fstat(ends[1], &facts) == 0);
  const std::string device = std::to_string(facts.st_dev);
  const std::string inode = std::to_string(facts.st_ino);
  CHECK(log::IsJournalStream((device + ":" + inode).c_str(), ends[1]));
  CHECK_FALSE(log::IsJournalStream((device + ":" + inode + "0").c_str(), ends[1]));
  CHECK_FALSE(log::IsJournalStream((inode + ":" + inode).c_str(), ends[1]));
  CHECK_FALSE(log::IsJournalStream("", ends[1]));
  CHECK_FALSE(log::IsJournalStream("rubbish", ends[1]));
  CHECK_FALSE(log::IsJournalStream(nullptr, ends[1]));
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK_FALSE(log::IsJournalStream((device + ":" + inode).c_str(), -1));
}

TEST_CASE("a journal that is not there is refused, as its library would drop every entry") {
  const auto output = log::MakeJournalOutput("/no/such/socket");
  REQUIRE_FALSE(output.ok());
  CHECK(output.status().reason() == reasons::kBadConfig);
  CHECK(output.status().message().find("/no/such/socket") != std::string::npos);
  CHECK_FALSE(output.status().remedy().empty());
}

TEST_CASE("asking for lines on stderr always works") {
  // In a child: what becomes of standard error there is for the rest of the process, and another
  // test's, too.
  CHECK(testing::InChild([] {
          if (!log::Open(log::Format::kText).ok()) return 1;
          return log::Open(log::Format::kAuto).ok() ? 0 : 2;
        }) == 0);
}

}  // namespace onecopy

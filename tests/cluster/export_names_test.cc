// Paths of files of another node that can be the name of none.
#include <unistd.h>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"

namespace export_names_test {
namespace {

using namespace onecopy::testing;

const std::string kKept = "what was there";

// West exports a folder for reading and writing, in which files are called as a repaired or cut
// name would be.
struct Named {
  Named()
      : west("west", {.config = "[exports.data]\npath = \"" + root.path().string() +
                                "\"\nread = \"" + me + "\"\nwrite = \"" + me + "\"\n"}),
        east("east", {.peers = {west.AsPeer()}}) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
    east.Do({"buffer", "create", "b", "--size", "4096"});
    for (const std::string name : {"bad?", "bad", "bad."}) WriteFile(root / name, kKept);
  }

  void Refuses(const std::vector<std::string>& command) const {
    const CommandResult refused = east.Run(command);
    INFO(refused.out << refused.err);
    CHECK(refused.exit_status == 2);
    CHECK(refused.reason() == "BAD_NAME");
  }

  const std::string me = std::to_string(::getuid()) + "@east";
  TempFolder root;
  Node west;
  Node east;
};

}  // namespace

TEST_CASE("a path that is not UTF-8, or too long, names no other file of the other node") {
  const Named with;
  const std::string at = "west:" + with.root.path().string();
  const std::string before = Contents(with.east, "b");
  for (const std::string& bad : {std::string("/bad\xff"), std::string("/bad\xed\xa0\x80"),
                                 "/bad" + std::string(4096, 'x')}) {
    with.Refuses({"cp", "b", at + bad});
    with.Refuses({"cp", "b", at + bad + "@0+7"});
    with.Refuses({"cp", at + bad, "b"});
    with.Refuses({"cp", at + bad, "b", "--dry-run"});
    with.Refuses({"explain", "b", at + bad});
  }
  for (const std::string name : {"bad?", "bad", "bad."}) {
    CHECK(ReadFile(with.root / name) == kKept);
  }
  CHECK(Contents(with.east, "b") == before);
}

TEST_CASE("no other name is repaired either: a glob, a link, an id, a user, memory") {
  const Named with;
  const std::string bad = "tcp-\xff";  // of which a '?' would make a pattern that fits
  with.Refuses({"cp", "b", "west:b", "--path", bad});
  with.Refuses({"cp", "b", "west:b", "--link", bad});
  with.Refuses({"transfer", "show", bad});
  with.Refuses({"transfer", "cancel", bad});
  with.Refuses({"grant", "add", "b", "--to", bad, "--read"});
  with.Refuses({"grant", "rm", bad});
  with.Refuses({"buffer", "create", "c", "--size", "4096", "--memory", bad});
  with.Refuses({"buffer", "create", bad, "--size", "4096"});
  with.Refuses({"node", "show", bad});
  with.Refuses({"node", "release", bad});
}

TEST_CASE("a local file whose name is not UTF-8 is the one that is read and written") {
  const Named with;
  const std::string there = with.root / "bad\xff";
  with.east.Do({"cp", "-", "b"}, std::string(4096, 'p'));
  with.east.Do({"cp", "b", there});
  CHECK(ReadFile(there) == std::string(4096, 'p'));
  WriteFile(there, std::string(4096, 'q'));
  with.east.Do({"cp", there, "b"});
  CHECK(Contents(with.east, "b") == std::string(4096, 'q'));
  CHECK(ReadFile(with.root / "bad?") == kKept);
  // Also where this process moves the bytes itself, in windows.
  with.east.Do({"buffer", "create", "c", "--size", "4096"});
  with.east.Do({"cp", there, "c", "--path", "local"});
  CHECK(Contents(with.east, "c") == std::string(4096, 'q'));
}

}  // namespace export_names_test

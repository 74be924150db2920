// Files of another node that are written, below the folders that its configuration exports.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"

namespace export_writes_test {
namespace {

using namespace onecopy::testing;
namespace fs = std::filesystem;
using onecopy::Client;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kBytes = 3 * kMiB + 5;

std::string Me(const std::string& node) { return std::to_string(::getuid()) + "@" + node; }

// West exports a folder for writing, to whom `write` says; east writes.
struct Writing {
  explicit Writing(const std::string& write = Me("east"), const std::string& more = {})
      : west("west", {.config = "[audit]\nlevel = \"rights\"\nfile = \"" +
                                std::string(log / "audit") + "\"\n[exports.data]\npath = \"" +
                                root.path().string() + "\"\nwrite = \"" + write + "\"\n" + more}),
        east("east", {.peers = {west.AsPeer()}}) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
    east.Do({"buffer", "create", "b", "--size", std::to_string(kBytes)});
    east.Do({"cp", "-", "b"}, payload);
  }

  std::string At(const std::string& name) const { return "west:" + (root / name); }
  CommandResult Put(const std::string& to) const { return east.Run({"cp", "b", to}); }
  // Names in the folder, temporary ones too.
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(root.path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  void Refuses(const std::string& to, const std::string& code, const std::string& reason) const {
    INFO(to);
    const std::set<std::string> before = Names();
    const CommandResult refused = Put("west:" + to);
    INFO(refused.out << refused.err);
    CHECK(refused.exit_status != 0);
    REQUIRE(refused.json.contains("error"));
    CHECK(refused.json.at("error").at("code") == code);
    CHECK(refused.reason() == reason);
    CHECK(Names() == before);
  }

  TempFolder root;
  TempFolder outside;
  TempFolder log;
  Node west;
  Node east;
  const std::string payload = Payload(kBytes, 3);
};

struct stat FactsOf(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts;
}

bool HasOpen(Node& node, const std::string& below) {
  const std::string fds = "/proc/" + std::to_string(node.process().pid()) + "/fd";
  for (const auto& entry : fs::directory_iterator(fds)) {
    std::error_code gone;
    if (fs::read_symlink(entry.path(), gone).string().starts_with(below)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a buffer is written into a file of another node") {
  Writing with;
  const std::string file = with.root / "new";
  const Json plan = with.east.Do({"cp", "b", with.At("new"), "--dry-run"});
  CHECK(plan.at("path") == "storage-bounce+tcp-bounce");
  CHECK(with.Names().empty());
  const Json done = with.east.Do({"cp", "b", with.At("new"), "--checksum"});
  INFO(done.dump(2));
  CHECK(done.at("path") == "storage-bounce+tcp-bounce");
  CHECK(done.at("copies") == plan.at("copies"));
  CHECK(done.at("steps").front().at("from") == "host");
  CHECK(done.at("steps").front().at("node") == "east");
  CHECK(done.at("steps").back().at("to") == "file");
  CHECK(done.at("steps").back().at("node") == "west");
  // But for what lies beside whole blocks of the disk, all goes every step.
  for (const Json& step : done.at("steps")) {
    const bool beside = step.at("to") == "page-cache";
    CHECK((step.at("bytes") == kBytes || (beside && step.at("bytes") == kBytes % 4096)));
  }
  CHECK(done.at("evidence").at("storage").get<std::string>().starts_with("posix: "));
  CHECK(done.at("checksum").at("verified") == true);
  CHECK(ReadFile(file) == with.payload);
  CHECK(with.Names() == std::set<std::string>{"new"});
  const struct stat facts = FactsOf(file);
  CHECK((facts.st_mode & 07777) == 0640);
  CHECK(facts.st_uid == ::geteuid());
  // Both nodes name it, and no list has it as a buffer.
  for (Node* node : {&with.east, &with.west}) {
    const Json seen = node->WaitForTransfer(done.at("id"), "SUCCEEDED");
    CHECK(seen.at("destination") == "west:" + file + "@0+" + std::to_string(kBytes));
    CHECK(seen.at("source") == "east:b@0+" + std::to_string(kBytes));
  }
  CHECK(with.west.Do({"buffer", "ls"}).empty());
  WaitUntil("the file is closed", [&] { return !HasOpen(with.west, with.root.path().string()); });
  // Who wrote what is on record; what may be written may not be read for that.
  const std::string audit = ReadFile(with.log / "audit");
  INFO(audit);
  CHECK(audit.find("write a file") != std::string::npos);
  CHECK(audit.find(file) != std::string::npos);
  CHECK(with.east.Run({"cp", with.At("new"), "b"}).reason() == "ACCESS_DENIED");
}

TEST_CASE("files of any length are written byte for byte, past the page cache and through it") {
  Writing with;
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{511}, uint64_t{4096},
                               uint64_t{4097}, kMiB - 1, kMiB, 2 * kMiB + 512, kBytes}) {
    const uint64_t from = bytes < kBytes - 7 ? 7 : 0;
    CAPTURE(bytes, from);
    const std::string range = "b@" + std::to_string(from) + "+" + std::to_string(bytes);
    for (const char* path : {"storage-bounce+tcp-bounce", "storage-bounce+tcp-staged"}) {
      const Json done =
          with.east.Do({"cp", range, with.At("f"), "--checksum", "--path", path, "--sync"});
      CHECK(done.at("path") == path);
      CHECK(done.at("bytes") == bytes);
      CHECK(done.at("checksum").at("verified") == true);
      CHECK(ReadFile(with.root / "f") == with.payload.substr(from, bytes));
    }
  }
  // Below what nothing can do.
  CheckRefused(with.east.Run({"cp", "b", with.At("g"), "--at-most", "1"}), 7, "FAILED_PRECONDITION",
               "POLICY_UNMET");
  CHECK(with.Names() == std::set<std::string>{"f"});
}

TEST_CASE("a file that is replaced keeps its mode, and the old one its other names") {
  Writing with;
  const std::string file = with.root / "old";
  WriteFile(file, "as it was");
  REQUIRE(::chmod(file.c_str(), 04755) == 0);
  fs::create_hard_link(file, with.outside / "other");
  with.east.Do({"cp", "b", with.At("old")});
  CHECK(ReadFile(file) == with.payload);
  CHECK(ReadFile(with.outside / "other") == "as it was");
  // But nothing that would make a stranger's bytes run as its owner.
  CHECK((FactsOf(file).st_mode & 07777) == 0755);
  if (::geteuid() == 0) {
    REQUIRE(::chown(file.c_str(), kOwner, kOwner) == 0);
    REQUIRE(::chmod(file.c_str(), 0600) == 0);
    with.east.Do({"cp", "b@0+9", with.At("old")});
    CHECK(FactsOf(file).st_uid == kOwner);
    CHECK(FactsOf(file).st_gid == kOwner);
    CHECK((FactsOf(file).st_mode & 07777) == 0600);
  }
  CHECK(with.Names() == std::set<std::string>{"old"});
}

TEST_CASE("a range of a file that is there is written in place, and ranges are") {
  Writing with;
  const std::string file = with.root / "parts";
  const std::string before = Payload(kMiB, 9);
  WriteFile(file, before);
  const ino_t inode = FactsOf(file).st_ino;
  std::string expected = before;
  const auto put = [&](size_t at, size_t from, size_t bytes) {
    expected.resize(std::max(expected.size(), at + bytes));
    expected.replace(at, bytes, with.payload.substr(from, bytes));
  };
  with.east.Do({"cp", "b@11+5000", with.At("parts") + "@1001+5000", "--checksum"});
  put(1001, 11, 5000);
  CHECK(ReadFile(file) == expected);
  // Beyond its end it grows; the rest of it stays.
  with.east.Do({"cp", "b@0+8192", with.At("parts") + "@" + std::to_string(kMiB - 4096)});
  put(kMiB - 4096, 0, 8192);
  CHECK(ReadFile(file) == expected);
  const Json many = with.east.Do({"cp", "b", with.At("parts"), "--ranges", "-"},
                                 R"({"source": {"offset": 0, "bytes": 10}, )"
                                 R"("destination": {"offset": 50, "bytes": 10}})"
                                 "\n"
                                 R"({"source": {"offset": 99, "bytes": 4096}, )"
                                 R"("destination": {"offset": 70000, "bytes": 4096}})"
                                 "\n");
  CHECK(many.at("bytes") == 4106);
  put(50, 0, 10);
  put(70000, 99, 4096);
  CHECK(ReadFile(file) == expected);
  CHECK(FactsOf(file).st_ino == inode);
  CHECK(with.Names() == std::set<std::string>{"parts"});
  // Not what is not there, does not fit its range, or has names elsewhere.
  with.Refuses(with.root / "none@0", "NOT_FOUND", "FILE_NOT_FOUND");
  with.Refuses(with.root / "parts@0+7", "INVALID_ARGUMENT", "SIZE_MISMATCH");
  with.Refuses(with.root / "parts@9223372036854775807", "OUT_OF_RANGE", "RANGE_OUT_OF_BUFFER");
  fs::create_hard_link(file, with.outside / "other");
  with.Refuses(with.root / "parts@0", "PERMISSION_DENIED", "ACCESS_DENIED");
  fs::remove(with.outside / "other");
  REQUIRE(::chmod(file.c_str(), 04755) == 0);
  with.Refuses(with.root / "parts@0", "PERMISSION_DENIED", "ACCESS_DENIED");
  CHECK(ReadFile(file) == expected);
}

TEST_CASE("a file is written by its own node, and ordered from a third one") {
  Writing with(Me("east") + " *@third");
  with.west.Do({"buffer", "create", "own", "--size", "4097"});
  with.west.Do({"cp", "-", "own"}, with.payload.substr(0, 4097));
  const Json own = with.east.Do({"cp", "west:own", with.At("from-own"), "--checksum"});
  CHECK(own.at("path") == "storage-bounce");
  CHECK(own.at("link") == "");
  CHECK(ReadFile(with.root / "from-own") == with.payload.substr(0, 4097));
  Node third("third", {.peers = {with.west.AsPeer(), with.east.AsPeer()}});
  for (Node* node : {&with.west, &with.east}) {
    third.WaitForPeer(node->name());
    node->WaitForPeer("third");
  }
  const Json far = third.Do({"cp", "east:b", with.At("from-east")});
  CHECK(far.at("path") == "storage-bounce+tcp-bounce");
  CHECK(ReadFile(with.root / "from-east") == with.payload);
  third.WaitForTransfer(far.at("id"), "SUCCEEDED");
  // A program that is attached to the file's node, without a descriptor of its own.
  Client client = with.west.Connect();
  const auto here = client.RunTransfer(
      {.source = {.buffer = "own"}, .destination = {.file = with.root / "here"}, .sync = true});
  REQUIRE(here.ok());
  CHECK(onecopy::OutcomeOf(*here).ok());
  CHECK(ReadFile(with.root / "here") == with.payload.substr(0, 4097));
}

TEST_CASE("nothing is written but regular files below the folder, whatever the path") {
  Writing with;
  const std::string root = with.root.path().string();
  WriteFile(with.outside / "secret", "secret");
  fs::create_directory(root + "/folder");
  fs::create_symlink(with.outside / "secret", root + "/link");
  fs::create_symlink(with.outside / "none", root + "/dangling");
  fs::create_directory_symlink(with.outside.path(), root + "/out");
  REQUIRE(::mkfifo((root + "/fifo").c_str(), 0666) == 0);
  for (const char* range : {"", "@0"}) {
    with.Refuses(root + "/../" + with.outside.path().filename().string() + "/secret" + range,
                 "INVALID_ARGUMENT", "BAD_ENDPOINT");
    with.Refuses(root + "/folder/../new" + range, "INVALID_ARGUMENT", "BAD_ENDPOINT");
    with.Refuses(root + "/./new" + range, "INVALID_ARGUMENT", "BAD_ENDPOINT");
    with.Refuses(root + "//new" + range, "INVALID_ARGUMENT", "BAD_ENDPOINT");
    with.Refuses(root + "/link" + range, "PERMISSION_DENIED", "ACCESS_DENIED");
    with.Refuses(root + "/dangling" + range, "PERMISSION_DENIED", "ACCESS_DENIED");
    with.Refuses(root + "/out/secret" + range, "PERMISSION_DENIED", "ACCESS_DENIED");
    with.Refuses(root + "/out/new" + range, "PERMISSION_DENIED", "ACCESS_DENIED");
    with.Refuses(root + "/fifo" + range, "INVALID_ARGUMENT", "BAD_HANDLE");
    with.Refuses(root + "/folder" + range, "INVALID_ARGUMENT", "BAD_HANDLE");
    with.Refuses(root + "/none/new" + range, "NOT_FOUND", "FILE_NOT_FOUND");
    with.Refuses(root + "/fifo/new" + range, "NOT_FOUND", "FILE_NOT_FOUND");
    with.Refuses(root + range, "PERMISSION_DENIED", "ACCESS_DENIED");
    with.Refuses(root + "x/new" + range, "PERMISSION_DENIED", "ACCESS_DENIED");
    with.Refuses("/dev/full" + std::string(range), "PERMISSION_DENIED", "ACCESS_DENIED");
    with.Refuses(root + "/" + std::string(300, 'n') + range, "INVALID_ARGUMENT", "BAD_ARGUMENT");
    with.Refuses("/" + std::string(5000, 'n') + range, "INVALID_ARGUMENT", "BAD_NAME");
  }
  // A folder that is there but not the daemon's to write, and one that is.
  with.east.Do({"cp", "b@0+3", with.At("folder/new")});
  CHECK(ReadFile(with.root / "folder/new") == with.payload.substr(0, 3));
  // A program says what the command's parser would not.
  Client client = with.east.Connect();
  for (const std::string& path : {root + std::string("/ne\0w", 5), std::string("new")}) {
    const auto refused = client.RunTransfer(
        {.source = {.buffer = "b"}, .destination = {.node = "west", .file = path}});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().code() == onecopy::Code::kInvalidArgument);
  }
  CHECK(ReadFile(with.outside / "secret") == "secret");
  CHECK(std::distance(fs::directory_iterator(with.outside.path()), {}) == 1);
}

TEST_CASE("a link that is put in a name's place again and again is never written through") {
  Writing with;
  WriteFile(with.outside / "secret", "secret");
  const std::string name = with.root / "swapped";
  for (int i = 0; i < 30; ++i) {
    fs::remove(name);
    if (i % 3 == 0) fs::create_symlink(with.outside / "secret", name);
    if (i % 3 == 1) WriteFile(name, "inside");
    const CommandResult put = with.Put(with.At("swapped") + (i % 2 == 0 ? "" : "@0"));
    INFO(i << " " << put.out);
    CHECK((put.exit_status == 0) == (i % 3 == 1 || (i % 3 == 2 && i % 2 == 0)));
  }
  CHECK(ReadFile(with.outside / "secret") == "secret");
}

TEST_CASE("the right to write is one of its own, and each user's") {
  REQUIRE_ROOT();
  Writing with(std::to_string(kOwner) + "@east", "read = \"*@east *@third\"\n");
  for (Node* node : {&with.east, &with.west}) OpenTo(*node);
  CommandAs(kOwner, with.east, {"buffer", "create", "o", "--size", "4096"});
  CommandAs(kOther, with.east, {"buffer", "create", "p", "--size", "4096"});
  CommandAs(kOwner, with.east, {"cp", "o", with.At("f")});
  CHECK(FactsOf(with.root / "f").st_size == 4096);
  const CommandResult other = RunAs(kOther, with.east, {"cp", "p", with.At("g")});
  CHECK(other.reason() == "ACCESS_DENIED");
  CHECK(other.message().find("for writing") != std::string::npos);
  // Who may read may not write, root of another node included; nor out of somebody else's buffer.
  with.Refuses(with.root / "g", "PERMISSION_DENIED", "ACCESS_DENIED");
  CommandAs(kOther, with.east, {"cp", with.At("f"), "p"});
  CHECK(RunAs(kOwner, with.east, {"cp", "p", with.At("g")}).exit_status == 3);
  Node third("third", {.peers = {with.west.AsPeer()}});
  third.WaitForPeer("west");
  with.west.WaitForPeer("third");
  third.Do({"buffer", "create", "t", "--size", "4096"});
  CHECK(third.Run({"cp", "t", with.At("g")}).reason() == "ACCESS_DENIED");
  CHECK(with.Names() == std::set<std::string>{"f"});
  const std::string audit = ReadFile(with.log / "audit");
  CHECK(audit.find("node third") != std::string::npos);
}

TEST_CASE("a right to read alone writes nothing, and what is refused is told alike") {
  const TempFolder outside;
  Writing with("", "read = \"*@east\"\nmode = \"0600\"\n");
  WriteFile(with.root / "there", "there");
  const auto said = [&](const std::string& path) {
    const CommandResult refused = with.Put("west:" + path);
    CHECK(refused.reason() == "ACCESS_DENIED");
    std::string message = refused.message();
    const size_t at = message.find(path);
    REQUIRE(at != std::string::npos);
    return message.replace(at, path.size(), "PATH");
  };
  const std::string there = said(with.root / "there");
  CHECK(said(with.root / "none") == there);
  CHECK(said(outside / "none") == there);
  CHECK(said("/etc/passwd") == there);
  CHECK(ReadFile(with.root / "there") == "there");
  CHECK(with.Names() == std::set<std::string>{"there"});
}

TEST_CASE("a new file has the mode that its export says") {
  Writing with(Me("east"), "mode = \"0664\"\n");
  with.east.Do({"cp", "b@0+5", with.At("f")});
  CHECK((FactsOf(with.root / "f").st_mode & 07777) == 0664);
  // A folder's group goes on to what is made in it, as for any program.
  if (::geteuid() == 0) {
    const std::string folder = with.root / "shared";
    fs::create_directory(folder);
    REQUIRE(::chown(folder.c_str(), 0, kOwner) == 0);
    REQUIRE(::chmod(folder.c_str(), 02775) == 0);
    with.east.Do({"cp", "b@0+5", with.At("shared/f")});
    CHECK(FactsOf(folder + "/f").st_gid == kOwner);
  }
}

TEST_CASE("what goes with no file of another node is refused") {
  Writing with;
  const TempFolder folder;
  WriteFile(folder / "f", "here");
  const auto refuses = [&](std::vector<std::string> words, const std::string& reason) {
    const CommandResult refused = with.east.Run(std::move(words));
    INFO(refused.out);
    CHECK(refused.exit_status == 2);
    CHECK(refused.reason() == reason);
  };
  refuses({"cp", folder / "f", with.At("g")}, "BAD_ENDPOINT");
  refuses({"cp", "-", with.At("g")}, "BAD_ENDPOINT");
  refuses({"cp", with.At("f"), with.At("g")}, "BAD_ENDPOINT");
  refuses({"cp", "b", with.At("g"), "--write-device"}, "BAD_ARGUMENT");
  refuses({"cp", "b", with.At("g"), "--message", "m"}, "BAD_ARGUMENT");
  refuses({"cp", "b", with.At("g"), "--create"}, "BAD_ENDPOINT");
  refuses({"cp", folder / "f", "b", "--also", with.At("g")}, "BAD_ENDPOINT");
  Client client = with.east.Connect();
  onecopy::TransferRequest both{.source = {.node = "west", .file = with.root / "f"},
                                .destination = {.node = "west", .file = with.root / "g"}};
  CHECK(client.RunTransfer(both).status().reason() == "BAD_ENDPOINT");
  onecopy::TransferRequest sync{.source = {.buffer = "b", .bytes = 1},
                                .destination = {.buffer = "b", .offset_bytes = 9},
                                .sync = true};
  CHECK(client.RunTransfer(sync).status().reason() == "BAD_ARGUMENT");
  CHECK(with.Names().empty());
}
}  // namespace export_writes_test

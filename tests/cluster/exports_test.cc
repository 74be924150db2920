// Files of another node, below the folders that its configuration exports.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"

namespace exports_test {
namespace {

using namespace onecopy::testing;
using onecopy::Client;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// West exports a folder, of which `read` says to whom; east asks.
struct Exporting {
  explicit Exporting(const std::string& read = {}, const std::string& more = {})
      : west("west",
             {.config = "[audit]\nlevel = \"rights\"\nfile = \"" + std::string(log / "audit") +
                        "\"\n" + more + "[exports.data]\npath = \"" + root.path().string() +
                        "\"\nread = \"" +
                        (read.empty() ? std::to_string(::getuid()) + "@east" : read) + "\"\n"}),
        east("east", {.peers = {west.AsPeer()}}) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
    east.Do({"buffer", "create", "b", "--size", std::to_string(8 * kMiB)});
    WriteFile(root / "model", payload);
    WriteFile(outside / "secret", "secret");
  }

  std::string At(const std::string& path) const { return "west:" + path; }
  CommandResult Get(const std::string& path) const { return east.Run({"cp", "west:" + path, "b"}); }
  // Refused, and nothing has come.
  void Refuses(const std::string& path, const std::string& code, const std::string& reason) const {
    INFO(path);
    const CommandResult refused = Get(path);
    INFO(refused.out << refused.err);
    CHECK(refused.exit_status != 0);
    REQUIRE(refused.json.contains("error"));
    CHECK(refused.json.at("error").at("code") == code);
    CHECK(refused.reason() == reason);
    CHECK(Contents(east, "b@0+6") == std::string(6, '\0'));
  }

  TempFolder root;
  TempFolder outside;
  TempFolder log;
  Node west;
  Node east;
  const std::string payload = Payload(3 * kMiB + 5, 3);
};

bool HasOpen(Node& node, const std::string& below) {
  const std::string fds = "/proc/" + std::to_string(node.process().pid()) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(fds)) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(entry.path(), gone);
    if (to.starts_with(below)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a file of another node below an exported folder is read into a buffer here") {
  Exporting with;
  const std::string file = with.root / "model";
  const Json plan = with.east.Do({"cp", with.At(file), "b", "--dry-run"});
  CHECK(plan.at("path") == "storage-bounce+tcp-bounce");
  const Json in = with.east.Do({"cp", with.At(file), "b", "--checksum"});
  INFO(in.dump(2));
  CHECK(in.at("path") == "storage-bounce+tcp-bounce");
  CHECK(in.at("copies") == plan.at("copies"));
  CHECK(in.at("steps").front().at("from") == "file");
  CHECK(in.at("steps").front().at("node") == "west");
  CHECK(in.at("steps").back().at("to") == "host");
  CHECK(in.at("steps").back().at("node") == "east");
  CHECK(in.at("evidence").at("storage").get<std::string>().starts_with("posix: "));
  CHECK(in.at("checksum").at("verified") == true);
  CHECK(Contents(with.east, "b@0+" + std::to_string(with.payload.size())) == with.payload);
  // Both nodes name it, and no list has it as a buffer.
  for (Node* node : {&with.east, &with.west}) {
    const Json seen = node->WaitForTransfer(in.at("id"), "SUCCEEDED");
    CHECK(seen.at("source") == "west:" + file + "@0+" + std::to_string(with.payload.size()));
  }
  CHECK(with.west.Do({"buffer", "ls"}).empty());
  // A range of it.
  with.east.Do({"cp", with.At(file) + "@1001+5000", "b@77+5000"});
  CHECK(Contents(with.east, "b@77+5000") == with.payload.substr(1001, 5000));
  WaitUntil("the file is closed", [&] { return !HasOpen(with.west, with.root.path().string()); });
  // Who opened what is on record.
  const std::string audit = ReadFile(with.log / "audit");
  INFO(audit);
  CHECK(audit.find(file) != std::string::npos);
  CHECK(audit.find("node east") != std::string::npos);
}

TEST_CASE("an exported file goes into a buffer of its own node, and of a third one") {
  Exporting with;
  const std::string file = with.root / "model";
  with.west.Do({"buffer", "create", "own", "--size", std::to_string(8 * kMiB)});
  const Json own = with.east.Do({"cp", with.At(file), "west:own"});
  CHECK(own.at("path") == "storage-bounce");
  CHECK(own.at("link") == "");
  CHECK(Contents(with.west, "own@0+" + std::to_string(with.payload.size())) == with.payload);
  const Json explained = with.east.Do({"explain", with.At(file), "west:own"});
  CHECK(explained.at("path") == "storage-bounce");
  Node third("third", {.peers = {with.west.AsPeer(), with.east.AsPeer()}});
  for (Node* node : {&with.west, &with.east}) {
    third.WaitForPeer(node->name());
    node->WaitForPeer("third");
  }
  third.Do({"buffer", "create", "t", "--size", std::to_string(8 * kMiB)});
  const Json far = with.east.Do({"cp", with.At(file), "third:t"});
  CHECK(far.at("path") == "storage-bounce+tcp-bounce");
  CHECK(Contents(third, "t@0+" + std::to_string(with.payload.size())) == with.payload);
  WaitUntil("the file is closed", [&] { return !HasOpen(with.west, with.root.path().string()); });
}

TEST_CASE("nothing but regular files below the folder is opened, whatever the path") {
  Exporting with;
  namespace fs = std::filesystem;
  const std::string root = with.root.path().string();
  fs::create_directory(root + "/folder");
  fs::create_symlink(with.outside / "secret", root + "/link");
  fs::create_symlink("model", root + "/inside");
  fs::create_directory_symlink(with.outside.path(), root + "/out");
  REQUIRE(::mkfifo((root + "/fifo").c_str(), 0666) == 0);
  const std::string up = "/../" + with.outside.path().filename().string() + "/secret";
  // No form of a name but one.
  with.Refuses(root + up, "INVALID_ARGUMENT", "BAD_ENDPOINT");
  with.Refuses(root + "/folder/../model", "INVALID_ARGUMENT", "BAD_ENDPOINT");
  with.Refuses(root + "/./model", "INVALID_ARGUMENT", "BAD_ENDPOINT");
  with.Refuses(root + "//model", "INVALID_ARGUMENT", "BAD_ENDPOINT");
  with.Refuses(root + "/model/", "INVALID_ARGUMENT", "BAD_ENDPOINT");
  // Links lead nowhere, not even to what is exported.
  with.Refuses(root + "/link", "PERMISSION_DENIED", "ACCESS_DENIED");
  with.Refuses(root + "/inside", "PERMISSION_DENIED", "ACCESS_DENIED");
  with.Refuses(root + "/out/secret", "PERMISSION_DENIED", "ACCESS_DENIED");
  // No file.
  with.Refuses(root + "/fifo", "INVALID_ARGUMENT", "BAD_HANDLE");
  with.Refuses(root + "/folder", "INVALID_ARGUMENT", "BAD_HANDLE");
  with.Refuses(root + "/none", "NOT_FOUND", "FILE_NOT_FOUND");
  with.Refuses(root + "/model/none", "NOT_FOUND", "FILE_NOT_FOUND");
  // The folder itself, one whose name begins like it, and what is elsewhere.
  with.Refuses(root, "PERMISSION_DENIED", "ACCESS_DENIED");
  with.Refuses(root + "x/model", "PERMISSION_DENIED", "ACCESS_DENIED");
  with.Refuses("/proc/self/environ", "PERMISSION_DENIED", "ACCESS_DENIED");
  // A hard link is a name of the file, and below the folder.
  fs::create_hard_link(with.outside / "secret", root + "/hard");
  CHECK(with.Get(root + "/hard").exit_status == 0);
  CHECK(Contents(with.east, "b@0+6") == "secret");
  // A program says what the command's parser would not.
  Client client = with.east.Connect();
  for (const std::string& path : {root + std::string("/mod\0el", 7), std::string("model")}) {
    const auto refused = client.RunTransfer(
        {.source = {.node = "west", .file = path}, .destination = {.buffer = "b"}});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().code() == onecopy::Code::kInvalidArgument);
  }
  CHECK(with.Get(root + "/model").exit_status == 0);
}

TEST_CASE("what is outside is told alike, whether it is there or not") {
  Exporting with;
  const auto said = [&](const std::string& path) {
    const CommandResult refused = with.Get(path);
    CHECK(refused.reason() == "ACCESS_DENIED");
    std::string message = refused.message();
    const size_t at = message.find(path);
    REQUIRE(at != std::string::npos);
    return message.replace(at, path.size(), "PATH");
  };
  const std::string there = said(with.outside / "secret");
  CHECK(said(with.outside / "none") == there);
  CHECK(said("/etc/passwd") == there);
  CHECK(said("/no/such/folder/at/all") == there);
  CHECK(there.find(with.root.path().string()) == std::string::npos);
}

TEST_CASE("a link that is put in a file's place again and again never leads out") {
  Exporting with;
  namespace fs = std::filesystem;
  const std::string name = with.root / "swapped";
  for (int i = 0; i < 40; ++i) {
    fs::remove(name);
    if (i % 2 == 0) {
      fs::create_symlink(with.outside / "secret", name);
    } else {
      WriteFile(name, "inside");
    }
    const CommandResult got = with.Get(name);
    CHECK((got.exit_status == 0) == (i % 2 != 0));
    CHECK(Contents(with.east, "b@0+6") != "secret");
  }
}

TEST_CASE("users and nodes without a right read nothing") {
  REQUIRE_ROOT();
  Exporting with(std::to_string(kOwner) + "@east  *@third");
  for (Node* node : {&with.east, &with.west}) OpenTo(*node);
  const std::string file = with.root / "model";
  CommandAs(kOwner, with.east, {"buffer", "create", "o", "--size", "8MiB"});
  CommandAs(kOther, with.east, {"buffer", "create", "p", "--size", "8MiB"});
  CommandAs(kOwner, with.east, {"cp", with.At(file), "o"});
  const CommandResult other = RunAs(kOther, with.east, {"cp", with.At(file), "p"});
  CHECK(other.reason() == "ACCESS_DENIED");
  // Not root of another node either, and not into somebody else's buffer.
  with.Refuses(file, "PERMISSION_DENIED", "ACCESS_DENIED");
  CHECK(RunAs(kOwner, with.east, {"cp", with.At(file), "p"}).exit_status == 3);
  Node third("third", {.peers = {with.west.AsPeer()}});
  third.WaitForPeer("west");
  with.west.WaitForPeer("third");
  third.Do({"buffer", "create", "t", "--size", "8MiB"});
  third.Do({"cp", with.At(file), "t"});
  CHECK(Contents(third, "t@0+4") == with.payload.substr(0, 4));
  Node fourth("fourth", {.peers = {with.west.AsPeer()}});
  fourth.WaitForPeer("west");
  fourth.Do({"buffer", "create", "t", "--size", "8MiB"});
  CHECK(fourth.Run({"cp", with.At(file), "t"}).reason() == "ACCESS_DENIED");
  const std::string audit = ReadFile(with.log / "audit");
  CHECK(audit.find("node fourth") != std::string::npos);
}

TEST_CASE("nothing is exported by default") {
  Pair pair;
  const TempFolder folder;
  WriteFile(folder / "f", "here");
  pair.east.Do({"buffer", "create", "b", "--size", "4096"});
  CHECK(pair.east.Run({"cp", "west:" + std::string(folder / "f"), "b"}).reason() ==
        "ACCESS_DENIED");
  CheckRefused(pair.east.Run({"cp", "b", "west:" + std::string(folder / "f")}), 4,
               "PERMISSION_DENIED", "ACCESS_DENIED");
  CHECK(ReadFile(folder / "f") == "here");
  CheckRefused(pair.east.Run({"cp", "west:" + std::string(folder / "f"), "-"}), 2,
               "INVALID_ARGUMENT", "BAD_ENDPOINT");
}

TEST_CASE("what is exported meets ranges that do not fit, and files that become shorter") {
  Exporting with({}, "[staging]\nslot_bytes = \"4KiB\"\nslots = 4\n");
  const std::string file = with.root / "model";
  const CommandResult beyond = with.Get(file + "@0+9MiB");
  CHECK(beyond.json.at("error").at("code") == "OUT_OF_RANGE");
  const std::string large = with.root / "large";
  WriteFile(large, "x");
  std::filesystem::resize_file(large, 64 * kMiB);
  CHECK(with.Get(large).exit_status != 0);  // longer than the buffer
  with.east.Do({"buffer", "create", "l", "--size", "64MiB"});
  Client client = with.east.Connect();
  const auto transfer = StartAndSeeRunning(
      client, {.source = {.node = "west", .file = large}, .destination = {.buffer = "l"}});
  {
    Frozen east(with.east);
    std::filesystem::resize_file(large, kMiB);
  }
  const Json failed = with.east.WaitForTransfer(transfer.id.str(), "FAILED");
  CHECK(failed.at("error").at("code") == "DATA_LOSS");
  CHECK(failed.at("error").at("message").get<std::string>().find("large") != std::string::npos);
  with.east.Do({"cp", with.At(file), "b"});
  WaitUntil("the files are closed", [&] { return !HasOpen(with.west, with.root.path().string()); });
}

TEST_CASE(
    "the folders that a node exports are listed to those that may use them, and to no others") {
  const std::string me = std::to_string(::getuid()) + "@east";
  const auto section = [](const std::string& name, const std::string& path,
                          const std::string& rights) {
    return "[exports." + name + "]\npath = \"" + path + "\"\n" + rights;
  };
  const TempFolder root;
  const std::string shared = root / "shared";
  const std::string inbox = root / "inbox";
  const std::string secret = root / "secret";
  for (const std::string& folder : {shared, inbox, secret}) {
    std::filesystem::create_directory(folder);
  }
  Node west("west",
            {.config = section("shared", shared, "read = \"" + me + "\"\n") +
                       section("inbox", inbox, "write = \"" + me + "\"\n") +
                       section("secret", secret, "read = \"4242@east\"\nwrite = \"4242@east\"\n")});
  Node east("east", {.peers = {west.AsPeer()}});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  const Json listed = east.Do({"export", "ls", "west"});
  REQUIRE(listed.size() == 2);
  CHECK(
      listed[0] ==
      Json{{"node", "west"}, {"name", "inbox"}, {"path", inbox}, {"read", false}, {"write", true}});
  CHECK(listed[1].at("name") == "shared");
  CHECK(listed[1].at("read") == true);
  CHECK(listed[1].at("write") == false);
  CHECK(east.Do({"export", "ls"}).empty());
  // The administrator of the node itself may use all.
  CHECK(west.Do({"export", "ls"}).size() == 3);
  const CommandResult missing = east.Run({"export", "ls", "nowhere"});
  CHECK(missing.exit_status == 3);
  CHECK(missing.reason() == "PEER_NOT_FOUND");
  const CommandResult text =
      RunCommand("onecopy", {"--run-dir", east.run_dir(), "export", "ls", "west"});
  CHECK(text.exit_status == 0);
  CHECK(text.out.find("west:" + shared) != std::string::npos);
  CHECK(text.out.find("secret") == std::string::npos);
}

TEST_CASE("another user of the node sees none of those folders") {
  REQUIRE_ROOT();
  const TempFolder root;
  Node west("west", {.config = "[exports.data]\npath = \"" + root.path().string() +
                               "\"\nread = \"" + std::to_string(kOwner) + "@west\"\n"});
  OpenTo(west);
  CHECK(CommandAs(kOwner, west, {"export", "ls"}).size() == 1);
  CHECK(CommandAs(kOther, west, {"export", "ls"}).empty());
}

}  // namespace exports_test

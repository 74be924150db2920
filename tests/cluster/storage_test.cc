// Files that the daemon moves itself: both ways, whose rights count, and what is told of it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "onecopy/file_copy.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"
#include "transport/os/base/unique_fd.h"

namespace storage_test {
namespace {

using namespace onecopy::testing;
using onecopy::Client;
using onecopy::Endpoint;
namespace os = onecopy::os;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A node that reads files as the configuration says, with a folder on a disk.
struct Stored {
  explicit Stored(const std::string& io)
      : node("east", {.config = "[posix]\nio = \"" + io + "\"\n"}) {}

  Node node;
  TempFolder folder;

  void Create(const std::string& name, uint64_t bytes) {
    node.Do({"buffer", "create", name, "--size", std::to_string(bytes)});
  }
};

os::UniqueFd OpenFile(const std::string& path, int flags) {
  os::UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC));
  REQUIRE(fd);
  return fd;
}

// What a process has read so far, by any call.
uint64_t ReadBytes(pid_t pid) {
  std::ifstream io("/proc/" + std::to_string(pid) + "/io");
  std::string word;
  uint64_t bytes = 0;
  while (io >> word >> bytes) {
    if (word == "rchar:") return bytes;
  }
  throw std::runtime_error("the kernel does not count what process reads");
}

// Copies of a receipt: what its steps say, each of them of no more than the payload, the last of
// all of it.
void CheckSteps(const Json& receipt, uint64_t bytes) {
  CHECK(receipt.at("path") == "storage-bounce");
  CHECK(receipt.at("copies") == receipt.at("steps").size());
  if (bytes == 0) return;
  REQUIRE_FALSE(receipt.at("steps").empty());
  CHECK(receipt.at("steps").size() <= 2);
  for (const Json& step : receipt.at("steps")) {
    CHECK(step.at("bytes").get<uint64_t>() <= bytes);
    CHECK(step.at("by") != "client");
  }
  const bool reads = receipt.at("steps").front().at("from") == "file";
  const Json& whole = reads ? receipt.at("steps").back() : receipt.at("steps").front();
  if (receipt.at("steps").size() == 1) CHECK(whole.at("bytes") == bytes);
}

}  // namespace

TEST_CASE("a file of any size and place goes into a buffer and back, byte for byte") {
  for (const char* io : {"auto", "threads"}) {
    Stored with(io);
    with.Create("b", 8 * kMiB);
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{4096},
                                 65537 * uint64_t{1}, 3 * kMiB, 5 * kMiB + 7}) {
      INFO(io << ", " << bytes << " bytes");
      const std::string payload = Payload(bytes, bytes + 1);
      WriteFile(with.folder / "in", payload);
      const Json in =
          with.node.Do({"cp", with.folder / "in", "b@13+" + std::to_string(bytes), "--checksum"});
      CheckSteps(in, bytes);
      CHECK(in.at("bytes") == bytes);
      CHECK(in.at("checksum").at("verified") == true);
      CHECK(in.at("evidence").at("storage").get<std::string>().starts_with("posix: "));
      CHECK(Contents(with.node, "b@13+" + std::to_string(bytes)) == payload);
      const Json out =
          with.node.Do({"cp", "b@13+" + std::to_string(bytes), with.folder / "out", "--checksum"});
      CheckSteps(out, bytes);
      CHECK(out.at("checksum").at("verified") == true);
      CHECK(ReadFile(with.folder / "out") == payload);
    }
    // Nothing is left of them that a list would show.
    CHECK(with.node.Do({"buffer", "ls"}).size() == 1);
    const Json listed = with.node.Do({"transfer", "ls"});
    CHECK(listed.front().at("destination") ==
          "east:" + std::string(with.folder / "out") + "@0+" + std::to_string(5 * kMiB + 7));
  }
}

TEST_CASE("ranges of a file are read and written in place") {
  Stored with("auto");
  with.Create("b", kMiB);
  const std::string payload = Payload(kMiB, 3);
  WriteFile(with.folder / "f", payload);
  CheckSteps(with.node.Do({"cp", with.folder / "f@1001+5000", "b@77+5000"}), 5000);
  CHECK(Contents(with.node, "b@77+5000") == payload.substr(1001, 5000));
  CheckSteps(with.node.Do({"cp", "b@77+5000", with.folder / "f@3+5000", "--checksum"}), 5000);
  std::string expected = payload;
  expected.replace(3, 5000, payload.substr(1001, 5000));
  CHECK(ReadFile(with.folder / "f") == expected);
}

TEST_CASE("many ranges of a file are one transfer, both ways") {
  Stored with(GENERATE("auto", "threads"));
  with.Create("b", 4 * kMiB);
  const std::string payload = Payload(8 * kMiB, 6);
  WriteFile(with.folder / "f", payload);
  // Of any size, from anywhere, in no order; the file is longer than the buffer.
  constexpr uint64_t kRanges = 1000;
  std::string list;
  std::string expected(4 * kMiB, '\0');
  uint64_t total = 0;
  for (uint64_t i = 0; i < kRanges; ++i) {
    const uint64_t bytes = 1 + i * 7 % 4000;
    const uint64_t from = (i * 7919) % kRanges * 8192 + i % 13;
    const uint64_t to = i * 4096 + i % 5;
    list += R"({"source": {"offset": )" + std::to_string(from) + R"(, "bytes": )" +
            std::to_string(bytes) + R"(}, "destination": {"offset": )" + std::to_string(to) +
            R"(, "bytes": )" + std::to_string(bytes) + "}}\n";
    expected.replace(to, bytes, payload, from, bytes);
    total += bytes;
  }
  WriteFile(with.folder / "list", list);
  const std::vector<std::string> words = {"--ranges", with.folder / "list", "--checksum"};
  const auto run = [&](const std::string& from, const std::string& to) {
    return with.node.Run({"cp", from, to, words[0], words[1], words[2]});
  };
  const CommandResult in = run(with.folder / "f", "b");
  REQUIRE(in.exit_status == 0);
  CHECK(in.json.at("bytes") == total);
  CHECK(in.json.at("path") == "storage-bounce");
  CHECK(in.json.at("checksum").at("verified") == true);
  CHECK(Contents(with.node, "b") == expected);
  // In place: what is between them stays.
  WriteFile(with.folder / "out", std::string(4 * kMiB, 'o'));
  std::string written(4 * kMiB, 'o');
  for (uint64_t i = 0; i < kRanges; ++i) {
    const uint64_t bytes = 1 + i * 7 % 4000;
    written.replace(i * 4096 + i % 5, bytes, expected, (i * 7919) % kRanges * 4096 + i % 3, bytes);
  }
  std::string back;
  for (uint64_t i = 0; i < kRanges; ++i) {
    const std::string bytes = std::to_string(1 + i * 7 % 4000);
    back += R"({"source": {"offset": )" + std::to_string((i * 7919) % kRanges * 4096 + i % 3) +
            R"(, "bytes": )" + bytes + R"(}, "destination": {"offset": )" +
            std::to_string(i * 4096 + i % 5) + R"(, "bytes": )" + bytes + "}}\n";
  }
  WriteFile(with.folder / "list", back);
  const CommandResult out = run("b", with.folder / "out");
  REQUIRE(out.exit_status == 0);
  CHECK(out.json.at("bytes") == total);
  CHECK(ReadFile(with.folder / "out") == written);
  // Not into a file that is not there, nor beyond an end, nor of a stream; and no window stands in.
  CHECK(run("b", with.folder / "new").reason() == "FILE_NOT_FOUND");
  CHECK_FALSE(std::filesystem::exists(with.folder / "new"));
  CHECK(with.node.Run({"cp", "-", "b", words[0], words[1]}).exit_status == 2);
  CHECK(with.node.Run({"cp", with.folder / "f", "b", words[0], words[1], "--path", "local"})
            .reason() == "NOT_SERVED");
  WriteFile(with.folder / "list", R"({"source": {"offset": "8MiB", "bytes": 1}, )"
                                  R"("destination": {"offset": 0, "bytes": 1}})");
  CHECK(run(with.folder / "f", "b").reason() == "RANGE_OUT_OF_BUFFER");
  CHECK(Contents(with.node, "b") == expected);
}

TEST_CASE("a file goes into several buffers of two nodes, and is read once") {
  Pair pair("[posix]\nio = \"threads\"\n");  // the kernel does not count what a ring reads
  const TempFolder folder;
  constexpr uint64_t kBytes = 150 * kMiB + 7;  // three pieces
  const std::string payload = Payload(kBytes, 8);
  WriteFile(folder / "f", payload);
  const std::string size = std::to_string(kBytes + 4096);
  pair.east.Do({"buffer", "create", "a", "--size", size});
  pair.east.Do({"buffer", "create", "b", "--size", size});
  pair.west.Do({"buffer", "create", "c", "--size", size});
  const uint64_t before = ReadBytes(pair.east.process().pid());
  const Json all = pair.east.Do(
      {"cp", folder / "f", "west:c@4096", "--also", "a", "--also", "b@100", "--checksum"});
  const uint64_t read = ReadBytes(pair.east.process().pid()) - before;
  REQUIRE(all.at("copies").size() == 3);
  const Json& first = all.at("copies").at(1);
  CheckSteps(first, kBytes);
  for (const Json& copy : all.at("copies")) {
    CHECK(copy.at("bytes") == kBytes);
    CHECK(copy.at("checksum").at("verified") == true);
    if (copy == first) continue;
    CHECK(copy.at("evidence").at("copied_from") == "east:a");
    for (const Json& step : copy.at("steps")) CHECK(step.at("from") != "file");
  }
  CHECK(Contents(pair.west, "c@4096+" + std::to_string(kBytes)) == payload);
  CHECK(Contents(pair.east, "a@0+" + std::to_string(kBytes)) == payload);
  CHECK(Contents(pair.east, "b@100+" + std::to_string(kBytes)) == payload);
  // By the daemon, once for the bytes and once for their checksum, and what little else it reads.
  CHECK(read < 2 * kBytes + 16 * kMiB);
  CHECK(read >= kBytes);
  // Refused before a byte moves.
  const auto refused = [&](std::vector<std::string> words, const char* names) {
    words.insert(words.begin(), "cp");
    const CommandResult result = pair.east.Run(words);
    CAPTURE(result.out);
    CHECK(result.exit_status == 2);
    CHECK(result.message().find(names) != std::string::npos);
  };
  pair.east.Do({"buffer", "create", "small", "--size", "4096"});
  refused({folder / "f", "a", "--also", "small"}, "east:small");
  refused({folder / "f", "a", "--also", "a@100"}, "east:a");
  refused({folder / "f", "a", "--also", folder / "g"}, "buffers as destinations");
  refused({folder / "f", "a", "--also", "b", "--path", "storage-bounce"},
          "different paths and links");
  refused({"a", "b", "--also", "small"}, "east:small");
  refused({"-", "a", "--also", "b"}, "file");
  CHECK(pair.east.Run({"cp", folder / "f", "a", "--also", "none"}).exit_status == 3);
}

TEST_CASE("a file may have to be on its disk before it counts as copied") {
  Pair pair;
  const TempFolder folder;
  pair.east.Do({"buffer", "create", "b", "--size", "1MiB"});
  pair.east.Do({"cp", "-", "b"}, Payload(kMiB));
  // By the daemon, by the client of another node, and a part of a file.
  CheckSteps(pair.east.Do({"cp", "b", folder / "here", "--sync"}), kMiB);
  pair.west.Do({"cp", "east:b", folder / "there", "--sync"});
  for (const char* name : {"here", "there"}) CHECK(ReadFile(folder / name) == Payload(kMiB));
  pair.east.Do({"cp", "b@0+7", folder / "here@100", "--sync"});
  CHECK(ReadFile(folder / "here").substr(100, 7) == Payload(kMiB).substr(0, 7));
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"cp", folder / "here", "b", "--sync"},
           {"cp", "b", "/dev/null", "--sync"},
           {"cp", folder / "here", folder / "there", "west:", "--create", "--sync"}}) {
    const CommandResult refused = pair.east.Run(words);
    CheckRefused(refused, 2, "INVALID_ARGUMENT", "BAD_ARGUMENT");
    CHECK(refused.out.find("--sync") != std::string::npos);
  }
}

TEST_CASE("a sparse file of a gibibyte is moved whole") {
  Stored with("auto");
  constexpr uint64_t kBytes = uint64_t{1} << 30;
  with.Create("b", kBytes);
  const std::string file = with.folder / "sparse";
  WriteFile(file, "begins");
  std::filesystem::resize_file(file, kBytes);
  {
    const os::UniqueFd fd = OpenFile(file, O_WRONLY);
    REQUIRE(::pwrite(fd.get(), "ends", 4, kBytes - 4) == 4);
  }
  const Json in = with.node.Do({"cp", file, "b"});
  CheckSteps(in, kBytes);
  CHECK(Contents(with.node, "b@0+6") == "begins");
  CHECK(Contents(with.node, "b@" + std::to_string(kBytes - 4) + "+4") == "ends");
  CHECK(Contents(with.node, "b@536870912+4096") == std::string(4096, '\0'));
}

TEST_CASE("policies hold for files, and plans say what will be done") {
  Stored with("auto");
  with.Create("b", kMiB);
  WriteFile(with.folder / "f", Payload(1000));
  const Json plan = with.node.Do({"cp", with.folder / "f", "b", "--dry-run"});
  CHECK(plan.at("path") == "storage-bounce");
  const Json done = with.node.Do({"cp", with.folder / "f", "b"});
  CHECK(plan.at("copies") == done.at("copies"));
  CHECK(with.node.Do({"cp", "b", with.folder / "new", "--dry-run"}).at("path") == "storage-bounce");
  CHECK_FALSE(std::filesystem::exists(with.folder / "new"));
  CHECK(with.node.Do({"cp", with.folder / "f", "b", "--path", "storage-bounce"}).at("path") ==
        "storage-bounce");
  if (done.at("copies") == 2) {
    const CommandResult one = with.node.Run({"cp", with.folder / "f", "b", "--at-most", "1"});
    CheckRefused(one, 7, "FAILED_PRECONDITION", "POLICY_UNMET");
  }
  // Another path is the client's own, through its memory.
  const Json local = with.node.Do({"cp", with.folder / "f", "b", "--path", "local"});
  CHECK(local.at("path") == "local");
  CHECK(local.at("steps").front().at("by") == "client");
}

TEST_CASE("a file that is not whole is no success, and nothing is left of it") {
  Stored with("auto");
  with.Create("b", 64 * kMiB);
  // The daemon sees its length when it opens it; what it does not have then is told at once.
  WriteFile(with.folder / "f", Payload(kMiB));
  Client client = with.node.Connect();
  const os::UniqueFd fd = OpenFile(with.folder / "f", O_RDONLY);
  Endpoint end = Must(client.PassFile("f", fd.get()));
  end.offset_bytes = 0;
  end.bytes = 2 * kMiB;
  const auto longer = client.RunTransfer({.source = end, .destination = {"", "b", 0, 2 * kMiB}});
  REQUIRE_FALSE(longer.ok());
  CHECK(longer.status().code() == onecopy::Code::kOutOfRange);
  CHECK(longer.status().message().find("\"f\"") != std::string::npos);
  CHECK(with.node.Do({"buffer", "ls"}).size() == 1);
  CHECK(with.node.Do({"transfer", "ls"}).empty());
}

TEST_CASE("a descriptor counts once, in its own session, and with its own rights") {
  Stored with("auto");
  with.Create("b", 4096);
  WriteFile(with.folder / "f", std::string(4096, 'f'));
  Client client = with.node.Connect();
  Client other = with.node.Connect();
  const os::UniqueFd reads = OpenFile(with.folder / "f", O_RDONLY);
  const Endpoint buffer{"", "b", 0, 4096};
  const auto refused = [&](Client& by, const Endpoint& source, const Endpoint& destination,
                           onecopy::Code code) {
    const auto run = by.RunTransfer({.source = source, .destination = destination});
    REQUIRE_FALSE(run.ok());
    CHECK(run.status().code() == code);
  };
  // Another session, of the same user.
  const Endpoint first = Must(client.PassFile("f", reads.get()));
  refused(other, first, buffer, onecopy::Code::kInvalidArgument);
  // Not to be written.
  Endpoint target = Must(client.PassFile("f", reads.get()));
  refused(client, buffer, target, onecopy::Code::kPermissionDenied);
  CHECK(ReadFile(with.folder / "f") == std::string(4096, 'f'));
  // Once, and not again.
  CHECK(Must(client.RunTransfer({.source = first, .destination = buffer})).state ==
        onecopy::TransferState::kSucceeded);
  refused(client, first, buffer, onecopy::Code::kInvalidArgument);
  // No file, or two ends that are.
  refused(client, Must(client.PassFile("null", OpenFile("/dev/null", O_RDONLY).get())), buffer,
          onecopy::Code::kInvalidArgument);
  refused(client, Must(client.PassFile("a", reads.get())), Must(client.PassFile("b", reads.get())),
          onecopy::Code::kInvalidArgument);
  // A name that nobody passed a descriptor for makes no end a file.
  const auto called = Must(client.RunTransfer(
      {.source = {"", "b", 0, 10, "/etc/passwd"}, .destination = {"", "b", 20, 10}}));
  CHECK(called.source.file.empty());
  CHECK(called.source.buffer == "b");
  // Memory is no file, and a file no memory.
  CHECK_FALSE(client.RegisterMemfd("m", reads.get(), 0, 4096).ok());
  CHECK(with.node.Do({"buffer", "ls"}).size() == 1);
}

TEST_CASE("buffers of other users are as closed to files as to all else") {
  REQUIRE_ROOT();
  Stored with("auto");
  OpenTo(with.node);
  std::filesystem::permissions(with.folder.path(), std::filesystem::perms(0777));
  CommandAs(kOwner, with.node, {"buffer", "create", "theirs", "--size", "4096"});
  WriteFile(with.folder / "f", std::string(4096, 'f'));
  std::filesystem::permissions(with.folder / "f", std::filesystem::perms(0644));
  CHECK(RunAs(kOther, with.node, {"cp", with.folder / "f", "theirs"}).exit_status == 3);
  CheckSteps(CommandAs(kOwner, with.node, {"cp", with.folder / "f", "theirs"}), 4096);
  CheckSteps(CommandAs(kOwner, with.node, {"cp", "theirs", with.folder / "out"}), 4096);
  struct stat facts {};
  REQUIRE(::stat((with.folder / "out").c_str(), &facts) == 0);
  CHECK(facts.st_uid == kOwner);
  CHECK(ReadFile(with.folder / "out") == std::string(4096, 'f'));
}

TEST_CASE("a part of ordinary memory of a client goes to a file, and comes back") {
  Stored with("auto");
  Client client = with.node.Connect();
  std::string memory = Payload(8192, 3);
  const std::string before = memory;
  Must(client.RegisterMemory("m", memory.data(), memory.size()));
  const Endpoint part = {"east", "m", 80, 4000};
  CHECK(Must(CopyBufferToFile(client, part, {with.folder / "f"})).bytes == 4000);
  CHECK(ReadFile(with.folder / "f") == before.substr(80, 4000));
  const Endpoint other = {"east", "m", 4111, 4000};
  CHECK(Must(CopyFileToBuffer(client, {with.folder / "f"}, other)).bytes == 4000);
  std::string expected = before;
  CHECK(memory == expected.replace(4111, 4000, before, 80, 4000));
}

TEST_CASE("a client that goes takes the file with it") {
  Stored with("auto");
  with.Create("b", 4096);
  WriteFile(with.folder / "f", std::string(4096, 'f'));
  {
    Client client = with.node.Connect();
    const os::UniqueFd fd = OpenFile(with.folder / "f", O_RDONLY);
    Must(client.PassFile("f", fd.get()));
  }
  // Nobody has it open any more: not even the daemon.
  WaitUntil("the daemon has closed it", [&] {
    for (const auto& entry : std::filesystem::directory_iterator(
             "/proc/" + std::to_string(with.node.process().pid()) + "/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry.path(), gone) == with.folder / "f") return false;
    }
    return true;
  });
}
}  // namespace storage_test

// Copies of many files, and what is in folders beside files.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"

namespace many_files_test {
namespace {

using namespace onecopy::testing;
namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  WriteFile(path, bytes);
}

// What the index of a pack says.
Json IndexOf(const std::string& pack) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < 8; ++i) {
    bytes |= static_cast<uint64_t>(static_cast<unsigned char>(pack[i])) << (8 * i);
  }
  return Json::parse(pack.substr(8, bytes)).at("files");
}

double SecondsOf(const std::function<void()>& call) {
  const auto begun = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

size_t LinesIn(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("thousands of small files take little longer to another node than to another folder") {
  constexpr int kFiles = 5000;
  Pair pair;
  const TempFolder files;
  const std::string folder = files / "many";
  for (int i = 0; i < kFiles; ++i) {
    Write(folder + "/" + std::to_string(i % 10) + "/" + std::to_string(i),
          Payload(1000 + static_cast<size_t>(i) % 7, static_cast<uint64_t>(i)));
  }
  // Each at its best of three, one after the other, as others use the machine, too.
  double local = 1e9;
  double ours = 1e9;
  CommandResult copied;
  for (int round = 0; round < 3; ++round) {
    const std::string other = files / ("copy" + std::to_string(round));
    local = std::min(local, SecondsOf([&] {
                       CHECK(RunCommand("/bin/cp", {"-r", folder, other}).exit_status == 0);
                     }));
    const std::vector<std::string> command = {"--run-dir",
                                              pair.east.run_dir(),
                                              "cp",
                                              folder,
                                              "west:" + std::string("pack") + std::to_string(round),
                                              "--create"};
    ours = std::min(ours, SecondsOf([&] { copied = RunCommand("onecopy", command); }));
    REQUIRE(copied.exit_status == 0);
  }
  INFO("cp -r: " << local << " s; to the other node: " << ours << " s");
  CHECK(ours <= 5 * local);
  // A summary, which says how many.
  INFO(copied.out);
  CHECK(LinesIn(copied.out) < 30);
  CHECK(copied.out.find("5000 files -> west:pack2") != std::string::npos);
  const std::string all = Contents(pair.west, "pack2");
  const Json index = IndexOf(all);
  REQUIRE(index.size() == kFiles);
  bool same = true;
  for (const Json& file : index) {
    const std::string name = file.at("name");
    const uint64_t number = std::stoull(name.substr(2));
    same = same && all.substr(file.at("offset").get<size_t>(), file.at("bytes").get<size_t>()) ==
                       Payload(1000 + number % 7, number);
  }
  CHECK(same);
}

TEST_CASE("large files of a set have requests of their own, small ones share theirs") {
  Pair pair;
  const std::string folder = pair.east.folder() / "mixed";
  const std::string large = Payload((1 << 20) + 3, 9);
  Write(folder + "/a", "a");
  Write(folder + "/b", "");
  Write(folder + "/c", Payload(70'000, 3));
  Write(folder + "/d", large);
  Write(folder + "/e", "e");
  Write(folder + "/f", "f");
  const Json done = pair.east.Do({"cp", folder, "west:mixed", "--create", "--checksum"});
  INFO(done.dump(2));
  REQUIRE(done.at("copies").size() == 3);
  CHECK(done.at("copies")[0].at("files") == 3);
  CHECK(done.at("copies")[1].at("files") == 1);
  CHECK(done.at("copies")[1].at("bytes") == large.size());
  CHECK(done.at("copies")[2].at("files") == 2);
  for (const Json& copy : done.at("copies")) CHECK(copy.at("checksum").at("verified") == true);
  const std::string all = Contents(pair.west, "mixed");
  const Json index = IndexOf(all);
  REQUIRE(index.size() == 6);
  for (const Json& file : index) {
    CHECK(all.substr(file.at("offset").get<size_t>(), file.at("bytes").get<size_t>()) ==
          ReadFile(folder + "/" + file.at("name").get<std::string>()));
  }
  // Where the way is said, each file takes it.
  const Json one_by_one = pair.east.Do({"cp", folder, "mixed", "--create", "--path", "storage-*"});
  CHECK(one_by_one.at("copies").size() == 5);
}

TEST_CASE("what of a folder is no file is left out, and said so") {
  Pair pair;
  const std::string folder = pair.east.folder() / "model";
  Write(folder + "/a", "1");
  Write(folder + "/sub/b", "2");
  REQUIRE(::mkfifo((folder + "/fifo").c_str(), 0600) == 0);
  fs::create_symlink("nothing", folder + "/dangling");
  fs::create_directory_symlink("sub", folder + "/linked");
  fs::create_symlink("a", folder + "/link");
  for (const std::string to : {"west:", "west:all"}) {
    const CommandResult done = pair.east.Run({"cp", folder, to, "--create"});
    INFO(done.out << done.err);
    REQUIRE(done.exit_status == 0);
    CHECK(done.err.find("/fifo\": a FIFO\n") != std::string::npos);
    CHECK(done.err.find("/dangling\": a link to nothing\n") != std::string::npos);
    CHECK(done.err.find("/linked\": a link to a folder\n") != std::string::npos);
    CHECK(LinesIn(done.err) == 3);
  }
  CHECK(Contents(pair.west, "link") == "1");
  CHECK(IndexOf(Contents(pair.west, "all")).size() == 3);
  // What is named itself is no surprise, and refused.
  const CommandResult named = pair.east.Run({"cp", folder + "/fifo", folder + "/a", "west:"});
  CHECK(named.reason() == "BAD_ENDPOINT");
}

TEST_CASE("a file that grows while a buffer is made for it is copied as it was") {
  Pair pair;
  const std::string path = pair.east.folder() / "log";
  WriteFile(path, Payload(1 << 20, 5));
  Process writer(
      {.program = "/bin/sh", .arguments = {"-c", "while :; do echo more >> \"$0\"; done", path}});
  for (int i = 0; i < 5; ++i) {
    const std::string name = "log" + std::to_string(i);
    const CommandResult done = pair.east.Run({"cp", path, "west:" + name, "--create"});
    INFO(done.out << done.err);
    REQUIRE(done.exit_status == 0);
    const std::string copied = Contents(pair.west, name);
    CHECK(copied.size() >= 1 << 20);
    CHECK(copied == ReadFile(path).substr(0, copied.size()));
  }
}

TEST_CASE("the end of a file's name that was read as a range is said to be one") {
  Pair pair;
  const std::string path = pair.east.folder() / "ckpt";
  pair.east.Do({"buffer", "create", "b", "--size", "4096"});
  const auto refused = [&](const std::vector<std::string>& command, const std::string& part,
                           const std::string& range = "@1000") {
    const CommandResult result = pair.east.Run(command);
    INFO(result.out);
    CHECK(result.exit_status != 0);
    CHECK(result.message().find(part) != std::string::npos);
    CHECK(result.json.at("error").at("remedy").get<std::string>().find(path + range + "@0") !=
          std::string::npos);
  };
  const std::string was_read = "was read as a range";
  refused({"cp", path + "@1000", "b"}, was_read);
  refused({"cp", "b", path + "@1000"}, was_read);
  refused({"cp", path + "@1000", path + "@1000", "west:", "--create"}, was_read);
  WriteFile(path, std::string(2000, 'c'));
  refused({"cp", path + "@1000+5000", "b"}, was_read, "@1000+5000");
  // Both are there: nobody knows which is meant.
  WriteFile(path + "@1000", std::string(3000, 'w'));
  refused({"cp", path + "@1000", "b"}, "a file with that whole name exists too");
  refused({"cp", "b", path + "@1000"}, "a file with that whole name exists too");
  pair.east.Do({"cp", path + "@1000@0", "b"});
  CHECK(Contents(pair.east, "b@0+3000") == std::string(3000, 'w'));
  pair.east.Do({"cp", path + "@1000B", "b"});
  CHECK(Contents(pair.east, "b@0+1001") == std::string(1000, 'c') + "w");
  pair.east.Do({"cp", path + "@1000@0", path, "west:all", "--create"});
  CHECK(IndexOf(Contents(pair.west, "all")).size() == 2);
}

}  // namespace many_files_test

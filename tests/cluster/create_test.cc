// Making the other end of a copy: a buffer of another node, and several files at once.
#include <filesystem>
#include <fstream>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"

namespace create_test {
namespace {

using namespace onecopy::testing;

std::string Write(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

size_t BuffersOf(const Node& node) { return node.Do({"buffer", "ls"}).size(); }

// What the index at the beginning of a buffer lists.
Json IndexOf(const std::string& buffer) {
  REQUIRE(buffer.size() >= 4096);
  uint64_t bytes = 0;
  for (size_t i = 8; i-- > 0;) bytes = bytes << 8 | static_cast<unsigned char>(buffer[i]);
  REQUIRE(bytes <= buffer.size() - 8);
  const Json index = Json::parse(buffer.substr(8, bytes));
  CHECK(index.at("onecopy") == "pack");
  CHECK(index.at("version") == 1);
  return index.at("files");
}

// No domain in common.
constexpr char kApart[] = "uid_domain = \"mine\"\n";

}  // namespace

TEST_CASE("buffers are made and removed on another node of one domain") {
  Pair pair;
  const Json made =
      pair.east.Do({"buffer", "create", "west:weights", "--size", "5000", "--memory", "host"});
  CHECK(made.at("node") == "west");
  CHECK(made.at("bytes") == 5000);
  CHECK(made.at("owner") == std::to_string(::geteuid()) + "@east");
  CHECK(pair.west.Do({"buffer", "show", "weights"}).at("id") == made.at("id"));
  CheckRefused(pair.east.Run({"buffer", "create", "west:weights", "--size", "1"}), 2,
               "ALREADY_EXISTS", "NAME_TAKEN");
  CheckRefused(pair.east.Run({"buffer", "create", "north:weights", "--size", "1"}), 3, "NOT_FOUND",
               "PEER_NOT_FOUND");
  pair.east.Do({"buffer", "rm", "west:weights"});
  CHECK(BuffersOf(pair.west) == 0);
  CheckRefused(pair.east.Run({"buffer", "rm", "west:weights"}), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
}

TEST_CASE("cp --create makes the buffer for a file, a range of one, and another buffer") {
  Pair pair;
  const std::string payload = Payload(300'000);
  const std::string file = Write(pair.east.folder() / "a.bin", payload);
  pair.east.Do({"cp", file, "west:whole", "--create", "--checksum"});
  CHECK(Contents(pair.west, "whole") == payload);
  pair.east.Do({"cp", "--create=host", file + "@1000+2000", "west:part"});
  CHECK(Contents(pair.west, "part") == payload.substr(1000, 2000));
  pair.east.Do({"cp", "west:whole@5+10", "here", "--create"});
  CHECK(Contents(pair.east, "here") == payload.substr(5, 10));
  // What is there already stays as it is.
  CheckRefused(pair.east.Run({"cp", file, "west:part", "--create"}), 2, "ALREADY_EXISTS",
               "NAME_TAKEN");
  CHECK(Contents(pair.west, "part") == payload.substr(1000, 2000));
}

TEST_CASE("a copy that fails leaves no buffer behind, unless that is asked for") {
  Pair pair;
  const std::string file = Write(pair.east.folder() / "a.bin", Payload(100'000));
  const std::vector<std::string> failing = {"cp", file, "west:a", "--create", "--at-most", "1"};
  CheckRefused(pair.east.Run(failing), 7, "FAILED_PRECONDITION", "POLICY_UNMET");
  CHECK(BuffersOf(pair.west) == 0);
  std::vector<std::string> kept = failing;
  kept.emplace_back("--keep-failed");
  CheckRefused(pair.east.Run(kept), 7, "FAILED_PRECONDITION", "POLICY_UNMET");
  CHECK(BuffersOf(pair.west) == 1);
  // Of several, also those that were made before one could not be.
  pair.east.Do({"buffer", "create", "s", "--size", "10"});
  std::vector<std::string> several = {"cp", "s", "west:b", "--also", "west:a", "--create"};
  CheckRefused(pair.east.Run(several), 2, "ALREADY_EXISTS", "NAME_TAKEN");
  CHECK(BuffersOf(pair.west) == 1);
  several.emplace_back("--keep-failed");
  CheckRefused(pair.east.Run(several), 2, "ALREADY_EXISTS", "NAME_TAKEN");
  CHECK(BuffersOf(pair.west) == 2);
}

TEST_CASE("--create is refused where it cannot be meant") {
  Pair pair;
  const std::string file = Write(pair.east.folder() / "a.bin", "x");
  const std::string empty = Write(pair.east.folder() / "empty", "");
  pair.east.Do({"buffer", "create", "a", "--size", "10"});
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& reason) {
    CheckRefused(pair.east.Run(arguments), 2, "INVALID_ARGUMENT", reason);
  };
  refused({"cp", file, "west:b@0+1", "--create"}, "BAD_ENDPOINT");
  refused({"cp", "a", "./out", "--create"}, "BAD_ENDPOINT");
  refused({"cp", "-", "west:b", "--create"}, "BAD_SIZE");
  refused({"cp", empty, "west:b", "--create"}, "BAD_SIZE");
  refused({"cp", "a", "west:b", "--create", "--dry-run"}, "BAD_ARGUMENT");
  refused({"cp", "a", "west:b", "--create", "--detach"}, "BAD_ARGUMENT");
  refused({"cp", file, "west:b", "--keep-failed"}, "BAD_ARGUMENT");
  CheckRefused(pair.east.Run({"cp", file, "west:b", "--create=tape"}), 3, "NOT_FOUND",
               "DEVICE_NOT_FOUND");
  CHECK(BuffersOf(pair.west) == 0);
}

TEST_CASE("users of a node in another domain may make as much as the configuration says") {
  Node west("west", {.config = std::string(kApart) +
                               "[peers.east]\nuid_domain = \"theirs\"\ncreate_bytes = \"10KB\"\n"
                               "[peers.north]\nuid_domain = \"others\"\n"});
  Node east("east", {.peers = {west.AsPeer()}});
  Node north("north", {.peers = {west.AsPeer()}});
  east.WaitForPeer("west");
  north.WaitForPeer("west");
  const auto create = [](const Node& node, const std::string& name, const std::string& size) {
    return node.Run({"buffer", "create", "west:" + name, "--size", size});
  };
  const CommandResult refused = create(north, "a", "1");
  CheckRefused(refused, 4, "PERMISSION_DENIED", "NOT_OWNER");
  CHECK(refused.json.at("error").at("remedy").get<std::string>().find("create_bytes") !=
        std::string::npos);
  REQUIRE(create(east, "a", "6000").exit_status == 0);
  REQUIRE(create(east, "b", "4000").exit_status == 0);
  CheckRefused(create(east, "c", "1"), 9, "RESOURCE_EXHAUSTED", "QUOTA");
  // Nobody of west has it; who made it uses it and removes it, which makes room again.
  const std::string payload = Payload(4000);
  east.Do({"cp", "-", "west:b"}, payload);
  CHECK(Contents(east, "west:b") == payload);
  CheckRefused(north.Run({"buffer", "rm", "west:b"}), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
  east.Do({"buffer", "rm", "west:b"});
  REQUIRE(create(east, "c", "4000").exit_status == 0);
  // What could not be made takes no room, and a name that is taken is told first, as of one's own.
  CheckRefused(create(east, "c", "1"), 2, "ALREADY_EXISTS", "NAME_TAKEN");
  CheckRefused(create(east, "d", "1"), 9, "RESOURCE_EXHAUSTED", "QUOTA");
  east.Do({"buffer", "rm", "west:c"});
  CheckRefused(east.Run({"buffer", "create", "west:d", "--size", "4000", "--memory", "tape"}), 3,
               "NOT_FOUND", "DEVICE_NOT_FOUND");
  REQUIRE(create(east, "d", "4000").exit_status == 0);
}

TEST_CASE("create_bytes of 0 keeps users of one domain out, too") {
  Node west("west", {.config = "[peers.east]\ncreate_bytes = \"0\"\n"});
  Node east("east", {.peers = {west.AsPeer()}});
  east.WaitForPeer("west");
  CheckRefused(east.Run({"buffer", "create", "west:a", "--size", "1"}), 4, "PERMISSION_DENIED",
               "NOT_OWNER");
}

TEST_CASE("another user's buffer of the same node is not there for who made none") {
  REQUIRE_ROOT();
  Pair pair;
  OpenTo(pair.east);
  OpenTo(pair.west);
  CommandAs(kOwner, pair.east, {"buffer", "create", "west:mine", "--size", "10"});
  CheckRefused(RunAs(kOther, pair.east, {"buffer", "rm", "west:mine"}), 3, "NOT_FOUND",
               "BUFFER_NOT_FOUND");
  CheckRefused(RunAs(kOther, pair.west, {"buffer", "rm", "mine"}), 3, "NOT_FOUND",
               "BUFFER_NOT_FOUND");
  // One domain, one owner: also where it is.
  CommandAs(kOwner, pair.west, {"buffer", "rm", "mine"});
  // Nor is root of another node root here.
  CommandAs(kOwner, pair.west, {"buffer", "create", "ours", "--size", "10"});
  CheckRefused(pair.east.Run({"buffer", "rm", "west:ours"}), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
}

TEST_CASE("several files and folders go into a buffer each, called as they are") {
  Pair pair;
  const std::string folder = pair.east.folder() / "model";
  Write(folder + "/a.bin", Payload(1000, 1));
  Write(folder + "/layers/0.bin", Payload(2000, 2));
  const std::string alone = Write(pair.east.folder() / "config.json", "{}");
  const Json done = pair.east.Do({"cp", folder, alone, "west:", "--create"});
  REQUIRE(done.at("copies").size() == 1);
  CHECK(done.at("copies")[0].at("files") == 3);
  CHECK(Contents(pair.west, "a.bin") == Payload(1000, 1));
  CHECK(Contents(pair.west, "layers.0.bin") == Payload(2000, 2));
  CHECK(Contents(pair.west, "config.json") == "{}");
  // Into those that are there.
  Write(folder + "/a.bin", Payload(1000, 3));
  std::filesystem::remove_all(folder + "/layers");
  pair.east.Do({"cp", folder, "west:"});
  CHECK(Contents(pair.west, "a.bin") == Payload(1000, 3));
}

TEST_CASE("names that make no buffers are refused before anything is made") {
  Pair pair;
  const std::string folder = pair.east.folder() / "model";
  Write(folder + "/a/b", "1");
  Write(folder + "/a.b", "2");
  CheckRefused(pair.east.Run({"cp", folder, "west:", "--create"}), 2, "INVALID_ARGUMENT",
               "NAME_TAKEN");
  std::filesystem::remove(folder + "/a.b");
  Write(folder + "/not a name", "2");
  CheckRefused(pair.east.Run({"cp", folder, "west:", "--create"}), 2, "INVALID_ARGUMENT",
               "BAD_NAME");
  std::filesystem::create_directories(pair.east.folder() / "nothing");
  CheckRefused(pair.east.Run({"cp", pair.east.folder() / "nothing", "west:a", "--create"}), 2,
               "INVALID_ARGUMENT", "BAD_ENDPOINT");
  CheckRefused(pair.east.Run({"cp", folder, "/no/such/file", "west:a", "--create"}), 3, "NOT_FOUND",
               "FILE_NOT_FOUND");
  CheckRefused(pair.east.Run({"cp", folder, "buffer", "west:a", "--create"}), 2, "INVALID_ARGUMENT",
               "BAD_ENDPOINT");
  CHECK(BuffersOf(pair.west) == 0);
}

TEST_CASE("a folder goes into one buffer with an index, which is written last") {
  Pair pair;
  const std::string folder = pair.east.folder() / "model";
  Write(folder + "/a.bin", Payload(1000, 1));
  Write(folder + "/empty", "");
  Write(folder + "/layers/0 x", Payload(70'001, 2));
  const Json done = pair.east.Do({"cp", folder, "west:model", "--create"});
  REQUIRE(done.at("copies").size() == 1);
  CHECK(done.at("copies")[0].at("files") == 3);
  const std::string all = Contents(pair.west, "model");
  const Json files = IndexOf(all);
  REQUIRE(files.size() == 3);
  CHECK(files == done.at("files"));
  const auto bytes = [&](const Json& file) {
    return all.substr(file.at("offset").get<size_t>(), file.at("bytes").get<size_t>());
  };
  CHECK(files[0].at("name") == "a.bin");
  CHECK(bytes(files[0]) == Payload(1000, 1));
  CHECK(files[1].at("name") == "empty");
  CHECK(files[1].at("bytes") == 0);
  CHECK(files[2].at("name") == "layers/0 x");
  CHECK(bytes(files[2]) == Payload(70'001, 2));
  for (const Json& file : files) CHECK(file.at("offset").get<size_t>() % 64 == 0);

  // One that fails in the middle of an older one leaves no index that would lie.
  const auto unmet = pair.east.Run({"cp", folder, "west:model", "--at-most", "1"});
  CheckRefused(unmet, 7, "FAILED_PRECONDITION", "POLICY_UNMET");
  CHECK(IndexOf(Contents(pair.west, "model")).size() == 3);  // refused before the first byte
  std::filesystem::permissions(folder + "/layers/0 x", std::filesystem::perms::none);
  if (::geteuid() != 0) {
    CHECK(pair.east.Run({"cp", folder, "west:model"}).exit_status != 0);
    CHECK(Contents(pair.west, "model").substr(0, 8) == std::string(8, '\0'));
  }
  // No room.
  pair.west.Do({"buffer", "create", "small", "--size", "4096"});
  CheckRefused(pair.east.Run({"cp", folder, "west:small"}), 2, "INVALID_ARGUMENT", "SIZE_MISMATCH");
}

TEST_CASE("an index of thousands of files has room") {
  Pair pair;
  const std::string folder = pair.east.folder() / "many";
  for (int i = 0; i < 300; ++i) {
    Write(folder + "/" + std::string(40, 'n') + std::to_string(i), std::to_string(i));
  }
  pair.east.Do({"cp", folder, "many", "--create"});
  const std::string all = Contents(pair.east, "many");
  const Json files = IndexOf(all);
  REQUIRE(files.size() == 300);
  for (const Json& file : files) {
    const std::string name = file.at("name");
    CHECK(all.substr(file.at("offset").get<size_t>(), file.at("bytes").get<size_t>()) ==
          name.substr(40));
  }
}

TEST_CASE("a copy of several files that fails takes back every buffer that it made") {
  Pair pair;
  const std::string folder = pair.east.folder() / "model";
  Write(folder + "/a.bin", Payload(1000, 1));
  Write(folder + "/b.bin", Payload(1000, 2));
  Write(folder + "/c.bin", Payload(1000, 3));
  pair.west.Do({"buffer", "create", "b.bin", "--size", "1000"});
  CheckRefused(pair.east.Run({"cp", folder, "west:", "--create"}), 2, "ALREADY_EXISTS",
               "NAME_TAKEN");
  CHECK(BuffersOf(pair.west) == 1);
  CheckRefused(pair.east.Run({"cp", folder, "west:", "--create", "--keep-failed"}), 2,
               "ALREADY_EXISTS", "NAME_TAKEN");
  CHECK(BuffersOf(pair.west) == 3);
  // No buffer is made for nothing, nor any beside it.
  Write(folder + "/d.bin", "");
  CheckRefused(pair.east.Run({"cp", folder, "west:", "--create", "--keep-failed"}), 2,
               "INVALID_ARGUMENT", "BAD_SIZE");
  CHECK(BuffersOf(pair.west) == 3);
}

TEST_CASE("the message of several files comes once, after their index") {
  Pair pair;
  onecopy::Client owner = pair.west.Connect();
  const onecopy::HostBuffer model = Must(owner.CreateHostBuffer("model", 1 << 20));
  onecopy::ArrivalWatch watch = Must(owner.WatchArrivals("model"));
  const std::string folder = pair.east.folder() / "model";
  Write(folder + "/a.bin", Payload(1000, 1));
  Write(folder + "/b.bin", Payload(1000, 2));
  CheckRefused(pair.east.Run({"cp", folder, "west:", "--create", "--message", "all"}), 2,
               "INVALID_ARGUMENT", "BAD_ARGUMENT");
  CHECK(BuffersOf(pair.west) == 1);
  pair.east.Do({"cp", folder, "west:model", "--message", "all"});
  std::vector<onecopy::Arrival> arrived;
  while (arrived.empty() || arrived.back().message.empty()) {
    for (onecopy::Arrival& each : Must(watch.Wait()).arrivals) arrived.push_back(std::move(each));
  }
  CHECK(arrived.back().message == "all");
  const std::string bytes(reinterpret_cast<const char*>(model.data()), model.bytes());
  CHECK(IndexOf(bytes).size() == 2);
}
TEST_CASE("a folder that was copied into a buffer comes back as a folder, from another node too") {
  Pair pair;
  const std::string folder = pair.east.folder() / "model";
  const std::string large = Payload(3'000'000);
  Write(folder + "/a.bin", large);
  Write(folder + "/deep/er/b.txt", "small");
  Write(folder + "/empty", "");
  Write(folder + "/deep/run.sh", "#!/bin/sh\n");
  Write(folder + "/nothing", "");
  namespace fs = std::filesystem;
  for (const char* name : {"/deep/run.sh", "/nothing"})
    fs::permissions(folder + name, fs::perms(0700));
  fs::create_directories(folder + "/hollow/inside");
  fs::create_directory(folder + "/deep/hollow");
  for (int i = 0; i < 200; ++i) {  // an index of more than its first 4096 bytes
    Write(folder + "/many/" + std::string(20, 'n') + std::to_string(i), std::to_string(i));
  }
  pair.east.Do({"cp", folder, "west:model", "--create"});
  const std::string back = pair.east.folder() / "back/here";
  const Json done = pair.east.Do({"cp", "west:model", back + "/", "--checksum", "--sync"});
  CHECK(done.at("files").size() == 205);
  for (const Json& each : done.at("files")) {
    const std::string name = each.at("name");
    INFO(name);
    CHECK(ReadFile(back + "/" + name) == ReadFile(folder + "/" + name));
    const bool executable = name == "deep/run.sh" || name == "nothing";
    CHECK(executable == (::access((back + "/" + name).c_str(), X_OK) == 0));
  }
  CHECK(fs::is_directory(back + "/hollow/inside"));
  CHECK(fs::is_directory(back + "/deep/hollow"));
  // Into one that is there, what has these names is replaced; all as one file is what it was
  // before.
  Write(back + "/deep/er/b.txt", "changed");
  Write(back + "/mine", "kept");
  std::filesystem::remove(back + "/empty");
  Write(back + "/full", "still needed");
  std::filesystem::create_hard_link(back + "/full", back + "/empty");
  pair.east.Do({"cp", "west:model", back});
  CHECK(ReadFile(back + "/full") == "still needed");
  CHECK(ReadFile(back + "/empty").empty());
  CHECK(ReadFile(back + "/deep/er/b.txt") == "small");
  CHECK(ReadFile(back + "/mine") == "kept");
  pair.east.Do({"cp", "west:model", back + ".pack"});
  CHECK(std::filesystem::file_size(back + ".pack") > large.size());
  pair.west.Do({"cp", "model", pair.west.folder() / "west/"});
  CHECK(ReadFile(pair.west.folder() / "west/empty").empty());
}

TEST_CASE("what would be a file and also a folder is not copied into one buffer") {
  Pair pair;
  const std::string here = pair.east.folder().path();
  std::filesystem::create_directories(here + "/a/x/e");
  Write(here + "/b/x", "file");
  Write(here + "/c/x/e", "file");
  for (const char* other : {"/a", "/c"}) {
    INFO(other);
    CheckRefused(pair.east.Run({"cp", here + other, here + "/b", "west:m", "--create"}), 2,
                 "INVALID_ARGUMENT", "NAME_TAKEN");
  }
  CHECK(BuffersOf(pair.west) == 0);
  pair.east.Do({"cp", here + "/a", here + "/b", "west:", "--create"});  // a buffer each
  CHECK(BuffersOf(pair.west) == 1);
}

TEST_CASE("an index of more than a pack can have is refused before it is read as JSON") {
  Pair pair;
  const std::string target = pair.east.folder() / "target";
  std::filesystem::create_directory(target);
  std::string index = R"({"onecopy":"pack","version":1,"files":[{})";
  for (int i = 0; i < 2'000'000; ++i) index += ",{}";
  index += "]}";
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(index.size() >> 8 * i);
  const std::string file = Write(pair.east.folder() / "index", bytes + index);
  pair.east.Do({"cp", file, "b", "--create"});
  CheckRefused(pair.east.Run({"cp", "b", target}), 2, "INVALID_ARGUMENT", "BAD_FORMAT");
}

TEST_CASE("a buffer without a sound index does not become a folder, and leads nowhere else") {
  Pair pair;
  const std::string target = pair.east.folder() / "target";
  std::filesystem::create_directory(target);
  const auto refused = [&](const std::string& index, const std::string& reason = "BAD_FORMAT") {
    INFO(index);
    std::string bytes(8, '\0');
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(index.size() >> 8 * i);
    bytes += index;
    bytes.resize(8192);
    pair.east.Do({"buffer", "create", "b", "--size", "8192"});
    pair.east.Do({"cp", "-", "b"}, bytes);
    const CommandResult run = pair.east.Run({"cp", "b", target});
    CHECK(run.exit_status != 0);
    CHECK(run.reason() == reason);
    pair.east.Do({"buffer", "rm", "b"});
  };
  const auto with = [](const std::string& files) {
    return R"({"onecopy":"pack","version":1,"files":[)" + files + "]}";
  };
  refused("");
  refused("{}");
  refused("rubbish");
  refused(with("") + "x");
  refused(R"({"onecopy":"pack","version":2,"files":[]})");
  refused(with("7"));
  refused(R"({"onecopy":"pack","version":1,"files":[],"folders":7})");
  refused(R"({"onecopy":"pack","version":1,"files":[],"folders":[7]})");
  refused(R"({"onecopy":"pack","version":1,"files":[],"folders":["../x"]})");
  refused(with(std::string(3000, '[') + std::string(3000, ']')));
  refused(with(R"({"name":"a","offset":4096})"));
  refused(with(R"({"name":"a","offset":4096,"bytes":-1})"));
  refused(with(R"({"name":"a","offset":8000,"bytes":193})"));
  refused(with(R"({"name":"a","offset":18446744073709551615,"bytes":2})"));
  for (const char* name : {"", "/etc/x", "../x", "a/../../x", "a/./b", "a/", "a\\u0000b"}) {
    refused(with(R"({"name":")" + std::string(name) + R"(","offset":4096,"bytes":1})"));
  }
  refused(with(R"({"name":"a","offset":4096,"bytes":1},{"name":"a","offset":4096,"bytes":1})"));
  refused(with(R"({"name":"a","offset":4096,"bytes":1},{"name":"a/b","offset":4096,"bytes":1})"));
  refused(with(R"({"name":")" + std::string(4097, 'n') + R"(","offset":4096,"bytes":1})"));
  refused(R"({"onecopy":"pack","version":1,"folders":["a"],"files":[)"
          R"({"name":"a","offset":4096,"bytes":1}]})");
  refused(R"({"onecopy":"pack","version":1,"folders":["a/b"],"files":[)"
          R"({"name":"a!","offset":4096,"bytes":1},{"name":"a","offset":4096,"bytes":1}]})");
  // Links in the folder lead elsewhere.
  const std::string outside = pair.east.folder() / "outside";
  std::filesystem::create_directory(outside);
  std::filesystem::create_symlink(outside, target + "/link");
  std::filesystem::create_symlink(outside + "/new", target + "/file");
  refused(with(R"({"name":"link/x","offset":4096,"bytes":1})"), "ACCESS_DENIED");
  refused(with(R"({"name":"file","offset":4096,"bytes":1})"), "ACCESS_DENIED");
  refused(with(R"({"name":"file","offset":4096,"bytes":0})"), "ACCESS_DENIED");
  CHECK(std::filesystem::is_empty(outside));
  CHECK(pair.east.Run({"cp", "missing", target}).reason() == "BUFFER_NOT_FOUND");
}

}  // namespace create_test

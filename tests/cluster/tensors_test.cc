// `onecopy cp --tensors`: a safetensors file into a buffer, and where each tensor is then.
#include <sys/stat.h>

#include <fstream>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace tensors_test {
namespace {

using namespace onecopy::testing;

std::string FileOf(const std::string& text, const std::string& payload) {
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(uint64_t{text.size()} >> (8 * i) & 0xff);
  return file + text + payload;
}

std::string Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

constexpr char kText[] =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[50],"data_offsets":[200000,200100]},)"
    R"("a":{"dtype":"F32","shape":[500,100],"data_offsets":[0,200000]},)"
    R"("none":{"dtype":"U8","shape":[0],"data_offsets":[200100,200100]}}   )";

}  // namespace

TEST_CASE("the payload moves, and each tensor has its range") {
  Pair pair;
  const std::string payload = Payload(200'100);
  const std::string file = Write(pair.east.folder() / "m.safetensors", FileOf(kText, payload));
  for (const std::string node : {"east", "west"}) {
    const Node& there = node == "east" ? pair.east : pair.west;
    const Json done =
        pair.east.Do({"cp", file, node + ":m", "--create", "--tensors", "--checksum"});
    CHECK(done.at("bytes") == payload.size());
    CHECK(Contents(there, "m") == payload);
    const Json& tensors = done.at("tensors");
    REQUIRE(tensors.size() == 3);
    CHECK(tensors[0] == Json{{"name", "a"},
                             {"dtype", "F32"},
                             {"shape", {500, 100}},
                             {"bytes", 200'000},
                             {"endpoint", node + ":m@0+200000"}});
    CHECK(tensors[1].at("endpoint") == node + ":m@200000+100");
    CHECK(tensors[2].at("endpoint") == node + ":m@200100+0");
    pair.east.Do({"cp", tensors[1].at("endpoint").get<std::string>(), "east:" + node, "--create"});
    CHECK(Contents(pair.east, node) == payload.substr(200'000, 100));
  }
  // Into the middle of a buffer, and without a node.
  pair.east.Do({"buffer", "create", "large", "--size", "1MiB"});
  const Json inside = pair.east.Do({"cp", file, "large@4096", "--tensors"});
  CHECK(inside.at("tensors")[1].at("endpoint") == "east:large@204096+100");
  CHECK(Contents(pair.east, "large").substr(4096, payload.size()) == payload);
  CHECK(!pair.east.Do({"cp", file, "large"}).contains("tensors"));
}

TEST_CASE("what is no safetensors file is refused, and no buffer is made for it") {
  Pair pair;
  const std::string payload = Payload(200'100);
  const std::string right = FileOf(kText, payload);
  const auto refused = [&](const std::string& bytes, const std::string& what) {
    INFO(what);
    const std::string file = Write(pair.east.folder() / "wrong.safetensors", bytes);
    CheckRefused(pair.east.Run({"cp", file, "west:m", "--create", "--tensors"}), 2,
                 "INVALID_ARGUMENT", "BAD_FORMAT");
  };
  refused("", "empty");
  refused("1234567", "too short");
  refused(right.substr(0, right.size() - 1), "cut short");
  refused(right + "x", "bytes behind");
  refused(std::string(8, '\xff') + "{}", "a head of all bits");
  refused(FileOf("{}", "x"), "a payload of nothing");
  const auto with = [](const std::string& tensors) { return FileOf(tensors, "1234"); };
  refused(with(R"([])"), "a list");
  refused(with(R"({"a":1})"), "no object");
  refused(with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} x)"), "more behind it");
  refused(with(R"({"a":{"dtype":"F7","shape":[4],"data_offsets":[0,4]}})"), "unknown dtype");
  refused(with(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})"), "a negative length");
  refused(with(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})"), "a fraction");
  refused(with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})"), "another size");
  refused(with(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})"), "backwards");
  refused(with(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})"), "past the end");
  refused(with(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
          "a product past all bits");
  refused(with(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
               R"("b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})"),
          "overlapping");
  refused(with(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
               R"("b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})"),
          "a hole");
  refused(with(R"({"a":1,"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})"),
          "no tensor first");
  refused(with(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})" + std::string(4, '\0')),
          "filled up with NUL");
  refused(with(std::string(100'000, '[')), "deep");
  refused(with("{\"a\xff\":{}}"), "not UTF-8");
  const std::string fifo = pair.east.folder() / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CheckRefused(pair.east.Run({"cp", fifo, "west:m", "--create", "--tensors"}), 2,
               "INVALID_ARGUMENT", "BAD_ARGUMENT");
  CheckRefused(pair.east.Run({"cp", pair.east.folder() / "run", "west:m", "--create", "--tensors"}),
               2, "INVALID_ARGUMENT", "BAD_ARGUMENT");
  CHECK(pair.west.Do({"buffer", "ls"}).empty());
}

TEST_CASE("--tensors is refused where it cannot be meant") {
  Pair pair;
  const std::string file =
      Write(pair.east.folder() / "m.safetensors", FileOf(kText, Payload(200'100)));
  pair.east.Do({"buffer", "create", "a", "--size", "1MiB"});
  const auto refused = [&](const std::vector<std::string>& arguments) {
    CheckRefused(pair.east.Run(arguments), 2, "INVALID_ARGUMENT", "BAD_ARGUMENT");
  };
  refused({"cp", "a", "west:b", "--tensors"});
  refused({"cp", file + "@0+100", "a", "--tensors"});
  refused({"cp", "a", file, "--tensors"});
  refused({"cp", file, file, "west:", "--create", "--tensors"});
  CheckRefused(pair.east.Run({"cp", pair.east.folder() / "gone", "a", "--tensors"}), 3, "NOT_FOUND",
               "FILE_NOT_FOUND");
}
}  // namespace tensors_test

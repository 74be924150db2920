// Files that have parts of buffers, and texts between them.
#include <sys/mman.h>

#include <filesystem>
#include <fstream>

#include "onecopy/reasons.h"
#include "tests/unit/client/file_copy_fixture.h"

namespace copy_pieces_test {
using onecopy::Code;
using onecopy::CopyBuffersToFile;
using onecopy::CopyFileToBuffers;
using onecopy::CopyFileToMemory;
using onecopy::FileCopyOptions;
using onecopy::FileMemory;
using onecopy::FilePiece;
using onecopy::FileText;
using onecopy::testing::FileCopyFixture;
using onecopy::testing::Pattern;
using onecopy::testing::ServedCluster;

namespace fs = std::filesystem;
namespace reasons = onecopy::reasons;

namespace {

struct PiecesFixture : FileCopyFixture {
  std::string content = Pattern(10'000);
  std::string out;  // a folder with nothing else in it

  explicit PiecesFixture(const ServedCluster::Change& change = {})
      : FileCopyFixture(change), out(dir / "out") {
    daemon.AddBuffer("west", "b", content.size());
    daemon.SetBytes("west", "b", content);
    fs::create_directory(out);
  }

  bool IsEmpty() const { return fs::directory_iterator(out) == fs::directory_iterator(); }
};

// As where the other node's daemon is too old to move files between nodes.
class TooOld final : public onecopy::Store {
 public:
  onecopy::StoreCapability Describe() const override { return {"too-old", {}, {}}; }
  void Open(onecopy::OpenFileRequest /*request*/, Opened done) override {
    done(onecopy::Status(Code::kFailedPrecondition, reasons::kNotApplicable, "too old"));
  }
};

FilePiece Piece(uint64_t at, uint64_t offset, uint64_t bytes) {
  return {at, {"west", "b", offset, bytes}};
}

}  // namespace

TEST_CASE("a file gets its texts and pieces where they belong, and zeros between them") {
  PiecesFixture fixture;
  const std::vector<FileText> texts = {
      {0, "head"}, {9'000, "tail"}, {3'000, "middle"}, {5'000, ""}};
  const std::vector<FilePiece> pieces = {Piece(100, 10, 1'000), Piece(4'000, 5'000, 3'000)};
  const auto copied = CopyBuffersToFile(fixture.client, texts, pieces, {fixture.out + "/f"});
  REQUIRE(copied.ok());
  uint64_t moved = 0;
  for (const auto& each : *copied) moved += each.copy.bytes;
  CHECK(moved == 4'000);
  std::string expected(9'004, '\0');
  expected.replace(0, 4, "head");
  expected.replace(100, 1'000, fixture.content, 10, 1'000);
  expected.replace(3'000, 6, "middle");
  expected.replace(4'000, 3'000, fixture.content, 5'000, 3'000);
  expected.replace(9'000, 4, "tail");
  CHECK(fixture.Read("out/f") == expected);

  // And back, each piece to where it was.
  fixture.daemon.AddBuffer("west", "c", fixture.content.size());
  const std::vector<FilePiece> back = {{100, {"west", "c", 10, 1'000}},
                                       {4'000, {"west", "c", 5'000, 3'000}}};
  REQUIRE(CopyFileToBuffers(fixture.client, {fixture.out + "/f"}, back).ok());
  std::string there(fixture.content.size(), '\0');
  there.replace(10, 1'000, fixture.content, 10, 1'000);
  there.replace(5'000, 3'000, fixture.content, 5'000, 3'000);
  CHECK(fixture.daemon.Bytes("west", "c") == there);
}

TEST_CASE("pieces that the daemons are too old to move go by windows") {
  PiecesFixture fixture([](const std::string& /*node*/, onecopy::testing::NodePlan& plan) {
    plan.stores.push_back(std::make_unique<TooOld>());
  });
  REQUIRE(fixture.client.moves_files());
  const std::vector<FilePiece> pieces = {Piece(0, 10, 1'000), Piece(2'000, 5'000, 3'000)};
  const auto copied = CopyBuffersToFile(fixture.client, {}, pieces, {fixture.out + "/f"});
  REQUIRE_OK(copied);
  std::string expected(5'000, '\0');
  expected.replace(0, 1'000, fixture.content, 10, 1'000);
  expected.replace(2'000, 3'000, fixture.content, 5'000, 3'000);
  CHECK(fixture.Read("out/f") == expected);

  fixture.daemon.AddBuffer("west", "c", 5'000);
  const std::vector<FilePiece> back = {{0, {"west", "c", 4'000, 1'000}},
                                       {2'000, {"west", "c", 0, 3'000}}};
  REQUIRE_OK(CopyFileToBuffers(fixture.client, {fixture.out + "/f"}, back));
  CHECK(fixture.daemon.Bytes("west", "c") ==
        expected.substr(2'000, 3'000) + std::string(1'000, '\0') + expected.substr(0, 1'000));
}

TEST_CASE("a file of texts alone") {
  PiecesFixture fixture;
  const std::vector<FileText> texts = {{2, "b"}, {0, "a"}};
  const auto copied = CopyBuffersToFile(fixture.client, texts, {}, {fixture.out + "/f"});
  REQUIRE(copied.ok());
  CHECK(copied->empty());
  CHECK(fixture.Read("out/f") == std::string("a\0b", 3));
}

TEST_CASE("texts that are payload are a copy by the client") {
  PiecesFixture fixture;
  const std::vector<FileText> texts = {
      {0, "head"}, {10, "some", true}, {20, "", true}, {30, "more", true}};
  const std::vector<FilePiece> pieces = {Piece(100, 10, 1'000)};
  const auto copied = CopyBuffersToFile(fixture.client, texts, pieces, {fixture.out + "/f"});
  REQUIRE(copied.ok());
  REQUIRE(copied->size() == 2);
  const auto& [file, buffer, copy] = copied->front();
  CHECK(file.ToString() == "east:" + fixture.out + "/f@10+24");
  CHECK(buffer.ToString() == "east:(memory of the client)");
  CHECK(copy.id.str().empty());
  CHECK(copy.bytes == 8);
  CHECK(copy.receipt.path == "client");
  REQUIRE(copy.receipt.steps.size() == 1);
  CHECK(copy.receipt.steps[0].step.by == "client");
  CHECK(copy.receipt.steps[0].step.from == "host");
  CHECK(copy.receipt.steps[0].bytes == 8);
  CHECK(copied->back().copy.bytes == 1'000);
  CHECK(fixture.Read("out/f").substr(0, 40) ==
        std::string("head\0\0\0\0\0\0some\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0more\0\0\0\0\0\0", 40));
}

TEST_CASE("a text that cannot be read is refused, and leaves nothing") {
  PiecesFixture fixture;
  auto* const nowhere =
      static_cast<char*>(::mmap(nullptr, 4'096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(nowhere != MAP_FAILED);
  const std::vector<FileText> texts = {{0, {nowhere, 4'096}, true}};
  const auto copied = CopyBuffersToFile(fixture.client, texts, {}, {fixture.out + "/f"});
  REQUIRE_FALSE(copied.ok());
  CHECK(copied.status().code() == Code::kAborted);
  CHECK(copied.status().reason() == reasons::kMemoryFault);
  CHECK(fixture.IsEmpty());
  ::munmap(nowhere, 4'096);
}

TEST_CASE("parts of a file are read into memory by the client") {
  PiecesFixture fixture;
  const std::string path = fixture.out + "/f";
  std::ofstream(path, std::ios::binary) << fixture.content;
  std::string memory(3'000, '.');
  auto* const bytes = reinterpret_cast<std::byte*>(memory.data());
  const std::vector<FileMemory> parts = {{100, bytes, 1'000}, {5'000, bytes + 1'500, 1'500}};
  const auto copied = CopyFileToMemory(fixture.client, {path}, parts);
  REQUIRE(copied.ok());
  CHECK(copied->bytes == 2'500);
  CHECK(copied->receipt.path == "client");
  CHECK(copied->receipt.ranges == 2);
  CHECK(copied->receipt.steps[0].step.from == "file");
  CHECK(memory == fixture.content.substr(100, 1'000) + std::string(500, '.') +
                      fixture.content.substr(5'000, 1'500));
  const std::vector<FileMemory> past = {{fixture.content.size() - 10, bytes, 11}};
  CHECK(CopyFileToMemory(fixture.client, {path}, past).status().code() == Code::kOutOfRange);
  CHECK(CopyFileToMemory(fixture.client, {fixture.out + "/gone"}, parts).status().code() ==
        Code::kNotFound);
  FileCopyOptions stopped;
  std::stop_source stop;
  stop.request_stop();
  stopped.stop = stop.get_token();
  CHECK(CopyFileToMemory(fixture.client, {path}, parts, stopped).status().code() ==
        Code::kCancelled);
}

TEST_CASE("a text where no file has anything is refused, and leaves nothing") {
  PiecesFixture fixture;
  const std::vector<FilePiece> pieces = {Piece(0, 0, 10)};
  for (const uint64_t offset : {UINT64_MAX, uint64_t{INT64_MAX}, uint64_t{INT64_MAX} - 2}) {
    const std::vector<FileText> texts = {{offset, "text"}};
    const auto copied = CopyBuffersToFile(fixture.client, texts, pieces, {fixture.out + "/f"});
    REQUIRE_FALSE(copied.ok());
    CHECK(copied.status().code() == Code::kOutOfRange);
    CHECK(fixture.IsEmpty());
  }
}
}  // namespace copy_pieces_test

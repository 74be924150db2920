// Files that have parts of buffers, and texts between them.
#include <filesystem>

#include "onecopy/reasons.h"
#include "tests/unit/client/file_copy_fixture.h"

namespace copy_pieces_test {
using onecopy::Code;
using onecopy::CopyBuffersToFile;
using onecopy::CopyFileToBuffers;
using onecopy::FilePiece;
using onecopy::FileText;
using onecopy::testing::FileCopyFixture;
using onecopy::testing::Pattern;

namespace fs = std::filesystem;
namespace reasons = onecopy::reasons;

namespace {

struct PiecesFixture : FileCopyFixture {
  std::string content = Pattern(10'000);
  std::string out;  // a folder with nothing else in it

  PiecesFixture() : out(dir / "out") {
    daemon.AddBuffer("west", "b", content.size());
    daemon.SetBytes("west", "b", content);
    fs::create_directory(out);
  }

  bool IsEmpty() const { return fs::directory_iterator(out) == fs::directory_iterator(); }
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

TEST_CASE("a file of texts alone") {
  PiecesFixture fixture;
  const std::vector<FileText> texts = {{2, "b"}, {0, "a"}};
  const auto copied = CopyBuffersToFile(fixture.client, texts, {}, {fixture.out + "/f"});
  REQUIRE(copied.ok());
  CHECK(copied->empty());
  CHECK(fixture.Read("out/f") == std::string("a\0b", 3));
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

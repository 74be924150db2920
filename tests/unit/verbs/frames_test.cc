// Frames between the ends of a connection.
#include <random>

#include "tests/support/catch.h"
#include "transport/link/verbs/control.h"

using namespace onecopy::verbs;

namespace {

std::optional<Frame> Decode(const std::string& bytes) {
  return DecodeFrame(std::as_bytes(std::span(bytes)));
}

}  // namespace

TEST_CASE("a frame arrives as it was sent") {
  const std::string bytes = Encode(Frame{FrameKind::kMessage, 5, 77, "slot 7 is full"});
  CHECK(bytes.size() == kFrameHeaderBytes + 14);
  const auto frame = Decode(bytes);
  REQUIRE(frame);
  CHECK(frame->kind == FrameKind::kMessage);
  CHECK(frame->number == 5);
  CHECK(frame->subject == 77);
  CHECK(frame->text == "slot 7 is full");
}

TEST_CASE("what is no frame is told from one") {
  CHECK_FALSE(Decode(""));
  CHECK_FALSE(Decode(std::string(kFrameHeaderBytes - 1, '\1')));
  CHECK_FALSE(Decode(std::string(kFrameHeaderBytes, '\0')));
  CHECK_FALSE(Decode(std::string(kFrameHeaderBytes, '\x7f')));
  // Only what has its turn is numbered.
  CHECK_FALSE(Decode(Encode(Frame{FrameKind::kMessage, 0, 1, "x"})));
  CHECK_FALSE(Decode(Encode(Frame{FrameKind::kPing, 1, 0, {}})));
}

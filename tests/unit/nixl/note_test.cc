#include "client/nixl/note.h"

#include "onecopy/arrival.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::nixl;

namespace {

using Note = std::pair<std::string, std::string>;

std::vector<std::string> Split(const std::string& agent, const std::string& number,
                               const std::string& text) {
  auto messages = SplitNote(agent, number, text);
  REQUIRE_OK(messages);
  for (const std::string& message : *messages) CHECK(message.size() <= kMaxArrivalMessageBytes);
  return *messages;
}

}  // namespace

TEST_CASE("a notification is put together as it was") {
  const std::string text = GENERATE(std::string(), std::string("a b\n\0c", 6),
                                    std::string(100'000, 'x'), std::string(kMaxNoteBytes, 'y'));
  NoteReader reader;
  const std::vector<std::string> messages = Split("an agent\n", "7", text);
  for (size_t i = 0; i + 1 < messages.size(); ++i) CHECK(!reader.Add(messages[i]));
  CHECK(reader.Add(messages.back()) == Note("an agent\n", text));
}

TEST_CASE("parts of several notifications may come between each other") {
  NoteReader reader;
  const auto one = Split("a", "1", std::string(6000, 'x'));
  const auto other = Split("a", "2", std::string(6000, 'y'));
  REQUIRE(one.size() == 2);
  CHECK(!reader.Add(one[0]));
  CHECK(!reader.Add(other[0]));
  CHECK(reader.Add(one[1]) == Note("a", std::string(6000, 'x')));
  CHECK(reader.Add(other[1]) == Note("a", std::string(6000, 'y')));
}

TEST_CASE("what no agent of ours sent is no notification") {
  NoteReader reader;
  for (const std::string message :
       {"", "hello", "onecopy-note-1 ", "onecopy-note-1 1 0 1 5\nabc", "onecopy-note-1 1 1 1 0\n",
        "onecopy-note-1 1 0 0 0\n", "onecopy-note-1 1 x 1 0\n", "onecopy-note-1 1 0 1 -1\n",
        "onecopy-note-2 1 0 1 1\na"}) {
    CHECK(!reader.Add(message));
  }
  const auto parts = Split("a", "1", std::string(9000, 'x'));
  REQUIRE(parts.size() == 3);
  CHECK(!reader.Add(parts[1]));  // the first one is missing
  CHECK(!reader.Add(parts[0]));
  CHECK(!reader.Add(parts[2]));  // out of order: given up
  CHECK(!reader.Add(parts[1]));
  CHECK(!reader.Add(parts[2]));
}

TEST_CASE("senders that stop half-way cost no more than so much") {
  NoteReader reader;
  const auto kept = Split("a", "kept", std::string(6000, 'x'));
  CHECK(!reader.Add(kept[0]));
  for (int i = 0; i < 1000; ++i) {
    CHECK(!reader.Add(Split("a", std::to_string(i), std::string(6000, 'y'))[0]));
  }
  CHECK(!reader.Add(kept[1]));  // was given up for those after it
  const auto last = Split("a", "999", std::string(6000, 'y'));
  CHECK(reader.Add(last[1]) == Note("a", std::string(6000, 'y')));
}

TEST_CASE("a notification that is too long is refused") {
  CHECK(SplitNote("a", "1", std::string(kMaxNoteBytes + 1, 'x')).status().reason() ==
        reasons::kBadSize);
  CHECK(SplitNote(std::string(3000, 'a'), "1", "x").status().reason() == reasons::kBadSize);
}

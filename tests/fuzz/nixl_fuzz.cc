// What agents of NIXL tell each other: where an agent is and where its memory lies, which goes
// through NIXL's metadata, and notifications, which come as messages.
#include <algorithm>

#include "client/nixl/note.h"
#include "client/nixl/wire.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace onecopy;
using namespace onecopy::nixl;

constexpr size_t kMaxMessages = 64;
constexpr char kEnd = '\x1e';  // of a message of an input

// A reader, into which anybody has put messages, must still read a note of somebody else.
void Read(std::string_view input) {
  NoteReader reader;
  for (size_t i = 0; i < kMaxMessages && !input.empty(); ++i) {
    const std::string_view message = input.substr(0, input.find(kEnd));
    input.remove_prefix(std::min(input.size(), message.size() + 1));
    const auto note = reader.Add(message);
    if (!note) continue;
    EXPECT(note->first.size() <= message.size());
    EXPECT(note->second.size() <= kMaxNoteBytes);
  }
  const std::string agent = "the fuzz target's own agent";
  const std::string text(10'000, 't');
  const auto messages = SplitNote(agent, "7-0", text);
  EXPECT(messages.ok() && messages->size() > 1);
  for (const std::string& message : *messages) {
    const auto note = reader.Add(message);
    EXPECT(note.has_value() == (&message == &messages->back()));
    EXPECT(!note || *note == std::pair(agent, text));
  }
}

// Any agent and any text arrive as they were sent, or are refused.
void Send(fuzz::Input& input) {
  const std::string agent(input.Cut(input.Get<uint16_t>()));
  std::string text(input.Rest());
  const size_t times = text.empty() ? 1 : 1 + agent.size() % 64;
  for (size_t i = 1; i < times; ++i) text.append(text, 0, std::min<size_t>(text.size(), 4096));
  const auto messages = SplitNote(agent, "7-0", text);
  if (!messages.ok()) {
    EXPECT(messages.status().code() == Code::kInvalidArgument);
    return;
  }
  NoteReader reader;
  for (const std::string& message : *messages) {
    const auto note = reader.Add(message);
    EXPECT(note.has_value() == (&message == &messages->back()));
    EXPECT(!note || *note == std::pair(agent, text));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  switch (input.Byte() % 4) {
    case 0:
      fuzz::RoundTripOf(input.Rest(), &DecodeAgent);
      break;
    case 1:
      fuzz::RoundTripOf(input.Rest(), &DecodeMemory);
      break;
    case 2:
      Read(input.Rest());
      break;
    default:
      Send(input);
  }
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  const auto parts = SplitNote("agent", "1-2", std::string(9'000, 'x'));
  std::string half_way;  // the first message, and the last
  if (parts.ok()) half_way = parts->front() + kEnd + parts->back();
  return {For(0, Encode(AgentPlace{"west", "nixl-0123", "4711-ab"})),
          For(1, Encode(MemoryPlace{"nixl-0123-7", UINT64_MAX})),
          For(1, Encode(MemoryPlace{"", 0})),
          For(2, std::string("onecopy-note-1 1-2 0 1 5\nagenttext") + kEnd +
                     "onecopy-note-1 1-3 1 2 5\nagenttext"),
          For(2, half_way),
          For(2, "onecopy-note-1 1 0 18446744073709551615 0\n"),
          For(3, std::string("\5\0agenttext", 11)),
          For(3, std::string("\0\0", 2))};
}

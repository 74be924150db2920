// What agents tell each other through NIXL's metadata, and the messages of their notifications.
#include "client/nixl/note.h"
#include "client/nixl/wire.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace onecopy;
using namespace onecopy::nixl;

enum Decoder : uint8_t { kAgent, kMemory, kNotes };

// Messages of one mailbox, each with its length before it.
std::string Sent(const std::vector<std::string>& messages) {
  std::string all;
  for (const std::string& message : messages) {
    all += static_cast<char>(message.size() & 0xff);
    all += static_cast<char>(message.size() >> 8);
    all += message;
  }
  return fuzz::For(kNotes, all);
}

void ReadNotes(fuzz::Input& input) {
  NoteReader reader;
  while (!input.empty()) {
    const size_t bytes = input.Get<uint16_t>();
    const std::string_view message = input.Cut(bytes);
    const auto note = reader.Add(message);
    if (!note) continue;
    EXPECT(note->first.size() <= message.size());
    EXPECT(note->second.size() <= kMaxNoteBytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  switch (input.Byte()) {
    case kAgent:
      fuzz::RoundTripOf(input.Rest(), DecodeAgent);
      break;
    case kMemory:
      fuzz::RoundTripOf(input.Rest(), DecodeMemory);
      break;
    default:
      ReadNotes(input);
  }
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  std::vector<std::string> mixed = *SplitNote("an agent", "7", std::string(9000, 'x'));
  mixed.insert(mixed.begin() + 1, SplitNote("another", "7", "short")->front());
  return {fuzz::For(kAgent, Encode(AgentPlace{"west", "nixl-0123", "4711-ab"})),
          fuzz::For(kMemory, Encode(MemoryPlace{"nixl-0123-7", UINT64_MAX})),
          fuzz::For(kMemory, Encode(MemoryPlace{"", 0})), Sent(mixed),
          Sent(*SplitNote("an agent", "8", ""))};
}

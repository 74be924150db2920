#include "client/nixl/wire.h"

#include <charconv>
#include <optional>
#include <vector>

#include "onecopy/reasons.h"

namespace onecopy::nixl {
namespace {

constexpr std::string_view kAgent = "onecopy-agent-1";
constexpr std::string_view kMemory = "onecopy-memory-1";
constexpr std::string_view kNowhere = "-";
constexpr size_t kMaxWord = 255;

// The `count` words of the text, of which the first is `kind` and none is empty or long.
std::optional<std::vector<std::string>> Words(std::string_view text, std::string_view kind,
                                              size_t count) {
  std::vector<std::string> words;
  while (true) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (word.empty() || word.size() > kMaxWord) return std::nullopt;
    words.emplace_back(word);
    if (space == std::string_view::npos) break;
    text.remove_prefix(space + 1);
  }
  if (words.size() != count || words[0] != kind) return std::nullopt;
  return words;
}

Status Unreadable(const std::string& what) {
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "the metadata of the other agent has no " + what + " that this version can read",
          "use the same version of onecopy's plug-in on both nodes"};
}

}  // namespace

std::string Encode(const AgentPlace& place) {
  return std::string(kAgent) + " " + place.node + " " + place.mailbox + " " + place.boot_id;
}

std::string Encode(const MemoryPlace& place) {
  const std::string buffer = place.buffer.empty() ? std::string(kNowhere) : place.buffer;
  return std::string(kMemory) + " " + buffer + " " + std::to_string(place.offset_bytes);
}

Result<AgentPlace> DecodeAgent(std::string_view text) {
  const auto words = Words(text, kAgent, 4);
  if (!words) return Unreadable("place of an agent");
  return AgentPlace{(*words)[1], (*words)[2], (*words)[3]};
}

Result<MemoryPlace> DecodeMemory(std::string_view text) {
  const auto words = Words(text, kMemory, 3);
  if (!words) return Unreadable("place of memory");
  MemoryPlace place{(*words)[1] == kNowhere ? "" : (*words)[1], 0};
  const std::string& offset = (*words)[2];
  const char* const end = offset.data() + offset.size();
  const auto [stop, error] = std::from_chars(offset.data(), end, place.offset_bytes);
  if (error != std::errc() || stop != end) return Unreadable("place of memory");
  return place;
}

}  // namespace onecopy::nixl

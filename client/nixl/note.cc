#include "client/nixl/note.h"

#include <algorithm>
#include <charconv>

#include "onecopy/arrival.h"
#include "onecopy/reasons.h"

namespace onecopy::nixl {
namespace {

constexpr std::string_view kKind = "onecopy-note-1";
constexpr size_t kMostBegun = 256;

// "onecopy-note-1 NUMBER PART PARTS BYTES-OF-AGENT\n", then the agent's name, then the text.
std::string Header(const std::string& number, uint64_t part, uint64_t parts, size_t agent_bytes) {
  return std::string(kKind) + " " + number + " " + std::to_string(part) + " " +
         std::to_string(parts) + " " + std::to_string(agent_bytes) + "\n";
}

// The word up to the next blank or line's end, which is taken away with it.
std::optional<std::string_view> TakeWord(std::string_view& text, char end) {
  const size_t at = text.find(end);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const std::string_view word = text.substr(0, at);
  text.remove_prefix(at + 1);
  return word;
}

std::optional<uint64_t> TakeNumber(std::string_view& text, char end) {
  const auto word = TakeWord(text, end);
  uint64_t number = 0;
  if (!word) return std::nullopt;
  const char* const last = word->data() + word->size();
  const auto [stop, error] = std::from_chars(word->data(), last, number);
  if (error != std::errc() || stop != last) return std::nullopt;
  return number;
}

}  // namespace

Result<std::vector<std::string>> SplitNote(const std::string& agent, const std::string& number,
                                           const std::string& text) {
  const size_t header = Header(number, kMaxNoteBytes, kMaxNoteBytes, agent.size()).size();
  if (text.size() > kMaxNoteBytes || header + agent.size() >= kMaxArrivalMessageBytes / 2) {
    return Status(Code::kInvalidArgument, reasons::kBadSize,
                  "a notification of " + std::to_string(text.size()) +
                      " bytes from an agent whose name has " + std::to_string(agent.size()),
                  "send at most 16 MiB, from an agent whose name has fewer than 1,900 bytes");
  }
  const size_t room = kMaxArrivalMessageBytes - header - agent.size();
  const size_t parts = std::max<size_t>(1, (text.size() + room - 1) / room);
  std::vector<std::string> messages;
  for (size_t part = 0; part < parts; ++part) {
    messages.push_back(Header(number, part, parts, agent.size()) + agent +
                       text.substr(part * room, room));
  }
  return messages;
}

std::optional<std::pair<std::string, std::string>> NoteReader::Add(std::string_view message) {
  const auto kind = TakeWord(message, ' ');
  if (!kind || *kind != kKind) return std::nullopt;
  const auto number = TakeWord(message, ' ');
  const auto part = number ? TakeNumber(message, ' ') : std::nullopt;
  const auto parts = part ? TakeNumber(message, ' ') : std::nullopt;
  const auto agent_bytes = parts ? TakeNumber(message, '\n') : std::nullopt;
  if (!agent_bytes || *agent_bytes > message.size() || *part >= *parts) return std::nullopt;
  std::string agent(message.substr(0, *agent_bytes));
  const std::string_view text = message.substr(*agent_bytes);
  if (*parts == 1) return std::pair(std::move(agent), std::string(text));

  const std::string key = agent + '\n' + std::string(*number);
  if (*part == 0) {
    if (begun_.size() >= kMostBegun) {
      begun_.erase(std::min_element(begun_.begin(), begun_.end(), [](const auto& a, const auto& b) {
        return a.second.begun < b.second.begun;
      }));
    }
    begun_[key] = Part{{}, 0, count_++};
  }
  const auto at = begun_.find(key);
  if (at == begun_.end()) return std::nullopt;
  Part& so_far = at->second;
  if (so_far.parts != *part || so_far.text.size() + text.size() > kMaxNoteBytes) {
    begun_.erase(at);
    return std::nullopt;
  }
  so_far.text += text;
  if (++so_far.parts < *parts) return std::nullopt;
  std::pair<std::string, std::string> whole(std::move(agent), std::move(so_far.text));
  begun_.erase(at);
  return whole;
}

}  // namespace onecopy::nixl

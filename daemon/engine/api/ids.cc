#include "daemon/engine/api/ids.h"

#include <charconv>

namespace onecopy::engine {

std::string BufferId::ToString() const {
  return std::to_string(slot) + "." + std::to_string(generation);
}

TransferId PartId(const TransferId& whole, size_t part) {
  return TransferId(whole.str() + "." + std::to_string(part));
}

BufferId BufferId::Parse(const std::string& text) {
  BufferId id;
  const char* end = text.data() + text.size();
  const auto [point, slot_error] = std::from_chars(text.data(), end, id.slot);
  if (slot_error != std::errc() || point == end || *point != '.') return {};
  const auto [stop, generation_error] = std::from_chars(point + 1, end, id.generation);
  if (generation_error != std::errc() || stop != end) return {};
  return id;
}

}  // namespace onecopy::engine

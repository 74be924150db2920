#include "transport/link/verbs/control.h"

#include "transport/link/verbs/wire.h"

namespace onecopy::verbs {

std::string Encode(const Frame& frame) {
  Writer out;
  out.Put(static_cast<uint8_t>(frame.kind));
  out.Put(frame.number);
  out.Put(frame.subject);
  out.PutBytes(frame.text.data(), frame.text.size());
  return out.Take();
}

std::optional<Frame> DecodeFrame(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxFrameBytes) return std::nullopt;
  Reader in({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  Frame frame;
  const auto kind = in.Get<uint8_t>();
  frame.kind = static_cast<FrameKind>(kind);
  frame.number = in.Get<uint64_t>();
  frame.subject = in.Get<uint64_t>();
  frame.text = in.Rest();
  const bool numbered = frame.kind >= FrameKind::kMessage;
  if (!in.ok() || kind < 1 || kind > static_cast<uint8_t>(FrameKind::kBye) ||
      numbered != (frame.number != 0)) {
    return std::nullopt;
  }
  return frame;
}

}  // namespace onecopy::verbs

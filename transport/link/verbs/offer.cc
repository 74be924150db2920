#include "transport/link/verbs/offer.h"

#include "onecopy/reasons.h"
#include "transport/link/verbs/wire.h"

namespace onecopy::verbs {
namespace {

constexpr uint32_t kOfferMagic = 0x31766f6f;   // "oov1"
constexpr uint32_t kAnswerMagic = 0x31766161;  // "aav1"
constexpr uint32_t kKeyMagic = 0x31766b6b;     // "kkv1"
constexpr size_t kMaxNameBytes = 64;

bool IsMtu(uint32_t bytes) {
  return bytes == 256 || bytes == 512 || bytes == 1024 || bytes == 2048 || bytes == 4096;
}

// A name goes into logs and receipts.
bool IsName(const std::string& text) {
  if (text.empty() || text.size() > kMaxNameBytes) return false;
  for (const char c : text) {
    if (c < '!' || c > '~') return false;
  }
  return true;
}

Status Malformed(const char* what) {
  return {Code::kInvalidArgument, reasons::kBadArgument,
          std::string("a malformed verbs ") + what + " from the peer"};
}

}  // namespace

void PutAddress(Writer& out, const QueuePairAddress& address) {
  out.PutText(address.nic.substr(0, kMaxNameBytes));
  out.PutText(address.fabric.substr(0, kMaxNameBytes));
  out.Put(static_cast<uint8_t>((address.ethernet ? 1 : 0) | (address.emulated ? 2 : 0) |
                               (address.needs_grh ? 4 : 0)));
  out.PutBytes(address.gid.data(), address.gid.size());
  out.Put(address.lid);
  out.Put(address.number);
  out.Put(address.packet_sequence);
  out.Put(address.mtu_bytes);
  out.Put(address.reads);
}

bool GetAddress(Reader& in, QueuePairAddress* address) {
  address->nic = in.GetText();
  address->fabric = in.GetText();
  const auto flags = in.Get<uint8_t>();
  address->ethernet = (flags & 1) != 0;
  address->emulated = (flags & 2) != 0;
  address->needs_grh = (flags & 4) != 0;
  in.GetBytes(address->gid.data(), address->gid.size());
  address->lid = in.Get<uint16_t>();
  address->number = in.Get<uint32_t>();
  address->packet_sequence = in.Get<uint32_t>();
  address->mtu_bytes = in.Get<uint32_t>();
  address->reads = in.Get<uint8_t>();
  const bool by_gid = address->ethernet || address->needs_grh;
  const bool addressed =
      (address->ethernet || address->lid != 0) && (!by_gid || address->gid != Gid{});
  return in.ok() && flags <= 7 && addressed && IsName(address->nic) && IsName(address->fabric) &&
         address->number > 0 && address->number <= kMask24 && address->packet_sequence <= kMask24 &&
         IsMtu(address->mtu_bytes) && address->reads > 0;
}

std::string Encode(const Offer& offer) {
  Writer out;
  out.Put(kOfferMagic);
  out.Put(static_cast<uint16_t>(offer.lanes.size()));
  for (const QueuePairAddress& lane : offer.lanes) PutAddress(out, lane);
  return out.Take();
}

Result<Offer> DecodeOffer(const std::string& text) {
  Reader in(text);
  Offer offer;
  if (in.Get<uint32_t>() != kOfferMagic) return Malformed("offer");
  const auto count = in.Get<uint16_t>();
  if (!in.ok() || count == 0 || count > kMaxLanes) return Malformed("offer");
  offer.lanes.resize(count);
  for (QueuePairAddress& lane : offer.lanes) {
    if (!GetAddress(in, &lane)) return Malformed("offer");
  }
  if (!in.AtEnd()) return Malformed("offer");
  return offer;
}

std::string Encode(const Answer& answer) {
  Writer out;
  out.Put(kAnswerMagic);
  out.Put(static_cast<uint16_t>(answer.lanes.size()));
  for (const AnsweredLane& lane : answer.lanes) {
    out.Put(static_cast<uint8_t>(lane.present ? 1 : 0));
    if (lane.present) PutAddress(out, lane.address);
  }
  return out.Take();
}

Result<Answer> DecodeAnswer(const std::string& text) {
  Reader in(text);
  Answer answer;
  if (in.Get<uint32_t>() != kAnswerMagic) return Malformed("answer");
  const auto count = in.Get<uint16_t>();
  if (!in.ok() || count == 0 || count > kMaxLanes) return Malformed("answer");
  answer.lanes.resize(count);
  for (AnsweredLane& lane : answer.lanes) {
    const auto present = in.Get<uint8_t>();
    lane.present = present == 1;
    if (present > 1 || (lane.present && !GetAddress(in, &lane.address))) return Malformed("answer");
  }
  if (!in.AtEnd()) return Malformed("answer");
  return answer;
}

std::string Encode(const Key& key) {
  Writer out;
  out.Put(kKeyMagic);
  out.Put(key.id);
  out.Put(static_cast<uint8_t>(key.window ? 1 : 0));
  out.PutText(key.memory.substr(0, kMaxNameBytes));
  out.PutText(key.registration.substr(0, kMaxNameBytes));
  out.Put(key.bytes);
  out.Put(static_cast<uint16_t>(key.lanes.size()));
  for (const Key::Remote& lane : key.lanes) {
    out.Put(lane.rkey);
    out.Put(lane.address);
  }
  return out.Take();
}

Result<Key> DecodeKey(const std::string& text) {
  Reader in(text);
  Key key;
  if (in.Get<uint32_t>() != kKeyMagic) return Malformed("key");
  key.id = in.Get<uint64_t>();
  key.window = in.Get<uint8_t>() == 1;
  key.memory = in.GetText();
  key.registration = in.GetText();
  key.bytes = in.Get<uint64_t>();
  const auto count = in.Get<uint16_t>();
  if (!in.ok() || count > kMaxLanes || !IsName(key.memory) || !IsName(key.registration)) {
    return Malformed("key");
  }
  key.lanes.resize(count);
  for (Key::Remote& lane : key.lanes) {
    lane.rkey = in.Get<uint32_t>();
    lane.address = in.Get<uint64_t>();
    if (lane.address > UINT64_MAX - key.bytes) return Malformed("key");
  }
  if (!in.AtEnd()) return Malformed("key");
  return key;
}

}  // namespace onecopy::verbs

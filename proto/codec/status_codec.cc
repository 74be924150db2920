#include "proto/codec/status_codec.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "onecopy/v1/transfer.pb.h"
#include "proto/codec/utf8.h"

namespace onecopy {
namespace {

constexpr char kDomain[] = "onecopy";
constexpr char kRemedy[] = "remedy";

// What gRPC takes in trailers by default, less what it adds itself.
constexpr size_t kTrailerBytes = 8192 - 512;

std::string Cut(const std::string& text, size_t most = kMaxMessageBytes) {
  return CutUtf8(ToUtf8(text), most);
}

// Length of a message in its trailer, where it is percent-encoded.
size_t EncodedBytes(const std::string& message) {
  size_t bytes = 0;
  for (const char c : message) bytes += c < 0x20 || c > 0x7e || c == '%' ? 3 : 1;
  return bytes;
}

void Print(const Refusal& refusal, size_t most_text, v1::Refusal* out) {
  out->set_path(Cut(refusal.path));
  out->set_reason(Cut(refusal.reason));
  out->set_detail(Cut(refusal.detail, most_text));
  out->set_remedy(Cut(refusal.remedy, most_text));
}

google::rpc::Status ToProto(const Status& status, size_t most_text, size_t most_refusals) {
  google::rpc::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  if (status.ok()) return proto;
  proto.set_message(Cut(status.message()));
  google::rpc::ErrorInfo info;
  info.set_domain(kDomain);
  info.set_reason(Cut(status.reason()));
  if (!status.remedy().empty()) (*info.mutable_metadata())[kRemedy] = Cut(status.remedy());
  proto.add_details()->PackFrom(info);
  if (!status.refusals().empty()) {
    v1::RefusalList list;
    for (size_t i = 0; i < std::min(most_refusals, status.refusals().size()); ++i) {
      Print(status.refusals()[i], most_text, list.add_refused());
    }
    proto.add_details()->PackFrom(list);
  }
  return proto;
}

// The largest number of at most `most` that fits, where each below one that fits does too; 0 is
// taken to fit.
template <typename Fits>
size_t LargestThatFits(size_t most, const Fits& fits) {
  size_t fitting = 0;
  size_t too_large = most + 1;
  while (too_large - fitting > 1) {
    const size_t middle = fitting + (too_large - fitting) / 2;
    (fits(middle) ? fitting : too_large) = middle;
  }
  return fitting;
}

}  // namespace

google::rpc::Status ToProto(const Status& status) {
  // So that it is read strictly.
  constexpr size_t kMostRefusals = 128;
  constexpr size_t kMostText = 256;
  const bool many = status.refusals().size() > kMostRefusals / 4;
  return ToProto(status, many ? kMostText : SIZE_MAX, kMostRefusals);
}

Status FromProto(const google::rpc::Status& proto) {
  const Code code = CodeFromNumber(proto.code());
  if (code == Code::kOk) return OkStatus();
  std::string reason;
  std::string remedy;
  std::vector<Refusal> refusals;
  for (const google::protobuf::Any& detail : proto.details()) {
    google::rpc::ErrorInfo info;
    v1::RefusalList list;
    if (detail.UnpackTo(&info) && info.domain() == kDomain) {
      reason = info.reason();
      const auto found = info.metadata().find(kRemedy);
      if (found != info.metadata().end()) remedy = found->second;
    } else if (detail.UnpackTo(&list)) {
      for (const v1::Refusal& refusal : list.refused()) {
        refusals.push_back({refusal.path(), refusal.reason(), refusal.detail(), refusal.remedy()});
      }
    }
  }
  Status status(code, reason, proto.message(), std::move(remedy));
  return refusals.empty() ? status : status.WithRefusals(std::move(refusals));
}

std::string EncodeStatusDetails(const Status& status) {
  // Binary metadata travels in base64, four characters for three bytes.
  const size_t most_bytes = (kTrailerBytes - EncodedBytes(Cut(status.message()))) / 4 * 3;
  const auto fits = [&](const google::rpc::Status& proto) {
    return proto.ByteSizeLong() <= most_bytes;
  };
  google::rpc::Status proto = ToProto(status);
  if (fits(proto)) return proto.SerializeAsString();

  // Shorter texts first, then fewer refusals.
  size_t longest = 0;
  for (const Refusal& refusal : status.refusals()) {
    longest = std::max({longest, refusal.detail.size(), refusal.remedy.size()});
  }
  const size_t text =
      LargestThatFits(longest, [&](size_t most) { return fits(ToProto(status, most, SIZE_MAX)); });
  const size_t refusals = LargestThatFits(
      status.refusals().size(), [&](size_t most) { return fits(ToProto(status, text, most)); });
  return ToProto(status, text, refusals).SerializeAsString();
}

namespace {

bool TellsOfLostConnection(const std::string& message) {
  for (const char* words : {"Stream removed", "RST_STREAM", "Connection reset", "Broken pipe"}) {
    if (message.find(words) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Status DecodeStatus(int code, const std::string& message, const std::string& details) {
  google::rpc::Status proto;
  if (!proto.ParseFromString(details)) proto.Clear();
  // gRPC's own word on code and message is what the caller goes by.
  proto.set_code(code);
  proto.set_message(message);
  Status status = FromProto(proto);
  const bool unclear = status.code() == Code::kUnknown || status.code() == Code::kInternal;
  if (!unclear || !status.reason().empty() || !TellsOfLostConnection(message)) return status;
  return {Code::kUnavailable, "", message};
}

}  // namespace onecopy

// PeerService's messages, both ways: parsed as a peer's, and, where they make sense, printed again.
#include <google/protobuf/stubs/logging.h>

#include "daemon/rpc/convert/peer.h"
#include "proto/codec/status_codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/fill_message.h"

namespace onecopy::rpc {
namespace {

template <typename Message>
void Receive(const std::string& bytes) {
  Message message;
  if (!message.ParseFromString(bytes)) return;
  const auto parsed = Parse(message);
  if (!parsed.ok()) {
    EXPECT(!parsed.status().message().empty());
    EXPECT(parsed.status().code() == Code::kInvalidArgument ||
           parsed.status().code() == Code::kOutOfRange ||
           parsed.status().code() == Code::kResourceExhausted);
    return;
  }
  // What this node says in its turn, another one must be able to read.
  if constexpr (requires(Message * out) { Print(*parsed, out); }) {
    Message printed;
    Print(*parsed, &printed);
    Message again;
    EXPECT(again.ParseFromString(printed.SerializeAsString()));
    EXPECT(Parse(again).ok());
  }
}

void ReceiveStatus(const std::string& bytes) {
  google::rpc::Status proto;
  if (!proto.ParseFromString(bytes)) return;
  const Status status = FromProto(proto);
  google::rpc::Status again;
  EXPECT(again.ParseFromString(ToProto(status).SerializeAsString()));
  (void)DecodeStatus(proto.code(), proto.message(), bytes);
}

struct Kind {
  void (*receive)(const std::string& bytes);
  const google::protobuf::Message* (*sample)();
};

template <typename Message>
constexpr Kind Of() {
  return {Receive<Message>,
          []() -> const google::protobuf::Message* { return &Message::default_instance(); }};
}

// Only ever added to: an input's first byte counts in it.
constexpr Kind kKinds[] = {Of<v1::HelloRequest>(),
                           Of<v1::HelloResponse>(),
                           Of<v1::ReserveRequest>(),
                           Of<v1::ReserveResponse>(),
                           Of<v1::StartRequest>(),
                           Of<v1::Transfer>(),
                           Of<v1::ConnectRequest>(),
                           Of<v1::ConnectResponse>(),
                           Of<v1::PrepareRequest>(),
                           Of<v1::PrepareResponse>(),
                           Of<v1::FinishRequest>(),
                           Of<v1::FinishResponse>(),
                           Of<v1::OpenProbeRequest>(),
                           Of<v1::OpenProbeResponse>(),
                           Of<v1::CloseProbeRequest>(),
                           Of<v1::OpenRangeRequest>(),
                           Of<v1::OpenRangeResponse>(),
                           Of<v1::OpenPushRequest>(),
                           Of<v1::OpenPushResponse>(),
                           Of<v1::CloseOpeningRequest>(),
                           Of<v1::ImportMemoryRequest>(),
                           Of<v1::MemoryExport>(),
                           Of<v1::RecallRequest>(),
                           Of<v1::ReportRequest>(),
                           Of<v1::QueryTransferRequest>(),
                           Of<v1::CancelPeerTransferRequest>(),
                           Of<v1::GetPeerBufferRequest>(),
                           Of<v1::ListPeerBuffersRequest>(),
                           Of<v1::SumPeerBufferRequest>(),
                           Of<v1::Buffer>(),
                           {ReceiveStatus,
                            [] {
                              return static_cast<const google::protobuf::Message*>(
                                  &google::rpc::Status::default_instance());
                            }},
                           Of<v1::SendPeerMessageRequest>(),
                           Of<v1::SendMessageRequest>(),
                           Of<v1::WatchArrivalsRequest>(),
                           Of<v1::AcknowledgeArrivalsRequest>(),
                           Of<v1::Arrival>()};

}  // namespace
}  // namespace onecopy::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace onecopy::rpc;
  // Not one line for each input that is no message.
  [[maybe_unused]] static const auto loud = google::protobuf::SetLogHandler(nullptr);
  onecopy::fuzz::Input input(data, size);
  const uint8_t kind = input.Byte();
  kKinds[kind % std::size(kKinds)].receive(std::string(input.Rest()));
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  using namespace onecopy::rpc;
  std::vector<std::string> seeds;
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    const google::protobuf::Message* sample = kKinds[i].sample();
    const std::unique_ptr<google::protobuf::Message> message(sample->New());
    testing::Fill(message.get());
    seeds.push_back(For(static_cast<uint8_t>(i), message->SerializeAsString()));
  }
  return seeds;
}

// Between the values of values/ and the messages of onecopy.v1, for clients and daemons alike.
//
// Parse reads a message as strictly as its Field says (see field.h). Strictly, as daemons read
// clients and each other, INVALID_ARGUMENT names the field that is wrong; leniently, as clients
// read their daemon, it does not fail. Print cannot fail: text that is only shown is mended where
// it is not UTF-8, and cut where it is too long to be read strictly. What names something (an id, a
// buffer, a path, an owner) is printed as it is: the maker of a request checks it before, and a
// reader refuses a message with a name that is not UTF-8, rather than taking another one. Any
// thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "google/rpc/status.pb.h"
#include "onecopy/arrival.h"
#include "onecopy/buffer.h"
#include "onecopy/capability.h"
#include "onecopy/node.h"
#include "onecopy/result.h"
#include "onecopy/transfer.h"
#include "onecopy/v1/arrival.pb.h"
#include "onecopy/v1/buffer.pb.h"
#include "onecopy/v1/common.pb.h"
#include "onecopy/v1/node.pb.h"
#include "onecopy/v1/transfer.pb.h"
#include "proto/codec/field.h"

namespace onecopy::codec {

// common.proto
Result<Endpoint> Parse(const v1::Endpoint& in, const Field& at);
Result<Policy> Parse(const v1::Policy& in, const Field& at);
Result<Pacing> Parse(const v1::Pacing& in, const Field& at);
Result<std::vector<StridedRange>> Parse(const v1::Ranges& in, const Field& at);
Result<ExecutedStep> Parse(const v1::Step& in, const Field& at);
Result<Refusal> Parse(const v1::Refusal& in, const Field& at);
Result<Plan> Parse(const v1::Plan& in, const Field& at);
Result<LaneBytes> Parse(const v1::Lane& in, const Field& at);
Result<ChecksumResult> Parse(const v1::Checksum& in, const Field& at);
Result<Attempt> Parse(const v1::Attempt& in, const Field& at);
Result<Receipt> Parse(const v1::Receipt& in, const Field& at);
void Print(const Endpoint& value, v1::Endpoint* out);
void Print(const Policy& value, v1::Policy* out);
void Print(const Pacing& value, v1::Pacing* out);
// `base` is added to each offset.
void Print(std::span<const StridedRange> value, uint64_t base, v1::Ranges* out);
// The offsets of plain ranges of one length; nothing where some are strided or unlike, or where the
// columns are not a table: see Parse.
struct EqualOffsets {
  std::vector<uint64_t> offsets;
  uint64_t bytes = 0;
};
std::optional<EqualOffsets> ParseEqual(const v1::Ranges& in);
void PrintEqual(std::span<const uint64_t> offsets, uint64_t bytes, uint64_t base, v1::Ranges* out);
// Both ends of a request's ranges, with the numbers of their buffers, which are not compared with
// how many there are. As `equal` where they are of one length, else as `pairs`.
struct AskedRanges {
  std::vector<RangePair> pairs;
  EqualRanges equal;  // without ranges: `pairs` has them
};
Result<AskedRanges> ParsePairs(const v1::Ranges& source, const Field& source_at,
                               const v1::Ranges& destination, const Field& destination_at);
void PrintPairs(std::span<const RangePair> pairs, v1::Ranges* source, v1::Ranges* destination);
void PrintPairs(const EqualRanges& ranges, v1::Ranges* source, v1::Ranges* destination);
void Print(const ExecutedStep& value, v1::Step* out);
void Print(const Refusal& value, v1::Refusal* out);
void Print(const Plan& value, v1::Plan* out);
void Print(const LaneBytes& value, v1::Lane* out);
void Print(const ChecksumResult& value, v1::Checksum* out);
void Print(const Attempt& value, v1::Attempt* out);
void Print(const Receipt& value, v1::Receipt* out);

// google/rpc/status.proto, into `value`. Leniently as FromProto; strictly INVALID_ARGUMENT for a
// text of it that is too long.
Status ParseStatus(const google::rpc::Status& in, const Field& at, Status* value);

// transfer.proto
Result<TransferId> ParseTransferId(const std::string& id, const Field& at);
Result<TraceContext> ParseTrace(const std::string& traceparent, const Field& at);
Result<TransferInfo> Parse(const v1::Transfer& in, const Field& at);
Result<TransferRequest> Parse(const v1::CreateTransferRequest& in, const Field& at);
// Its ranges, and all but them: there may be very many, for which a reader has a form of its own.
Result<AskedRanges> ParseRanges(const v1::CreateTransferRequest& in, const Field& at);
Result<TransferRequest> ParseWithoutRanges(const v1::CreateTransferRequest& in, const Field& at);
Result<SeriesRequest> Parse(const v1::OpenSeriesRequest& in, const Field& at);
Result<SeriesEnd> Parse(const v1::EndSeriesRequest& in, const Field& at);
void Print(const TransferInfo& value, v1::Transfer* out);
void Print(const TransferRequest& value, v1::CreateTransferRequest* out);
// All but its ranges.
void PrintWithoutRanges(const TransferRequest& value, v1::CreateTransferRequest* out);
void Print(const SeriesRequest& value, v1::OpenSeriesRequest* out);
void Print(const SeriesEnd& value, v1::EndSeriesRequest* out);

// buffer.proto
Result<BufferInfo> Parse(const v1::Buffer& in, const Field& at);
Result<CreateBufferRequest> Parse(const v1::CreateBufferRequest& in, const Field& at);
Result<ArrayShape> Parse(const v1::Array& in, const Field& at);
Result<ViewRequest> Parse(const v1::ViewRequest& in, const Field& at);
Result<BufferSum> Parse(const v1::SumBufferResponse& in, const Field& at);
Result<GrantInfo> Parse(const v1::Grant& in, const Field& at);
Result<CreateGrantRequest> Parse(const v1::CreateGrantRequest& in, const Field& at);
void Print(const BufferInfo& value, v1::Buffer* out);
void Print(const CreateBufferRequest& value, v1::CreateBufferRequest* out);
void Print(const ArrayShape& value, v1::Array* out);
void Print(const ViewRequest& value, v1::ViewRequest* out);
void Print(const BufferSum& value, v1::SumBufferResponse* out);
void Print(const GrantInfo& value, v1::Grant* out);
void Print(const CreateGrantRequest& value, v1::CreateGrantRequest* out);

// arrival.proto
Result<Arrival> Parse(const v1::Arrival& in, const Field& at);
Result<MessageRequest> Parse(const v1::SendMessageRequest& in, const Field& at);
// Of a message, which may be any bytes: that it is not too long.
Status CheckMessage(const std::string& message, const Field& at);
void Print(const Arrival& value, v1::Arrival* out);
void Print(const MessageRequest& value, v1::SendMessageRequest* out);

// node.proto. The name of the node that has the capabilities is not in their message.
Result<Viability> Parse(const v1::Viability& in, const Field& at);
Result<NodeCapability> Parse(const v1::Capabilities& in, const std::string& node, const Field& at);
Result<ProbeInfo> Parse(const v1::Probe& in, const Field& at);
Result<PathRateInfo> Parse(const v1::PathRate& in, const Field& at);
Result<Expiry> Parse(const v1::Expiry& in, const Field& at);
Result<AccountInfo> Parse(const v1::Account& in, const Field& at);
Result<NameConflict> Parse(const v1::NameConflict& in, const Field& at);
Result<DiscoveryInfo> Parse(const v1::Discovery& in, const Field& at);
Result<NodeInfo> Parse(const v1::Node& in, const Field& at);
Result<ExportInfo> Parse(const v1::Export& in, const Field& at);
void Print(const Viability& value, v1::Viability* out);
void Print(const NodeCapability& value, v1::Capabilities* out);
void Print(const ProbeInfo& value, v1::Probe* out);
void Print(const PathRateInfo& value, v1::PathRate* out);
void Print(const Expiry& value, v1::Expiry* out);
void Print(const AccountInfo& value, v1::Account* out);
void Print(const NameConflict& value, v1::NameConflict* out);
void Print(const DiscoveryInfo& value, v1::Discovery* out);
void Print(const NodeInfo& value, v1::Node* out);
void Print(const ExportInfo& value, v1::Export* out);

}  // namespace onecopy::codec

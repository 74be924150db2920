// How calls are charged to those who make them.
#pragma once

#include <concepts>

#include "daemon/engine/base/ledger.h"
#include "daemon/rpc/serving/received.h"
#include "onecopy/v1/arrival.pb.h"
#include "onecopy/v1/buffer.pb.h"
#include "onecopy/v1/peer.pb.h"
#include "onecopy/v1/peer_users.pb.h"
#include "onecopy/v1/transfer.pb.h"

namespace onecopy::rpc {

// Whether a request ends or gives back something, or only says that its caller lives.
template <typename Request>
inline constexpr bool kGivesBack =
    std::same_as<Request, v1::CancelTransferRequest> ||
    std::same_as<Request, v1::EndSeriesRequest> || std::same_as<Request, v1::DeleteBufferRequest> ||
    std::same_as<Request, v1::DeleteGrantRequest> ||
    std::same_as<Request, v1::AcknowledgeArrivalsRequest> ||
    std::same_as<Request, v1::HelloRequest> || std::same_as<Request, v1::FinishRequest> ||
    std::same_as<Request, v1::CloseProbeRequest> ||
    std::same_as<Request, v1::CloseOpeningRequest> || std::same_as<Request, v1::RecallRequest> ||
    std::same_as<Request, v1::ReportRequest> || std::same_as<Request, v1::QueryTransferRequest> ||
    std::same_as<Request, v1::CancelPeerTransferRequest> ||
    std::same_as<Request, v1::DeletePeerBufferRequest>;

// A call is charged until its answer has been sent, since it is kept until then: a client that does
// not read has it count for long.
template <typename Request>
inline constexpr engine::Charged kChargedAs =
    kGivesBack<Request> ? engine::Charged::kEndings : engine::Charged::kRequests;

// The memory of a request until it is answered: the message, what is made of it, and the decoded
// message, which a short request has while it waits for its turn.
template <typename Request>
uint64_t BytesOf(const Received<Request>& request) {
  constexpr uint64_t kCopies = 3;
  return kCopies * request.bytes() + request.decoded_bytes();
}

}  // namespace onecopy::rpc

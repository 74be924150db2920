// The transfers of FakeDaemon.
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "proto/codec/status_codec.h"
#include "tests/unit/client/fake_daemon.h"

namespace onecopy::testing {
namespace {

grpc::Status NoTransfer(const std::string& id) {
  return ToGrpc(Status(Code::kNotFound, reasons::kTransferNotFound, "no transfer " + id));
}

bool Final(v1::TransferState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

std::string Sum(const std::byte* data, uint64_t bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", byte);
    text += hex;
  }
  return text;
}

void AddStep(v1::Plan* plan, v1::Receipt* receipt, uint64_t bytes, const char* from, const char* to,
             const char* by) {
  for (v1::Step* step : {plan->add_steps(), receipt->add_steps()}) {
    step->set_node(std::string(from) == "host" ? "east" : "west");
    step->set_from(from);
    step->set_to(to);
    step->set_by(by);
    step->set_loopback(std::string(by) == "wire");
  }
  receipt->mutable_steps()->rbegin()->set_bytes(bytes);
}

void Describe(const std::string& path, v1::Transfer& transfer) {
  v1::Plan* plan = transfer.mutable_plan();
  v1::Receipt* receipt = transfer.mutable_receipt();
  const uint64_t bytes = transfer.bytes();
  plan->set_path(path);
  plan->set_link("tcp");
  plan->set_copies(3);
  plan->set_estimated_bytes_per_second(1e9);
  receipt->set_path(path);
  receipt->set_link("tcp");
  receipt->set_copies(3);
  receipt->set_registration("none");
  receipt->set_key("token");
  AddStep(plan, receipt, bytes, "host", "kernel", "driver");
  AddStep(plan, receipt, bytes, "kernel", "kernel", "wire");
  AddStep(plan, receipt, bytes, "kernel", "host", "driver");
  for (int i = 0; i < 2; ++i) {
    v1::Lane* lane = receipt->add_lanes();
    lane->set_device("lo");
    lane->set_peer("127.0.0.1:770" + std::to_string(i));
    lane->set_bytes(i == 0 ? bytes / 2 : bytes - bytes / 2);
  }
  receipt->set_seconds(0.001);
  receipt->set_bytes_per_second(static_cast<double>(bytes) / 0.001);
  receipt->set_negotiation_seconds(0.0005);
  for (v1::Refusal* refusal : {plan->add_refused(), receipt->add_refused()}) {
    refusal->set_path("rdma-direct");
    refusal->set_reason("NO_RDMA_DEVICE");
    refusal->set_detail("this node has none");
    refusal->set_remedy("install one");
  }
  v1::Attempt* attempt = receipt->add_attempts();
  attempt->set_path(path);
  attempt->set_outcome("SUCCEEDED");
  attempt->set_bytes(bytes);
  (*receipt->mutable_evidence())["tcp.bytes_received"] = std::to_string(bytes);
  (*receipt->mutable_evidence())["tcp.congestion"] = "cubic";
}

}  // namespace

std::optional<Status> FakeDaemon::Complete(v1::Endpoint& endpoint, uint64_t bytes_default) {
  if (endpoint.node().empty()) endpoint.set_node("east");
  const Memory* memory = Find(endpoint.node(), endpoint.buffer());
  if (memory == nullptr) {
    return Status(Code::kNotFound, reasons::kBufferNotFound,
                  "node " + endpoint.node() + " has no buffer \"" + endpoint.buffer() + "\"",
                  "see `onecopy buffer ls`");
  }
  endpoint.set_buffer(memory->info.name());
  if (!endpoint.has_offset_bytes()) endpoint.set_offset_bytes(0);
  if (!endpoint.has_bytes()) {
    const uint64_t rest =
        memory->info.bytes() - std::min(memory->info.bytes(), endpoint.offset_bytes());
    endpoint.set_bytes(bytes_default == 0 ? rest : bytes_default);
  }
  const Status inside = CheckWithin({endpoint.offset_bytes(), endpoint.bytes()},
                                    memory->info.bytes(), "buffer " + endpoint.buffer());
  if (inside.ok()) return std::nullopt;
  return inside;
}

FakeDaemon::Move* FakeDaemon::FindMove(const std::string& id) {
  for (const auto& move : moves_) {
    if (move->transfer.id() == id) return move.get();
  }
  return nullptr;
}

void FakeDaemon::Change(Move& move) {
  ++move.version;
  changed_.notify_all();
}

grpc::Status FakeDaemon::CreateTransfer(grpc::ServerContext* context,
                                        const v1::CreateTransferRequest* request,
                                        v1::Transfer* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  const auto fate = fates_.find(attempts_++);
  auto move = std::make_unique<Move>();
  if (fate != fates_.end()) move->fate = fate->second;
  move->request = *request;
  v1::Transfer& transfer = move->transfer;
  *transfer.mutable_source() = request->source();
  *transfer.mutable_destination() = request->destination();
  if (move->fate.refuse.has_value()) return ToGrpc(*move->fate.refuse);
  if (const auto error = Complete(*transfer.mutable_source(), 0)) return ToGrpc(*error);
  transfer.set_bytes(transfer.source().bytes());
  if (const auto error = Complete(*transfer.mutable_destination(), transfer.bytes())) {
    return ToGrpc(*error);
  }
  transfer.set_owner("1000@east");
  transfer.set_role(v1::DESTINATION);
  Describe(move->fate.path, transfer);
  if (request->policy().has_at_most_copies() && request->policy().at_most_copies() < 3) {
    return ToGrpc(Status(Code::kFailedPrecondition, reasons::kPolicyUnmet, "no path fits")
                      .WithRefusals({{"tcp-direct", "MORE_COPIES", "it takes 3", ""},
                                     {"rdma-direct", "NO_RDMA_DEVICE", "none", "install one"}}));
  }
  if (request->validate_only()) {
    transfer.clear_receipt();
    *reply = transfer;
    return grpc::Status::OK;
  }
  transfer.set_id("t" + std::to_string(moves_.size() + 1));
  transfer.set_state(v1::RUNNING);
  transfer.mutable_create_time()->set_seconds(1'700'000'000);
  *reply = transfer;
  reply->clear_receipt();
  moves_.push_back(std::move(move));
  if (!moves_.back()->fate.hold) Run(*moves_.back());
  changed_.notify_all();
  return grpc::Status::OK;
}

void FakeDaemon::Run(Move& move) {
  v1::Transfer& transfer = move.transfer;
  if (move.fate.unconfirmed) {
    transfer.set_state(v1::UNCONFIRMED);
  } else if (move.fate.fail.has_value()) {
    transfer.set_state(v1::FAILED);
    *transfer.mutable_error() = ToProto(*move.fate.fail);
    transfer.mutable_end_time()->set_seconds(1'700'000'001);
  } else {
    Succeed(move);
  }
  Change(move);
}

void FakeDaemon::Succeed(Move& move) {
  v1::Transfer& transfer = move.transfer;
  const uint64_t bytes = transfer.bytes();
  Memory* source = Find(transfer.source().node(), transfer.source().buffer());
  Memory* destination = Find(transfer.destination().node(), transfer.destination().buffer());
  if (source == nullptr || destination == nullptr) {
    transfer.set_state(v1::FAILED);
    return;
  }
  if (!source->sink && !destination->sink && bytes > 0) {
    std::byte* to = destination->data() + transfer.destination().offset_bytes();
    std::memmove(to, source->data() + transfer.source().offset_bytes(), bytes);
    if (move.fate.corrupt) to[bytes / 2] ^= std::byte{1};
  }
  if (move.request.checksum() && !move.fate.no_checksum) {
    Memory& summed = move.fate.corrupt || source->sink ? *destination : *source;
    const uint64_t offset = &summed == source ? transfer.source().offset_bytes()
                                              : transfer.destination().offset_bytes();
    v1::Checksum& checksum = *transfer.mutable_receipt()->mutable_checksum();
    checksum.set_algorithm("xxh3-128");
    checksum.set_value(Sum(summed.data() + offset, bytes));
    checksum.set_verified(true);
  }
  transfer.set_bytes_done(bytes);
  transfer.set_state(v1::SUCCEEDED);
  transfer.mutable_end_time()->set_seconds(1'700'000'001);
}

grpc::Status FakeDaemon::GetTransfer(grpc::ServerContext* context,
                                     const v1::GetTransferRequest* request, v1::Transfer* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  const Move* move = FindMove(request->id());
  if (move == nullptr) return NoTransfer(request->id());
  *reply = move->transfer;
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ListTransfers(grpc::ServerContext* context,
                                       const v1::ListTransfersRequest* request,
                                       v1::ListTransfersResponse* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  size_t at = request->page_token().empty() ? 0 : std::stoul(request->page_token());
  const auto size = static_cast<size_t>(std::min(request->page_size(), options_.page_size));
  for (size_t i = 0; i < size && at < moves_.size(); ++i, ++at) {
    *reply->add_transfers() = moves_[moves_.size() - 1 - at]->transfer;
  }
  if (at < moves_.size()) reply->set_next_page_token(std::to_string(at));
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::WatchTransfer(grpc::ServerContext* context,
                                       const v1::WatchTransferRequest* request,
                                       grpc::ServerWriter<v1::Transfer>* writer) {
  if (const auto status = Check(context); !status.ok()) return status;
  std::unique_lock lock(mutex_);
  Move* move = FindMove(request->id());
  if (move == nullptr) return NoTransfer(request->id());
  uint64_t seen = 0;
  ++watches_;
  changed_.notify_all();
  while (!stopping_ && !context->IsCancelled()) {
    if (move->version == seen) {
      changed_.wait_for(lock, std::chrono::milliseconds(20));
      continue;
    }
    seen = move->version;
    const v1::Transfer update = move->transfer;
    lock.unlock();
    writer->Write(update);
    if (Final(update.state())) return grpc::Status::OK;
    lock.lock();
  }
  return ToGrpc(Status(Code::kUnavailable, reasons::kDraining, "the daemon ends"));
}

grpc::Status FakeDaemon::CancelTransfer(grpc::ServerContext* context,
                                        const v1::CancelTransferRequest* request,
                                        v1::Transfer* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  Move* move = FindMove(request->id());
  if (move == nullptr) return NoTransfer(request->id());
  *reply = move->transfer;  // as it is: the end comes later
  ++cancels_;
  changed_.notify_all();
  if (!Final(move->transfer.state()) && !move->fate.stubborn) {
    move->transfer.set_state(v1::CANCELLED);
    *move->transfer.mutable_error() =
        ToProto(Status(Code::kCancelled, reasons::kCancelled, "cancelled on request"));
    Change(*move);
  }
  return grpc::Status::OK;
}

}  // namespace onecopy::testing

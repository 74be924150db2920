#include "bench/work/transfer_mover.h"

#include <chrono>

#include "bench/measure/payload.h"

namespace onecopy::bench {

Result<End> End::Create(const Daemon& daemon, const std::string& memory, uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, daemon.Connect());
  ONECOPY_ASSIGN_OR_RETURN(HostBuffer window, client.CreateHostBuffer({}, bytes));
  End end(std::move(client), std::move(window));
  if (memory == "host") return end;
  const std::string name = "bench-" + end.window_.info().id;
  ONECOPY_ASSIGN_OR_RETURN(
      const BufferInfo gpu,
      end.client_.CreateBuffer({.name = name, .bytes = bytes, .memory = memory}));
  end.gpu_ = Endpoint{.node = gpu.node, .buffer = gpu.id};
  return end;
}

Status End::Copy(const Endpoint& from, const Endpoint& to) {
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo done,
                           client_.RunTransfer({.source = from, .destination = to}));
  return OutcomeOf(done);
}

Status End::Put(uint64_t seed) {
  FillPayload(window_.data(), window_.bytes(), seed);
  return gpu_ ? Copy(window_.endpoint(), *gpu_) : OkStatus();
}

Result<bool> End::Holds(uint64_t seed) {
  if (gpu_) {
    FillPayload(window_.data(), window_.bytes(), seed + 1);  // nothing right is left there
    ONECOPY_RETURN_IF_ERROR(Copy(*gpu_, window_.endpoint()));
  }
  return !FindWrong(window_.data(), window_.bytes(), seed);
}

Result<Moved> TransferMover::Move() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  ONECOPY_ASSIGN_OR_RETURN(
      const TransferInfo done,
      source_.client().RunTransfer({.source = source_.endpoint(),
                                    .destination = destination_.endpoint(),
                                    .policy = {.path_glob = path_, .link = link_}}));
  const double client_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  ONECOPY_RETURN_IF_ERROR(OutcomeOf(done));
  Moved moved;
  moved.seconds = done.receipt.seconds;
  moved.lanes = static_cast<unsigned>(done.receipt.lanes.size());
  moved.details["client_bytes_per_second"] = static_cast<double>(done.bytes) / client_seconds;
  moved.details["negotiation_seconds"] = done.receipt.negotiation_seconds;
  moved.details["copies"] = static_cast<double>(done.receipt.copies());
  return moved;
}

Result<std::unique_ptr<Mover>> MakeTransfer(const Way& way, uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(End source, End::Create(way.from, way.from_memory, bytes));
  ONECOPY_ASSIGN_OR_RETURN(End destination, End::Create(way.to, way.to_memory, bytes));
  return std::unique_ptr<Mover>(std::make_unique<TransferMover>(
      std::move(source), std::move(destination), way.path, way.link));
}

}  // namespace onecopy::bench

// Whether a path over RDMA is as fast after a hundred losses of the wire as after the first ones.
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "bench/daemons/pair.h"
#include "bench/tools/rdma_ports.h"
#include "bench/work/outage.h"
#include "bench/work/transfer_mover.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kPath = "rdma-direct";
constexpr double kMin = 0.95;
constexpr unsigned kCompared = 10;  // cycles at either end
constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kAskLossEvery{20};

Result<bool> WaitUntil(const std::string& what, const std::function<Result<bool>()>& question) {
  const Clock::time_point until = Clock::now() + kPatience;
  while (Clock::now() < until) {
    ONECOPY_ASSIGN_OR_RETURN(const bool so, question());
    if (so) return true;
    std::this_thread::sleep_for(kAskLossEvery);
  }
  return Status(Code::kDeadlineExceeded, reasons::kStalled,
                "within a minute it was not that " + what);
}

// Ordered at the destination, which decides about a transfer and needs no wire to tell of it.
TransferRequest LossRequest(const Endpoint& source, const Endpoint& destination) {
  return {.source = source,
          .destination = destination,
          .policy = {.path_glob = kPath, .link = "verbs"}};
}

// The wire goes while bytes move, until their transfer has ended, and comes back.
Status LoseOnce(Client& west, const TransferRequest& request,
                const std::vector<std::string>& interfaces) {
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo started, west.StartTransfer(request));
  const auto state = [&](auto wanted) {
    return [&west, &started, wanted]() -> Result<bool> {
      ONECOPY_ASSIGN_OR_RETURN(const TransferInfo now, west.GetTransfer(started.id));
      return wanted(now.state);
    };
  };
  const auto begun = [](TransferState now) { return now != TransferState::kPending; };
  ONECOPY_RETURN_IF_ERROR(WaitUntil("a transfer began", state(begun)).status());
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Outage> outage, Outage::Begin(interfaces));
  return WaitUntil("a transfer over a lost wire ended", state(IsFinal)).status();
}

// One small transfer goes through again, by this path.
Status ComeBack(Client& west, TransferRequest request) {
  request.source.bytes = 1;
  return WaitUntil("the path was back after a loss",
                   [&]() -> Result<bool> {
                     const Result<TransferInfo> done = west.RunTransfer(request);
                     return done.ok() && OutcomeOf(*done).ok();
                   })
      .status();
}

Status Measure(const Settings& settings, const RdmaPorts& ports, Row& row) {
  const auto options = [&](const RdmaPort& port) {
    DaemonOptions own = settings.daemon;
    own.address = port.address;
    own.sections += "[rdma]\ndevices = [\"" + port.device + "\"]\n[verbs]\n" + settings.link_keys;
    return own;
  };
  ONECOPY_ASSIGN_OR_RETURN(const Pair pair, Pair::Start(options(ports.east), options(ports.west)));
  ONECOPY_ASSIGN_OR_RETURN(End source, End::Create(pair.east->AsNode(), "host", settings.bytes));
  ONECOPY_ASSIGN_OR_RETURN(End destination,
                           End::Create(pair.west->AsNode(), "host", settings.bytes));
  const TransferRequest request = LossRequest(source.endpoint(), destination.endpoint());
  Client& west = destination.client();
  row.verified = true;
  for (unsigned cycle = 0; cycle < settings.cycles; ++cycle) {
    if (settings.stopped && settings.stopped()) {
      return {Code::kCancelled, reasons::kCancelled, "the run was stopped"};
    }
    ONECOPY_RETURN_IF_ERROR(LoseOnce(west, request, settings.loss_interfaces));
    ONECOPY_RETURN_IF_ERROR(ComeBack(west, request));
    const bool first = cycle < kCompared;
    if (!first && cycle + kCompared < settings.cycles) continue;
    ONECOPY_RETURN_IF_ERROR(source.Put(cycle));
    ONECOPY_ASSIGN_OR_RETURN(const TransferInfo done, west.RunTransfer(request));
    ONECOPY_RETURN_IF_ERROR(OutcomeOf(done));
    ONECOPY_ASSIGN_OR_RETURN(const bool right, destination.Holds(cycle));
    if (!right) row.verified = false;
    (first ? row.ceiling_values : row.values).push_back(done.receipt.bytes_per_second);
  }
  return OkStatus();
}

}  // namespace

std::vector<Row> RdmaAfterLosses(const Settings& settings) {
  Row row = {.work = "rdma after losses",
             .path = kPath,
             .bytes = settings.bytes,
             .ceiling = "first ten cycles",
             .floor = kMin};
  const Result<RdmaPorts> ports = FindRdmaPorts();
  if (!ports.ok()) return {Waived(row, ports.status())};
  if (settings.loss_interfaces.empty()) {
    return {Waived(row, {Code::kFailedPrecondition, reasons::kNotRequested,
                         "it cuts a network that other programs may use",
                         "name the interfaces to cut with --cut"})};
  }
  const Status status = Measure(settings, *ports, row);
  const size_t pairs = std::min(row.values.size(), row.ceiling_values.size());
  row.values.resize(pairs);
  row.ceiling_values.resize(pairs);
  row.details["cycles"] = settings.cycles;
  return {status.ok() ? Evaluated(std::move(row)) : Failed(std::move(row), status)};
}

}  // namespace onecopy::bench

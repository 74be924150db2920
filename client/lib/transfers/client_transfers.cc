#include <functional>
#include <utility>

#include "client/lib/calls/call_limit.h"
#include "client/lib/calls/wire.h"
#include "client/lib/session/connection.h"
#include "client/lib/transfers/print_create.h"
#include "onecopy/client.h"

namespace onecopy {

using client::CallLimit;
using client::CheckText;
using client::Connection;
using client::Patience;
using TransferStub = v1::TransferService::Stub;

namespace {

Status Stopped(const TransferId& id) {
  return {Code::kCancelled, reasons::kCancelled,
          "stopped watching transfer " + id.str() + ", which goes on",
          "cancel it with `onecopy transfer cancel " + id.str() + "`"};
}

// Reads the updates of a transfer until `done` says that one is the last of interest.
Result<TransferInfo> WatchBy(const client::Session& session, const TransferId& id,
                             const Client::OnUpdate& on_update, const std::stop_token& stop,
                             const std::function<bool(const TransferInfo&)>& done) {
  grpc::ClientContext context;
  session.Prepare(context, Patience::kWorking);
  const std::stop_callback on_stop(stop, [&context] { context.TryCancel(); });
  v1::WatchTransferRequest request;
  request.set_id(id.str());
  const auto reader = session.stub<TransferStub>().WatchTransfer(&context, request);
  v1::Transfer update;
  while (reader->Read(&update)) {
    ONECOPY_ASSIGN_OR_RETURN(TransferInfo transfer, client::Read(update));
    if (on_update) on_update(transfer);
    if (!done(transfer)) continue;
    context.TryCancel();  // what follows, if anything, is of no interest
    static_cast<void>(reader->Finish());
    return transfer;
  }
  const grpc::Status end = reader->Finish();
  if (stop.stop_requested()) return Stopped(id);
  if (!end.ok()) return session.Decode(end);
  return client::StoppedTelling(session.Peer(), id);
}

// The same. If the daemon restarts meanwhile and keeps its transfers, its next process is asked.
Result<TransferInfo> Watch(Connection& connection, const TransferId& id,
                           const Client::OnUpdate& on_update, const std::stop_token& stop,
                           const std::function<bool(const TransferInfo&)>& done) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the transfer's id", id.str()));
  client::SessionRef before;
  Status lost;
  for (;;) {
    const Result<client::SessionRef> session = connection.Current(stop);
    if (!session.ok() && stop.stop_requested()) return Stopped(id);
    if (!session.ok()) return before ? connection.Explain(*before, lost) : session.status();
    Result<TransferInfo> seen = WatchBy(**session, id, on_update, stop, done);
    if (seen.ok() || stop.stop_requested()) return seen;
    lost = seen.status();
    before = *session;
    if (before->GoesOnAfter(lost)) continue;
    return client::Unanswered(connection.ExplainTransfer(*before, lost), id);
  }
}

// The session, once the daemon can be asked about this transfer: it knows of one on the ring when
// that has ended.
Result<client::SessionRef> SessionKnowing(const Connection& connection, const TransferId& id) {
  ONECOPY_ASSIGN_OR_RETURN(client::SessionRef session, connection.Latest());
  session->ring().WaitFor(id);
  return session;
}

// Within the limit that holds.
Result<TransferInfo> Create(Connection& connection, const TransferRequest& request) {
  ONECOPY_ASSIGN_OR_RETURN(const v1::CreateTransferRequest wire, client::PrintCreate(request));
  const auto transfer =
      request.validate_only
          ? connection.Ask(&TransferStub::CreateTransfer, wire, Patience::kWorking)
          : connection.Call(&TransferStub::CreateTransfer, wire, Patience::kWorking);
  if (!transfer.ok()) return connection.ExplainEnds(transfer.status(), request);
  if (request.deadline) {
    connection.deadlines().Note(TransferId(transfer->id()), CallLimit::Current());
  }
  return client::Read(*transfer);
}

}  // namespace

Result<Plan> Client::PlanTransfer(const TransferRequest& request) {
  TransferRequest only_planned = request;
  only_planned.validate_only = true;
  const CallLimit limit(CallLimit::For(request.deadline));
  ONECOPY_ASSIGN_OR_RETURN(TransferInfo planned, Create(*connection_, only_planned));
  return std::move(planned.plan).value_or(Plan());
}

Result<TransferInfo> Client::StartTransfer(const TransferRequest& request) {
  ONECOPY_ASSIGN_OR_RETURN(const client::SessionRef session, connection_->Latest());
  if (auto started = session->ring().Start(request)) return std::move(*started);
  const CallLimit limit(connection_->deadlines().For(request));
  return Create(*connection_, request);
}

Result<TransferInfo> Client::GetTransfer(const TransferId& id) {
  ONECOPY_ASSIGN_OR_RETURN(const client::SessionRef session, SessionKnowing(*connection_, id));
  ONECOPY_RETURN_IF_ERROR(CheckText("the transfer's id", id.str()));
  v1::GetTransferRequest request;
  request.set_id(id.str());
  const auto transfer = connection_->Ask(&TransferStub::GetTransfer, request, Patience::kQuick);
  if (transfer.ok()) return client::Read(*transfer);
  // A daemon that is gone was asked nothing.
  const bool asked = transfer.status().reason() == reasons::kTransferNotFound;
  return asked ? connection_->ExplainTransfer(*session, transfer.status()) : transfer.status();
}

Result<TransferInfo> Client::OpenSeries(const SeriesRequest& request) {
  ONECOPY_RETURN_IF_ERROR(client::CheckTexts(request));
  v1::OpenSeriesRequest wire;
  codec::Print(request, &wire);
  const CallLimit limit(CallLimit::For(request.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const v1::Transfer series,
                           connection_->Call(&TransferStub::OpenSeries, wire, Patience::kQuick));
  if (request.deadline) {
    connection_->deadlines().Note(TransferId(series.id()), CallLimit::Current());
  }
  return client::Read(series);
}

Result<TransferInfo> Client::EndSeries(const TransferId& id, const Status& failure,
                                       const std::string& checksum) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the transfer's id", id.str()));
  v1::EndSeriesRequest request;
  codec::Print(SeriesEnd{id, failure, checksum}, &request);
  ONECOPY_ASSIGN_OR_RETURN(const v1::Transfer series,
                           connection_->Call(&TransferStub::EndSeries, request, Patience::kQuick));
  return client::Read(series);
}

Result<std::vector<TransferInfo>> Client::ListTransfers() {
  ONECOPY_ASSIGN_OR_RETURN(const client::SessionRef session, connection_->Latest());
  session->ring().WaitForAll();
  return connection_->AskAllPages<TransferInfo>(
      &TransferStub::ListTransfers, v1::ListTransfersRequest(),
      [](const v1::ListTransfersResponse& page) { return page.transfers(); },
      [](const v1::Transfer& transfer) { return client::Read(transfer); });
}

Result<TransferInfo> Client::CancelTransfer(const TransferId& id) {
  ONECOPY_RETURN_IF_ERROR(SessionKnowing(*connection_, id).status());
  ONECOPY_RETURN_IF_ERROR(CheckText("the transfer's id", id.str()));
  v1::CancelTransferRequest request;
  request.set_id(id.str());
  ONECOPY_ASSIGN_OR_RETURN(
      const v1::Transfer transfer,
      connection_->Ask(&TransferStub::CancelTransfer, request, Patience::kQuick));
  return client::Read(transfer);
}

Result<TransferInfo> Client::WatchTransfer(const TransferId& id, const OnUpdate& on_update,
                                           std::stop_token stop) {
  ONECOPY_RETURN_IF_ERROR(SessionKnowing(*connection_, id).status());
  return Watch(*connection_, id, on_update, stop,
               [](const TransferInfo& transfer) { return IsFinal(transfer.state); });
}

Result<TransferInfo> Client::AwaitTransfer(const TransferId& id, const OnUpdate& on_update,
                                           std::stop_token stop) {
  const auto ended = [](const TransferInfo& transfer) {
    return IsFinal(transfer.state) || transfer.state == TransferState::kUnconfirmed;
  };
  ONECOPY_ASSIGN_OR_RETURN(const client::SessionRef session, connection_->Latest());
  const CallLimit limit(connection_->deadlines().Find(id));
  if (!on_update) {
    if (auto done = session->ring().Await(id)) return std::move(*done);
  }
  if (!stop.stop_requested()) {
    auto transfer = Watch(*connection_, id, on_update, stop, ended);
    if (transfer.ok() || !stop.stop_requested()) return transfer;
  }
  ONECOPY_ASSIGN_OR_RETURN(TransferInfo transfer, CancelTransfer(id));
  if (ended(transfer)) return transfer;
  return Watch(*connection_, id, on_update, {}, ended);
}

Result<TransferInfo> Client::RunTransfer(const TransferRequest& request, const OnUpdate& on_update,
                                         std::stop_token stop) {
  if (stop.stop_requested()) {
    return Status(Code::kCancelled, reasons::kCancelled, "cancelled before anything was started");
  }
  if (!on_update && !stop.stop_possible()) {
    ONECOPY_ASSIGN_OR_RETURN(const client::SessionRef session, connection_->Latest());
    if (auto done = session->ring().Run(request)) return std::move(*done);
  }
  const CallLimit limit(connection_->deadlines().For(request));
  ONECOPY_ASSIGN_OR_RETURN(TransferInfo transfer, Create(*connection_, request));
  // One by a ring is often over by then; what is only to be planned never begins.
  if (request.validate_only) return transfer;
  if (!on_update && IsFinal(transfer.state)) return transfer;
  return AwaitTransfer(transfer.id, on_update, stop);
}

}  // namespace onecopy

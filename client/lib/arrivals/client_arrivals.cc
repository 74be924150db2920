#include <algorithm>
#include <utility>

#include "client/lib/arrivals/arrival_stream.h"
#include "client/lib/calls/wire.h"
#include "client/lib/session/connection.h"
#include "onecopy/arrival_watch.h"
#include "onecopy/client.h"

namespace onecopy {

using client::CheckText;
using client::Patience;

ArrivalWatch::ArrivalWatch(std::shared_ptr<client::Connection> connection,
                           std::shared_ptr<client::ArrivalStream> stream)
    : connection_(std::move(connection)), stream_(std::move(stream)) {}

ArrivalWatch::~ArrivalWatch() { End(); }

ArrivalWatch& ArrivalWatch::operator=(ArrivalWatch&& other) noexcept {
  if (this == &other) return *this;
  End();
  stream_ = std::move(other.stream_);
  connection_ = std::move(other.connection_);
  return *this;
}

void ArrivalWatch::End() {
  if (connection_ != nullptr && !connection_->CheckProcess().ok()) {
    // The child of the process that made it has none of the threads that its end waits for.
    static_cast<void>(new std::shared_ptr<client::ArrivalStream>(std::move(stream_)));
  }
  // The stream first: it needs its connection to its end.
  stream_ = nullptr;
  connection_ = nullptr;
}

Result<ArrivalBatch> ArrivalWatch::Poll(size_t most) {
  ONECOPY_RETURN_IF_ERROR(connection_->CheckProcess());
  return stream_->Take(most);
}

Result<ArrivalBatch> ArrivalWatch::Wait(std::stop_token stop,
                                        std::optional<std::chrono::milliseconds> limit,
                                        size_t most) {
  ONECOPY_RETURN_IF_ERROR(connection_->CheckProcess());
  // What a clock of nanoseconds can add to any time that it will ever show.
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365 * 100);
  std::optional<std::chrono::steady_clock::time_point> until;
  if (limit) until = std::chrono::steady_clock::now() + std::min(*limit, kLongest);
  for (;;) {
    ONECOPY_RETURN_IF_ERROR(stream_->Await(stop, until));
    Result<ArrivalBatch> batch = stream_->Take(most);
    // Another thread may have taken it.
    if (!batch.ok() || !batch->arrivals.empty() || batch->missed > 0 || most == 0) return batch;
  }
}

Status ArrivalWatch::Close() {
  ONECOPY_RETURN_IF_ERROR(connection_->CheckProcess());
  return stream_->Close();
}

Result<ArrivalWatch> Client::WatchArrivals(const std::string& buffer) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", buffer));
  ONECOPY_ASSIGN_OR_RETURN(const client::SessionRef session, connection_->Current());
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<client::ArrivalStream> stream,
                           client::ArrivalStream::Open(session, buffer));
  return ArrivalWatch(connection_, std::move(stream));
}

Status Client::SendMessage(const MessageRequest& request) {
  ONECOPY_RETURN_IF_ERROR(client::CheckEnd("the destination", request.destination));
  ONECOPY_RETURN_IF_ERROR(CheckText("the request id", request.request_id));
  v1::SendMessageRequest wire;
  codec::Print(request, &wire);
  return connection_->Call(&v1::ArrivalService::Stub::SendMessage, wire, Patience::kQuick).status();
}

}  // namespace onecopy

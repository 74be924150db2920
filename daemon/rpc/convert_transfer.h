// Transfers; see convert_common.h.
#pragma once

#include "daemon/rpc/convert_common.h"
#include "onecopy/v1/transfer.pb.h"

namespace onecopy::rpc {

Result<engine::TransferInfo> Parse(const v1::Transfer& in, const Field& at);
void Print(const engine::TransferInfo& value, v1::Transfer* out);

// Requests of TransferService, as the arguments of ClientApi's methods.
Result<engine::TransferRequest> Parse(const v1::CreateTransferRequest& in);
Result<engine::SeriesRequest> Parse(const v1::OpenSeriesRequest& in);
Result<engine::SeriesEnd> Parse(const v1::EndSeriesRequest& in);
Result<TransferId> Parse(const v1::GetTransferRequest& in);
Result<engine::PageRequest> Parse(const v1::ListTransfersRequest& in);
Result<TransferId> Parse(const v1::WatchTransferRequest& in);
Result<TransferId> Parse(const v1::CancelTransferRequest& in);

void Print(const engine::Page<engine::TransferInfo>& value, v1::ListTransfersResponse* out);

Result<TransferId> ParseTransferId(const std::string& id, const Field& at);

}  // namespace onecopy::rpc

// Sessions that a test opens by OpenSession.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tests/unit/rpc/rpc_rig.h"

namespace onecopy::rpc {

// One session, from its stream's beginning to its end.
class OpenedSession {
 public:
  explicit OpenedSession(const std::shared_ptr<grpc::Channel>& channel,
                         const v1::OpenSessionRequest& request = Named("test 1.0"))
      : stub_(v1::SessionService::NewStub(channel)), context_(ApiRig::Context("")) {
    reader_ = stub_->OpenSession(context_.get(), request);
    v1::Session session;
    if (reader_->Read(&session)) session_ = session;
  }
  ~OpenedSession() {
    if (!ended_) (void)End();
  }
  OpenedSession(const OpenedSession&) = delete;
  OpenedSession& operator=(const OpenedSession&) = delete;

  static v1::OpenSessionRequest Named(const std::string& client) {
    v1::OpenSessionRequest request;
    request.set_client(client);
    return request;
  }

  bool ok() const { return session_.has_value(); }
  const v1::Session& operator*() const { return *session_; }
  const v1::Session* operator->() const { return &*session_; }

  // The client has done all that it will; how the stream ended.
  Status End() {
    context_->TryCancel();
    return Wait();
  }
  // Until the server ends it.
  Status Wait() {
    v1::Session more;
    while (reader_->Read(&more)) session_ = more;
    ended_ = true;
    return FromGrpc(reader_->Finish());
  }

 private:
  std::unique_ptr<v1::SessionService::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReader<v1::Session>> reader_;
  std::optional<v1::Session> session_;
  bool ended_ = false;
};

// Asks for the node with this token: success, or why not.
inline Status AskAs(const std::shared_ptr<grpc::Channel>& channel, const std::string& token) {
  v1::Node node;
  const auto context = ApiRig::Context(token);
  return FromGrpc(v1::NodeService::NewStub(channel)->GetNode(context.get(), {}, &node));
}

}  // namespace onecopy::rpc

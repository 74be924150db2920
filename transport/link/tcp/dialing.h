// The reader's side of setting up a connection.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/core/link.h"
#include "transport/link/tcp/tcp_link.h"

namespace onecopy::tcp {

class TcpDialing final : public Dialing {
 public:
  TcpDialing(TcpLink& link, std::string peer);

  const std::string& offer() const override { return offer_; }
  void Establish(const std::string& host, const std::string& answer,
                 UniqueFunction<void(Result<std::shared_ptr<Connection>>)> done) override;

 private:
  TcpLink& link_;
  const std::string peer_;
  const std::string offer_;
};

}  // namespace onecopy::tcp

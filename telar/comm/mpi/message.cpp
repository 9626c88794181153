#include "telar/comm/mpi/message.h"

#include "telar/comm/mpi/sums.h"

namespace telar::mpi {

namespace {

class Message final : public Transfer {
 public:
  Message() = default;
  ~Message() override {
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    // A message that has not passed belongs to a step that has failed.
    if (done == 0) MPI_Cancel(&request_);
    MPI_Request_free(&request_);
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void start() override { MPI_Start(&request_); }
  bool done() override {
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }

  MPI_Request* request() { return &request_; }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

std::unique_ptr<Transfer> message_to(MPI_Comm comm, int rank, int tag, std::span<const std::byte> bytes) {
  auto message = std::make_unique<Message>();
  MPI_Send_init(bytes.data(), count_of(bytes.size()), MPI_BYTE, rank, tag, comm, message->request());
  return message;
}

std::unique_ptr<Transfer> message_from(MPI_Comm comm, int rank, int tag, std::span<std::byte> bytes) {
  auto message = std::make_unique<Message>();
  MPI_Recv_init(bytes.data(), count_of(bytes.size()), MPI_BYTE, rank, tag, comm, message->request());
  return message;
}

}  // namespace telar::mpi

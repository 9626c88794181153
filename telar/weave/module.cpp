// The function that the shared module telar-weave exports.
#include "telar/weave/weave.h"

extern "C" __attribute__((visibility("default"))) void telar_weave(const telar::weave::Request& request,
                                                                   telar::weave::Reply& reply) {
  reply = telar::weave::weave(request);
}

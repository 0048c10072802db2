#pragma once
#include "longhaul/core/message.h"

namespace longhaul::testing {

// What a peer sends that says these fields, to the machine at the root.
template <MessageStruct M>
Message message_of(const M& fields) {
  Message message;
  message.kind = M::kKind;
  message.head = Payload(share(to_wire(fields)));
  return message;
}

}  // namespace longhaul::testing

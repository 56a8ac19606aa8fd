// A call of a listener that answers later: what the node keeps of it until then.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <outbox/completion.hpp>
#include <outbox/delivery.hpp>
#include <string>

#include "core/engine/ticket.hpp"

namespace outbox::inline v0::core {

class node_core;

/// Guarded by the engine's lock, except the const members. It holds the node weakly, because a completion may outlive
/// the node.
struct async_call {
  async_call(std::weak_ptr<node_core> c, ticket_ptr t, delivery const& d)
      : core{std::move(c)}, ticket{std::move(t)}, delivery{d} {}

  std::weak_ptr<node_core> const core;
  ticket_ptr const ticket;
  outbox::v0::delivery const delivery;
  std::size_t begun = 0;  ///< The number of interceptors whose `after` is to be called.
  std::optional<result> answer;
  std::optional<std::string> progress;
  bool returned = false;  ///< The listener's function has returned; until then a drop is not final.
  bool dropped = false;   ///< Without an answer.
};

/// An entry of the list of answers, made before the call: answering allocates nothing.
using answer_entry = std::list<std::shared_ptr<async_call>>;

}  // namespace outbox::inline v0::core

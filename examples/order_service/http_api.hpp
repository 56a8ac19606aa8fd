// The HTTP interface of the service.
#pragma once

#include <functional>
#include <memory>
#include <outbox/node.hpp>
#include <outbox/prometheus.hpp>
#include <outbox/writer.hpp>
#include <string>

#include "orders.hpp"

namespace order_service {

/// Serves from its making until its end:
///
///     POST /orders           201 with the order and its Location; 200 if its Idempotency-Key was used for it before
///     GET  /orders?limit=20  the newest orders first
///     GET  /orders/17        one order
///     GET  /healthz          200, or 503 with the reason
///     GET  /metrics          the figures of the node, for Prometheus
///
/// What is wrong with a request is said as {"error":{"field":"cents","message":"…"}}, with status 400, 404, 413, 415 or
/// 422. 503 means that the database does not answer: nothing was written, unless the message says that this is unknown.
class http_api {
 public:
  /// `listen` is "address:port"; port 0 takes any that is free. Throws `outbox::error` (invalid_option) about `listen`.
  http_api(std::string const& listen, order_book& book, outbox::writer writer,
           std::function<outbox::node_health()> health, std::shared_ptr<outbox::prometheus::registry const> figures);
  http_api(http_api const&) = delete;
  http_api& operator=(http_api const&) = delete;

  /// Accepts no more connections and returns when the requests that run have been answered.
  ~http_api();

  [[nodiscard]] int port() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace order_service

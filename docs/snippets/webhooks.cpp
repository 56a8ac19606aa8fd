// The code of the page about webhooks. No receiver is needed: a sink does not wait for one.
#include <cstdlib>
#include <iostream>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/sinks/webhook.hpp>

namespace {

using namespace std::chrono_literals;

outbox::listeners to_a_partner(std::string const& secret) {
  outbox::listeners listeners;
  auto hook = outbox::webhook::open({.url = "https://partner.example/hooks", .secrets = {secret}});
  listeners.on_any(outbox::publish(hook));
  return listeners;
}

outbox::node with_a_longer_budget(std::shared_ptr<outbox::store> store, outbox::listeners listeners) {
  outbox::multi_node_options o{.store = std::move(store), .listeners = std::move(listeners)};
  o.retry = {.max_attempts = 20, .backoff = {.base = 5s, .cap = 1h}};
  return outbox::multi_node(std::move(o));
}

std::shared_ptr<outbox::sink> while_a_secret_is_replaced(std::string const& old_secret, std::string const& new_secret) {
  return outbox::webhook::open({.url = "https://partner.example/hooks",
                                .secrets = {new_secret, old_secret},
                                .headers = {{"Authorization", "Bearer 5f3759df"}}});
}

}  // namespace

int main() {
  std::string const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
  auto box = with_a_longer_budget(outbox::memory::open(), to_a_partner(secret));
  auto const hook = while_a_secret_is_replaced(secret, "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=");
  std::cout << hook->name() << ": made without a receiver\n";
}

// The code of the page about logs that needs spdlog.
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdio>
#include <outbox/adapt/spdlog.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>

int main() {
  auto const logger = spdlog::stderr_color_mt("outbox");
  logger->set_level(spdlog::level::warn);
  outbox::single_node_options options{.store = outbox::memory::open()};
  options.log = outbox::log_to(logger);
  auto box = outbox::single_node(std::move(options));
  box.run_until_idle();
  std::printf("logging: lines go to spdlog\n");
}

// A sink, messages for it, and the reports that come back.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/sinks/webhook.hpp>
#include <set>

#include "support/waiting.hpp"
#include "support/webhook_server.hpp"

namespace outbox {

inline constexpr auto first_secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";  // 32 bytes of text
inline constexpr auto second_secret = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

class Webhook : public ::testing::Test {
 protected:
  // Reports go to a place that outlives any sink of a test.
  struct told_reports {
    std::mutex mutex;
    std::map<std::string, published> all;
  };
  class slot final : public detail::report_slot {
   public:
    slot(told_reports& to, std::string id) : to_{to}, id_{std::move(id)} {}
    void report(published&& p) noexcept override {
      std::lock_guard const lock{to_.mutex};
      to_.all.emplace(id_, std::move(p));
    }

   private:
    told_reports& to_;
    std::string id_;
  };

  [[nodiscard]] static webhook::options options(std::string url) {
    return {.url = std::move(url),
            .secrets = {first_secret},
            .timeout = std::chrono::seconds{60},
            .allow_http = true,
            .allow_private_addresses = true};
  }

  [[nodiscard]] publish_report report_of(std::string const& id) {
    return publish_report{std::make_unique<slot>(told, id)};
  }
  void send(sink& to, std::string const& id, std::string const& payload = R"({"n":1})", publish_options o = {}) {
    to.publish(envelope{std::move(o)}.make(event::json("order.placed", payload, {.id = id})), report_of(id),
               steady_time::max());
  }

  bool reach(std::size_t n) {
    return eventually([&] {
      std::lock_guard const lock{told.mutex};
      return told.all.size() >= n;
    });
  }
  published report(std::string const& id) {
    if (!eventually([&] {
          std::lock_guard const lock{told.mutex};
          return told.all.contains(id);
        })) {
      return {published::how::failed, "(no report)"};
    }
    std::lock_guard const lock{told.mutex};
    return told.all.at(id);
  }
  int count(published::how what) {
    std::lock_guard const lock{told.mutex};
    return static_cast<int>(std::ranges::count(told.all, what, [](auto const& one) { return one.second.what; }));
  }

  // What becomes of one message at this path, from a sink of its own.
  published at(std::string const& path) { return with(options(server.url(path))); }
  published with(webhook::options const& o) {
    auto const to = webhook::open(o);
    auto const id = "m" + std::to_string(++sent_);
    send(*to, id);
    return report(id);
  }

  told_reports told;
  webhook_server server;

 private:
  int sent_ = 0;
};

}  // namespace outbox

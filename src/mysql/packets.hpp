// Statements that go to the server together.
#pragma once

#include <utility>
#include <vector>

#include "mysql/driver.hpp"

namespace outbox::inline v0::mysql {

/// Sends statements, as many in one packet as the server takes. The driver must outlive it.
class packets {
 public:
  packets(driver& d, std::size_t most) : d_{d}, most_{most}, text_{d.text()} {}

  /// Adds a statement by `add(sql_text&)`.
  template <class Add>
  void statement(Add&& add) {
    auto const before = text_.size();
    if (before > 0) text_ << ";";
    add(text_);
    if (before == 0 || text_.size() <= most_) return;
    auto const last = text_.str().substr(before + 1);
    text_.shrink_to(before);
    flush();
    text_ << last;
  }
  void flush() {
    if (text_.size() == 0) return;
    for (auto& a : d_.send(text_)) answers.push_back(std::move(a));
    text_.shrink_to(0);
  }

  std::vector<driver::answer> answers;  ///< One for each statement that was sent.

 private:
  driver& d_;
  std::size_t most_;
  sql_text text_;
};

}  // namespace outbox::inline v0::mysql

// What a verb prints: data on standard output in one of three forms, everything else on standard error.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace outbox_tool {

/// The form of data on standard output.
enum class form {
  pretty,  ///< Tables and sentences, for people.
  plain,   ///< One row per line, columns divided by tabs, no header: for scripts.
  json,    ///< One JSON document; for streams, one per line.
};

/// How a piece of text looks on a terminal that has colours. A symbol or a word always says the same.
enum class look { normal, bold, good, warning, bad, faint };

/// What the options of a verb say about its output.
struct output_options {
  bool json = false, plain = false, pretty = false, no_color = false, quiet = false;

  /// Adds --json, --plain, --pretty, --no-color and --quiet.
  void add_to(CLI::App& verb);
};

/// Standard output and standard error of one verb. Use from one thread at a time.
class console {
 public:
  explicit console(output_options const& o);

  /// Default: pretty on a terminal, plain elsewhere.
  [[nodiscard]] form chosen() const noexcept { return form_; }
  [[nodiscard]] std::size_t width() const noexcept { return width_; }

  /// True if a person sits there: standard input and standard error are a terminal.
  [[nodiscard]] bool can_ask() const noexcept { return can_ask_; }

  /// True if standard error is a terminal, so that a line may be drawn again.
  [[nodiscard]] bool can_redraw() const noexcept { return redraws_; }
  [[nodiscard]] bool out_is_terminal() const noexcept { return out_is_terminal_; }

  /// The text in the colours of standard output, if there are any.
  [[nodiscard]] std::string painted(std::string_view text, look l) const;

  /// Data, on standard output. Throws std::runtime_error if it cannot be written, so that a full disk is an error.
  void out(std::string_view text);
  void document(nlohmann::ordered_json const& j);
  void flush();

  /// Talk, on standard error: a line. Left out with --quiet.
  void say(std::string_view line) const;

  /// The same for what must not be left out.
  void warn(std::string_view line) const;

  /// Draws the last line of standard error again; only if it can be.
  void redraw(std::string_view line) const;

  /// Asks for yes or no; false if nothing can be asked.
  [[nodiscard]] bool ask(std::string_view question) const;

 private:
  form form_ = form::pretty;
  bool colours_ = false, can_ask_ = false, redraws_ = false, quiet_ = false, out_is_terminal_ = false;
  std::size_t width_ = 0;
};

}  // namespace outbox_tool

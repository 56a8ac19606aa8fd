// An event: what happened, to which aggregate, with which payload.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/detail/core_export.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace outbox::inline v0 {

/// The aggregate type of an event that names none.
inline constexpr std::string_view global_aggregate = "__GLOBAL__";

/// Names and values beside the payload. Sorted by name; a name occurs once.
using headers = std::map<std::string, std::string, std::less<>>;

/// The thing an event is about, as in {"order", "42"}.
struct aggregate {
  std::string type{};  ///< At most 64 characters. Empty: `global_aggregate`.
  std::string id{};    ///< At most 128 characters. Empty: none.
};

/// Limits that an event is checked against when it is made. `write()` compares its sizes with the limits of the node
/// too. The ranges are what every store can keep.
struct event_limits {
  std::size_t payload_bytes = std::size_t{1} << 20;  ///< Of the payload. Default 1 MiB. 1 byte … 256 MiB.
  std::size_t header_count = 64;                     ///< Number of headers. Default 64. 1 … 10,000.
  std::size_t header_bytes = std::size_t{64} << 10;  ///< Names and values together. Default 64 KiB. 1 byte … 16 MiB.
  std::size_t json_depth = 512;  ///< Nesting of a JSON payload: databases recurse. Default 512. 1 … 5000.
};

/// Everything about an event that has a default.
struct event_options {
  /// The id of the event. Default: a new ULID, which grows within a process. Ids of the caller: 1 … 36 characters,
  /// unique in the table.
  std::string id{};

  /// The thing that the event is about. Default: none, which is stored as `global_aggregate`.
  outbox::v0::aggregate aggregate{};

  /// Passed through to the listener; the library does nothing with it. At most 64 characters. Default: none.
  std::string tenant{};

  /// Names and values for the listener. Default: none. A name must not be empty; neither names nor values may have CR,
  /// LF or NUL.
  outbox::v0::headers headers{};

  /// When it happened, by the caller's clock: data only, nothing is ordered or timed by it. Years 1 … 9999. Default:
  /// now by the machine's clock, whatever clock a node has.
  std::optional<instant> occurred_at{};

  /// Delivered not before this instant. Must not be before `occurred_at`, nor after year 9999. Default: at once.
  /// Excludes `deliver_after`. An event with a delay is in no order: it holds up no other event of its key, and waits
  /// for none.
  std::optional<instant> available_at{};

  /// Delivered not before this long after the insert, by the store's clock. Default: at once. 1 ms … 3650 days.
  /// Excludes `available_at`. An event with a delay is in no order: see `available_at`.
  std::optional<std::chrono::milliseconds> deliver_after{};

  /// What the event is ordered by: a `keyed` node delivers events with the same key one after the other, in the order
  /// of writing, except those with a delay. An `ordered` node does not use it, because it keeps the whole table in
  /// order. Also the partition key for downstream consumers, such as the key of a Kafka message: stored with the row
  /// and passed to the listener. At most 128 characters. Default: the aggregate.
  std::string ordering_key{};
};

/// How a payload is stored: JSON text comes back byte for byte and is readable in the table; bytes are opaque.
enum class payload_kind { json, bytes };

namespace detail {

template <class T>
concept plain_text =
    std::same_as<std::remove_cvref_t<T>, std::string> || std::same_as<std::remove_cvref_t<T>, std::string_view> ||
    std::same_as<std::decay_t<T>, char const*> || std::same_as<std::decay_t<T>, char*>;

}  // namespace detail

/// JSON text as a payload: a std::string, which may be moved, a std::string_view or a char const*.
///
/// A type that merely converts to one of these does not compile. A value of a JSON library converts to the text of the
/// string that it holds, without the quotes: `"42"` would become the number 42.
class json_text {
 public:
  template <class T>
    requires(!std::same_as<std::remove_cvref_t<T>, json_text>)
  json_text(T&& text)  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload): reads as text
      : text_{text_of(std::forward<T>(text))} {}

  [[nodiscard]] std::string release() && noexcept { return std::move(text_); }

 private:
  template <class T>
  static std::string text_of(T&& text) {
    static_assert(
        detail::plain_text<T>,
        "a JSON payload is text, a std::string, std::string_view or char const*: pass value.dump() for a JSON "
        "value, or write a struct with an outbox_codec");
    if constexpr (std::is_pointer_v<std::remove_cvref_t<T>> && detail::plain_text<T>) {
      return text == nullptr ? std::string{} : std::string{text};  // which is no JSON
    } else if constexpr (detail::plain_text<T>) {
      return std::string(std::forward<T>(text));
    } else {
      return {};
    }
  }

  std::string text_;
};

/// The fields of an event as a store keeps them. Plain data: only `event` promises that it is valid.
struct event_record {
  std::string id;                          ///< Unique in the table.
  std::string type;                        ///< Chooses the listener.
  outbox::v0::aggregate aggregate;         ///< What the event is about.
  std::string tenant;                      ///< Passed through.
  outbox::v0::headers headers;             ///< Beside the payload.
  std::string payload;                     ///< JSON text or bytes, as `kind` says.
  payload_kind kind = payload_kind::json;  ///< How the payload is stored.
  std::size_t json_depth = 0;              ///< How deep a JSON payload nests.
  std::size_t header_bytes = 0;            ///< The bytes of all names and values of the headers. `event` fills it in.
  std::string content_type;                ///< As in "application/json".
  std::string ordering_key;                ///< For downstream consumers. Empty: the aggregate.
  instant occurred_at{};                   ///< By the caller's clock.
  std::optional<instant> available_at;     ///< Not delivered before this instant.
  std::optional<std::chrono::milliseconds> deliver_after;  ///< Not delivered before this long after the insert.
  bool made_id = false;  ///< The library made the id: a store that holds UUIDs gives the event one of its own.
};

/// An immutable, valid event. Thread-safe. Copies share one block of memory, so they are cheap.
///
/// An event that was moved from may be tested, assigned to and destroyed; `write()` refuses it.
class OUTBOX_CORE_EXPORT event {
 public:
  /// Makes an event with a JSON payload. Throws `error` (invalid_event) if a field breaks a rule; `field()` names it.
  [[nodiscard]] static event json(std::string_view type, json_text payload, event_options options = {},
                                  event_limits const& limits = {});

  /// Makes an event with an opaque payload. `content_type` is as in "application/protobuf", at most 128 characters.
  /// Throws as `json` does.
  [[nodiscard]] static event bytes(std::string_view type, std::string payload, std::string content_type,
                                   event_options options = {}, event_limits const& limits = {});
  [[nodiscard]] static event bytes(std::string_view type, std::span<std::byte const> payload, std::string content_type,
                                   event_options options = {}, event_limits const& limits = {});

  /// For stores: makes an event of a row as it was found. Other programs write rows too, so nothing is checked.
  [[nodiscard]] static event restore(event_record record);

  [[nodiscard]] std::string const& id() const noexcept { return data_->id; }
  [[nodiscard]] std::string const& type() const noexcept { return data_->type; }
  [[nodiscard]] std::string const& aggregate_type() const noexcept { return data_->aggregate.type; }
  [[nodiscard]] std::string const& aggregate_id() const noexcept { return data_->aggregate.id; }
  [[nodiscard]] std::string const& tenant() const noexcept { return data_->tenant; }
  [[nodiscard]] outbox::v0::headers const& headers() const noexcept { return data_->headers; }
  [[nodiscard]] std::string const& payload() const noexcept { return data_->payload; }
  [[nodiscard]] payload_kind kind() const noexcept { return data_->kind; }
  [[nodiscard]] std::string const& content_type() const noexcept { return data_->content_type; }
  [[nodiscard]] std::string const& ordering_key() const noexcept { return data_->ordering_key; }
  [[nodiscard]] instant occurred_at() const noexcept { return data_->occurred_at; }
  [[nodiscard]] std::optional<instant> available_at() const noexcept { return data_->available_at; }
  [[nodiscard]] std::optional<std::chrono::milliseconds> deliver_after() const noexcept { return data_->deliver_after; }

  /// False only if the event was moved from.
  explicit operator bool() const noexcept { return data_ != nullptr; }

  /// True if the event asks for a delay.
  [[nodiscard]] bool delayed() const noexcept;

  /// The bytes that it takes in the queues of a node: payload, headers and names.
  [[nodiscard]] std::size_t size_bytes() const noexcept;

  [[nodiscard]] event_record const& record() const noexcept { return *data_; }

 private:
  explicit event(event_record record);

  std::shared_ptr<event_record const> data_;
};

/// Throws `error` (invalid_event) if `e` is over `limits`.
OUTBOX_CORE_EXPORT void check_limits(event const& e, event_limits const& limits);

/// A new ULID: 26 characters, greater than every one made before in this process.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string new_event_id();

/// A new UUID of version 7: 36 characters, greater than every one made before in this process.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string new_uuid();

}  // namespace outbox::inline v0

// One misuse at a time: -DMISUSE_<name>.
#if defined(MISUSE_written_without_conversion) || defined(MISUSE_read_without_conversion)
#include <outbox/json.hpp>
#elif defined(MISUSE_json_value_as_payload) || defined(MISUSE_json_value_in_an_event)
#include <nlohmann/json.hpp>
#elif defined(MISUSE_pqxx_without_its_adapter)
#include <pqxx/pqxx>
#elif defined(MISUSE_pqxx_connection) || defined(MISUSE_pqxx_nontransaction)
#include <outbox/adapt/pqxx.hpp>
#elif defined(MISUSE_soci_transaction)
#include <outbox/adapt/soci.hpp>
#elif defined(MISUSE_sqlitecpp_transaction)
#include <SQLiteCpp/SQLiteCpp.h>

#include <outbox/adapt/sqlitecpp.hpp>
#endif

#include "common.hpp"

struct nameless {
  using outbox_codec = outbox::json;
};
struct uncoded {
  static constexpr std::string_view event_type = "uncoded";
};
struct oddly_coded {
  static constexpr std::string_view event_type = "oddly.coded";
};
template <>
struct outbox::codec<oddly_coded> {
  static std::string encode(oddly_coded const&) { return "1"; }
};
struct some_transaction {};
enum class unnamed { one };
enum class short_lived { one };
std::string outbox_name(short_lived) { return "one"; }

void use([[maybe_unused]] outbox::writer const& w, [[maybe_unused]] outbox::memory::transaction& tx,
         [[maybe_unused]] outbox::completion& c, [[maybe_unused]] outbox::event const& e) {
  [[maybe_unused]] outbox::listeners l;
#if defined(MISUSE_unknown_transaction)
  some_transaction other;
  w.write(other, good{1});
#elif defined(MISUSE_pqxx_without_its_adapter)
  w.write(*static_cast<pqxx::work*>(nullptr), good{1});
#elif defined(MISUSE_pqxx_connection)
  w.write(*static_cast<pqxx::connection*>(nullptr), good{1});
#elif defined(MISUSE_pqxx_nontransaction)
  w.write(*static_cast<pqxx::nontransaction*>(nullptr), good{1});
#elif defined(MISUSE_soci_transaction)
  w.write(*static_cast<soci::transaction*>(nullptr), good{1});
#elif defined(MISUSE_sqlitecpp_transaction)
  w.write(*static_cast<SQLite::Transaction*>(nullptr), good{1});
#elif defined(MISUSE_event_without_name)
  l.on<nameless>([](nameless const&) {});
#elif defined(MISUSE_written_without_name)
  w.write(tx, nameless{}, {.id = "1"});
#elif defined(MISUSE_event_without_codec)
  l.on<uncoded>([](uncoded const&) {});
#elif defined(MISUSE_written_without_codec)
  w.write(tx, uncoded{});
#elif defined(MISUSE_made_without_codec)
  static_cast<void>(outbox::make_event(uncoded{}));
#elif defined(MISUSE_decoded_without_codec)
  static_cast<void>(outbox::decode<uncoded>(e));
#elif defined(MISUSE_codec_of_another_shape)
  w.write(tx, oddly_coded{});
#elif defined(MISUSE_codec_only_declared)
  w.write(tx, only_declared{});
#elif defined(MISUSE_written_without_conversion)
  w.write(tx, only_declared{});
#elif defined(MISUSE_read_without_conversion)
  l.on<only_declared>([](only_declared const&) {});
#elif defined(MISUSE_json_value_as_payload)
  w.write(tx, "good", nlohmann::json("42"), {.id = "1"});
#elif defined(MISUSE_json_value_in_an_event)
  static_cast<void>(outbox::event::json("good", nlohmann::json{{"a", 1}}));
#elif defined(MISUSE_enum_without_name)
  w.write(tx, unnamed::one, "1");
#elif defined(MISUSE_listener_of_an_enum_without_name)
  l.on(unnamed::one, [](outbox::delivery const&) {});
#elif defined(MISUSE_enum_with_a_name_that_ends)
  w.write(tx, short_lived::one, "1");
#elif defined(MISUSE_listener_of_an_enum_with_a_name_that_ends)
  l.on("order", short_lived::one, [](outbox::delivery const&) {});
#elif defined(MISUSE_listener_takes_something_else)
  l.on<good>([](int*) {});
#elif defined(MISUSE_completion_without_delivery)
  l.on<good>([](good const&, outbox::completion) {});
#elif defined(MISUSE_plain_listener_takes_something_else)
  l.on("good", [](int*) {});
#elif defined(MISUSE_listener_returns_something_else)
  l.on<good>([](good const&) { return 42; });
#elif defined(MISUSE_asynchronous_listener_returns)
  l.on<good>([](good const&, outbox::delivery const&, outbox::completion) -> outbox::result { return outbox::done; });
#elif defined(MISUSE_batch_of_one_result)
  l.on_batch<good>(
      [](std::span<good const>, std::span<outbox::delivery const>) { return outbox::result{outbox::done}; });
#elif defined(MISUSE_plain_batch_of_one_result)
  l.on_batch("good", [](std::span<outbox::delivery const>) { return outbox::result{outbox::done}; });
#elif defined(MISUSE_fan_out_child_takes_something_else)
  outbox::fan_out<good>{}.to("a", [](int*) {});
#elif defined(MISUSE_plain_child_takes_something_else)
  outbox::fan_out<>{}.to("a", [](int*) {});
#elif defined(MISUSE_workers_of_ordered)
  static_cast<void>(outbox::ordered_options{.store = outbox::memory::open(), .workers = 4});
#elif defined(MISUSE_retry_of_ordered)
  static_cast<void>(outbox::ordered_options{.store = outbox::memory::open(), .retry = {}});
#elif defined(MISUSE_hot_path_of_ordered)
  static_cast<void>(outbox::ordered_options{.store = outbox::memory::open(), .hot_path = true});
#elif defined(MISUSE_listeners_of_writer_only)
  static_cast<void>(outbox::writer_only_options{.store = outbox::memory::open(), .listeners = {}});
#elif defined(MISUSE_copied_completion)
  auto copy = c;
#else
#error "no misuse was chosen"
#endif
}

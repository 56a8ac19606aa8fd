#include "redis/reader.hpp"

#include <new>

namespace outbox::inline v0::redis {
namespace {

redisReplyObjectFunctions const* of_hiredis = nullptr;

// The type of `elements` differs between versions of hiredis.
template <class Number>
void* make_list(redisReadTask const* task, Number elements) {
  constexpr Number most = Number{1} << 24U;
  return elements <= most ? of_hiredis->createArray(task, elements) : nullptr;
}

redisReplyObjectFunctions* functions(redisReader const& r) {
  static auto bounded = [&] {
    of_hiredis = r.fn;
    auto all = *r.fn;
    all.createArray = make_list;
    return all;
  }();
  return &bounded;
}

}  // namespace

reader_handle make_reader() {
  reader_handle r{redisReaderCreate()};
  if (!r) throw std::bad_alloc{};
  r->fn = functions(*r);
  return r;
}

bool in_an_answer(redisReader const& r) noexcept {
  bool const expects_next = r.ridx == -1 || (r.ridx == 0 && r.rstack[0].type == -1);
  return r.pos != r.len || !expects_next;
}

}  // namespace outbox::inline v0::redis

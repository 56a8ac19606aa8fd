// One request of libcurl, from its headers to what became of it.
#pragma once

#include <curl/curl.h>

#include <array>
#include <memory>
#include <outbox/sink.hpp>

#include "sinks/webhook/answer.hpp"
#include "sinks/webhook/endpoint.hpp"

namespace outbox::inline v0::webhook {

/// Use from one thread. It stays where it is, because libcurl has its address.
class transfer {
 public:
  /// Makes and signs the request. `to` must outlive it. Throws `std::runtime_error` if libcurl or libcrypto refuses.
  transfer(endpoint const& to, event const& e, header_list const& headers);
  transfer(transfer const&) = delete;
  transfer& operator=(transfer const&) = delete;
  ~transfer() = default;

  [[nodiscard]] CURL* handle() const noexcept { return easy_.get(); }

  /// What became of it when libcurl ended it with this code.
  [[nodiscard]] published ended(CURLcode code) const;

  /// The same for one that is broken off.
  [[nodiscard]] published given_up() const;

 private:
  struct free_easy {
    void operator()(CURL* h) const noexcept { curl_easy_cleanup(h); }
  };
  struct free_lines {
    void operator()(curl_slist* l) const noexcept { curl_slist_free_all(l); }
  };
  static std::size_t on_header(char const* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_body(char const* data, std::size_t size, std::size_t count, void* self);
  static curl_socket_t on_socket(void* self, curlsocktype purpose, curl_sockaddr* address);

  template <class T>
  void set(CURLoption option, T value);
  void set_target();
  void set_callbacks();
  void set_headers(header_list const& headers);
  void add_line(std::string const& line);
  [[nodiscard]] bool sent() const noexcept;

  endpoint const& to_;
  event kept_;  ///< Has the body, which libcurl does not copy.
  std::unique_ptr<curl_slist, free_lines> lines_;
  std::array<char, CURL_ERROR_SIZE> said_{};
  std::string refused_;
  answer answer_;
  std::unique_ptr<CURL, free_easy> easy_;
};

}  // namespace outbox::inline v0::webhook

# System packages. The core needs PCRE2, utf8proc, jansson and POSIX threads; the program Cairo, Pango, libcurl,
# libcrypto and SQLite besides.
find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
if(HEADSCOPE_PROGRAM)
    pkg_check_modules(CAIRO REQUIRED IMPORTED_TARGET cairo cairo-pdf pangocairo)
    pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
    pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto>=3.0)
    pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
endif()

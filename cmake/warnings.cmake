# What every file is compiled with. -ffp-contract=off: a multiply and an add round twice wherever they stand, so that
# fused and unfused paths give the same bits; kernels ask for a fused multiply-add by name.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
    -Wwrite-strings -Wvla -Wformat=2 -fno-common -ffp-contract=off -fno-math-errno)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    # snprintf cuts messages at the buffer's size on purpose.
    add_compile_options(-Wno-format-truncation)
endif()
if(HEADSCOPE_WERROR)
    add_compile_options(-Werror)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # Each gcc guesses differently about values that a function fills only when it succeeds: a warning, no error.
        add_compile_options(-Wno-error=maybe-uninitialized)
    endif()
endif()
add_compile_definitions(_XOPEN_SOURCE=700 _DEFAULT_SOURCE)
if(HEADSCOPE_SANITIZE)
    add_compile_options(-fsanitize=${HEADSCOPE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${HEADSCOPE_SANITIZE})
endif()
if(HEADSCOPE_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

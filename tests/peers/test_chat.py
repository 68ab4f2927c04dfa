"""Chat templates, rendered by the library and by transformers' own Jinja."""
import ctypes
import datetime

import common
import numpy as np
from transformers.utils.chat_template_utils import render_jinja_template

import chat_templates
import library


class Message(ctypes.Structure):
    _fields_ = [("role", ctypes.c_char_p), ("content", ctypes.c_char_p)]


CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "Hello")],
    [("user", " Why? \n"), ("assistant", " Because. "), ("user", "Ünïcödé 🦙 'quotes' \"double\" {{ x }}")],
    [("system", "S"), ("user", "a"), ("assistant", "<think>\nhm\n</think>\n\nb"), ("user", "c"), ("assistant", "d")],
    [("user", "a"), ("user", "b")],
    [("assistant", "a")],
]


def ours(lib, template, messages, add_reply):
    """(text, None) or (None, the message of the refusal)"""
    made, err = ctypes.c_void_p(), library.Error()
    text = template.encode()
    status = lib.hsc_chat_template_new(ctypes.byref(made), text, ctypes.c_size_t(len(text)), b"<s>", b"</s>", ctypes.byref(err))
    if status:
        return None, err.message.decode()
    array = (Message * max(1, len(messages)))(*[Message(role.encode(), content.encode()) for role, content in messages])
    lib.hsc_chat_render.restype = ctypes.c_int64
    room = ctypes.create_string_buffer(1 << 16)
    n = lib.hsc_chat_render(made, array, ctypes.c_size_t(len(messages)), int(add_reply), room, ctypes.c_size_t(1 << 16), ctypes.byref(err))
    lib.hsc_chat_template_free(made)
    return (room.raw[:n].decode(), None) if n >= 0 else (None, err.message.decode())


def theirs(template, messages, add_reply):
    chat = [{"role": role, "content": content} for role, content in messages]
    try:
        rendered, _ = render_jinja_template(conversations=[chat], chat_template=template, add_generation_prompt=add_reply,
                                            bos_token="<s>", eos_token="</s>")
    except Exception as refusal:  # noqa: BLE001 - raise_exception and Jinja's own errors
        return None, str(refusal)
    return rendered[0], None


def test_families():
    lib, refused = library.load(), 0
    for name, template in chat_templates.ALL.items():
        for messages in CONVERSATIONS:
            for add_reply in (False, True):
                got, got_why = ours(lib, template, messages, add_reply)
                want, want_why = theirs(template, messages, add_reply)
                assert got == want, f"{name}, {messages}: {got!r} ({got_why}) is not {want!r} ({want_why})"
                if want is None:
                    refused += 1
                    assert want_why in got_why, f"{name}: {got_why!r} does not say {want_why!r}"
        print(f"{name}: {len(CONVERSATIONS)} conversations are the same", flush=True)
    assert refused > 10


def test_parts():
    lib = library.load()
    for template in chat_templates.PARTS:
        got, why = ours(lib, template, CONVERSATIONS[2], True)
        want, their_why = theirs(template, CONVERSATIONS[2], True)
        assert got == want, f"{template!r}: {got!r} ({why}) is not {want!r} ({their_why})"


def test_today():
    lib = library.load()
    got, _ = ours(lib, "{{ strftime_now('%d %b %Y, %A %B %m') }}", [], False)
    assert got == datetime.datetime.now().strftime("%d %b %Y, %A %B %m")


def test_refused_by_name():
    lib = library.load()
    for template, says in (("\n{{ x | frobnicate }}", "line 2: unknown filter 'frobnicate'"), ("{% include 'a' %}", "unknown statement 'include'"),
                           ("{{ 'a'.encode() }}", "unknown method 'encode'"), ("{% if true %}x", "'elif'"), ("{{ 'a }}", "no end"),
                           ("{{ f(1) }}", "unknown function 'f'"), ("{{ 1 is prime }}", "unknown test 'prime'"), ("{{ 1.5 }}", "whole"),
                           ("{{ missing.x }}", "undefined"), ("{{ 'a' + 1 }}", "cannot be added"), ("{% for x in 3 %}{% endfor %}", "gone through")):
        got, why = ours(lib, template, CONVERSATIONS[0], False)
        assert got is None and says in why, (template, got, why)


def test_garbage():
    """Whatever stands in a template, rendering ends."""
    lib, rng = library.load(), np.random.default_rng(0)
    source = list(chat_templates.ALL.values()) + chat_templates.PARTS
    for trial in range(3000):
        text = list(source[trial % len(source)])
        for _ in range(rng.integers(1, 6)):
            at = int(rng.integers(0, len(text)))
            if rng.integers(0, 2):
                del text[at:at + int(rng.integers(1, 8))]
            else:
                text.insert(at, rng.choice(list("{}%#'\"()[]|.:~-+ \n") + ["{% ", "{{ ", " %}", " }}", "endif", "is", "not"]))
            text = text or [" "]
        ours(lib, "".join(text), CONVERSATIONS[trial % 4], True)


if __name__ == "__main__":
    common.main(globals())

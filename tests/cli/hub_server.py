"""A loopback server that speaks the Hugging Face Hub's routes as far as a model download needs them, and misbehaves on
demand. Large files ("lfs") are redirected to a second server on another port, as the Hub redirects to its storage."""
import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote, urlsplit


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Repo:
    """files: name -> bytes; the names in lfs are large files."""

    def __init__(self, files, lfs=(), commit=None, gated=False, private=False, details=True, extra_names=()):
        self.files, self.lfs, self.gated, self.private = dict(files), set(lfs), gated, private
        self.commit = commit or hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.details = details  # whether the list of files tells sizes and checksums
        self.extra_names = list(extra_names)  # listed, but not there
        self.revisions = {"main": self.commit}

    def etag(self, name):
        return sha256(self.files[name]) if name in self.lfs else git_sha1(self.files[name])

    def info(self, repo_id):
        siblings = []
        for name in [*self.files, *self.extra_names]:
            item = {"rfilename": name}
            if self.details and name in self.files:
                data = self.files[name]
                item["size"] = len(data)
                item["blobId"] = git_sha1(data)
                if name in self.lfs:
                    item["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 134}
            siblings.append(item)
        return {"id": repo_id, "modelId": repo_id, "sha": self.commit, "private": self.private, "siblings": siblings}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *args):
        pass

    def answer(self, code, body=b"", headers=()):
        self.send_response(code)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, code, error_code=None, message="no"):
        headers = [("X-Error-Message", message)] + ([("X-Error-Code", error_code)] if error_code else [])
        self.answer(code, json.dumps({"error": message}).encode(), headers)

    def send_file(self, data, headers, faults):
        """A body, whole or from the byte asked for, with what was ordered to go wrong."""
        if "corrupt" in faults:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if "longer" in faults:
            data = data + b"more"
        start, asked = 0, re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and "ignore_range" not in faults:
            start = int(asked[1])
            if start >= len(data):
                return self.answer(416, b"", [("Content-Range", f"bytes */{len(data)}")])
        if "wrong_range" in faults and asked:
            start = max(0, start - 1)
        body = data[start:]
        self.send_response(206 if start else 200)
        for key, value in headers:
            self.send_header(key, value)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = faults.get("cut")
        if "slow" in faults:
            for at in range(0, len(body), faults["slow"]):
                self.wfile.write(body[at:at + faults["slow"]])
                self.wfile.flush()
                time.sleep(0.05)
        elif cut is not None and cut < len(body):
            self.wfile.write(body[:cut])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
        else:
            self.wfile.write(body)

    def handle_any(self):
        try:
            self.server.hub.serve(self)
        except (BrokenPipeError, ConnectionResetError, OSError):
            self.close_connection = True

    do_GET = do_HEAD = handle_any


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes away in the middle is what some tests are about."""


class Hub:
    """repos: "org/name" -> Repo. faults: a list of dicts, each used once, in order, by the first request whose path
    holds its "match": {"match": "/resolve/", "status": 503} or {"match": "model", "cut": 100, "ignore_range": True}."""

    def __init__(self, repos=None, token=None):
        self.repos, self.token = dict(repos or {}), token
        self.renamed = {}  # old name -> new name, answered by a redirect
        self.faults, self.log, self.lock = [], [], threading.Lock()
        self.servers = []
        for _ in range(2):
            server = Server(("127.0.0.1", 0), Handler)
            server.hub = self
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
            self.servers.append(server)
        self.endpoint, self.storage = (f"http://127.0.0.1:{s.server_address[1]}" for s in self.servers)

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    def take_fault(self, path):
        with self.lock:
            for fault in self.faults:
                if fault["match"] in path:
                    self.faults.remove(fault)
                    return fault
        return {}

    def paths(self, method="GET"):
        return [entry["path"] for entry in self.log if entry["method"] == method]

    def serve(self, request):
        where = "storage" if request.server is self.servers[1] else "hub"
        path = unquote(urlsplit(request.path).path)
        with self.lock:
            self.log.append({"where": where, "method": request.command, "path": path, "raw": request.path,
                             "token": request.headers.get("Authorization"), "range": request.headers.get("Range")})
        fault = self.take_fault(path)
        if "status" in fault:
            headers = [("Retry-After", str(fault["retry_after"]))] if "retry_after" in fault else []
            return request.answer(fault["status"], b"busy", headers)
        if "body" in fault:
            return request.answer(200, fault["body"])
        if "location" in fault:
            return request.answer(302, b"", [("Location", fault["location"])])
        if where == "storage":
            return self.serve_storage(request, path, fault)
        raw = urlsplit(request.path).path
        match = re.fullmatch(r"/api/models/(.+)/revision/([^/]+)", raw)
        if match:
            return self.serve_info(request, match[1], unquote(match[2]))
        match = re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", raw)
        if match:
            return self.serve_resolve(request, match[1], unquote(match[2]), unquote(match[3]), fault)
        return request.refuse(404)

    def allowed(self, request, repo_id):
        """The repository, or None after a refusal as the Hub words it."""
        signed_in = self.token and request.headers.get("Authorization") == f"Bearer {self.token}"
        if request.headers.get("Authorization") and not signed_in:
            request.refuse(401, None, "Invalid credentials in Authorization header")
        elif repo_id not in self.repos or (self.repos[repo_id].private and not signed_in):
            if signed_in:
                request.refuse(404, "RepoNotFound", "Repository not found")
            else:
                request.refuse(401, None, "Invalid username or password.")
        else:
            return self.repos[repo_id]
        return None

    def serve_info(self, request, repo_id, revision):
        if repo_id in self.renamed:
            rest = request.path.replace(f"/api/models/{repo_id}/", f"/api/models/{self.renamed[repo_id]}/", 1)
            return request.answer(307, b"", [("Location", rest)])
        repo = self.allowed(request, repo_id)
        if not repo:
            return None
        if revision not in repo.revisions and revision != repo.commit:
            return request.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return request.answer(200, json.dumps(repo.info(repo_id)).encode(), [("Content-Type", "application/json")])

    def serve_resolve(self, request, repo_id, revision, name, fault):
        if repo_id in self.renamed:
            rest = request.path.replace(f"/{repo_id}/", f"/{self.renamed[repo_id]}/", 1)
            return request.answer(307, b"", [("Location", rest)])
        repo = self.allowed(request, repo_id)
        if not repo:
            return None
        if repo.gated and not (self.token and request.headers.get("Authorization")):
            return request.refuse(401, "GatedRepo", "Access to this model is restricted.")
        if repo.gated == "pending":
            return request.refuse(403, "GatedRepo", "Your request is awaiting a review.")
        if repo.revisions.get(revision, revision) != repo.commit:
            return request.refuse(404, "RevisionNotFound")
        if name not in repo.files:
            return request.refuse(404, "EntryNotFound", "Entry not found")
        headers = [("X-Repo-Commit", repo.commit)]
        if name in repo.lfs:
            headers += [("X-Linked-Etag", f'"{repo.etag(name)}"'), ("X-Linked-Size", str(len(repo.files[name]))),
                        ("Location", f"{self.storage}/{quote(repo_id)}/{quote(name)}?signature=secret")]
            return request.answer(302, b"", headers)
        return request.send_file(repo.files[name], [*headers, ("ETag", f'"{repo.etag(name)}"')], fault)

    def serve_storage(self, request, path, fault):
        for repo_id, repo in self.repos.items():
            for name in repo.lfs:
                if path == f"/{repo_id}/{name}":
                    return request.send_file(repo.files[name], [("ETag", '"an-etag-of-the-storage"')], fault)
        return request.refuse(404)

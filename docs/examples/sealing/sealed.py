"""Opens and seals values of a Sagalog namespace, for programs that read or write its topics themselves.

Needs the package cryptography. The format is in events/FORMAT.md, "Sealed values"; all times and names are those of that page.
"""

import base64
import hashlib
import json
import os
import re
import sys

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SEALED = re.compile(r'\{"\$sealed":"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)\.([A-Za-z0-9_-]*)"\}')


class Keys:
    """The data keys of a namespace, named by the id of its NamespaceCreated. lines are those of the key file; put gives it the records of the topic <ns>.keys, in their order."""

    def __init__(self, namespace, lines):
        self.namespace = namespace
        self.wrapping = {fingerprint(bytes.fromhex(line)): bytes.fromhex(line) for line in lines}
        self.keys = {}  # by ID: (subject, made, the data key)
        self.erased = {}  # by ID: when

    def put(self, key, value):
        kind, _, id = key.partition("/")
        if kind == "erased":
            self.erased[id] = json.loads(value)["erased"]
            self.keys.pop(id, None)
        elif kind == "key" and value is not None and id not in self.erased:
            record = json.loads(value)
            if record["namespace"] != self.namespace:
                return
            bound = "\0".join(["sagalog key 1", self.namespace, id, record["subject"]])
            raw = decrypt(self.wrapping[record["with"]], base64.b64decode(record["wrapped"]), bound)
            self.keys[id] = (record["subject"], record["made"], raw)

    def open(self, text):
        """Returns JSON text with all sealed values in it opened. An empty one was absent."""

        def one(match):
            id, _, sealed = match.groups()
            if id in self.erased:
                raise LookupError(f"the content was erased on {self.erased[id]}")
            opened = decrypt(self.keys[id][2], unpadded(sealed), self.bound(id)).decode()
            return opened or ("" if match.group(0) == text else "null")

        return SEALED.sub(one, text)

    def seal_like(self, like, text):
        """Seals JSON text for the subject of a sealed value, with the latest key of that subject."""
        subject = self.keys[SEALED.fullmatch(like).group(1)][0]
        _, id = max((made, id) for id, (of, made, _) in self.keys.items() if of == subject)
        nonce = os.urandom(12)
        sealed = nonce + AESGCM(self.keys[id][2]).encrypt(nonce, text.encode(), self.bound(id))
        return '{"$sealed":"%s..%s"}' % (id, base64.urlsafe_b64encode(sealed).decode().rstrip("="))

    def bound(self, id):
        return "\0".join(["sagalog value 1", self.namespace, id]).encode()


def fingerprint(key):
    return hashlib.sha256(b"sagalog sealing key 1\0" + key).digest()[:4].hex()


def decrypt(key, data, bound):
    bound = bound.encode() if isinstance(bound, str) else bound
    return AESGCM(key).decrypt(data[:12], data[12:], bound)


def unpadded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


if __name__ == "__main__":  # python3 sealed.py NAMESPACE_ID KEY_FILE < lines of {"key", "value"} of the topic of keys, then one sealed value
    keys = Keys(sys.argv[1], open(sys.argv[2]).read().split())
    *records, value = sys.stdin.read().splitlines()
    for record in map(json.loads, records):
        keys.put(record["key"], record["value"])
    print(keys.open(value))
    print(keys.seal_like(value, keys.open(value)))

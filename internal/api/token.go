package api

import (
	"encoding/base64"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// token is in the answer to a write, and a later read can wait for it. It holds the coordinates of an input,
// "s/<partition>/<offset>" or "r/...", and, after one more slash, the part that shows whether the input took effect: the
// submission's content hash or the request's ID. Its text is opaque base64url; only package client makes some, without that part.
//
// The offset is -1 if there is nothing to wait for, because the input was known already.
type token struct {
	input     events.Input
	partition int32
	offset    int64
	mark      string
}

func (t token) String() string {
	var plain, text [256]byte // room for usual tokens, on the stack
	b := append(append(append(plain[:0], events.CauseInput(t.input, t.partition, t.offset)...), '/'), t.mark...)
	return string(base64.RawURLEncoding.AppendEncode(text[:0], b))
}

func parseToken(s string) (token, bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return token{}, false
	}
	parts := strings.SplitN(string(b), "/", 4)
	if len(parts) < 3 {
		return token{}, false
	}
	var t token
	var ok bool
	t.input, t.partition, t.offset, ok = events.Cause(strings.Join(parts[:3], "/")).Input()
	if !ok || t.partition < 0 || t.offset < -1 {
		return token{}, false
	}
	if len(parts) == 4 {
		t.mark = parts[3]
	}
	return t, true
}

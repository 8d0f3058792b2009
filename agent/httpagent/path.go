package httpagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// noValue marks the place of an expression in a path that evaluated to nothing. It cannot come from a value, because
// escapeValue would encode it.
const noValue = "\x00"

var errEmpty = errors.New("a value in the path is empty")

// emptyValue names the first expression in a path that evaluated to nothing.
func (c *call) emptyValue(s *exprlang.Scope) error {
	source := c.path.Find(s, func(v json.RawMessage) bool { return string(v) == "null" || string(v) == `""` })
	if source == "" {
		return errEmpty
	}
	return fmt.Errorf("%w: ${ %s }", errEmpty, source)
}

// escapeValue turns any value into one path segment, or a part of one: everything but letters, digits and -_~. is encoded,
// slashes too. A segment of only dots is encoded too: a server that decodes a path before it cleans it would otherwise find
// "a/../../b" in one segment, or, if it decodes twice, "..%2f..".
func escapeValue(v string) string {
	if v == "" {
		return noValue
	}
	dots := strings.Contains(v, ".") && dotSegments(v)
	return agentfile.EncodeUnless(v, func(c byte) bool { return agentfile.Unreserved(c) && (c != '.' || !dots) })
}

// dotSegments says whether a part of the value between slashes is "." or "..", as it is or decoded again.
func dotSegments(v string) bool {
	for range 3 { // nobody decodes more often
		for s := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == '/' || r == '\\' }) {
			if s == "." || s == ".." {
				return true
			}
		}
		plain, err := url.PathUnescape(v)
		if err != nil || plain == v {
			return false
		}
		v = plain
	}
	return false
}

// resolvePath appends an evaluated path, perhaps with a query, to the base.
//
// It refuses an empty value in the path, because DELETE /items/ is another request than DELETE /items/7; and a segment that is
// "." or "..", even if it is encoded, because the standard lets every proxy resolve it, and so leave the base.
func resolvePath(base *url.URL, evaluated string) (*url.URL, error) {
	raw, query, _ := strings.Cut(evaluated, "?")
	if strings.Contains(raw, noValue) {
		return nil, errEmpty
	}
	raw = encodeLiterals(raw)
	for segment := range strings.SplitSeq(raw, "/") {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			return nil, errors.New("the path has a percent sign that encodes nothing")
		}
		if plain == "." || plain == ".." {
			return nil, errors.New(`a segment of the path is "." or "..", which would leave the path that the binding gives`)
		}
	}
	whole := strings.TrimSuffix(base.EscapedPath(), "/") + raw
	plain, err := url.PathUnescape(whole)
	if err != nil {
		return nil, errors.New("the path has a percent sign that encodes nothing")
	}
	u := *base
	u.Path, u.RawPath = plain, whole
	u.RawQuery = encodeLiterals(strings.ReplaceAll(query, noValue, ""))
	if u.EscapedPath() != whole {
		// net/url would encode it in its own way, in which %2F is a slash again.
		return nil, errors.New("the path has characters that are not allowed in a URL")
	}
	return &u, nil
}

// encodeLiterals encodes the invalid URL characters in the author's own text. Values are encoded already.
func encodeLiterals(s string) string {
	return agentfile.EncodeUnless(s, func(c byte) bool { return agentfile.Unreserved(c) || strings.IndexByte("/%!$&'()*+,;=:@?", c) >= 0 })
}

// asciiOnly percent-encodes the bytes that are unsafe in a header. It also encodes the percent sign, so that the result can be
// decoded.
func asciiOnly(s string) string {
	return agentfile.EncodeUnless(s, func(c byte) bool { return c > ' ' && c < 0x7f && c != '%' })
}

func headerName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(agentfile.Unreserved(c) || strings.IndexByte("!#$%&'*+^`|", c) >= 0) {
			return false
		}
	}
	return s != ""
}

func headerValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

package agent

import (
	"errors"
	"net/url"
	"strings"
)

// noValue marks where an expression in a path gave nothing. No evaluated path holds it otherwise, since escapeValue
// encodes it in values.
const noValue = "\x00"

// escapeValue makes one path segment, or a part of one, of any value: everything but letters, digits and -_~. is
// encoded, the slash too. Dots are encoded where they stand alone between slashes: servers that decode before they
// clean a path would otherwise read "a/../../b" out of one segment.
func escapeValue(v string) string {
	if v == "" {
		return noValue
	}
	dots := false
	if strings.Contains(v, ".") {
		for s := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == '/' || r == '\\' }) {
			dots = dots || s == "." || s == ".."
		}
	}
	return encodeUnless(v, func(c byte) bool { return unreserved(c) && (c != '.' || !dots) })
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_~.", c) >= 0
}

func percent(b *strings.Builder, c byte) {
	const hex = "0123456789ABCDEF"
	b.Write([]byte{'%', hex[c>>4], hex[c&15]})
}

// resolvePath appends an evaluated path, perhaps with a query, to the base.
//
// It refuses an empty value in the path, because DELETE /items/ is another request than DELETE /items/7; and a
// segment that is "." or "..", also encoded, because the standard lets every proxy resolve it, and so leave the base.
func resolvePath(base *url.URL, evaluated string) (*url.URL, error) {
	raw, query, _ := strings.Cut(evaluated, "?")
	if strings.Contains(raw, noValue) {
		return nil, errors.New("a value in the path is empty")
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
		return nil, errors.New("the path has characters that a URL cannot have")
	}
	return &u, nil
}

// encodeLiterals encodes what the binding's author wrote and a URL cannot hold; values are encoded already.
func encodeLiterals(s string) string {
	return encodeUnless(s, func(c byte) bool { return unreserved(c) || strings.IndexByte("/%!$&'()*+,;=:@?", c) >= 0 })
}

// asciiOnly percent-encodes what a header cannot carry safely, and the percent sign, so that it can be decoded.
func asciiOnly(s string) string {
	return encodeUnless(s, func(c byte) bool { return c > ' ' && c < 0x7f && c != '%' })
}

// encodeUnless percent-encodes the bytes that may not stay. Mostly all may.
func encodeUnless(s string, may func(byte) bool) string {
	first := 0
	for first < len(s) && may(s[first]) {
		first++
	}
	if first == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:first])
	for i := first; i < len(s); i++ {
		if may(s[i]) {
			b.WriteByte(s[i])
		} else {
			percent(&b, s[i])
		}
	}
	return b.String()
}

func headerName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(unreserved(c) || strings.IndexByte("!#$%&'*+^`|", c) >= 0) {
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

// secretMin is the length from which a variable's value is taken out of messages; shorter ones ("1", "eu") stand in
// every text, and nobody's password is so short.
const secretMin = 6

// redactor takes the values of environment variables out of what leaves the process.
func redactor(values map[string]string) *strings.Replacer {
	var pairs []string
	for name, v := range values {
		if len(v) >= secretMin {
			pairs = append(pairs, v, "${ env."+name+" }")
		}
	}
	return strings.NewReplacer(pairs...)
}

package agentfile

import "strings"

// EncodeUnless percent-encodes the bytes that may not stay as they are.
func EncodeUnless(s string, may func(byte) bool) string {
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

// Unreserved says whether a byte needs no escape anywhere in a URL.
func Unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_~.", c) >= 0
}

func percent(b *strings.Builder, c byte) {
	const hex = "0123456789ABCDEF"
	b.Write([]byte{'%', hex[c>>4], hex[c&15]})
}

package events

import "strings"

// Clip cuts a text that is longer than n bytes, between two characters, and marks the cut with "...". Outside text passes through
// it before it goes into an error or a fact.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// maxQuotedBytes is how much of a value an error quotes.
const maxQuotedBytes = 64

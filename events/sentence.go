package events

import "strings"

// Sentence ends a text with one full stop, unless it ends with a punctuation mark already. Texts of brokers, details of faults
// and questions such as Suggest's come with and without one.
func Sentence(text string) string {
	text = strings.TrimRight(text, ". ")
	if text == "" || strings.HasSuffix(text, "?") || strings.HasSuffix(text, "!") {
		return text
	}
	return text + "."
}

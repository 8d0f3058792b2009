package events

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"unicode/utf8"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// ContentHash returns the hash that distinguishes a repeated submission from a conflicting one: SHA-256 of the object
// with sorted members, no spaces, numbers as written, the ID included, and the times normalised. Of a sealed input only its member Same
// counts.
func (s *Submission) ContentHash() (string, error) {
	content, err := s.content()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	var digits [2 * sha256.Size]byte
	return string(hex.AppendEncode(digits[:0], sum[:])), nil
}

// content returns the bytes to hash.
func (s *Submission) content() ([]byte, error) {
	n := *s
	n.Deadline, n.NotBefore, n.Input = normalised(n.Deadline), normalised(n.NotBefore), comparableInput(n.Input)
	w := jsontext.Writer{B: make([]byte, 0, 2*n.size())}
	for name := range n.Labels {
		w.Odd = w.Odd || !utf8.ValidString(name) // two of them may become equal
	}
	if n.writeCanonical(&w); w.Odd {
		return jsontext.Canonical(n)
	}
	return w.B, nil
}

// normalised returns the one text of a duration or an instant.
func normalised(text string) string {
	if text == "" {
		return ""
	}
	if d, err := ParseDuration(text); err == nil {
		return d.String()
	}
	if i, err := ParseInstant(text); err == nil {
		return i.String()
	}
	return text
}

// Repeats says whether the submission repeats that of the task. Their content hashes may differ because the inputs were sealed with different data
// keys. The error is an *NoKeyError. A submission whose input can never be opened is no repeat.
func (s *Submission) Repeats(t *Task, open func([]byte) ([]byte, error)) (bool, error) {
	if !IsSealed(s.Input) || !IsSealed(t.Input) {
		return false, nil
	}
	known := *s
	known.Input = t.Input
	if content, err := known.ContentHash(); err != nil || content != t.Content {
		return false, nil // something else differs
	}
	var hashes [2]string
	for i, input := range [][]byte{s.Input, t.Input} {
		clear, err := open(input)
		if why, passes := errors.AsType[*NoKeyError](err); passes {
			return false, why
		}
		if err != nil {
			return false, nil
		}
		known.Input = clear
		if hashes[i], err = known.ContentHash(); err != nil {
			return false, nil
		}
	}
	return hashes[0] == hashes[1], nil
}

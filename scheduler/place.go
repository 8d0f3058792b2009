package scheduler

import (
	"bytes"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"
)

// place returns the spot of a byte of a scalar's value, so that a fault inside an expression points at
// its letter and not at the value's begin. Where quoting or folding hides the letter it is the value's begin.
func (d *document) place(n *yaml.Node, offset int) spot {
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		return d.placeInBlock(n, offset)
	case n.Style&yaml.FoldedStyle != 0:
		return spot{n.Line, n.Column}
	}
	raw := d.line(n.Line)
	at := byteOf(raw, n.Column-1)
	quote := byte(0)
	if at < len(raw) && (raw[at] == '"' || raw[at] == '\'') && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		quote = raw[at]
		at++
	}
	for i := 0; i < offset; {
		if at >= len(raw) {
			return spot{n.Line, n.Column}
		}
		_, size := utf8.DecodeRuneInString(n.Value[i:])
		i += size
		at += written(raw[at:], quote)
	}
	if at > len(raw) {
		return spot{n.Line, n.Column}
	}
	return spot{n.Line, utf8.RuneCountInString(raw[:at]) + 1}
}

// written returns how many bytes of the source stand for the next letter of a scalar.
func written(raw string, quote byte) int {
	switch {
	case quote == '\'' && strings.HasPrefix(raw, "''"):
		return 2
	case quote == '"' && raw[0] == '\\' && len(raw) > 1:
		switch raw[1] {
		case 'x':
			return 4
		case 'u':
			return 6
		case 'U':
			return 10
		}
		return 2
	}
	_, size := utf8.DecodeRuneInString(raw)
	return size
}

// placeInBlock finds a byte of a literal block ("|"), whose lines follow the line of the node, all indented alike.
func (d *document) placeInBlock(n *yaml.Node, offset int) spot {
	indent := -1
	lines := strings.Split(n.Value, "\n")
	for i, text := range lines {
		raw := d.line(n.Line + 1 + i)
		if strings.TrimSpace(text) != "" && strings.HasSuffix(strings.TrimRight(raw, "\r"), text) {
			indent = len(strings.TrimRight(raw, "\r")) - len(text)
			break
		}
	}
	if indent < 0 {
		return spot{n.Line, n.Column}
	}
	before := n.Value[:offset]
	line := n.Line + 1 + strings.Count(before, "\n")
	return spot{line, indent + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1}
}

// line returns a line of the file, from 1.
func (d *document) line(n int) string {
	rest := d.data
	for ; n > 1; n-- {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return ""
		}
		rest = rest[i+1:]
	}
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	return string(rest)
}

func byteOf(s string, runes int) int {
	at := 0
	for ; runes > 0 && at < len(s); runes-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at
}

package yamltree

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"
)

// Place is a place in a file, both counted from 1.
type Place struct{ Line, Column int }

// Of returns the place of a node.
func Of(n *yaml.Node) Place { return Place{max(1, n.Line), max(1, n.Column)} }

// Read returns the nodes of a document, for Find; nil if the text is not YAML.
func Read(data []byte) *yaml.Node {
	var n yaml.Node
	if yaml.Unmarshal(data, &n) != nil || len(n.Content) != 1 {
		return nil
	}
	return n.Content[0]
}

// Find returns the place of what a JSON pointer names below a node: that of its key, or of the item of a list. It returns false if the node
// is nil or has no such member.
func Find(n *yaml.Node, pointer string) (Place, bool) {
	if n == nil {
		return Place{}, false
	}
	at, found := n, Of(n)
	if pointer == "" {
		return found, true
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		key, value := child(at, unescape.Replace(name))
		if value == nil {
			return Place{}, false
		}
		at, found = value, Of(key)
	}
	return found, true
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// child returns a member of an object and its key, or an item of a list in both.
func child(n *yaml.Node, name string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}

// Within returns the place of a byte of a scalar's value, so that a fault inside an expression points at its letter. If quoting or
// folding hides the letter, it returns the start of the value. data is the file.
func Within(data []byte, n *yaml.Node, offset int) Place {
	switch {
	case n.Kind != yaml.ScalarNode || offset > len(n.Value):
		return Of(n)
	case n.Style&yaml.LiteralStyle != 0:
		return withinBlock(data, n, offset)
	case n.Style&yaml.FoldedStyle != 0:
		return Of(n)
	}
	raw := line(data, n.Line)
	at := byteOf(raw, n.Column-1)
	quote := byte(0)
	if at < len(raw) && (raw[at] == '"' || raw[at] == '\'') && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		quote = raw[at]
		at++
	}
	for i := 0; i < offset; {
		if at >= len(raw) {
			return Of(n)
		}
		_, size := utf8.DecodeRuneInString(n.Value[i:])
		i += size
		at += written(raw[at:], quote)
	}
	if at > len(raw) {
		return Of(n)
	}
	return Place{n.Line, utf8.RuneCountInString(raw[:at]) + 1}
}

// written returns the number of source bytes that spell the next letter of a scalar.
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

// withinBlock finds a byte of a literal block ("|"). Its lines follow the line of the node and share one indentation.
func withinBlock(data []byte, n *yaml.Node, offset int) Place {
	indent := -1
	lines := strings.Split(n.Value, "\n")
	for i, text := range lines {
		raw := line(data, n.Line+1+i)
		if strings.TrimSpace(text) != "" && strings.HasSuffix(strings.TrimRight(raw, "\r"), text) {
			indent = len(strings.TrimRight(raw, "\r")) - len(text)
			break
		}
	}
	if indent < 0 {
		return Of(n)
	}
	before := n.Value[:offset]
	return Place{n.Line + 1 + strings.Count(before, "\n"), indent + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1}
}

// line returns a line of the file, from 1.
func line(data []byte, n int) string {
	rest := data
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

package scheduler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

const (
	// maxDocumentBytes leaves room for filled defaults below the 2 MiB of a record (DESIGN 2).
	maxDocumentBytes = 1 << 20
	// maxDocumentDepth is that of a submission, whose inputs a definition describes.
	maxDocumentDepth = 100
)

// document is a YAML or JSON file with the places of its nodes.
type document struct {
	file   string
	data   []byte
	root   *yaml.Node
	faults *faults
}

// spot is a place in a file, both counted from 1.
type spot struct{ line, column int }

// openDocument reads a file into nodes and checks what holds for the whole of it. It returns nil if there are no
// nodes to go on with.
func openDocument(file string, data []byte, faults *faults) *document {
	d := &document{file: file, data: data, faults: faults}
	if len(data) > maxDocumentBytes {
		d.at(spot{1, 1}, "", "the document is larger than %d bytes", maxDocumentBytes)
		return nil
	}
	var n yaml.Node
	if err := yaml.Load(readableJSON(data), &n, yaml.WithUniqueKeys(false)); err != nil {
		d.syntax(err)
		return nil
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) != 1 {
		d.at(spot{1, 1}, "", "the document is empty")
		return nil
	}
	d.root = n.Content[0]
	if !d.plain(d.root, "", 0) {
		return nil
	}
	return d
}

// syntax reports an error of the YAML parser, which stops at the first.
func (d *document) syntax(err error) {
	at, message := spot{1, 1}, strings.TrimPrefix(err.Error(), "yaml: ")
	var e *yaml.LoadError
	if errors.As(err, &e) {
		at, message = spot{max(e.Mark.Line, 1), max(e.Mark.Column, 1)}, strings.TrimPrefix(e.Message, "yaml: ")
		if e.ContextMsg != "" {
			message = e.ContextMsg + ": " + message
		}
	}
	switch message {
	case "no documents in stream":
		message = "the document is empty"
	case "expected single document, found multiple":
		message = "a file holds one definition, and this has several documents"
	}
	d.at(at, "", "%s", message)
}

func (d *document) at(s spot, path, format string, args ...any) {
	d.faults.add(Fault{File: d.file, Line: s.line, Column: s.column, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (d *document) warnAt(s spot, path, format string, args ...any) {
	d.faults.add(Fault{File: d.file, Line: s.line, Column: s.column, Path: path, Message: fmt.Sprintf(format, args...), Warning: true})
}

func (d *document) fault(n *yaml.Node, path, format string, args ...any) {
	d.at(spot{n.Line, n.Column}, path, format, args...)
}

func (d *document) warn(n *yaml.Node, path, format string, args ...any) {
	d.warnAt(spot{n.Line, n.Column}, path, format, args...)
}

// plain refuses what JSON does not have. Anchors are refused too, because a small document with aliases can stand
// for a huge one; defaults do what they would be used for. It returns false where going on makes no sense.
func (d *document) plain(n *yaml.Node, path string, depth int) bool {
	if depth > maxDocumentDepth {
		d.fault(n, path, "nested more than %d levels deep", maxDocumentDepth)
		return false
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.fault(n, path, "anchors and aliases are not supported: use defaults, or repeat the value")
		return false
	}
	ok := true
	switch n.Kind {
	case yaml.MappingNode:
		seen := map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			below := join(path, key.Value)
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || key.Anchor != "" {
				d.fault(key, path, "a key must be text")
				ok = false
				continue
			}
			if first := seen[key.Value]; first != nil {
				d.fault(key, below, "duplicate key, first on line %d", first.Line)
			}
			seen[key.Value] = key
			ok = d.plain(n.Content[i+1], below, depth+1) && ok
		}
	case yaml.SequenceNode:
		for i, e := range n.Content {
			ok = d.plain(e, path+"["+strconv.Itoa(i)+"]", depth+1) && ok
		}
	case yaml.ScalarNode:
		if _, err := scalar(n); err != nil {
			d.fault(n, path, "%s", err)
		}
	}
	return ok
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// value returns a node as JSON values; numbers are json.Number, as they were written.
func value(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = value(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, e := range n.Content {
			list[i] = value(e)
		}
		return list
	}
	v, err := scalar(n)
	if err != nil {
		return nil // Reported by plain.
	}
	return v
}

func scalar(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case "!!int", "!!float":
		return number(n.Value)
	}
	return nil, fmt.Errorf("the tag %s is not supported: JSON has no such type", n.Tag)
}

// number keeps the digits of a JSON number, and converts YAML's other ways to write one.
func number(s string) (json.Number, error) {
	if json.Valid([]byte(s)) {
		return json.Number(s), nil
	}
	if len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9' {
		return "", fmt.Errorf("%s begins with 0, which YAML reads in two ways: quote it, or leave the 0 out", s)
	}
	if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		return json.Number(strconv.FormatInt(i, 10)), nil
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", fmt.Errorf("%s is not a number that JSON has", s)
	}
	b, err := json.Marshal(f)
	return json.Number(b), err
}

// readableJSON rewrites the surrogate pairs of a JSON document, which YAML does not know, as YAML's long escapes.
func readableJSON(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\u`)) || !json.Valid(data) {
		return data
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			out = append(out, data[i])
			continue
		}
		if r, ok := surrogates(data[i:]); ok {
			out = fmt.Appendf(out, `\U%08X`, r)
			i += 11
			continue
		}
		out = append(out, data[i], data[i+1])
		i++
	}
	return out
}

// surrogates reads \uD83D\uDE00 at the start of b.
func surrogates(b []byte) (rune, bool) {
	if len(b) < 12 || b[1] != 'u' || b[6] != '\\' || b[7] != 'u' {
		return 0, false
	}
	high, err1 := strconv.ParseUint(string(b[2:6]), 16, 32)
	low, err2 := strconv.ParseUint(string(b[8:12]), 16, 32)
	if err1 != nil || err2 != nil || high < 0xD800 || high > 0xDBFF || low < 0xDC00 || low > 0xDFFF {
		return 0, false
	}
	return rune((high-0xD800)<<10|(low-0xDC00)) + 0x10000, true
}

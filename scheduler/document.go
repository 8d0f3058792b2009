package scheduler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/yamltree"
)

const (
	// MaxDocumentBytes leaves room for filled defaults below the limit of a record, 2 MiB.
	MaxDocumentBytes = 1 << 20
	// maxDocumentDepth is the limit of a submission, whose input a definition describes.
	maxDocumentDepth = 100
	// maxKeyBytes is more than any name takes. The path of a node repeats its keys.
	maxKeyBytes = 1 << 10
	// maxPathBytes bounds the path of a node. Without a bound, the paths of a document of 1 MB could take gigabytes.
	maxPathBytes = 200
)

// document is a YAML or JSON file with the places of its nodes.
type document struct {
	file   string
	data   []byte
	root   *yaml.Node
	faults *faults
	// maxBytes and maxDepth are its limits.
	maxBytes, maxDepth int
}

// openDocument reads a file into nodes and runs the checks that concern the whole file. It returns nil if there are no nodes to
// check further.
func openDocument(file string, data []byte, faults *faults) *document {
	d := &document{file: file, data: data, faults: faults, maxBytes: MaxDocumentBytes, maxDepth: maxDocumentDepth}
	return d.read()
}

func (d *document) read() *document {
	if len(d.data) > d.maxBytes {
		d.at(yamltree.Place{Line: 1, Column: 1}, "", "the document is larger than %d bytes", d.maxBytes)
		return nil
	}
	var n yaml.Node
	if err := yaml.Load(readableJSON(d.data), &n, yaml.WithUniqueKeys(false)); err != nil {
		d.syntax(err)
		return nil
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) != 1 {
		d.at(yamltree.Place{Line: 1, Column: 1}, "", "the document is empty")
		return nil
	}
	d.root = n.Content[0]
	if !d.plain(d.root, "", 0) {
		return nil
	}
	return d
}

// syntax reports an error of the YAML parser. The parser stops at the first one.
func (d *document) syntax(err error) {
	at, message := yamltree.Syntax(d.data, err)
	switch message {
	case "no documents in stream":
		message = "the document is empty"
	case "expected single document, found multiple":
		message = "a file holds one definition, and this has several documents"
	}
	d.at(at, "", "%s", message)
}

func (d *document) at(s yamltree.Place, path, format string, args ...any) {
	d.faults.add(Fault{File: d.file, Line: s.Line, Column: s.Column, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (d *document) warnAt(s yamltree.Place, path, format string, args ...any) {
	d.faults.add(Fault{File: d.file, Line: s.Line, Column: s.Column, Path: path, Message: fmt.Sprintf(format, args...), Warning: true})
}

func (d *document) fault(n *yaml.Node, path, format string, args ...any) {
	d.at(yamltree.Of(n), path, format, args...)
}

func (d *document) warn(n *yaml.Node, path, format string, args ...any) {
	d.warnAt(yamltree.Of(n), path, format, args...)
}

// plain refuses YAML that JSON does not have. It also refuses anchors, because a small document with aliases can expand to a huge
// one, and defaults serve the same purpose. It returns false if there is no point in checking further.
func (d *document) plain(n *yaml.Node, path string, depth int) bool {
	if depth > d.maxDepth {
		d.fault(n, path, "nested more than %d levels deep", d.maxDepth)
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
			if len(key.Value) > maxKeyBytes {
				d.fault(key, below, "the key has %d bytes, and the limit is %d: move long text into a value", len(key.Value), maxKeyBytes)
				return false
			}
			if first := seen[key.Value]; first != nil {
				d.fault(key, below, "duplicate key, first on line %d", first.Line)
			}
			seen[key.Value] = key
			ok = d.plain(n.Content[i+1], below, depth+1) && ok
		}
	case yaml.SequenceNode:
		for i, e := range n.Content {
			ok = d.plain(e, item(path, i), depth+1) && ok
		}
	case yaml.ScalarNode:
		v, err := yamltree.Scalar(n)
		if number, ok := v.(json.Number); ok && err == nil {
			err = events.CheckNumbers("", json.RawMessage(number))
		}
		if err != nil {
			d.fault(n, path, "%s", err)
		}
	}
	return ok
}

// join returns the path of a member.
func join(path, key string) string {
	key = events.Clip(key, maxPathBytes)
	switch {
	case path == "":
		return key
	case len(path) >= maxPathBytes:
		return path // it was cut at this length
	}
	return events.Clip(path+"."+key, maxPathBytes)
}

// item returns the path of an element of a list.
func item(path string, i int) string {
	if len(path) >= maxPathBytes {
		return path
	}
	return events.Clip(path+"["+strconv.Itoa(i)+"]", maxPathBytes)
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
	v, err := yamltree.Scalar(n)
	if err != nil {
		return nil // plain has already reported it
	}
	return v
}

// readableJSON rewrites the surrogate pairs of a JSON document as YAML's long escapes, since YAML has no surrogate pairs.
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

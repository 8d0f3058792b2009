package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/internal/api"
)

// formatYAML is a format of `workflow show` alone: a file that `workflow apply` takes.
const formatYAML = "yaml"

// workflowKeys and stepKeys are the keys of a definition and of a step in the order in which people write them. Others follow by name.
var (
	workflowKeys = []string{"workflow", "title", "description", "input", "deadline", "remind_after", "remember_for", "labels", "priority", "fair_by", "concurrency", "defaults", "steps", "output"}
	stepKeys     = []string{"title", "description", "needs", "if", "for", "agent", "operation", "child", "sleep", "wait", "limit", "with"}
)

// writeDefinition writes the definition of a version as YAML. Applied again, it is the same content: the engine compares definitions
// without their order and comments.
func writeDefinition(out io.Writer, doc json.RawMessage) error {
	var w api.WorkflowDocument
	if err := decode(doc, &w); err != nil {
		return err
	}
	root, err := nodeOf(w.Definition, workflowKeys)
	if err != nil {
		return err
	}
	var stepOrder []string
	for _, st := range w.Steps {
		stepOrder = append(stepOrder, st.ID)
	}
	arrange(root, "steps", stepOrder, stepKeys)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s, version %d, applied at %s", w.Name, w.Version, instant(w.AppliedAt))
	if w.AppliedBy != "" {
		fmt.Fprintf(&b, " by %s", Printable(w.AppliedBy))
	}
	b.WriteString("\n# The comments of the applied file are not kept. The files that it named with $ref are included here.\n")
	enc, err := yaml.NewDumper(&b, yaml.WithIndent(2))
	if err != nil {
		return err
	}
	if err := enc.Dump(root); err != nil {
		return fmt.Errorf("write the definition as YAML: %w", err)
	}
	if err := enc.Close(); err != nil {
		return fmt.Errorf("write the definition as YAML: %w", err)
	}
	_, err = out.Write(b.Bytes())
	return err
}

// arrange orders the members of a mapping's member, and the members of each of these.
func arrange(root *yaml.Node, member string, order, inner []string) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if m := root.Content[i+1]; root.Content[i].Value == member && m.Kind == yaml.MappingNode {
			sortMembers(m, order)
			for j := 1; j < len(m.Content); j += 2 {
				if m.Content[j].Kind == yaml.MappingNode {
					sortMembers(m.Content[j], inner)
				}
			}
		}
	}
}

// nodeOf returns a JSON value as YAML. A text stays a text, also one such as "yes" or "1e3", and a number keeps its digits.
func nodeOf(doc json.RawMessage, keys []string) (*yaml.Node, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("the engine's answer is not as expected: %w", err)
	}
	n := valueNode(v)
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("the engine's answer is not as expected: the definition is no object")
	}
	sortMembers(n, keys)
	return n, nil
}

func valueNode(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, textNode(k), valueNode(v[k]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
		for _, x := range v {
			item := valueNode(x)
			if item.Kind != yaml.ScalarNode {
				n.Style = 0
			}
			n.Content = append(n.Content, item)
		}
		return n
	case string:
		return textNode(v)
	case json.Number: // without a tag, since a tag that YAML would not infer is written out
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
}

func textNode(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// sortMembers orders the members of a mapping by their keys: first the given ones, then the others by name.
func sortMembers(n *yaml.Node, order []string) {
	place := func(key string) int {
		if i := slices.Index(order, key); i >= 0 {
			return i
		}
		return len(order)
	}
	pairs := slices.Collect(slices.Chunk(n.Content, 2))
	slices.SortStableFunc(pairs, func(a, b []*yaml.Node) int {
		return cmp.Or(cmp.Compare(place(a[0].Value), place(b[0].Value)), cmp.Compare(a[0].Value, b[0].Value))
	})
	n.Content = slices.Concat(pairs...)
}

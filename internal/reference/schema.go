package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schema is what the pages show of a JSON Schema.
type schema struct {
	Ref                  string `json:"$ref"`
	Title, Description   string
	Type                 kinds
	Format               string
	Properties           map[string]*schema
	Required             []string
	Items                *schema
	AdditionalProperties either `json:"additionalProperties"`
	OneOf                []*schema
	AnyOf                []*schema
	Enum                 []any
	Const                any
	Default              any
	Minimum, Maximum     *json.Number
	Examples             []any
	Defs                 map[string]*schema `json:"$defs"`
}

// kinds is the keyword type: a name, or several.
type kinds []string

// UnmarshalJSON implements json.Unmarshaler.
func (k *kinds) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*k = kinds{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(k))
}

// either is a keyword that is a schema or a boolean.
type either struct{ *schema }

// UnmarshalJSON implements json.Unmarshaler.
func (e *either) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("true")) || bytes.Equal(b, []byte("false")) {
		return nil
	}
	return json.Unmarshal(b, &e.schema)
}

// A property may be false, which says that it is not allowed there.
func (s *schema) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("true")) || bytes.Equal(b, []byte("false")) {
		return nil
	}
	type plain schema
	return json.Unmarshal(b, (*plain)(s))
}

// File is a kind of file with its JSON Schema. If the schema is a choice, Variants are the headings of what can be chosen.
type File struct {
	Title, Text string
	Variants    []string
	Schema      []byte
}

// Files returns a page of files that people write.
func Files(title, text string, files ...File) ([]byte, error) {
	p := begin(title, text)
	for _, f := range files {
		var s schema
		if err := json.Unmarshal(f.Schema, &s); err != nil {
			return nil, fmt.Errorf("read the schema of %s: %w", f.Title, err)
		}
		p.head(2, f.Title)
		p.text(f.Text)
		if len(f.Variants) == 0 {
			p.text(s.Description)
			p.keys(&s, "")
		}
		for i, name := range f.Variants {
			p.head(3, name)
			p.text(s.OneOf[i].Description)
			p.keys(s.OneOf[i], name+": ")
		}
		p.definitions(s.Defs)
	}
	return p.bytes(), nil
}

// definitions writes a section for each object that the schema defines, and a table of its other values.
func (p *page) definitions(defs map[string]*schema) {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		d := defs[name]
		if len(d.Properties) == 0 {
			text := sentence(d.Description)
			if len(d.Examples) > 0 {
				text += " Example: " + code(written(d.Examples[0]))
			}
			rows = append(rows, []string{name, d.kind(), text})
			continue
		}
		p.head(3, name)
		p.text(d.Description)
		p.keys(d, name+".")
	}
	if len(rows) > 0 {
		p.head(3, "Values")
		p.table([]string{"name", "value", ""}, rows)
	}
}

// keys writes a table of the keys of an object, and one of each object below it. The prefix keeps headings apart.
func (p *page) keys(s *schema, prefix string) {
	p.members(s, nil)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if below := s.Properties[name].object(); below != nil {
			p.head(4, prefix+name)
			p.text(below.Description)
			p.keys(below, prefix+name+".")
		}
	}
}

// object returns the schema of an object with keys that a value is, or that it is a list or a mapping of.
func (s *schema) object() *schema {
	for _, x := range []*schema{s, s.Items, s.AdditionalProperties.schema} {
		if x != nil && len(x.Properties) > 0 {
			return x
		}
	}
	for _, x := range slices.Concat(s.OneOf, s.AnyOf) {
		if len(x.Properties) > 0 && x.Ref == "" {
			return x
		}
	}
	return nil
}

// members writes the table of the members of an object. Known are the schemas that links may lead to; nil: all.
func (p *page) members(s *schema, known map[string]*schema) {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		x := s.Properties[name]
		text := sentence(x.Description)
		if slices.Contains(s.Required, name) {
			text = "**required.** " + text
		}
		if x.Default != nil && !strings.Contains(text, "Default:") {
			text += " Default: " + code(written(x.Default)) + "."
		}
		if len(x.Examples) > 0 && known == nil {
			text += " Example: " + code(written(x.Examples[0]))
		}
		rows = append(rows, []string{code(name), x.kind(), text})
	}
	p.table([]string{"key", "value", ""}, rows)
}

// kind says in words what a value is.
func (s *schema) kind() string {
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		name := s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
		if strings.HasPrefix(s.Ref, "#/components/") || slices.Contains(sections, name) {
			return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
		}
		return name
	case s.Const != nil:
		return code(written(s.Const))
	case len(s.Enum) > 0:
		var list []string
		for _, v := range s.Enum {
			list = append(list, code(written(v)))
		}
		return strings.Join(list, ", ")
	case len(s.OneOf)+len(s.AnyOf) > 0 && len(s.Type) == 0:
		var list []string
		for _, x := range slices.Concat(s.OneOf, s.AnyOf) {
			if k := x.kind(); k != "" && !slices.Contains(list, k) {
				list = append(list, k)
			}
		}
		return strings.Join(list, " or ")
	case len(s.Type) == 0:
		return "any"
	}
	names := slices.DeleteFunc(slices.Clone(s.Type), func(k string) bool { return k == "null" })
	return strings.Join(names, " or ") + s.detail()
}

// sections are the definitions of the schemas of files that have keys, and so a section of their own.
var sections = []string{"step", "retry", "undoRetry", "coolDown", "undo", "child", "sleepUntil", "wait", "for"}

// detail adds the elements of a list, the format of a text and the range of a number.
func (s *schema) detail() string {
	text := ""
	switch {
	case s.Items != nil && s.Items.kind() != "":
		text = " of " + s.Items.kind()
	case s.AdditionalProperties.schema != nil && s.AdditionalProperties.kind() != "":
		text = " of " + s.AdditionalProperties.kind()
	case s.Format != "" && s.Type[0] == "string":
		text = " (" + s.Format + ")"
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		text += fmt.Sprintf(", %s to %s", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		text += fmt.Sprintf(", from %s", *s.Minimum)
	case s.Maximum != nil:
		text += fmt.Sprintf(", up to %s", *s.Maximum)
	}
	return text
}

// written returns a value as JSON in one line, and a text without quotes.
func written(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}

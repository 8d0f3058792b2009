package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"slices"
	"strings"
)

// schema is a JSON Schema, with its keywords in the order in which people read them.
type schema struct {
	Schema      string `json:"$schema,omitempty"`
	ID          string `json:"$id,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Types are the ce_types of the records with such a value, Key is their key if they have none, and Entity is the kind of the entity.
	Types         []string           `json:"x-ce-types,omitempty"`
	Key           string             `json:"x-key,omitempty"`
	Entity        string             `json:"x-entity,omitempty"`
	Ref           string             `json:"$ref,omitempty"`
	Type          any                `json:"type,omitempty"`
	Format        string             `json:"format,omitempty"`
	Pattern       string             `json:"pattern,omitempty"`
	Encoding      string             `json:"contentEncoding,omitempty"`
	Minimum       *int               `json:"minimum,omitempty"`
	Const         *string            `json:"const,omitempty"`
	Enum          []string           `json:"enum,omitempty"`
	AnyOf         []*schema          `json:"anyOf,omitempty"`
	Items         *schema            `json:"items,omitempty"`
	Required      []string           `json:"required,omitempty"`
	Properties    properties         `json:"properties,omitempty"`
	PropertyNames *schema            `json:"propertyNames,omitempty"`
	Additional    any                `json:"additionalProperties,omitempty"`
	Defs          map[string]*schema `json:"$defs,omitempty"`
}

// properties are the members of an object, in the order of the fields.
type properties []property

type property struct {
	name string
	of   *schema
}

// MarshalJSON writes an object whose members have the order of the list.
func (list properties) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, p := range list {
		if i > 0 {
			b = append(b, ',')
		}
		for _, part := range []any{p.name, p.of} {
			text, err := plain(part)
			if err != nil {
				return nil, err
			}
			b = append(append(b, text...), ':')
		}
		b = b[:len(b)-1]
	}
	return append(b, '}'), nil
}

// plain encodes without escapes for HTML.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

const (
	schemaDialect = "https://json-schema.org/draft/2020-12/schema"
	schemaID      = "https://sagalog.dev/schema/records.schema.json"
	schemaSays    = "The values of the records of a namespace, and the entities of its state. events/FORMAT.md says which record has which value, in which topic, and what it means. " +
		"Ignore members that are not listed: later versions may add some."
	// ignores is added to the description of each value whose readers ignore unknown members.
	ignores = " Readers ignore members that are not listed."
)

// schemas writes the schemas of all roots and of what they contain.
func (p *pkg) schemas() ([]byte, error) {
	b := &builder{writer: writer{pkg: p}, defs: map[string]*schema{}, names: map[string]string{}}
	roots := p.roots()
	for _, r := range roots {
		b.names[r.typ] = r.named()
	}
	for _, r := range roots {
		b.define(r.typ)
		s := b.defs[r.named()]
		s.Types, s.Entity, s.Key = p.ceTypes(&r), r.entity, r.key
		if s.Additional == true {
			s.Description += ignores
		}
	}
	text, err := plain(&schema{Schema: schemaDialect, ID: schemaID, Title: "Sagalog records", Description: schemaSays, Defs: b.defs})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, text, "", " ")
	return append(out.Bytes(), '\n'), err
}

// builder builds schemas of types.
type builder struct {
	writer
	defs map[string]*schema
	// names are the names of schemas that are not those of their types.
	names map[string]string
}

func (b *builder) name(typ string) string {
	if name, ok := b.names[typ]; ok {
		return name
	}
	return typ
}

// ref returns a reference to the schema of a type.
func (b *builder) ref(typ string) *schema {
	b.define(typ)
	return &schema{Ref: "#/$defs/" + b.name(typ)}
}

// define builds the schema of a type once.
func (b *builder) define(typ string) {
	name := b.name(typ)
	if b.defs[name] != nil {
		return
	}
	s := new(schema)
	b.defs[name] = s // before its members, since a type may contain itself
	s.Description = b.says(typ, name)
	switch kind := b.kind(ast.NewIdent(typ)); kind {
	case own:
		b.written(typ, s)
	case word:
		s.Type = "string"
		for _, c := range b.pkg.words[typ] {
			s.Enum = append(s.Enum, c.value)
		}
	case text:
		s.Type = "string"
	case object:
		b.object(typ, s)
	default:
		failf("no schema of %s, which is not a struct or a text", typ)
	}
}

// object builds the schema of a struct.
func (b *builder) object(typ string, s *schema) {
	s.Type, s.Additional = "object", typ != strict
	for _, m := range b.members(typ) {
		of := b.marked(&m)
		if text := b.memberSays(&m); text != "" {
			of.Description = text
		}
		s.Properties = append(s.Properties, property{m.name, of})
		if !m.omit && !m.has("optional") || m.has("required") {
			s.Required = append(s.Required, m.name)
		}
	}
}

// strict is the only type whose readers refuse unknown members.
const strict = canonical

// texts are the types that are a single text, as FORMAT.md describes them: their comments are about Go. absent are those whose zero value is "".
var (
	texts = map[string]*schema{
		"Instant": {Description: "RFC 3339. Written in UTC with milliseconds, such as 2026-11-21T14:00:00.000Z; read with any offset and precision, and truncated to milliseconds.",
			Format: "date-time", Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`},
		// The usual letters for micro are µ (U+00B5) and μ (U+03BC).
		"Duration": {Description: "Numbers with units, such as 500ms, 30s, 10m or 1h30m. The units are ns, us, ms, s, m and h.",
			Pattern: `^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`},
		"Hash": {Description: "32 hexadecimal digits.", Pattern: `^[0-9a-f]{32}$`},
		"Epoch": {Description: "<n>-<id>: the ordinal of a valid claim of the partition, from 1, and the claim's identifier, which may have dashes too.",
			Pattern: `^[0-9]+-`},
		"Position": {Description: "<epoch>/<sequence>: the name of a fact in its partition. The sequence follows the last slash.", Pattern: `^[0-9]+-.*/[0-9]+$`},
	}
	absent = []string{"Instant", "Epoch", "Position"}
)

func (b *builder) written(typ string, s *schema) {
	known, ok := texts[typ]
	if !ok {
		failf("%s writes itself: say in schema.go how its text looks", typ)
	}
	*s = *known
	s.Type = "string"
}

// marked returns the schema of a member. A tag says what the type leaves open: `schema:"type:A|B"`, `schema:"words:PrefixOf*"`.
func (b *builder) marked(m *member) *schema {
	for _, mark := range m.marks {
		key, value, _ := strings.Cut(mark, ":")
		var of *schema
		switch key {
		case "optional", "required":
			continue
		case "uuid":
			of = &schema{Type: "string", Format: "uuid"}
		case "type":
			of = b.either(strings.Split(value, "|"))
		case "words":
			of = &schema{Type: "string", Enum: b.named(value)}
		default:
			failf("the mark %q of member %s is not known", mark, m.name)
		}
		return b.replaced(m.typ, of, m.omit)
	}
	return b.value(m.typ, m.omit)
}

func (b *builder) either(types []string) *schema {
	if len(types) == 1 {
		return b.ref(types[0])
	}
	s := new(schema)
	for _, typ := range types {
		s.AnyOf = append(s.AnyOf, b.ref(typ))
	}
	return s
}

// named returns the values of the constants in a list such as A+B, of those whose names begin so, such as A*, and not of those with a !, such as
// A*+!AB.
func (b *builder) named(list string) (values []string) {
	for name := range strings.SplitSeq(list, "+") {
		if not, ok := strings.CutPrefix(name, "!"); ok {
			values = slices.DeleteFunc(values, func(v string) bool { return v == b.text(not) })
			continue
		}
		prefix, many := strings.CutSuffix(name, "*")
		if !many {
			values = append(values, b.text(name))
			continue
		}
		for _, c := range b.plain {
			if rest, ok := strings.CutPrefix(c.name, prefix); ok && rest != "" && strings.ToUpper(rest[:1]) == rest[:1] {
				values = append(values, c.value)
			}
		}
	}
	if len(values) == 0 {
		failf("no constant has a name like %s", list)
	}
	return values
}

// replaced returns the schema of a type whose texts or raw values have the schema of.
func (b *builder) replaced(t ast.Expr, of *schema, omit bool) *schema {
	switch t := t.(type) {
	case *ast.MapType:
		return orNull(&schema{Type: "object", Additional: b.replaced(t.Value, of, true)}, omit)
	case *ast.ArrayType:
		return orNull(&schema{Type: "array", Items: b.replaced(t.Elt, of, true)}, omit)
	}
	return of
}

// value returns the schema of a value of a type. omit says that an empty one is left out.
func (b *builder) value(t ast.Expr, omit bool) *schema {
	if source(t) == "[]byte" {
		return &schema{Type: "string", Encoding: "base64"}
	}
	switch b.kind(t) {
	case flag:
		return &schema{Type: "boolean"}
	case number:
		s := &schema{Type: "integer"}
		if source(t) == "uint64" {
			s.Minimum = new(int)
		}
		return s
	case raw:
		return new(schema)
	case pointer:
		return orNull(b.value(t.(*ast.StarExpr).X, true), omit)
	case list:
		return orNull(&schema{Type: "array", Items: b.value(t.(*ast.ArrayType).Elt, false)}, omit)
	case dictionary:
		of := t.(*ast.MapType)
		s := &schema{Type: "object", Additional: b.value(of.Value, false)}
		if source(of.Key) != "string" {
			s.PropertyNames = b.ref(source(of.Key))
		}
		return orNull(s, omit)
	}
	name := source(t)
	if name == "string" {
		return &schema{Type: "string"}
	}
	s := b.ref(name)
	if !omit && slices.Contains(absent, name) {
		return &schema{AnyOf: []*schema{s, {Const: new(string)}}}
	}
	return s
}

// orNull allows null for a value that is written even if it is nil.
func orNull(s *schema, omit bool) *schema {
	if omit {
		return s
	}
	return &schema{AnyOf: []*schema{s, {Type: "null"}}}
}
